"""What entries of text hold: numbers, dates, or words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# Days in figures, such as 31/12/2020 or 2020.12.31, with or without a time behind. pyarrow knows 2020-12-31.
DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}([ T].*)?")


def is_number(entry: str) -> bool:
    """Can the entry be read as a number?

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


def non_numeric_entry(entries: Iterable[str], share: float = 0.9) -> str | None:
    """An entry that is no number, where more than `share` of all are numbers: most likely a slip.

    Examples
    --------
    >>> non_numeric_entry([*"123456789", "10", "unknown"])
    'unknown'
    >>> non_numeric_entry(["12", "12b", "kitchen"]) is None
    True
    """
    counts = Counter(entries)
    strays = {entry: count for entry, count in counts.items() if not is_number(entry)}
    return next(iter(strays)) if strays and sum(strays.values()) < (1 - share) * counts.total() else None


def looks_like_dates(entries: Iterable[str]) -> str | None:
    """The first entry, where all of them are dates in figures.

    Examples
    --------
    >>> looks_like_dates(["31/12/2020", "1/1/2021 12:30"])
    '31/12/2020'
    """
    entries = list(dict.fromkeys(entries))
    return entries[0] if entries and all(DATE.fullmatch(entry.strip()) for entry in entries) else None
