"""Reading and writing of tables in CSV (optionally gzipped) and Parquet files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from stablemiss.writing import atomic_write, check_can_write

if TYPE_CHECKING:
    import pyarrow

FORMATS = {".csv": "csv", ".csv.gz": "csv", ".parquet": "parquet", ".pq": "parquet"}

# Markers of missing values in addition to those of pyarrow (empty, NA, N/A, NaN, NULL, #N/A …).
EXTRA_NULL_VALUES = ("None", "?", "<NA>", "NaT")


def check_readable(path: Path) -> None:
    """Raise ValueError if `path` is not a CSV or Parquet file.

    See Also
    --------
    check_writable : The check for an output file.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; pass the name of a file.")
    if not path.exists():
        raise ValueError(f"There is no file {path}.")
    _format(path)
    _check_pyarrow()


def check_writable(path: Path) -> None:
    """Raise an error if no table can be written to `path`. Call it before a long computation.

    See Also
    --------
    check_readable : The check for an input file.
    """
    _format(path)
    check_can_write(path)


def read_table(path: Path, text_columns: Sequence[str] = ()) -> pyarrow.Table:
    """Read a CSV or Parquet file. Markers of missing values, such as "NA", become null.

    A row index written by pandas is dropped with a warning.

    Parameters
    ----------
    path : Path
        File that ends in .csv, .csv.gz, .parquet or .pq. The types of CSV columns are inferred from the whole
        file, so a column with a decimal number in its last row is a column of floats.
    text_columns : sequence of str, default=()
        CSV columns that are read as text even if all their entries are numbers.

    See Also
    --------
    write_table : Writes a file.
    """
    check_readable(path)
    import pyarrow

    try:
        table = _read_csv(path, text_columns) if _format(path) == "csv" else _read_parquet(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} cannot be read as {_format(path).upper()}: {reason}") from error
    table = _drop_index(table, path)
    _check_columns(table, path)
    return _empty_columns_as_floats(table)


def write_table(table: pyarrow.Table, path: Path) -> None:
    """Write a CSV or Parquet file atomically. The extension of `path` determines the format.

    See Also
    --------
    read_table : Reads a file.
    """
    check_writable(path)
    _check_pyarrow()
    import pyarrow
    from pyarrow import csv, parquet

    with atomic_write(path) as unfinished:
        if _format(path) == "parquet":
            parquet.write_table(table, unfinished)
        else:
            # The stream is compressed if the name ends in .gz.
            with pyarrow.output_stream(str(unfinished)) as stream:
                csv.write_csv(table, stream)


def check_column(table: pyarrow.Table, name: str, path: Path) -> None:
    """Raise ValueError if the table has no column `name`."""
    if name not in table.column_names:
        columns = ", ".join(table.column_names)
        raise ValueError(f"{path} has no column {name!r}; its columns are: {columns}.")


def text_entries(column: pyarrow.ChunkedArray) -> list[str]:
    """Observed entries of a text column; an empty list for other columns."""
    from pyarrow import types

    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    return column.drop_null().to_pylist() if is_text else []


def _format(path: Path) -> str:
    for extension, name in FORMATS.items():
        if path.name.lower().endswith(extension):
            return name
    raise ValueError(f"{path} must end in {', '.join(FORMATS)}: only CSV and Parquet files are supported.")


def _check_pyarrow() -> None:
    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            'Reading and writing files needs pyarrow; install with: pip install "stablemiss[files]".'
        )


def _read_csv(path: Path, text_columns: Sequence[str]) -> pyarrow.Table:
    import pyarrow
    from pyarrow import csv

    with pyarrow.input_stream(str(path)) as stream:
        content = stream.read_buffer()
    # Types are inferred from the first block, so the block is the whole file, up to the limit of pyarrow.
    block = min(max(content.size, 1) + 1, 2**31 - 1)
    return csv.read_csv(
        pyarrow.BufferReader(content),
        read_options=csv.ReadOptions(block_size=block),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(text_columns, pyarrow.string()),
            null_values=[*csv.ConvertOptions().null_values, *EXTRA_NULL_VALUES],
            strings_can_be_null=True,
        ),
    )


def _read_parquet(path: Path) -> pyarrow.Table:
    from pyarrow import parquet

    # Without partitioning, because a path such as year=2024/a.parquet must not add a column "year".
    return parquet.read_table(path, partitioning=None)


def _drop_index(table: pyarrow.Table, path: Path) -> pyarrow.Table:
    # In Parquet, pandas stores which columns are its index. In CSV, an index usually has no name.
    metadata = table.schema.pandas_metadata or {}
    index = {name for name in metadata.get("index_columns", []) if isinstance(name, str)} | {""}
    kept = [position for position, name in enumerate(table.column_names) if name not in index]
    dropped = [name for name in table.column_names if name in index]
    if dropped:
        listed = ", ".join(repr(name) if name else "a column without a name" for name in dropped)
        warnings.warn(
            f"Dropped from {path}, as a row index written by pandas: {listed}. To use it as a feature, write "
            "it as a column with a name (in pandas: reset_index).",
            UserWarning,
            stacklevel=3,
        )
    return table.select(kept)


def _check_columns(table: pyarrow.Table, path: Path) -> None:
    import pyarrow

    names = table.column_names
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(
            f"{path} has several columns named {', '.join(map(repr, duplicates))}; rename all but one."
        )
    binary = [field.name for field in table.schema if pyarrow.types.is_binary(field.type)]
    if binary:
        raise ValueError(
            f"Column {', '.join(map(repr, binary))} in {path} is not UTF-8 text; save the file as UTF-8."
        )
    if not len(table):
        raise ValueError(f"{path} has column names but no rows.")


def _empty_columns_as_floats(table: pyarrow.Table) -> pyarrow.Table:
    """Convert columns without any value, whose type is null, to columns of floats."""
    import pyarrow

    fields = [
        pyarrow.field(field.name, pyarrow.float64()) if pyarrow.types.is_null(field.type) else field
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields))
