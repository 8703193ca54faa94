"""Numbers written as text: with separators, with a unit, or padded with zeros."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence, Set

from stablemiss.text import is_number

# Text that usually stands for a missing value, in lower case.
MISSING_MARKERS = frozenset(("", "?", "-", ".", "na", "n/a", "#n/a", "nan", "nat", "null", "<na>"))

# Numbers in which groups of three digits may be separated, with a decimal point or comma.
_SEPARATED = r"[+-]?(?:\d{1,3}(?P<mark>[.,'’\s])\d{3}(?:(?P=mark)\d{3})*(?:[.,]\d*)?|\d+(?:[.,]\d*)?|[.,]\d+)"
_SEPARATED_NUMBER = re.compile(rf"\s*{_SEPARATED}\s*")
# Only currencies come before a number, because K100 and #100 are identifiers.
_NUMBER_WITH_UNIT = re.compile(
    rf"\s*(?P<before>[€$£¥₹]|(?:EUR|USD|GBP|CHF|JPY)(?=\s))?\s*{_SEPARATED}"
    r"\s*(?P<after>(?:[%‰€$£¥₹°/²³]|[^\W\d_]){1,8})?\s*"
)


def is_written_number(text: str) -> bool:
    """Whether text can be converted to a number that does not mean "missing"."""
    return is_number(text) and text.strip().lower() not in MISSING_MARKERS


def is_separated_number(text: str) -> bool:
    """Whether text is a number that may have a decimal comma or thousands separators.

    Examples
    --------
    >>> [is_separated_number(text) for text in ("12,28", "1.234,5", "1 234", "12.10.2024")]
    [True, True, True, False]
    """
    return _SEPARATED_NUMBER.fullmatch(text) is not None or is_written_number(text)


def is_number_with_unit(entries: Sequence[str]) -> Callable[[str], bool]:
    """A function that says whether text is a number, without a unit or with the usual one of these entries.

    Examples
    --------
    >>> is_percentage = is_number_with_unit(["12.3%", "5%"])
    >>> is_percentage("7%"), is_percentage("7"), is_percentage("7 kg")
    (True, True, False)
    """
    units = Counter(unit for entry in entries if any(unit := _unit(entry)))
    if not units:
        return is_separated_number
    usual = units.most_common(1)[0][0]
    return lambda text: _unit(text) == usual or is_separated_number(text)


def are_zero_padded(levels: Set[str]) -> bool:
    """Whether text consists of digits of the same length, of which some begin with zero.

    These are usually codes, such as postcodes, because a number is rarely written like this.

    Examples
    --------
    >>> are_zero_padded({"01067", "80331"}), are_zero_padded({"0", "5"}), are_zero_padded({"05", "5"})
    (True, False, False)
    """
    return (
        len({len(level) for level in levels}) == 1
        and all(level.isascii() and level.isdecimal() for level in levels)
        and any(level.startswith("0") and len(level) > 1 for level in levels)
    )


def _unit(text: str) -> tuple[str | None, str | None]:
    """What precedes and what follows a number; None if nothing, or if the text is not a number."""
    match = _NUMBER_WITH_UNIT.fullmatch(text)
    return (match["before"], match["after"]) if match else (None, None)
