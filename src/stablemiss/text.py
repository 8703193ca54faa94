"""Detection of numbers in strings, and enumerations and row numbers in messages."""

from __future__ import annotations

from collections.abc import Sequence


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
    """

    def __init__(self, before: str, row: int, after: str):
        super().__init__(before, row, after)
        self.row = row

    def with_row(self, row: object) -> str:
        """The message with another name of the row."""
        before, _, after = self.args
        return f"{before}{row}{after}"

    def __str__(self) -> str:
        return self.with_row(self.row)
