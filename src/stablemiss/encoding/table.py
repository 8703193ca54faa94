"""Reading of tables from arrays and data frames into columns of numbers, categories and dates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from scipy.sparse import issparse

from stablemiss.data import Bools, Floats, missing_cells, to_array
from stablemiss.text import RowError, is_number

# The unit of all columns of dates.
DATE_DTYPE = np.dtype("datetime64[us]")

# Times of day become dates on this day, so that only the hour varies.
TIME_OF_DAY_DATE = date(2000, 1, 1)

INFINITY_ADVICE = "Replace them with finite numbers, or with NaN if the value is unknown."

# The date and time types of pandas are subclasses of these.
_DURATION_TYPES = (timedelta, np.timedelta64)
_DATE_TYPES = (date, np.datetime64)


@dataclass(frozen=True, eq=False)
class Table:
    """A table with missing values, stored by column.

    Attributes
    ----------
    names : list of str, or None
        Column names: the labels if all are strings, as in scikit-learn; otherwise None.
    labels : list of str, or None
        Column labels of a data frame, converted to strings; used to match the columns of two tables. None
        for arrays.
    columns : list of (n_rows,) arrays
        float64 with NaN = missing, object with str entries and None = missing, or datetime64[us] with NaT =
        missing. A column without any observed value is float64, whatever its original type.
    n_rows : int
        Number of rows.
    declared_categories : set of int
        Positions of the columns that have a categorical type in their library, so that their entries are
        categories even if all of them are numbers or dates written as text.

    See Also
    --------
    read_table : Creates a `Table` from arrays and data frames.
    """

    names: list[str] | None
    labels: list[str] | None
    columns: list[NDArray]
    n_rows: int
    declared_categories: frozenset[int] = frozenset()

    @property
    def is_numbered(self) -> bool:
        """Whether the labels are just 0, 1, …, as pandas labels columns without names."""
        return self.names is None and self.labels == [str(j) for j in range(len(self.columns))]

    def rows(self, index: NDArray) -> Table:
        """Select rows."""
        return replace(self, columns=[column[index] for column in self.columns], n_rows=len(index))


def missing_entries(column: NDArray) -> Bools:
    """Boolean array (n,), True where a column of `Table` is missing."""
    if column.dtype == object:
        return _is_none(column)
    return np.isnan(column) if column.dtype.kind == "f" else np.isnat(column)


def _is_none(array: NDArray) -> Bools:
    # This compares each entry, much faster than a loop.
    return array == None  # noqa: E711


def describe_column(names: Sequence[str] | None, j: int) -> str:
    """Refer to column `j` in a message: by name if there are names, otherwise by position, counted from 0."""
    return f"column {j}" if names is None else f"column {names[j]!r}"


def read_table(X: Any) -> Table:
    """Read a table from numpy, nested lists, pandas, polars, pyarrow or any library that narwhals supports.

    NaN, None, `pd.NA`, `pd.NaT`, polars null, pyarrow null and the masked values of a masked array all mean
    missing. Numbers, booleans, nullable integers and decimals become numbers; durations become seconds;
    strings, categoricals and enums become text. Dates and times become datetime64: local time if they have a
    time zone, and a time of day is placed on a fixed day. Other columns raise an error that names the column:
    infinite and complex numbers, nested values, numbers or dates mixed with other types.

    Parameters
    ----------
    X : array-like or data frame
        Table with at least one row and one column. It is not modified.

    Returns
    -------
    Table

    See Also
    --------
    TableEncoder : Encodes the table as numbers.

    Examples
    --------
    >>> table = read_table([[1.5, "red"], [None, "blue"], [3, float("nan")]])
    >>> [column.tolist() for column in table.columns]
    [[1.5, nan, 3.0], ['red', 'blue', None]]
    """
    if issparse(X):
        raise TypeError(
            "Sparse data is not supported, because the entries it omits mean zero, not missing. "
            "Pass X.toarray() instead, with NaN for missing values."
        )
    if nw.dependencies.is_pandas_dataframe(X) and X.columns.is_unique:
        return _read_pandas(X)
    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError as error:
        names = X.column_names if hasattr(X, "column_names") else X.columns  # of Arrow tables
        repeated = ", ".join(repr(name) for name, n in Counter(names).items() if n > 1)
        raise ValueError(
            f"The column names of X must be unique, because columns are matched by name, but {repeated} "
            "occurs more than once. Rename or drop the duplicates."
        ) from error
    # Record batches and other Arrow tables that narwhals does not recognise. (A single Arrow column has no
    # schema, so it is not converted.)
    if frame is X and hasattr(X, "__arrow_c_stream__") and hasattr(X, "schema"):
        frame = nw.from_arrow(X, backend="pyarrow")
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("X is a lazy frame, which has no rows yet. Call .collect() on it first.")
    if isinstance(frame, nw.DataFrame):
        _check_size(*frame.shape)
        names = _string_names(frame.columns)
        series = list(frame.iter_columns())
        columns = [_frame_column(column, describe_column(names, j)) for j, column in enumerate(series)]
        declared = frozenset(j for j, column in enumerate(series) if _is_categorical(column))
        return Table(names, [str(label) for label in frame.columns], columns, len(frame), declared)
    array = _to_2d_array(X)
    _check_size(*array.shape)
    if array.dtype.kind in "fiub":
        return Table(None, None, _number_columns(array, None), len(array))
    columns = [_array_column(column, describe_column(None, j)) for j, column in enumerate(array.T)]
    return Table(None, None, columns, len(array))


def _read_pandas(X: Any) -> Table:
    """Read a pandas frame without narwhals, whose cost per column is high for a table of one row."""
    _check_size(*X.shape)
    labels, dtypes = list(X.columns), X.dtypes.tolist()
    names, text_labels = _string_names(labels), [str(label) for label in labels]
    if all(_is_numpy_number(dtype) for dtype in dtypes):
        return Table(names, text_labels, _number_columns(X.to_numpy(dtype=np.float64), names), len(X))
    columns, declared = [], []
    for j, (label, dtype) in enumerate(zip(labels, dtypes, strict=True)):
        # By name is faster, but a label that is not a string may have a special meaning.
        series = X[label] if isinstance(label, str) else X.iloc[:, j]
        description = describe_column(names, j)
        # numpy dtypes are those whose conversion by pandas is certain to be the same as that by narwhals.
        if isinstance(dtype, np.dtype):
            columns.append(_array_column(series.to_numpy(), description))
        elif dtype.name in ("str", "string"):
            columns.append(_object_column(series.to_numpy(dtype=object), description))
        else:
            column = nw.from_native(series, series_only=True)
            columns.append(_frame_column(column, description))
            declared += [j] * _is_categorical(column)
    return Table(names, text_labels, columns, len(X), frozenset(declared))


def _is_numpy_number(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "fiub"


def _number_columns(array: NDArray, names: Sequence[str] | None) -> list[NDArray]:
    """Columns of a numeric matrix. Converting it as a whole and to contiguous columns is fastest."""
    array = np.asfortranarray(array, dtype=np.float64)
    if np.isinf(array).any():
        for j, column in enumerate(array.T):
            _check_finite(column, describe_column(names, j))
    return list(array.T)


def _check_size(n_rows: int, n_columns: int) -> None:
    for count, what in ((n_rows, "sample(s)"), (n_columns, "feature(s)")):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape=({n_rows}, {n_columns})) while a minimum of 1 is "
                "required. Check the filter or the query that produced X."
            )


def _string_names(labels: Iterable[Any]) -> list[str] | None:
    """Column names as scikit-learn defines them: the labels if all are strings, None if none are."""
    labels = list(labels)
    is_string = [isinstance(label, str) for label in labels]
    if any(is_string) and not all(is_string):
        example = labels[is_string.index(False)]
        raise TypeError(
            f"The column names of X mix strings with other types, such as {example!r} "
            f"({type(example).__name__}). Feature names are only supported if all of them are strings: "
            "use X.columns = X.columns.astype(str)."
        )
    return [str(label) for label in labels] if all(is_string) else None


def _to_2d_array(X: Any) -> NDArray:
    """Convert X, which is not a data frame, to a two-dimensional array."""
    array = to_array(X)
    if array.ndim == 0:
        raise ValueError(
            f"X must be a table with one row per sample, such as a 2D array or a data frame; got a "
            f"{type(X).__name__}."
        )
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: X is a {type(X).__name__} of shape "
            f"{array.shape}. Reshape your data to one row per sample and one column per feature: "
            + (
                "X.reshape(len(X), -1) if each cell of its arrays is a feature."
                if array.ndim > 2
                else "X.reshape(-1, 1) or series.to_frame() if it is one feature, X.reshape(1, -1) if it is "
                "one row."
            )
        )
    return array


def _is_categorical(series: nw.Series[Any]) -> bool:
    return series.dtype in (nw.Categorical, nw.Enum)


def _frame_column(series: nw.Series[Any], label: str) -> NDArray:
    """Convert one column of a data frame to a column of `Table`."""
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return _array_column(series.cast(nw.Float64).to_numpy(), label)
    if _is_categorical(series):
        missing = series.is_null().to_numpy()
        # Drop missing values first: with them, pandas returns integer categories as floats.
        categories = series.drop_nulls().to_numpy()
        entries = np.full(len(missing), None, dtype=object)
        entries[~missing] = [category_text(category) for category in categories]
        return _object_column(entries, label)
    if dtype.is_nested():
        if series.null_count() == len(series):
            return np.full(len(series), np.nan)
        raise TypeError(_type_message(label, str(dtype)))
    if dtype == nw.Datetime:
        # The local time is what depends on the hour and the weekday, so it is kept and the zone is dropped.
        series = series.dt.replace_time_zone(None)
    array = series.to_numpy()
    return _array_column(array if array.dtype.kind in "cMm" else array.astype(object), label)


def category_text(category: Any) -> str:
    """Convert a category to a string; 1.0 becomes "1".

    A column of integer codes becomes a column of floats as soon as one value is missing.
    """
    is_whole = isinstance(category, float | np.floating) and category.is_integer()
    return str(int(category)) if is_whole else str(category)


def _array_column(array: NDArray, label: str) -> NDArray:
    """Convert one column (n,) of any dtype to a column of `Table`."""
    kind = array.dtype.kind
    if kind == "U" and all(map(is_number, array)):
        raise ValueError(
            f"There are numbers stored as text, such as {str(array[0])!r}, in {label}. numpy converts "
            "numbers and NaN to text if an array also contains text. Create the array with dtype=object, "
            "which keeps numbers, text and NaN apart."
        )
    if kind == "c":
        raise ValueError(_complex_message(label))
    if kind in "fiub":
        return _check_finite(array.astype(np.float64, copy=False), label)
    if kind == "m":
        return array / np.timedelta64(1, "s")
    if kind == "M":
        return np.full(len(array), np.nan) if np.isnat(array).all() else _to_dates(array, label)
    return _object_column(array.astype(object), label)


def _to_dates(array: NDArray, label: str) -> NDArray:
    # Conversion to microseconds would silently change dates that are too far away.
    years = array[~np.isnat(array)].astype("datetime64[Y]")
    if years.min() < np.datetime64("0001") or years.max() > np.datetime64("9999"):
        raise ValueError(
            f"There are dates from the year {years.min()} to {years.max()} in {label}, but years must be "
            "from 1 to 9999. Correct such dates or replace them by missing values."
        )
    return array.astype(DATE_DTYPE)


def _object_column(array: NDArray, label: str) -> NDArray:
    """Convert one column of Python objects to a column of `Table`."""
    # Checking the few distinct types instead of the many entries keeps this fast.
    types = set(map(type, array.tolist()))
    if types == {str}:
        return array
    missing = _is_none(array) if types == {str, type(None)} else missing_cells(array)
    observed = array[~missing].tolist()
    types = set(map(type, observed))
    strings = {t for t in types if issubclass(t, str)}
    if types and types == strings:
        column = np.full(len(array), None, dtype=object)
        column[~missing] = observed if types == {str} else [str(entry) for entry in observed]
        return column
    durations = {t for t in types if issubclass(t, _DURATION_TYPES)}
    times = {t for t in types if issubclass(t, time)}
    dates = {t for t in types if issubclass(t, _DATE_TYPES)}
    numbers = {t for t in types - durations if issubclass(t, Number | np.bool_)}
    kinds = [kind for kind in (dates, times, durations, numbers, strings) if kind]

    def example(wanted: set[type]) -> Any:
        return next(entry for entry in observed if type(entry) in wanted)

    if unsupported := types.difference(*kinds):
        raise TypeError(_type_message(label, type(example(unsupported)).__name__))
    if len(kinds) > 1:
        raise ValueError(_mixed_message(label, bool(dates or times or durations), *map(example, kinds[:2])))
    if dates or times:
        column = np.full(len(array), np.datetime64("NaT"), dtype=DATE_DTYPE)
        column[~missing] = [_local_time(entry) for entry in observed]
        return column
    if any(issubclass(t, complex | np.complexfloating) for t in types):
        raise ValueError(_complex_message(label))
    numeric = np.full(len(array), np.nan)
    try:
        second = timedelta(seconds=1)
        numeric[~missing] = [entry / second if durations else float(entry) for entry in observed]
    except OverflowError as error:
        raise ValueError(
            f"There are infinite values (inf) in {label}: a number too large for float64. {INFINITY_ADVICE}"
        ) from error
    return _check_finite(numeric, label)


def _local_time(entry: Any) -> np.datetime64:
    """Convert a date, a date with time or a time of day; a time zone is dropped."""
    if isinstance(entry, time):
        entry = datetime.combine(TIME_OF_DAY_DATE, entry)
    if isinstance(entry, datetime):
        entry = entry.replace(tzinfo=None)
    return np.datetime64(entry, "us")


def _check_finite(column: Floats, label: str) -> Floats:
    infinite = np.isinf(column)
    if infinite.any():
        first = int(infinite.argmax())
        before = f"There are infinite values (inf) in {label}: {column[first]} in row "
        raise RowError(before, first, f". {INFINITY_ADVICE}")
    return column


def _complex_message(label: str) -> str:
    return f"Complex data not supported: {label} contains complex numbers. Split them into two real columns."


def _mixed_message(label: str, has_times: bool, *examples: Any) -> str:
    what = "Dates, times or durations and other entries" if has_times else "Numbers and strings"
    advice = (
        "Convert all of them to one type, for example with pandas.to_datetime, and unknown ones to missing."
        if has_times
        else "If the column is numeric, convert its strings to numbers or to missing values "
        "(pandas.to_numeric(..., errors='coerce')); if it is categorical, convert all its entries to strings."
    )
    listed = " and ".join(str(e) if has_times and not isinstance(e, str) else repr(e) for e in examples)
    return f"{what} are mixed in {label}, such as {listed}. {advice}"


def _type_message(label: str, type_name: str) -> str:
    # scikit-learn's `check_estimator` expects the words "argument must be a string or a number".
    return (
        f"There are entries of type {type_name} in {label}, but every argument must be a string or a "
        "number, or missing. Convert the column to numbers or strings, or drop it."
    )
