"""Rows of CSV files, as batches of text columns."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from stablemiss.cli.dialect import (
    SEPARATORS,
    Dialect,
    complete_lines,
    decode,
    detect_decimal,
    detect_encoding,
    detect_separator,
    split,
)

if TYPE_CHECKING:
    import pyarrow

SAMPLE_BYTES = 2**20
# Bytes that are read and parsed at a time.
BLOCK_BYTES = 2**22
# A block with an unmatched quotation mark has no end; it is cut at a line break once it has this many bytes.
MAX_BLOCK_BYTES = 2**26


def csv_batches(
    stream: BinaryIO,
    name: str,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    usual_decimal: str | None = None,
) -> tuple[Dialect, Iterator[pyarrow.RecordBatch]]:
    """How a CSV file is written, and its rows as batches in which all columns are text.

    Parameters
    ----------
    stream : binary stream
        Content of the file.
    name : str
        Name of the file for error messages.
    separator, decimal, encoding : str, default=None
        As in `Dialect`. None means that it is detected from the first megabyte.
    usual_decimal : str, default=None
        Decimal mark if the numbers in the first megabyte do not show it; see `detect_decimal`.

    Examples
    --------
    >>> import io
    >>> dialect, batches = csv_batches(io.BytesIO(b"size;kind\\n1,5;flat\\n"), "a.csv")
    >>> dialect.describe()
    'semicolon-separated, decimal comma'
    >>> next(batches).to_pydict()
    {'size': ['1,5'], 'kind': ['flat']}
    """
    sample = stream.read(SAMPLE_BYTES)
    encoding = _check_encoding(encoding) if encoding else detect_encoding(sample)
    if b"\0" in sample and not encoding.startswith(("utf-16", "utf-32")):
        raise ValueError(f"{name} is not a text file; if it is not CSV, give its format with --format.")
    # A file that fits into the sample has a complete last line even if no line break follows.
    end = "\n" if len(sample) < SAMPLE_BYTES else ""
    text = decode(sample, encoding).removeprefix("\ufeff").lstrip("\r\n")
    if not text.strip():
        raise ValueError(f"{name} is empty.")
    lines = complete_lines(text + end)
    given, separator = separator, separator or detect_separator(lines)
    header = split(lines, separator)[0]
    if given and len(header) == 1:
        _check_separator(header[0], given, name)
    dialect = Dialect(separator, decimal or detect_decimal(lines, separator, usual_decimal), encoding)
    columns = [column.strip() for column in header]
    return dialect, _parse(_blocks(_utf8(sample, stream, encoding, name)), columns, dialect, name)


def _parse(
    blocks: Iterator[bytes], columns: list[str], dialect: Dialect, name: str
) -> Iterator[pyarrow.RecordBatch]:
    """Parse blocks of complete lines, the first of which starts with the header."""
    import pyarrow
    from pyarrow import csv

    n_lines = 0
    for position, block in enumerate(blocks):
        # Blocks are parsed one after the other in this thread: pyarrow's own reader of streams would call
        # Python from its threads, which can block the end of the program.
        options = csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=columns)
        with _csv_errors(name, dialect, columns, n_lines):
            table = csv.read_csv(
                pyarrow.BufferReader(block),
                options,
                csv.ParseOptions(
                    delimiter=dialect.separator,
                    newlines_in_values=True,
                    # In a single column, an empty line is a missing value.
                    ignore_empty_lines=len(columns) > 1,
                ),
                csv.ConvertOptions(column_types=dict.fromkeys(columns, pyarrow.string())),
            )
        _check_quotes(table, block, name, n_lines)
        # The first row of the file contains the names.
        yield from table.slice(0 if position else 1).to_batches()
        n_lines += block.count(b"\n")


def _check_quotes(table: pyarrow.Table, block: bytes, name: str, n_lines: int) -> None:
    """Raise ValueError if the last entry of a block has no closing quotation mark: it contains all rows after
    the opening one.
    """
    last = table.column(-1)[-1].as_py() if table.num_rows else ""
    # Only entries in quotation marks contain line breaks.
    if re.search("[\r\n]", last) and not block.rstrip().endswith(b'"'):
        line = n_lines + block.count(b"\n") - last.count("\n") + 1
        raise ValueError(
            f"A quotation mark in line {line:,} of {name} is not closed, so all lines after it belong to one "
            "entry. Close or remove it."
        )


def _utf8(sample: bytes, stream: BinaryIO, encoding: str, name: str) -> Iterator[bytes]:
    """The content of a file in UTF-8, without a byte order mark and without empty lines at its start."""
    decoder = codecs.getincrementaldecoder(encoding)()
    is_utf8 = encoding.startswith("utf-8")
    piece, is_start = sample, True
    while piece:
        try:
            content = piece if is_utf8 else decoder.decode(piece).encode()
        except UnicodeError as error:
            raise ValueError(
                f"{name} is not {encoding} text. Name its encoding, for example with --encoding latin-1."
            ) from error
        yield content.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n") if is_start else content
        is_start = False
        piece = stream.read(BLOCK_BYTES)


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Cut the content of a file into blocks of complete lines."""
    pending = b""
    for piece in pieces:
        pending += piece
        if end := _end_of_rows(pending):
            yield pending[:end]
            pending = pending[end:]
    if pending.strip():
        yield pending


def _end_of_rows(block: bytes) -> int:
    """Position after the last row that is complete: after a line break that is not inside quotation marks."""
    line_break = b"\n" if b"\n" in block else b"\r"
    end = block.rfind(line_break)
    n_quotes = block.count(b'"', 0, end + 1)
    while n_quotes % 2:
        before = block.rfind(line_break, 0, end)
        n_quotes -= block.count(b'"', before + 1, end + 1)
        end = before
    if end < 0 and len(block) > MAX_BLOCK_BYTES:
        end = block.rfind(line_break)
    return end + 1


@contextmanager
def _csv_errors(name: str, dialect: Dialect, columns: list[str], n_lines: int) -> Iterator[None]:
    """Turn errors of pyarrow into sentences with the number of the line."""
    import pyarrow

    try:
        yield
    except pyarrow.ArrowInvalid as error:
        message = str(error).strip().splitlines()[0]
        row = re.search(r"Row #(\d+)", message)
        line = f"Line {n_lines + int(row[1]):,} of {name}" if row else f"A line of {name}"
        if fields := re.search(r"Expected (\d+) columns, got (\d+): (.*)", message):
            raise ValueError(
                f"{line} has {fields[2]} fields instead of {fields[1]}, read with the separator "
                f"{dialect.separator!r}: {fields[3][:80]}. Correct the line, put entries that contain the "
                "separator in quotation marks, or choose another separator with --separator."
            ) from error
        if "invalid UTF8" in message:
            raise ValueError(
                f"{line} is not UTF-8 text. Name the encoding of the file, for example with --encoding "
                "cp1252."
            ) from error
        raise


def _check_encoding(encoding: str) -> str:
    try:
        # Codecs between other types, such as hex, cannot decode, and idna has no replacement for errors.
        b"a".decode(encoding, "replace")
        return codecs.lookup(encoding).name
    except (LookupError, UnicodeError) as error:
        raise ValueError(
            f"--encoding {encoding} is not a known encoding of text; use for example utf-8, utf-16, cp1252 "
            "or latin-1."
        ) from error


def _check_separator(header: str, separator: str, name: str) -> None:
    """Raise ValueError if a file has a single column because another character separates its columns."""
    likely = [other for other in SEPARATORS if other in header]
    if likely:
        raise ValueError(
            f"With --separator {separator!r}, {name} has the single column {header!r}. Its columns seem to "
            f"be separated by {likely[0]!r}; omit --separator to have it detected."
        )
