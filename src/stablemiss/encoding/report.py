"""How each column of a table was read, and what in it looks like a mistake."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.encoding.columns import (
    CATEGORIES,
    CONSTANT,
    DATES,
    IGNORED,
    NEVER_OBSERVED,
    NUMBERS,
    TrainingColumn,
)
from stablemiss.encoding.dates import DateFormat
from stablemiss.encoding.numbers_in_text import (
    MISSING_MARKERS,
    are_zero_padded,
    is_number_with_unit,
    is_separated_number,
    is_written_number,
)
from stablemiss.text import count

# Numbers that often stand for missing values: nines, and the smallest integers of 16 and 32 bits.
_NINES = [float("9" * digits) for digits in range(1, 10)]
_CODES = frozenset((-1.0, -32768.0, -2147483648.0, *_NINES[1:], *(-code for code in _NINES)))
_DATE_CODES = frozenset(
    np.datetime64(day, "us")
    for day in ("0001-01-01", "1753-01-01", "1899-12-30", "1900-01-01", "1970-01-01", "9999-12-31")
)
_YEAR = np.timedelta64(365, "D")
_CODE_REMARK = "may mean missing"

# Names of columns that usually hold an identifier: "id", "customer_id", "houseId", "UUID".
_IDENTIFIER = re.compile(r"(^|[^a-zA-Z])(?i:id|uuid|guid|key|index)$|[a-z]I[dD]$")
# Text with at most this many distinct numbers may be categories.
_MAX_CATEGORIES = 12
# Smaller columns are not examined for codes and identifiers, because every pattern occurs by chance.
_MIN_ROWS = 20
# Share of the entries that must be numbers, or dates, for the others to be exceptions.
_MIN_SHARE = 0.9
# Entries by which it is decided whether a text column is worth examining.
_N_FIRST = 200


class SuspiciousDataWarning(UserWarning):
    """The training table looks as if it contains mistakes, such as codes for missing values.

    It also warns of a constant target, and of fewer than ten validation rows.

    See Also
    --------
    OutOfRangeWarning : Values of new rows are far outside the range in training.

    Examples
    --------
    >>> import warnings
    >>> from stablemiss import MissingRegressor
    >>> X = [[float(x)] for x in range(50)] + [[-999.0]]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = MissingRegressor(method="ols").fit(X, range(51))
    >>> caught[0].category.__name__
    'SuspiciousDataWarning'
    """


@dataclass(frozen=True)
class ColumnSummary:
    """How a column of the training table was read.

    Attributes
    ----------
    name : str
        Name of the column, or "column 3".
    kind : {"number", "category", "date", "ignored"}
        How the column is used. A column without information is ignored: constant, never observed, or text in
        which no entry occurs twice.
    n_levels : int or None
        Number of distinct entries of a text column; None for other columns.
    n_missing : int
        Number of rows in which the column is missing.
    remarks : tuple of str
        What is unusual about the column, each as a short clause without its name.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = [["a", 7.0], ["b", 7.0], ["a", 7.0], ["b", 7.0], [None, 7.0]]
    >>> model = MissingRegressor(method="ols", random_state=0).fit(X, [1.0, 2.0, 3.0, 4.0, 5.0])
    >>> for column in model.column_report_:
    ...     print(column.name, column.kind, column.n_levels, column.n_missing, column.remarks)
    column 0 category 2 1 ()
    column 1 ignored None 0 ('constant',)
    """

    name: str
    kind: str
    n_levels: int | None
    n_missing: int
    remarks: tuple[str, ...] = ()


def summarise(name: str, column: TrainingColumn, kind: str) -> tuple[ColumnSummary, int]:
    """Describe one column of the training table.

    Parameters
    ----------
    name : str
        Name of the column.
    column : TrainingColumn
        The column in all rows.
    kind : str
        Its kind in `TableEncoder.kinds`.

    Returns
    -------
    summary : ColumnSummary
        The summary.
    n_mistakes : int
        How many of its remarks, from the first, point to a likely mistake.
    """
    n_rows, n_missing = len(column.column), column.n_missing
    mistakes: list[str] = []
    others: list[str] = []
    if kind == NEVER_OBSERVED:
        others.append("never observed" if n_missing == n_rows else "never observed in the training rows")
    elif kind == CONSTANT:
        others.append("constant")
    elif kind == DATES:
        mistakes = date_remarks(column)
    elif kind == NUMBERS:
        # The difference of two huge numbers may overflow, which does not change any comparison.
        with np.errstate(over="ignore"):
            mistakes, others = number_remarks(name, column.column, n_missing)
    else:
        mistakes, others = text_remarks(column.column, column.levels, column.is_category)
        if kind == IGNORED:
            # Numbers and dates with many digits are rarely repeated, although they are no identifiers.
            others.append("no entry occurs twice" + ("" if mistakes else ", probably an identifier"))
    if 0.95 * n_rows < n_missing < n_rows:
        others.append(f"missing in {n_missing / n_rows:.1%} of the rows")
    summary_kind = {NUMBERS: "number", CATEGORIES: "category", DATES: "date"}.get(kind, "ignored")
    n_levels = len(column.levels) or None
    return ColumnSummary(name, summary_kind, n_levels, n_missing, (*mistakes, *others)), len(mistakes)


def number_remarks(name: str, column: NDArray, n_missing: int) -> tuple[list[str], list[str]]:
    """Remarks about a column of numbers.

    Parameters
    ----------
    name : str
        Name of the column.
    column : (n,) float64
        The column; NaN = missing.
    n_missing : int
        Number of missing values.

    Returns
    -------
    mistakes : list of str
        Remarks that point to a likely mistake.
    others : list of str
        Other remarks.
    """
    if len(column) - n_missing < _MIN_ROWS:
        return [], []
    others = []
    if _is_row_number(column):
        others = ["whole numbers in strict order, probably an identifier"]
    elif _IDENTIFIER.search(name) and _is_nearly_distinct(column):
        others = ["a different whole number in nearly every row, probably an identifier"]
    ends = (column.min(), column.max()) if n_missing == 0 else (np.nanmin(column), np.nanmax(column))
    if ends[0] > -99 and not _CODES.intersection(ends):
        return [], others
    return _code_remarks(column[~np.isnan(column)], _is_code, _write_number), others


def date_remarks(column: TrainingColumn) -> list[str]:
    """Remarks that point to a likely mistake in a column of dates."""
    dates, text = column.column, column.text
    remarks = []
    if column.text_format is not None and column.text_format.is_ambiguous:
        remarks.append("dates in which day and month cannot be told apart, read with the month first")

    def write(day: np.datetime64) -> str:
        # Text is quoted as it is, so that it can be found and declared as missing.
        return str(day.astype("datetime64[D]")) if text is None else text[np.argmax(dates == day)].strip()

    observed = dates[~np.isnat(dates)]
    if len(observed) >= _MIN_ROWS and _DATE_CODES.intersection((observed.min(), observed.max())):
        remarks += _code_remarks(observed, _is_date_code, write)
    return remarks


def text_remarks(column: NDArray, levels: Set[str], is_category: bool) -> tuple[list[str], list[str]]:
    """Remarks about a column of text (n,), with None = missing.

    Parameters
    ----------
    column : (n,) object
        The column.
    levels : set of str
        Its distinct entries.
    is_category : bool
        Whether the column has a categorical type, so that numbers and dates in it are meant as text.

    Returns
    -------
    mistakes, others : list of str
        As in `number_remarks`.
    """
    markers = {level for level in levels if len(level) <= 4 and level.strip().lower() in MISSING_MARKERS}
    others = []
    if not is_category:
        if are_zero_padded(levels - markers):
            others.append("digits with leading zeros, probably codes")
        elif mistakes := _written_as_text(column, levels, markers):
            return mistakes, []
    if markers:
        counts = Counter(entry for entry in column.tolist() if entry in markers)
        marker, n = counts.most_common(1)[0]
        others.append(f"{count_entries(n)} of {marker!r}, probably missing")
    return [], others


def count_entries(n: int) -> str:
    """Number of entries: "1 entry" or "3 entries"."""
    return "1 entry" if n == 1 else f"{n:,} entries"


def _written_as_text(column: NDArray, levels: Set[str], markers: Set[str]) -> list[str]:
    """Remark about text that consists of numbers or dates, maybe except for a few entries."""
    first = [entry for entry in column[:_N_FIRST].tolist() if entry is not None and entry not in markers]
    kinds: list[tuple[str, Callable[[str], bool], str]] = [
        ("numeric", is_written_number, "numbers written as text"),
        ("numbers", is_separated_number, "numbers with decimal commas or thousands separators such as {!r}"),
        ("dates", _is_written_date, "dates in more than one format"),
    ]
    if len(levels) > _MAX_CATEGORIES:
        remark = "numbers with a unit or sign such as {!r}, which should be converted"
        kinds.append(("numbers", is_number_with_unit(first), remark))
    for what, is_of_kind, remark in kinds:
        if not first or sum(map(is_of_kind, first)) < len(first) / 2:
            continue
        if what == "numbers":
            example = next(
                (entry for entry in first if is_of_kind(entry) and not is_written_number(entry)), None
            )
            if example is None:
                continue
            what, remark = f"numbers such as {example!r}", remark.format(example)
        if exceptions := {level for level in levels if not is_of_kind(level)}:
            if remarks := _exceptions(column, levels, exceptions, markers, what):
                return remarks
        elif what != "dates" or DateFormat.infer(levels) is None:
            return [remark]
    return []


def _exceptions(
    column: NDArray, levels: Set[str], exceptions: Set[str], markers: Set[str], what: str
) -> list[str]:
    """Remark about text that is numeric (or dates) except for a few entries."""
    counts = Counter(entry for entry in column.tolist() if entry in exceptions)
    n_observed = sum(entry is not None for entry in column.tolist())
    # With few distinct numbers, an entry such as "3+" is one more category. Markers never are.
    is_code = len(levels) - len(exceptions) <= _MAX_CATEGORIES and not exceptions <= markers
    if counts.total() > (1 - _MIN_SHARE) * n_observed or is_code:
        return []
    example = counts.most_common(1)[0][0]
    return [f"{what} except for {count_entries(counts.total())} such as {example!r}"]


def _write_number(number: float) -> str:
    """A number with six digits, but whole numbers in full, so that a code can be found and replaced."""
    return f"{number:.15g}" if number % 1 == 0 else f"{number:.6g}"


def _is_written_date(text: str) -> bool:
    return any(DateFormat(order).parse(text) is not None for order in (True, False))


def _is_row_number(column: NDArray) -> bool:
    """Whether the numbers are whole and strictly increasing or decreasing."""
    # Most columns are ruled out by their first rows.
    for rows in (column[:_MIN_ROWS], column):
        steps = np.diff(rows)
        if not ((steps > 0).all() or (steps < 0).all()) or (rows % 1 != 0).any():
            return False
    return True


def _is_nearly_distinct(column: NDArray) -> bool:
    """Whether the numbers are whole and hardly any occurs twice."""
    observed = column[~np.isnan(column)]
    return bool((observed % 1 == 0).all()) and len(np.unique(observed)) > _MIN_SHARE * len(observed)


def _code_remarks(
    observed: NDArray, is_code: Callable[[Any, NDArray, int], bool], write: Callable[[Any], str]
) -> list[str]:
    """Remarks about extreme values that probably stand for missing values; there may be several."""
    found: list[tuple[Any, int]] = []
    for _ in range(4):
        ends = (observed.min(), observed.max()) if len(observed) else ()
        for end in ends:
            rest = observed[observed != end]
            if len(rest) and is_code(end, rest, len(observed) - len(rest)):
                found.append((end, len(observed) - len(rest)))
                observed = rest
                break
        else:
            break
    if not found:
        return []
    seen = f"{write(observed.min())} to {write(observed.max())}"
    return [f"{write(end)} in {count(n, 'row')} {_CODE_REMARK} (others are {seen})" for end, n in found]


def _is_code(value: float, rest: NDArray, n: int) -> bool:
    """Whether an extreme value of a column probably stands for missing values.

    Candidates are the usual codes, and whole numbers of at most -99 that recur. They are codes if they are
    further from all other values than these are from each other, or the only negative value. But -1 must also
    be more frequent than the values up to 1, because it may be the end of their distribution.
    """
    lowest, highest = rest.min(), rest.max()
    # A column of two numbers, such as -100 and 100, has no code.
    if value not in _CODES and not (value <= -99 and value % 1 == 0 and n >= 3 and lowest < highest):
        return False
    if abs(value) >= 99 and max(lowest - value, value - highest) >= highest - lowest:
        return True
    if value > 0 or lowest < 0 or len(np.unique(rest)) < 5:
        return False
    return bool(value < -1 or n > np.count_nonzero(rest <= 1))


def _is_date_code(value: np.datetime64, rest: NDArray, n: int) -> bool:
    """Whether an extreme date probably stands for missing dates; see `_is_code`."""
    if value not in _DATE_CODES:
        return False
    lowest, highest = rest.min(), rest.max()
    gap = max(lowest - value, value - highest)
    return bool(gap >= highest - lowest or (n >= 3 and gap >= _YEAR))


def describe_mistakes(mistakes: Iterable[tuple[str, str]]) -> str:
    """The warning about pairs of a column's label and a remark."""
    shown = [f"{label}: {remark}" for label, remark in mistakes]
    n_codes = sum(_CODE_REMARK in remark for remark in shown)
    advice = []
    if n_codes:
        advice.append("Replace codes by missing values.")
    if n_codes < len(shown):
        advice.append(
            'Convert text to numbers or dates (in pandas: read_csv with decimal=",", thousands or '
            'na_values="?"; to_numeric; to_datetime with dayfirst=True or False), and entries that are '
            "neither to missing values; text that is meant as categories should have a categorical type."
        )
    more = f"; and {len(shown) - 5} more" if len(shown) > 5 else ""
    return f"The training table may contain mistakes: {'; '.join(shown[:5])}{more}. {' '.join(advice)}"
