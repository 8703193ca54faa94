"""Tables in files: CSV (also gzipped) and Parquet, in and out, through pyarrow."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from stablemiss.writing import check_folder, whole_file

if TYPE_CHECKING:
    import pyarrow

KINDS = {".csv": "csv", ".csv.gz": "csv", ".parquet": "parquet", ".pq": "parquet"}

# What people write for "missing", beyond what pyarrow knows already (empty, NA, N/A, NaN, NULL, #N/A …).
MORE_NULLS = ("None", "?", "<NA>", "NaT")


def check_readable(path: Path) -> None:
    """Raise, in one sentence, where `path` is no file or no table that can be read."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file.")
    if not path.exists():
        raise ValueError(f"There is no file {path}.")
    _kind(path)
    _check_pyarrow()


def check_writable(path: Path) -> None:
    """Raise, in one sentence, where no table could be written to `path`: before long work, not after it."""
    _kind(path)
    check_folder(path)


def read_table(path: Path, text_columns: Sequence[str] = ()) -> pyarrow.Table:
    """The table in a CSV or Parquet file; what stands for "missing" has become null.

    The row index that pandas writes beside the columns is left out, with a warning.

    Parameters
    ----------
    path : Path
        Ends in .csv, .csv.gz or .parquet. Column types of CSV are found from all of the file, so a column
        of whole numbers that turns decimal in its last row is decimal.
    text_columns : sequence of str
        Columns of CSV that are text even where all of their entries look like numbers.
    """
    check_readable(path)
    import pyarrow

    try:
        table = _read_csv(path, text_columns) if _kind(path) == "csv" else _read_parquet(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} cannot be read as {_kind(path).upper()}: {reason}") from error
    table = _without_index(table, path)
    _check_columns(table, path)
    return _nulls_as_numbers(table)


def write_table(table: pyarrow.Table, path: Path) -> None:
    """Write a CSV or Parquet file, as the ending of `path` says; it appears whole or not at all."""
    check_writable(path)
    _check_pyarrow()
    import pyarrow
    from pyarrow import csv, parquet

    with whole_file(path) as unfinished:
        if _kind(path) == "parquet":
            parquet.write_table(table, unfinished)
        else:
            # The stream compresses where the name ends in .gz.
            with pyarrow.output_stream(str(unfinished)) as stream:
                csv.write_csv(table, stream)


def check_column(table: pyarrow.Table, name: str, path: Path) -> None:
    """Raise, in one sentence that lists the columns, where the table has no column `name`."""
    if name not in table.column_names:
        columns = ", ".join(table.column_names)
        raise ValueError(f"{path} has no column {name!r}; its columns are: {columns}.")


def text_entries(column: pyarrow.ChunkedArray) -> list[str]:
    """What a column of text holds, without its missing cells; nothing for a column that is no text."""
    from pyarrow import types

    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    return column.drop_null().to_pylist() if is_text else []


def _kind(path: Path) -> str:
    for ending, kind in KINDS.items():
        if path.name.lower().endswith(ending):
            return kind
    raise ValueError(f"{path} should end in {', '.join(KINDS)}: only CSV and Parquet are read and written.")


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
    # Types are inferred from the first block: make the first block the whole file, as far as pyarrow allows.
    block = min(max(content.size, 1) + 1, 2**31 - 1)
    return csv.read_csv(
        pyarrow.BufferReader(content),
        read_options=csv.ReadOptions(block_size=block),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(text_columns, pyarrow.string()),
            null_values=[*csv.ConvertOptions().null_values, *MORE_NULLS],
            strings_can_be_null=True,
        ),
    )


def _read_parquet(path: Path) -> pyarrow.Table:
    from pyarrow import parquet

    # Read as one file: a path such as year=2024/a.parquet must not grow a column "year".
    return parquet.read_table(path, partitioning=None)


def _without_index(table: pyarrow.Table, path: Path) -> pyarrow.Table:
    # pandas names the columns of Parquet that were its index; in CSV an index without a name stays without.
    metadata = table.schema.pandas_metadata or {}
    index = {name for name in metadata.get("index_columns", []) if isinstance(name, str)} | {""}
    kept = [position for position, name in enumerate(table.column_names) if name not in index]
    left_out = [name for name in table.column_names if name in index]
    if left_out:
        listed = ", ".join(repr(name) if name else "a column without a name" for name in left_out)
        warnings.warn(
            f"Left out of {path}, taken for the row index that pandas writes: {listed}. To use it, write it "
            "as a column with a name (in pandas: reset_index).",
            UserWarning,
            stacklevel=3,
        )
    return table.select(kept)


def _check_columns(table: pyarrow.Table, path: Path) -> None:
    import pyarrow

    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{path} has several columns named {', '.join(map(repr, twice))}; rename all but one."
        )
    garbled = [field.name for field in table.schema if pyarrow.types.is_binary(field.type)]
    if garbled:
        raise ValueError(
            f"Column {', '.join(map(repr, garbled))} of {path} is not UTF-8 text; save the file as UTF-8."
        )
    if not len(table):
        raise ValueError(f"{path} has column names but no rows.")


def _nulls_as_numbers(table: pyarrow.Table) -> pyarrow.Table:
    """A column without a single value has no type; call it a number column, all missing."""
    import pyarrow

    fields = [
        pyarrow.field(field.name, pyarrow.float64()) if pyarrow.types.is_null(field.type) else field
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields))
