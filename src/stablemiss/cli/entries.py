"""Numbers and missing values in columns of text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

# A column of text is numeric if at least this share of its entries are numbers.
MIN_NUMERIC_SHARE = 0.9
# Entries that mean "missing" in every column.
MISSING = (
    *("", "?", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "NULL", "Null", "null", "None", "<NA>"),
    *("NaT", "#N/A", "#N/A N/A", "#NA", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"),
)
# Entries that mean "missing" in numeric columns, in lower case. In a column of text they may be categories.
MISSING_NUMBERS = (
    *("-", "--", "---", "–", ".", "..", "...", "na", "n.a.", "n.a", "n/a", "none", "nil", "null"),
    *("missing", "unknown", "not available", "undefined", "#value!", "#div/0!", "#ref!", "#num!", "#name?"),
)
_EXPONENT = r"([eE][+-]?\d+)?"
# Decimal mark → pattern of a number, in which the other mark may group thousands. No group starts with zero.
_NUMBER = {
    ".": r"[+-]?(([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d*)?|\.\d+)" + _EXPONENT,
    ",": r"[+-]?(([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d*)?|,\d+)" + _EXPONENT,
}
_INFINITE = r"(?i:[+-]?inf(inity)?)"


def is_number_text(entry: str, decimal: str) -> bool:
    """Whether an entry is a number written with a decimal mark.

    Parameters
    ----------
    entry : str
        One entry, without spaces around it.
    decimal : str
        "." or ",".

    Examples
    --------
    >>> is_number_text("1.234,5", ","), is_number_text("1.234,5", "."), is_number_text("12.10.2024", ",")
    (True, False, False)
    """
    return re.fullmatch(_NUMBER[decimal], entry) is not None


def is_missing_marker(entry: str) -> bool:
    """Whether an entry means "missing", in every column or in numeric columns.

    Examples
    --------
    >>> is_missing_marker("?"), is_missing_marker("Unknown"), is_missing_marker("0")
    (True, True, False)
    """
    return entry in MISSING or entry.lower() in MISSING_NUMBERS


def to_numbers(text: pyarrow.ChunkedArray, decimal: str = ".") -> pyarrow.ChunkedArray:
    """Numbers of a column of text: int64 if all are whole, otherwise float64; null where it is no number.

    Parameters
    ----------
    text : ChunkedArray of strings
        Nulls stay null.
    decimal : str, default="."
        Decimal mark. The other mark may group thousands.

    Examples
    --------
    >>> import pyarrow
    >>> to_numbers(pyarrow.chunked_array([["1.234,5", " 2", "much"]]), ",").to_pylist()
    [1234.5, 2.0, None]
    """
    import pyarrow
    from pyarrow import compute

    text = compute.utf8_trim_whitespace(text)
    for whole_or_float in (pyarrow.int64(), pyarrow.float64()):
        # Whole numbers are read the same way with both decimal marks.
        if decimal == "." or whole_or_float == pyarrow.int64():
            try:
                return text.cast(whole_or_float)
            except pyarrow.ArrowInvalid:
                pass
    pattern = f"^({_NUMBER[decimal]}|{_INFINITE})$"
    is_number = compute.match_substring_regex(text, pattern)
    text = compute.if_else(is_number, text, pyarrow.scalar(None, text.type))
    text = compute.replace_substring(text, "," if decimal == "." else ".", "")
    return compute.replace_substring(text, decimal, ".").cast(pyarrow.float64())


def are_zero_padded(text: pyarrow.ChunkedArray) -> bool:
    """Whether a column consists of digits with leading zeros, such as postcodes, and of missing values.

    Examples
    --------
    >>> import pyarrow
    >>> are_zero_padded(pyarrow.chunked_array([["01067", "80331", "-"]]))
    True
    """
    from pyarrow import compute

    from stablemiss.encoding import numbers_in_text

    # Most columns are ruled out without converting all their entries.
    if not compute.any(compute.match_substring_regex(text, r"^0\d+$")).as_py():
        return False
    observed, _ = null_markers(text, MISSING_NUMBERS, ignore_case=True)
    return numbers_in_text.are_zero_padded(set(observed.drop_null().unique().to_pylist()))


def null_markers(
    text: pyarrow.ChunkedArray, markers: tuple[str, ...], ignore_case: bool = False
) -> tuple[pyarrow.ChunkedArray, dict[str, int]]:
    """Replace markers of missing values by null, and count them except for empty entries.

    Parameters
    ----------
    text : ChunkedArray of strings
        A column of text.
    markers : tuple of str
        Entries that mean "missing".
    ignore_case : bool, default=False
        Whether the case of letters is ignored; the markers must be in lower case.

    Examples
    --------
    >>> import pyarrow
    >>> column, counts = null_markers(pyarrow.chunked_array([["a", "?", "", "?"]]), MISSING)
    >>> column.to_pylist(), counts
    (['a', None, None, None], {'?': 2})
    """
    import pyarrow
    from pyarrow import compute

    entries = compute.utf8_trim_whitespace(text)
    compared = compute.utf8_lower(entries) if ignore_case else entries
    is_marker = compute.is_in(compared, pyarrow.array(markers, text.type))
    if not compute.any(is_marker).as_py():
        return text, {}
    counts = {
        pair["values"]: pair["counts"]
        for pair in compute.value_counts(entries.filter(is_marker)).to_pylist()
        if pair["values"]
    }
    return compute.if_else(is_marker, pyarrow.scalar(None, text.type), text), counts
