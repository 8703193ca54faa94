"""Detection of numbers and dates in strings, and enumerations in messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

# Numeric dates such as 31/12/2020 or 2020.12.31, optionally followed by a time. (ISO dates such as
# 2020-12-31 are already parsed by pyarrow.)
DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}([ T].*)?")


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


def non_numeric_entry(entries: Iterable[str], min_numeric_share: float = 0.9) -> str | None:
    """Return a non-numeric entry of a column that is otherwise almost entirely numeric, or None.

    Such an entry, for example "?" or "unknown", usually stands for a missing value.

    Parameters
    ----------
    entries : iterable of str
        Observed entries of one column.
    min_numeric_share : float, default=0.9
        Minimum share of numeric entries for a column to count as numeric. Raising it reports fewer columns.

    See Also
    --------
    first_date_entry : Finds an entry of a column of dates.

    Examples
    --------
    >>> non_numeric_entry([*"123456789", "10", "unknown"])
    'unknown'
    >>> non_numeric_entry(["12", "12b", "kitchen"]) is None
    True
    """
    counts = Counter(entries)
    non_numeric = {entry: count for entry, count in counts.items() if not is_number(entry)}
    if not non_numeric or sum(non_numeric.values()) >= (1 - min_numeric_share) * counts.total():
        return None
    return next(iter(non_numeric))


def first_date_entry(entries: Iterable[str]) -> str | None:
    """Return the first entry if all entries are numeric dates, otherwise None.

    See Also
    --------
    non_numeric_entry : Finds non-numeric entries of a numeric column.

    Examples
    --------
    >>> first_date_entry(["31/12/2020", "1/1/2021 12:30"])
    '31/12/2020'
    """
    entries = list(dict.fromkeys(entries))
    return entries[0] if entries and all(DATE.fullmatch(entry.strip()) for entry in entries) else None


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
