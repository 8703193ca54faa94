"""Types of the columns of a table: numbers, text and missing values in text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stablemiss.cli.entries import (
    MIN_NUMERIC_SHARE,
    MISSING_NUMBERS,
    are_zero_padded,
    is_number_text,
    null_markers,
    to_numbers,
)

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class TextRules:
    """How the text of a table is read.

    Attributes
    ----------
    name : str
        Name of the file for error messages.
    decimal : str, default="."
        Decimal mark of numbers.
    missing_values : tuple of str, default=()
        Entries that mean "missing" in every column.
    is_untyped : bool, default=False
        Whether the file has no types, like CSV: all entries are text, and numbers must be recognised.
    """

    name: str
    decimal: str = "."
    missing_values: tuple[str, ...] = ()
    is_untyped: bool = False


class Remarks:
    """What is noticed about columns; entries that are read as missing are counted over several batches.

    Examples
    --------
    >>> remarks = Remarks()
    >>> for _ in range(2):
    ...     remarks.count_missing("size", {"?": 3})
    >>> remarks.add("size", "looks odd")
    >>> remarks.of_column("size")
    ["6 entries of '?' read as missing", 'looks odd']
    """

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._missing: dict[str, Counter[str]] = {}

    def add(self, column: str, remark: str) -> None:
        """Add a remark on a column."""
        self._texts.setdefault(column, []).append(remark)

    def count_missing(self, column: str, counts: Mapping[str, int]) -> None:
        """Add entries that were read as missing.

        Parameters
        ----------
        column : str
            Name of the column.
        counts : dict
            Entry → number of times.
        """
        if counts:
            self._missing.setdefault(column, Counter()).update(counts)

    def of_column(self, column: str) -> list[str]:
        """All remarks on a column."""
        counts = self._missing.get(column, Counter())
        return [
            f"{count:,} {'entry' if count == 1 else 'entries'} of {entry!r} read as missing"
            for entry, count in counts.most_common()
        ] + self._texts.get(column, [])

    def lines(self) -> list[str]:
        """One line per column with remarks."""
        columns = dict.fromkeys([*self._missing, *self._texts])
        return [f"Column {column!r}: {'; '.join(self.of_column(column))}." for column in columns]


def infer_types(
    table: pyarrow.Table,
    rules: TextRules,
    categories: Sequence[str] = (),
    target: str | None = None,
    classify: bool | None = None,
) -> tuple[pyarrow.Table, Remarks]:
    """Recognise numbers, booleans and missing values in the text columns of a training table.

    A column of an untyped file is numeric if all its entries are numbers, except that digits of the same
    length with leading zeros, such as postcodes, are text unless they are the target. In a file with types,
    text stays text. In both, a column is numeric if all entries that are not numbers are known markers of
    missing values. Otherwise it raises ValueError if they are few.

    Parameters
    ----------
    table : pyarrow.Table
        All rows.
    rules : TextRules
        How text is read.
    categories : sequence of str, default=()
        Columns that are categorical, whatever their entries are.
    target : str, default=None
        Column to predict.
    classify : bool, default=None
        Whether the target consists of classes, in which case it may mix numbers and text.

    See Also
    --------
    to_training_types : The same for the rows to predict, whose types are known.
    """
    remarks = Remarks()
    for position, name in enumerate(table.column_names):
        column = table.column(position)
        if is_text(column):
            column, counts = null_markers(column, rules.missing_values)
            remarks.count_missing(name, counts)
            is_code = rules.is_untyped and name != target and are_zero_padded(column)
            if name not in categories and not is_code:
                column, counts, other = _infer_type(column, rules)
                if other is not None and not (name == target and classify):
                    raise ValueError(_mixed_message(name, other, rules, name == target))
                remarks.count_missing(name, counts)
        column, counts = _null_codes(column, rules.missing_values)
        remarks.count_missing(name, counts)
        if name in categories:
            # A dictionary is categorical for the estimators too, even if its entries are dates.
            column = to_text(column).dictionary_encode()
        table = table.set_column(position, name, _without_null_type(column))
    return table, remarks


def to_training_types(
    table: pyarrow.Table, names: Mapping[str, Sequence[str]], rules: TextRules, remarks: Remarks
) -> pyarrow.Table:
    """Convert columns to the types that they had in training.

    Parameters
    ----------
    table : pyarrow.Table
        Some rows.
    names : dict
        "numbers", "categories" and "dates" → names of the columns that were of this kind. In a column of
        numbers, an entry that is neither a number nor a marker of a missing value raises ValueError. In a
        column of categories, numbers become text.
    rules : TextRules
        How text is read.
    remarks : Remarks
        Receives remarks.

    See Also
    --------
    infer_types : The same for training rows.
    """
    for position, name in enumerate(table.column_names):
        column = table.column(position)
        if is_text(column):
            column, counts = null_markers(column, rules.missing_values)
            remarks.count_missing(name, counts)
        if name in names["numbers"] and is_text(column):
            column, counts = _require_numbers(column, name, rules)
            remarks.count_missing(name, counts)
        column, counts = _null_codes(column, rules.missing_values)
        remarks.count_missing(name, counts)
        if name in names["categories"]:
            column = to_text(column)
        elif name in names["dates"] and is_text(column):
            column, counts = null_markers(column, MISSING_NUMBERS, ignore_case=True)
            remarks.count_missing(name, counts)
        table = table.set_column(position, name, _without_null_type(column))
    return table


def is_text(column: pyarrow.ChunkedArray) -> bool:
    """Whether a column contains text; dictionary-encoded text is categorical and does not count."""
    from pyarrow import types

    is_string = types.is_string(column.type) or types.is_large_string(column.type)
    return is_string or types.is_string_view(column.type)


def is_numeric(column: pyarrow.ChunkedArray) -> bool:
    """Whether a column contains numbers."""
    from pyarrow import types

    kind = column.type
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)


def are_dates(column: pyarrow.ChunkedArray) -> bool:
    """Whether all entries of a column of text are dates or times in one format."""
    from stablemiss.encoding.dates import DateFormat

    entries = column.drop_null().unique()
    return len(entries) > 0 and DateFormat.infer(map(str, entries.to_pylist())) is not None


def to_text(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Convert a column to text; whole floats become integers, so that 1.0 is the category "1".

    Examples
    --------
    >>> import pyarrow
    >>> to_text(pyarrow.chunked_array([[1.0, None]])).to_pylist()
    ['1', None]
    """
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        return column
    if types.is_floating(column.type):
        with suppress(pyarrow.ArrowInvalid):
            column = column.cast(pyarrow.int64())
    return column.cast(pyarrow.string())


def _infer_type(
    column: pyarrow.ChunkedArray, rules: TextRules
) -> tuple[pyarrow.ChunkedArray, dict[str, int], str | None]:
    """A column of text with its type, the entries that were read as missing, and an entry that is not a
    number although almost all others are (None if there is no such entry).
    """
    from pyarrow import compute

    n_entries = len(column) - column.null_count
    if not n_entries:
        return column.cast("float64"), {}, None
    numbers = to_numbers(column, rules.decimal)
    n_other = numbers.null_count - column.null_count
    if n_other == 0:
        return (numbers if rules.is_untyped else column), {}, None
    lower = compute.utf8_lower(compute.utf8_trim_whitespace(column))
    if rules.is_untyped and set(lower.unique().to_pylist()) <= {"true", "false", None}:
        return compute.equal(lower, "true"), {}, None
    markers, counts = null_markers(column, MISSING_NUMBERS, ignore_case=True)
    other = _first_non_numeric(markers, numbers)
    if other is None and numbers.null_count < len(numbers):
        return numbers, counts, None
    # Rounded, because 1 - 0.9 is slightly less than 0.1.
    if n_other >= round((1 - MIN_NUMERIC_SHARE) * n_entries, 6):
        return (markers, counts, None) if counts and are_dates(markers) else (column, {}, None)
    return column, {}, other


def _mixed_message(name: str, entry: str, rules: TextRules, is_target: bool) -> str:
    instead = (
        f"To treat the column as categorical, use --category {name!r}; to drop it, use --ignore {name!r}."
    )
    if is_target:
        instead = "If the column contains class labels, use --classify."
    return (
        f"Column {name!r} in {rules.name} is numeric except for entries such as {entry!r}. If they mean that "
        f"the value is missing, use --missing-value {entry!r}. {instead}"
    )


def _require_numbers(
    column: pyarrow.ChunkedArray, name: str, rules: TextRules
) -> tuple[pyarrow.ChunkedArray, dict[str, int]]:
    """The numbers of a column of text, and the entries that were read as missing."""
    from pyarrow import compute

    numbers = to_numbers(column, rules.decimal)
    if numbers.null_count == column.null_count:
        return numbers.cast("float64"), {}
    lower = compute.utf8_lower(compute.utf8_trim_whitespace(column))
    # A column of true and false is numeric, too.
    booleans = compute.if_else(compute.is_in(lower, value_set=_array(["true", "false"])), lower, None)
    numbers = compute.coalesce(numbers.cast("float64"), compute.equal(booleans, "true").cast("float64"))
    markers, counts = null_markers(column, MISSING_NUMBERS, ignore_case=True)
    entry = _first_non_numeric(markers, numbers)
    if entry is not None:
        raise ValueError(
            f"Column {name!r} in {rules.name} must be numeric, as in training; got {entry!r}. Correct such "
            f"entries or leave them empty. If they are missing values, use --missing-value {entry!r}."
        )
    return numbers, counts


def _null_codes(
    column: pyarrow.ChunkedArray, missing_values: Sequence[str]
) -> tuple[pyarrow.ChunkedArray, dict[str, int]]:
    """Replace numbers and dates that mean "missing", such as -999 or 1900-01-01, by null, and count them.

    Other columns are returned unchanged.
    """
    import pyarrow
    from pyarrow import compute, types

    codes: dict[Any, str]
    if is_numeric(column):
        kind = pyarrow.float64()
        codes = {
            float(entry.replace(",", "")): entry for entry in missing_values if is_number_text(entry, ".")
        }
    elif types.is_date(column.type) or types.is_timestamp(column.type):
        from stablemiss.encoding.dates import DateFormat

        kind = pyarrow.timestamp("us")
        codes = {date: entry for entry in missing_values if (date := DateFormat().parse(entry)) is not None}
    else:
        return column, {}
    # Not safe: whole numbers that float64 cannot hold, and times that microseconds cannot, are rounded.
    values = column.cast(kind, safe=False)
    is_code = compute.is_in(values, pyarrow.array(codes, kind))
    counts = {
        codes[pair["values"]]: pair["counts"]
        for pair in compute.value_counts(values.filter(is_code)).to_pylist()
    }
    return compute.if_else(is_code, pyarrow.scalar(None, column.type), column), counts


def _first_non_numeric(text: pyarrow.ChunkedArray, numbers: pyarrow.ChunkedArray) -> str | None:
    """The first entry of a column that is not a number."""
    from pyarrow import compute

    is_other = compute.and_(compute.is_valid(text), compute.is_null(numbers))
    others = text.filter(is_other)
    return others[0].as_py() if len(others) else None


def _without_null_type(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Columns without any value have the type null; they become columns of floats."""
    from pyarrow import types

    return column.cast("float64") if types.is_null(column.type) else column


def _array(entries: list[str]) -> pyarrow.Array:
    import pyarrow

    return pyarrow.array(entries, pyarrow.string())
