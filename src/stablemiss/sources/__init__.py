"""Rows that need not fit into memory: Parquet files, pyarrow datasets, polars lazy frames, Dask data frames.

- `parts`: `Source`, rows in parts of a fixed order, each read in batches
- `files`: sources made of files
- `cluster`: sources whose parts are processed by the workers of a Dask cluster
"""

from stablemiss.sources.cluster import (
    connect_dask,
    find_client,
    is_dask,
    lost_worker_message,
    result_of,
    wait_for_worker,
)
from stablemiss.sources.files import is_source, open_source
from stablemiss.sources.parts import Part, Source, SourceError

__all__ = [
    "Part",
    "Source",
    "SourceError",
    "connect_dask",
    "find_client",
    "is_dask",
    "is_source",
    "lost_worker_message",
    "open_source",
    "result_of",
    "wait_for_worker",
]
