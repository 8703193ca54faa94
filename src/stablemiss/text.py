"""Numbers, enumerations, tables and row numbers in text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def is_number(entry: str) -> bool:
    """Whether the entry can be converted to a number.

    Examples
    --------
    >>> is_number(" 1e3 "), is_number("1,5")
    (True, False)
    """
    try:
        float(entry)
    except ValueError:
        return False
    return True


def count(n: int, noun: str) -> str:
    """Number and noun, in the plural unless `n` is 1.

    Examples
    --------
    >>> count(1, "row"), count(3, "row")
    ('1 row', '3 rows')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def quoted(names: Sequence[str], limit: int = 8) -> str:
    """Enumerate names in quotation marks, at most `limit` of them.

    Examples
    --------
    >>> quoted(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def show_number(number: float) -> str:
    """A number with at least four significant digits, and with commas between thousands.

    Examples
    --------
    >>> show_number(123456.78), show_number(1.23456), show_number(0.000123456), show_number(12)
    ('123,457', '1.235', '0.0001235', '12')
    """
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    digits = 3 - math.floor(math.log10(abs(number)))
    if digits > 8:
        return f"{number:.4g}"
    text = f"{number:,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def table_lines(header: Iterable[str], rows: Iterable[Iterable[str]], right: Iterable[int] = ()) -> list[str]:
    """Lines of a table with aligned columns.

    Parameters
    ----------
    header : iterable of str
        Names of the columns.
    rows : iterable of iterables of str
        The cells.
    right : iterable of int, default=()
        Columns that are aligned on the right.

    Examples
    --------
    >>> table_lines(["name", "n"], [["a", "10"], ["bcdef", "9"]], right=[1])
    ['name    n', 'a      10', 'bcdef   9']
    """
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    right = set(right)
    return [
        "  ".join(
            cell.rjust(width) if j in right else cell.ljust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


class RowError(ValueError):
    """An error in one row. The row can be renumbered, because users count the rows of a file differently.

    Parameters
    ----------
    before, after : str
        The message before and after the number of the row.
    row : int
        Position of the row, counted from 0.

    Examples
    --------
    >>> error = RowError("There is inf in row ", 4, ".")
    >>> str(error), error.with_row("5 of the file")
    ('There is inf in row 4.', 'There is inf in row 5 of the file.')

    The fourth row of a batch that begins with row 1000:

    >>> str(error.at(1004))
    'There is inf in row 1004.'
    """

    def __init__(self, before: str, row: int, after: str):
        super().__init__(before, row, after)
        self.row = row

    def with_row(self, row: object) -> str:
        """The message with another name of the row."""
        before, _, after = self.args
        return f"{before}{row}{after}"

    def at(self, row: int) -> RowError:
        """The same error in another row."""
        before, _, after = self.args
        return RowError(before, row, after)

    def __str__(self) -> str:
        return self.with_row(self.row)


@contextmanager
def rows_at(position: Sequence[int] | NDArray[np.int64]) -> Iterator[None]:
    """Context manager in which errors about a row of a batch name its position among all rows.

    Parameters
    ----------
    position : (n,)
        Position of each row of the batch among all rows.

    Examples
    --------
    >>> with rows_at(range(1000, 1010)):
    ...     raise RowError("There is inf in row ", 4, ".")
    Traceback (most recent call last):
    stablemiss.text.RowError: There is inf in row 1004.
    """
    try:
        yield
    except RowError as error:
        raise error.at(int(position[error.row])) from error
