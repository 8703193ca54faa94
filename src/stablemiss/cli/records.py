"""Rows of JSON lines and Excel files, as batches of columns."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pyarrow

Record = dict[str, Any]
BatchRows = Callable[[int], int]


def jsonl_batches(stream: BinaryIO, name: str, batch_rows: BatchRows | None) -> Iterator[pyarrow.Table]:
    """Rows of a JSON lines file.

    Parameters
    ----------
    stream : binary stream
        One JSON object per line, in UTF-8.
    name : str
        Name of the file for error messages.
    batch_rows : callable or None
        Maximum number of rows in a batch, given the number of columns; None reads all rows at once.

    See Also
    --------
    excel_batches : The same for Excel files.
    """
    records = _json_records(stream, name)
    first = next(records, None)
    if first is None:
        raise ValueError(f"{name} is empty.")
    n_rows = None if batch_rows is None else batch_rows(len(first))
    batch = list(islice(chain([first], records), n_rows))
    # Rows may omit columns. All rows of the first batch are searched for them.
    columns = list(dict.fromkeys(key for record in batch for key in record))
    known = set(columns)
    n_before, n_first = 0, len(batch)
    while batch:
        for row, record in enumerate(batch, n_before + 1):
            if not record.keys() <= known:
                new = next(key for key in record if key not in known)
                raise ValueError(
                    f"Row {row:,} of {name} has a column {new!r} that none of the first {n_first:,} rows "
                    "has. Write null for it in the first row."
                )
        table = _to_table(columns, [[record.get(key) for record in batch] for key in columns], name)
        n_before += len(batch)
        # Records take many times the memory of a table, so they are freed before it is used.
        batch = []
        yield table
        batch = list(islice(records, n_rows))


def excel_batches(path: Path, name: str, batch_rows: BatchRows | None) -> Iterator[pyarrow.Table]:
    """Rows of the first sheet of an Excel file. Its first row contains the column names.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        Name of the file for error messages.
    batch_rows : callable or None
        Maximum number of rows in a batch, given the number of columns; None reads all rows at once.

    See Also
    --------
    jsonl_batches : The same for JSON lines.
    """
    from openpyxl import load_workbook

    # The open file instead of its name, because openpyxl refuses other extensions.
    with path.open("rb") as file:
        # Formulas are read as their last computed values.
        workbook = load_workbook(file, read_only=True, data_only=True)
        if len(workbook.sheetnames) > 1:
            warnings.warn(
                f"{name} has {len(workbook.sheetnames)} sheets; only the first, {workbook.sheetnames[0]!r}, "
                "is read.",
                UserWarning,
                stacklevel=2,
            )
        rows = workbook[workbook.sheetnames[0]].iter_rows(values_only=True)
        header = next(rows, None)
        if not header or all(cell is None for cell in header):
            raise ValueError(f"The first row of {name} must contain the column names, but it is empty.")
        columns = ["" if cell is None else str(cell) for cell in header]
        # Cells that were formatted once make a sheet wider than its table.
        while columns[-1] == "":
            columns.pop()
        n_columns = len(columns)
        # Rows without a value in the last columns are shorter.
        filled = (
            (*row, *[None] * n_columns)[:n_columns] for row in rows if any(cell is not None for cell in row)
        )
        n_rows = None if batch_rows is None else batch_rows(n_columns)
        while batch := list(islice(filled, n_rows)):
            yield _to_table(columns, [list(cells) for cells in zip(*batch, strict=True)], name)


def _json_records(stream: BinaryIO, name: str) -> Iterator[Record]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ValueError(f"Line {number:,} of {name} is not valid JSON: {error}.") from error
        if not isinstance(record, dict):
            raise ValueError(
                f'Line {number:,} of {name} must be a JSON object such as {{"size": 1.5}}; got '
                f"{type(record).__name__}. Write one object per line, without a list around them."
            )
        yield record


def _to_table(names: list[str], columns: Iterable[list[Any]], path: str) -> pyarrow.Table:
    import pyarrow

    arrays = [_to_array(values, name, path) for name, values in zip(names, columns, strict=True)]
    return pyarrow.Table.from_arrays(arrays, names=names)


def _to_array(values: list[Any], name: str, path: str) -> pyarrow.Array:
    """An array of numbers, booleans, times or text; values of different types become text."""
    import pyarrow

    types = {type(value) for value in values} - {type(None)}
    if nested := types & {list, dict}:
        example = next(value for value in values if type(value) in nested)
        raise ValueError(
            f"Column {name!r} in {path} contains {type(example).__name__} values such as {example!r}; only "
            "numbers, text, true, false, dates and null can be read."
        )
    if types <= {int, float} or types in ({bool}, {datetime}, {date}):
        try:
            return pyarrow.array(values, pyarrow.float64() if float in types else None)
        except (pyarrow.ArrowInvalid, OverflowError):
            return pyarrow.array([None if value is None else float(value) for value in values])
    return pyarrow.array([None if value is None else str(value) for value in values], pyarrow.string())
