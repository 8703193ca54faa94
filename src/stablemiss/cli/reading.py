"""Reading of tables from files and standard input, in batches of rows or as a whole."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from stablemiss.cli.csv_file import csv_batches
from stablemiss.cli.dialect import Dialect
from stablemiss.cli.formats import NAMES, STANDARD, Format, check_readable, format_of, show_path
from stablemiss.cli.records import excel_batches, jsonl_batches
from stablemiss.progress import terminal_progress

if TYPE_CHECKING:
    import pyarrow

# A batch has at most this many rows and about this many cells, so that memory is bounded for wide tables too.
BATCH_ROWS, BATCH_CELLS = 50_000, 2_000_000
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class ReadOptions:
    """How files are read; None means that it is detected.

    Attributes
    ----------
    separator, decimal, encoding : str, default=None
        As in `Dialect`.
    format : Format, default=None
        Format of the file, whatever its extension is. None means that the extension shows it.
    missing_values : tuple of str, default=()
        Further entries that mean "missing".
    usual_decimal : str, default=None
        Decimal mark of a CSV file whose numbers do not show it.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    format: Format | None = None
    missing_values: tuple[str, ...] = ()
    usual_decimal: str | None = None


class TableSource:
    """A table that is read in batches of rows; `open_table` creates it.

    Attributes
    ----------
    name : str
        Name of the file for messages.
    column_names : list of str
        Names of the columns.
    dialect : Dialect or None
        How a CSV file is written; None for other formats. All columns of CSV files are text.
    n_rows : int or None
        Number of rows if it is known in advance.
    """

    def __init__(
        self,
        name: str,
        batches: Iterable[pyarrow.Table],
        dialect: Dialect | None = None,
        n_rows: int | None = None,
    ):
        self.name = name
        self.dialect = dialect
        self.n_rows = n_rows
        self._batches = iter(batches)
        self._first = next(self._batches, None)
        if self._first is None:
            raise ValueError(f"{name} has column names but no rows.")
        names = self._first.column_names
        duplicates = sorted({column for column in names if names.count(column) > 1})
        if duplicates:
            raise ValueError(
                f"{name} has several columns named {', '.join(map(repr, duplicates))}; rename all but one."
            )
        self.column_names = self._without_index(self._first)

    def batches(self) -> Iterator[pyarrow.Table]:
        """The rows in batches. They can be read once."""
        batch, self._first = self._first, None
        while batch is not None:
            yield batch.select(self.column_names)
            batch = next(self._batches, None)

    def _without_index(self, table: pyarrow.Table) -> list[str]:
        """Column names without the row index of pandas, which is dropped with a warning."""
        # In Parquet, pandas stores which columns are its index. In CSV, an index usually has no name.
        metadata = table.schema.pandas_metadata or {}
        index = {name for name in metadata.get("index_columns", []) if isinstance(name, str)} | {""}
        dropped = [name for name in table.column_names if name in index]
        if dropped:
            listed = ", ".join(repr(name) if name else "a column without a name" for name in dropped)
            warnings.warn(
                f"Dropped from {self.name}, as a row index written by pandas: {listed}. To use it as a "
                "feature, write it as a column with a name (in pandas: reset_index).",
                UserWarning,
                stacklevel=4,
            )
        return [name for name in table.column_names if name not in index]


@contextmanager
def open_table(path: Path, options: ReadOptions, *, whole: bool = False) -> Iterator[TableSource]:
    """Open a table to read it in batches of rows.

    Parameters
    ----------
    path : Path
        File name, or "-" for standard input.
    options : ReadOptions
        How to read it.
    whole : bool, default=False
        True reads all rows as one batch.

    See Also
    --------
    read_table : Reads all rows.
    """
    check_readable(path, options.format)
    import pyarrow

    name, file_format = show_path(path), options.format or format_of(path)
    try:
        if file_format in (Format.csv, Format.jsonl):
            with _open_text(path) as stream:
                yield _text_source(stream, name, file_format, options, whole)
        else:
            with _seekable(path) as file:
                yield _binary_source(file, name, file_format, whole)
    except (pyarrow.ArrowInvalid, EOFError, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{name} cannot be read as {NAMES[file_format]}: {reason}") from error


def read_table(path: Path, options: ReadOptions | None = None) -> tuple[pyarrow.Table, Dialect | None]:
    """Read all rows of a table, and how the CSV file is written (None for other formats).

    All columns of CSV files are text; other formats have types.

    Parameters
    ----------
    path : Path
        File name, or "-" for standard input.
    options : ReadOptions, default=None
        How to read it. None detects everything.

    See Also
    --------
    open_table : Reads it in batches.
    """
    progress = terminal_progress()
    progress.start(f"reading {show_path(path)}")
    try:
        with open_table(path, options or ReadOptions(), whole=True) as source:
            (table,) = source.batches()
            return table, source.dialect
    finally:
        progress.finish()


def _text_source(
    stream: BinaryIO, name: str, file_format: Format, options: ReadOptions, whole: bool
) -> TableSource:
    if file_format == Format.jsonl:
        return TableSource(name, jsonl_batches(stream, name, None if whole else batch_rows))
    dialect, batches = csv_batches(
        stream, name, options.separator, options.decimal, options.encoding, options.usual_decimal
    )
    return TableSource(name, _rebatched(batches, whole), dialect)


def _binary_source(path: Path, name: str, file_format: Format, whole: bool) -> TableSource:
    import pyarrow
    from pyarrow import ipc, parquet

    if file_format == Format.excel:
        return TableSource(name, excel_batches(path, name, None if whole else batch_rows))
    if file_format == Format.parquet:
        file = parquet.ParquetFile(path)
        batches = file.iter_batches(batch_rows(len(file.schema_arrow)))
        return TableSource(name, _rebatched(batches, whole), n_rows=file.metadata.num_rows)
    reader = ipc.open_file(pyarrow.OSFile(str(path)))
    parts = (reader.get_batch(index) for index in range(reader.num_record_batches))
    return TableSource(name, _rebatched(parts, whole))


def batch_rows(n_columns: int) -> int:
    """Number of rows in a batch of a table with `n_columns` columns.

    Examples
    --------
    >>> batch_rows(10), batch_rows(1000)
    (50000, 2000)
    """
    return max(1, min(BATCH_ROWS, BATCH_CELLS // max(n_columns, 1)))


def _rebatched(batches: Iterable[pyarrow.RecordBatch], whole: bool) -> Iterator[pyarrow.Table]:
    """Combine record batches into tables of about `batch_rows` rows, or into one table."""
    import pyarrow

    pending: list[pyarrow.RecordBatch] = []
    n_pending = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(batch)
        n_pending += batch.num_rows
        if not whole and n_pending >= batch_rows(batch.num_columns):
            yield from _slices(pyarrow.Table.from_batches(pending))
            pending, n_pending = [], 0
    if pending:
        table = pyarrow.Table.from_batches(pending)
        yield from [table] if whole else _slices(table)


def _slices(table: pyarrow.Table) -> Iterator[pyarrow.Table]:
    n_rows = batch_rows(table.num_columns)
    return (table.slice(start, n_rows) for start in range(0, table.num_rows, n_rows))


@contextmanager
def _open_text(path: Path) -> Iterator[BinaryIO]:
    """Binary stream of a file or of standard input, decompressed if it is gzipped."""
    with ExitStack() as stack:
        stream: Any = sys.stdin.buffer if path == STANDARD else stack.enter_context(path.open("rb"))
        start = stream.read(len(GZIP_MAGIC))
        stream = io.BufferedReader(PrefixedStream(start, stream))
        if start == GZIP_MAGIC:
            stream = gzip.GzipFile(fileobj=stream)
        yield stream


@contextmanager
def _seekable(path: Path) -> Iterator[Path]:
    """The file itself, or a temporary copy of standard input or of a pipe."""
    if path.is_file():
        yield path
        return
    with tempfile.NamedTemporaryFile() as copy:
        with ExitStack() as stack:
            shutil.copyfileobj(
                sys.stdin.buffer if path == STANDARD else stack.enter_context(path.open("rb")), copy
            )
        copy.flush()
        yield Path(copy.name)


class PrefixedStream(io.RawIOBase):
    """Binary stream that starts with bytes that were already read from it.

    Parameters
    ----------
    start : bytes
        The bytes that were read.
    stream : binary stream
        The rest.

    Examples
    --------
    >>> PrefixedStream(b"ab", io.BytesIO(b"cd")).read()
    b'abcd'
    """

    def __init__(self, start: bytes, stream: BinaryIO):
        self._start = start
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._start[: len(buffer)] or self._stream.read(len(buffer))
        self._start = self._start[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)
