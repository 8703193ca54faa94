"""Writing of tables to files and standard output, batch by batch."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from stablemiss.cli.dialect import Dialect
from stablemiss.cli.formats import NAMES, STANDARD, Format, format_of
from stablemiss.cli.interrupts import removed_if_interrupted
from stablemiss.writing import atomic_write

if TYPE_CHECKING:
    import pyarrow

Write = Callable[["pyarrow.Table"], None]
# The number of rows of an Excel sheet is limited.
MAX_EXCEL_ROWS = 2**20 - 1


@contextmanager
def open_output(path: Path, default: Format | None = None, dialect: Dialect | None = None) -> Iterator[Write]:
    """Open a file, or standard output, and yield a function that writes a batch of rows to it.

    A file is written atomically: it is complete or unchanged.

    Parameters
    ----------
    path : Path
        File name, or "-" for standard output. Names that end in .gz are compressed.
    default : Format, default=None
        Format of standard output and of files with an unknown extension.
    dialect : Dialect, default=None
        Separator and decimal mark of CSV files, so that output looks like the input. The encoding is UTF-8.

    See Also
    --------
    stablemiss.cli.reading.open_table : Reads a table in batches.
    """
    file_format = format_of(path, default)
    separator, decimal = (dialect.separator, dialect.decimal) if dialect else (",", ".")
    if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        separator = "\t"
    writers: dict[Format, Callable[[BinaryIO], AbstractContextManager[Write]]] = {
        Format.csv: lambda stream: _write_csv(stream, separator, decimal),
        Format.jsonl: _write_jsonl,
        Format.parquet: _write_arrow_format(_new_parquet),
        Format.feather: _write_arrow_format(_new_feather),
        Format.excel: _write_excel,
    }
    with _open_bytes(path) as stream, writers[file_format](stream) as write:

        def check_and_write(table: pyarrow.Table) -> None:
            check_types(table, file_format)
            write(table)

        yield check_and_write


def write_table(table: pyarrow.Table, path: Path) -> None:
    """Write a table to a file atomically.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    path : Path
        The extension determines the format.
    """
    with open_output(path) as write:
        write(table)


def check_types(table: pyarrow.Table, file_format: Format) -> None:
    """Raise ValueError if a format cannot store the type of a column.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    file_format : Format
        CSV and Excel store numbers, text, booleans and times, Excel only without time zones.
    """
    from pyarrow import types

    if file_format not in (Format.csv, Format.excel):
        return
    for name, column in zip(table.column_names, table.columns, strict=True):
        has_time_zone = types.is_timestamp(column.type) and column.type.tz is not None
        if (has_time_zone and file_format == Format.excel) or not _is_text_or_simple(column):
            raise ValueError(
                f"Column {name!r} has the type {column.type}, which cannot be written as "
                f"{NAMES[file_format]}. Write a .parquet file, or do not keep the column."
            )


def csv_lines(table: pyarrow.Table, separator: str = ",", decimal: str = ".") -> bytes:
    """Rows of a table as lines of CSV. Only entries that need quotation marks have them.

    Parameters
    ----------
    table : pyarrow.Table
        Columns of numbers, text, booleans or times.
    separator, decimal : str, default="," and "."
        As in `Dialect`.

    Examples
    --------
    >>> import pyarrow
    >>> csv_lines(pyarrow.table({"x": [1.5, None], "y": ["a;b", "c"]}), ";", ",").decode().splitlines()
    ['1,5;"a;b"', ';c']
    """
    from pyarrow import compute

    columns = [_csv_entries(column, separator, decimal) for column in table.columns]
    lines = compute.binary_join_element_wise(*columns, separator, null_handling="replace")
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _is_text_or_simple(column: pyarrow.ChunkedArray) -> bool:
    """Whether a column is neither nested nor binary. Text that a program stored as binary is accepted."""
    import pyarrow
    from pyarrow import types

    if "binary" in str(column.type) and not types.is_nested(column.type):
        try:
            column.cast(pyarrow.string())
        except pyarrow.ArrowInvalid:
            return False
    return not types.is_nested(column.type) and not types.is_interval(column.type)


def _csv_entries(column: pyarrow.ChunkedArray, separator: str, decimal: str) -> pyarrow.ChunkedArray:
    import pyarrow
    from pyarrow import compute, types

    text = column.cast(pyarrow.string())
    if decimal == "," and types.is_floating(column.type):
        text = compute.replace_substring(text, ".", ",")
    if types.is_timestamp(column.type):
        # Without fractions of seconds that are zero, and without the time if it is always midnight.
        text = compute.replace_substring_regex(text, r"\.0+(Z|[+-]\d+)?$", r"\1")
        if compute.all(compute.match_substring_regex(text, " 00:00:00$")).as_py():
            text = compute.replace_substring(text, " 00:00:00", "")
    needs_quotes = compute.match_substring_regex(text, f'[{re.escape(separator)}"\r\n]')
    if not compute.any(needs_quotes).as_py():
        return text
    escaped = compute.replace_substring(text, '"', '""')
    return compute.if_else(needs_quotes, compute.binary_join_element_wise('"', escaped, '"', ""), text)


@contextmanager
def _open_bytes(path: Path) -> Iterator[BinaryIO]:
    if path == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with (
        atomic_write(path) as unfinished,
        removed_if_interrupted(unfinished),
        unfinished.open("wb") as stream,
    ):
        if path.name.lower().endswith(".gz"):
            with gzip.GzipFile("", "wb", fileobj=stream) as compressed:
                yield compressed  # type: ignore[misc]
        else:
            yield stream


@contextmanager
def _write_csv(stream: BinaryIO, separator: str, decimal: str) -> Iterator[Write]:
    is_first = True

    def write(table: pyarrow.Table) -> None:
        nonlocal is_first
        if is_first:
            import pyarrow

            header = pyarrow.table({str(k): [name] for k, name in enumerate(table.column_names)})
            stream.write(csv_lines(header, separator))
            is_first = False
        stream.write(csv_lines(table, separator, decimal))

    yield write


@contextmanager
def _write_jsonl(stream: BinaryIO) -> Iterator[Write]:
    def write(table: pyarrow.Table) -> None:
        rows = (json.dumps(row, ensure_ascii=False, default=str) for row in table.to_pylist())
        stream.write("".join(f"{row}\n" for row in rows).encode())

    yield write


@contextmanager
def _write_excel(stream: BinaryIO) -> Iterator[Write]:
    from openpyxl import Workbook
    from openpyxl.utils.exceptions import IllegalCharacterError

    workbook = Workbook(write_only=True)
    sheet = workbook.create_sheet("predictions")
    n_rows = 0

    def write(table: pyarrow.Table) -> None:
        nonlocal n_rows
        if not n_rows:
            sheet.append(table.column_names)
        n_rows += table.num_rows
        if n_rows > MAX_EXCEL_ROWS:
            raise ValueError(
                f"An Excel sheet has at most {MAX_EXCEL_ROWS:,} rows; write a .csv or .parquet file instead."
            )
        try:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                sheet.append(row)
        except (IllegalCharacterError, OverflowError) as error:
            raise ValueError(
                "An Excel sheet can store neither control characters nor dates beyond the year 9999, but the "
                f"table contains such an entry ({str(error)[:60]!r}). Write a .csv or .parquet file instead."
            ) from error

    try:
        yield write
    except BaseException:
        # Without it, openpyxl complains when the sheet is garbage-collected.
        sheet.close()
        raise
    workbook.save(stream)


def _write_arrow_format(
    new_writer: Callable[[BinaryIO, pyarrow.Schema], Any],
) -> Callable[[BinaryIO], AbstractContextManager[Write]]:
    """Writer of a format in which all batches have the types of the first one."""

    @contextmanager
    def open_writer(stream: BinaryIO) -> Iterator[Write]:
        import pyarrow

        writer: Any = None
        schema: Any = None

        def write(table: pyarrow.Table) -> None:
            nonlocal writer, schema
            if writer is None:
                schema = table.schema.remove_metadata()
                writer = new_writer(stream, schema)
            try:
                writer.write_table(table.cast(schema))
            except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
                changed = next(field.name for field in schema if table.field(field.name).type != field.type)
                raise ValueError(
                    f"Column {changed!r} has another type in later rows than in the first ones, which the "
                    "output cannot store. Write a .csv file, or do not keep the column."
                ) from error

        try:
            yield write
        finally:
            if writer is not None:
                writer.close()

    return open_writer


def _new_parquet(stream: BinaryIO, schema: pyarrow.Schema) -> Any:
    from pyarrow import parquet

    return parquet.ParquetWriter(stream, schema)


def _new_feather(stream: BinaryIO, schema: pyarrow.Schema) -> Any:
    from pyarrow import ipc

    return ipc.new_file(stream, schema)
