"""Any user's table as a list of plain columns: numbers with NaN, or categories with None, where missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from scipy.sparse import issparse

from stablemiss.data import Floats, missing_cells, to_array
from stablemiss.text import is_number

_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)


@dataclass(frozen=True, eq=False)
class Table:
    """A table with holes, column by column.

    Attributes
    ----------
    names : list of str, or None
        Column names; None where the source had none (arrays, or labels that are not strings).
    labels : list of str, or None
        What the columns of two tables are matched by: the text of a frame's labels, strings or not. None
        for arrays.
    columns : list of (n_rows,) arrays
        float64 with NaN = missing, or object with str categories and None = missing. A column without a
        single observed cell is float64, whatever type it arrived in.
    n_rows : int
    """

    names: list[str] | None
    labels: list[str] | None
    columns: list[NDArray]
    n_rows: int

    @property
    def is_numbered(self) -> bool:
        """Whether its labels are just 0, 1, …, as a frame counts columns that nobody named."""
        return self.names is None and self.labels == [str(j) for j in range(len(self.columns))]

    def rows(self, index: NDArray) -> Table:
        """The chosen rows."""
        return Table(self.names, self.labels, [column[index] for column in self.columns], len(index))


def column_label(names: Sequence[str] | None, j: int) -> str:
    """How a sentence calls column `j`: by its name, else by its position counted from 0."""
    return f"column {j}" if names is None else f"column {names[j]!r}"


def read_table(X: Any) -> Table:
    """Read any table: numpy, nested lists, pandas, polars, pyarrow or another frame that narwhals knows.

    NaN, None, `pd.NA`, `pd.NaT`, polars null, pyarrow null and the masked cells of a masked array all mean
    missing. Numbers, booleans, nullable integers and decimals become numbers; strings, categoricals and
    enums become categories. What is honestly neither is refused in a sentence that names the column: dates
    and times, infinities, complex numbers, nested values, numbers mixed with strings.

    Parameters
    ----------
    X : table with at least one row and one column
        It is read, never changed.

    Returns
    -------
    Table

    Examples
    --------
    >>> table = read_table([[1.5, "red"], [None, "blue"], [3, float("nan")]])
    >>> [column.tolist() for column in table.columns]
    [[1.5, nan, 3.0], ['red', 'blue', None]]
    """
    if issparse(X):
        raise TypeError(
            "Sparse data is not supported, because the cells it leaves out mean zero, not missing. "
            "Pass X.toarray() instead, with NaN where a value is missing."
        )
    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError as error:
        raise ValueError(
            "Every column of X needs a name of its own, because columns are matched by name. "
            f"Rename or drop the repeated columns. {error}"
        ) from error
    # Record batches and other Arrow tables that narwhals does not know; a schema tells them from one column.
    if frame is X and hasattr(X, "__arrow_c_stream__") and hasattr(X, "schema"):
        frame = nw.from_arrow(X, backend="pyarrow")
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("X is a lazy frame, which holds no rows yet; call .collect() on it first.")
    if isinstance(frame, nw.DataFrame):
        _check_size(*frame.shape)
        names = _string_names(frame.columns)
        columns = [
            _frame_column(series, column_label(names, j)) for j, series in enumerate(frame.iter_columns())
        ]
        return Table(names, [str(label) for label in frame.columns], columns, len(frame))
    array = _to_array(X)
    _check_size(*array.shape)
    if array.dtype.kind in "fiub":
        # One pass for the whole matrix; each column is contiguous afterwards, which every later step likes.
        array = np.asfortranarray(array, dtype=np.float64)
    columns = [_column(column, column_label(None, j)) for j, column in enumerate(array.T)]
    return Table(None, None, columns, len(array))


def _check_size(n_rows: int, n_columns: int) -> None:
    for count, what in ((n_rows, "sample(s)"), (n_columns, "feature(s)")):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape=({n_rows}, {n_columns})) while a minimum of 1 is "
                "required. Check the filter or the query that made X."
            )


def _string_names(labels: Iterable[Any]) -> list[str] | None:
    """Column names as scikit-learn counts them: all strings are names, no strings are none."""
    labels = list(labels)
    strings = [isinstance(label, str) for label in labels]
    if any(strings) and not all(strings):
        other = labels[strings.index(False)]
        raise TypeError(
            f"The column names of X mix strings with other types, such as {other!r} "
            f"({type(other).__name__}). Feature names are only supported if all of them are strings: "
            "use X.columns = X.columns.astype(str)."
        )
    return [str(label) for label in labels] if all(strings) else None


def _to_array(X: Any) -> NDArray:
    """Two-dimensional array of whatever is no data frame."""
    array = to_array(X)
    if array.ndim == 0:
        raise ValueError(
            f"X must be a table with one row per case, such as a 2D array or a data frame; it is a "
            f"{type(X).__name__}."
        )
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: X is a {type(X).__name__} of shape "
            f"{array.shape}. Reshape your data to one row per case and one column per feature: "
            "X.reshape(-1, 1) or series.to_frame() if it is one feature, X.reshape(1, -1) if it is one row."
        )
    return array


def _frame_column(series: nw.Series[Any], label: str) -> NDArray:
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return _column(series.cast(nw.Float64).to_numpy(), label)
    if dtype in (nw.Categorical, nw.Enum):
        missing = series.is_null().to_numpy()
        # Missing cells go first: beside them, pandas hands out categories that are integers as floats.
        levels = series.drop_nulls().to_numpy()
        entries = np.full(len(missing), None, dtype=object)
        entries[~missing] = [_level_text(level) for level in levels]
        return _column(entries, label)
    if dtype.is_nested():
        if series.null_count() == len(series):
            return np.full(len(series), np.nan)
        raise TypeError(_neither_number_nor_string(label, str(dtype)))
    return _column(series.to_numpy(), label)


def _level_text(level: Any) -> str:
    """A category's text. 1.0 reads as 1: a column of codes turns to floats as soon as one cell is missing."""
    is_whole = isinstance(level, float | np.floating) and level.is_integer()
    return str(int(level)) if is_whole else str(level)


def _column(array: NDArray, label: str) -> NDArray:
    """One column (n,) of any dtype, as a table keeps it."""
    kind = array.dtype.kind
    if kind == "U" and all(map(is_number, array)):
        raise ValueError(
            f"There are numbers written as text, such as {str(array[0])!r}, in {label}: numpy made text of "
            "them, and of NaN, where they stood beside text. Build the array with dtype=object, which keeps "
            "numbers, text and NaN what they are."
        )
    if kind == "c":
        raise ValueError(_no_complex(label))
    if kind in "fiub":
        return _finite(array.astype(np.float64, copy=False), label)
    if kind in "Mm" and not np.isnat(array).all():
        raise TypeError(_no_times(label, array[~np.isnat(array)][0]))
    return _object_column(array.astype(object), label)


def _object_column(array: NDArray, label: str) -> NDArray:
    missing = missing_cells(array)
    observed = array[~missing].tolist()
    # Deciding by the few distinct types rather than by the many entries keeps this fast.
    types = {type(entry) for entry in observed}
    times = {t for t in types if issubclass(t, _TIMES)}
    strings = {t for t in types if issubclass(t, str)}
    numbers = {t for t in types - times if issubclass(t, Number | np.bool_)}

    def example(chosen: set[type]) -> Any:
        return next(entry for entry in observed if type(entry) in chosen)

    if times:
        raise TypeError(_no_times(label, example(times)))
    if others := types - strings - numbers:
        raise TypeError(_neither_number_nor_string(label, type(example(others)).__name__))
    if strings and numbers:
        raise ValueError(
            f"Numbers and strings are mixed in {label}, such as {example(numbers)!r} and "
            f"{example(strings)!r}. If it is a column of numbers, turn its strings into numbers or into "
            "missing values (pandas.to_numeric(..., errors='coerce')); if its entries are names of "
            "categories, turn all of them into strings."
        )
    if strings:
        column = np.full(len(array), None, dtype=object)
        column[~missing] = [str(entry) for entry in observed]
        return column
    if any(issubclass(t, complex | np.complexfloating) for t in types):
        raise ValueError(_no_complex(label))
    numeric = np.full(len(array), np.nan)
    try:
        numeric[~missing] = [float(entry) for entry in observed]
    except OverflowError as error:
        raise ValueError(_no_infinity(label, "a number too large for float64")) from error
    return _finite(numeric, label)


def _finite(column: Floats, label: str) -> Floats:
    infinite = np.isinf(column)
    if infinite.any():
        first = int(infinite.argmax())
        raise ValueError(_no_infinity(label, f"{column[first]} in row {first}"))
    return column


def _no_infinity(label: str, what: str) -> str:
    return (
        f"There are infinite values (inf) in {label}: {what}. "
        "Replace them with finite numbers, or with NaN where the value is not known."
    )


def _no_complex(label: str) -> str:
    return f"Complex data not supported: {label} holds complex numbers. Split them into two real columns."


def _no_times(label: str, example: Any) -> str:
    return (
        f"Dates, times and durations cannot be used as they are, and {label} holds {example}. Turn it into "
        "numbers that mean something for the prediction, such as the hour, the weekday, or the days since a "
        "fixed date, or leave it out."
    )


def _neither_number_nor_string(label: str, what: str) -> str:
    return (
        f"There are entries of type {what} in {label}, but every argument must be a string or a number, or "
        "missing. Turn the column into numbers or strings, or leave it out."
    )
