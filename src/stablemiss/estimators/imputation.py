"""Tables completed with the values that a mixture expects."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, to_array
from stablemiss.encoding import TableEncoder, read_table
from stablemiss.encoding.columns import DTYPE_KINDS
from stablemiss.encoding.encoded import listed
from stablemiss.encoding.fitted import Encoding
from stablemiss.encoding.matching import match_columns
from stablemiss.encoding.table import category_text, missing_entries
from stablemiss.mixture import GaussianMixture


def expected_values(mixture: GaussianMixture, values: Floats, mask: Bools) -> Floats:
    """E[x | observed values] of encoded rows, (n, d).

    Parameters
    ----------
    mixture : GaussianMixture
        Over d features, followed by targets, which are ignored.
    values, mask : (n, d)
        Encoded rows; mask True = observed.
    """
    d = values.shape[1]
    features = GaussianMixture(mixture.weights, mixture.means[:, :d], mixture.covariances[:, :d, :d])
    return features.conditional_mean(values, mask)


def complete_table(X: Any, encoder: TableEncoder, expected: Floats, allow_missing_columns: bool) -> Any:
    """A copy of a table in which missing entries are replaced; all other entries stay as they are.

    Parameters
    ----------
    X : table
        As in `predict`.
    encoder : TableEncoder
        Fitted.
    expected : (n, d)
        Encoded values of the rows.
    allow_missing_columns : bool
        Whether `X` may lack columns. They are not added.
    """
    table, encoding = read_table(X), Encoding.of(encoder)
    matched = match_columns(
        table,
        encoder.labels,
        encoder.n_features,
        is_numbered=encoder.is_numbered,
        dispensable=set(encoder.labels or ()),
        allow_missing_columns=allow_missing_columns,
        estimator_name="the model",
    )
    position_of = {id(column): i for i, column in enumerate(table.columns)}
    entries: dict[int, tuple[NDArray[np.int64], NDArray]] = {}
    incomplete: list[str] = []
    for j, column in enumerate(matched):
        if column is None:
            continue
        rows = np.flatnonzero(missing_entries(column))
        if not len(rows):
            continue
        if encoder.kinds[j] in DTYPE_KINDS:
            entries[position_of[id(column)]] = (
                rows,
                encoding.decode(j, expected[rows][:, encoder.groups == j]),
            )
        else:
            incomplete.append(repr(encoder.column_name(j)))
    if incomplete:
        # Level 3 is the call of the user: 1 is this function, 2 `impute`.
        warnings.warn(
            f"Missing values remain in {listed(incomplete)}: in training, such columns were constant, never "
            "observed, or text in which no entry occurred twice, so nothing is known about them. Drop them.",
            UserWarning,
            stacklevel=3,
        )
    return _with_entries(X, entries)


def _with_entries(X: Any, entries: dict[int, tuple[NDArray[np.int64], NDArray]]) -> Any:
    """A copy of a table with other entries in some rows: position of a column → (rows, new entries)."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        array = to_array(X).copy()
        for i, (rows, new) in entries.items():
            convert = _converter_of_objects(array[:, i]) if array.dtype == object else float
            array[rows, i] = [convert(entry) for entry in new.tolist()]
        return array
    replaced = []
    for i, (rows, new) in entries.items():
        series = frame[:, i]
        replaced.append(_with_new_entries(series, rows, new))
    return frame.with_columns(*replaced).to_native() if replaced else frame.clone().to_native()


def _with_new_entries(series: nw.Series[Any], rows: NDArray[np.int64], new: NDArray) -> nw.Series[Any]:
    """A column with other entries in some rows, of the same type."""
    dtype, native = series.dtype, series.to_native()
    if dtype in (nw.Categorical, nw.Enum) and series.implementation.is_pandas_like():
        return _with_new_categories(series, rows, new)
    convert = _converter_of_objects(series.to_numpy()) if dtype == nw.Object else _converter(dtype)
    converted = [convert(entry) for entry in new.tolist()]
    if series.implementation.is_pandas_like():
        native = native.copy()
        # As one object array: a list of dates or decimals might be converted otherwise.
        native.iloc[rows] = converted
        return nw.from_native(native, series_only=True)
    if series.implementation.is_pyarrow():
        return _with_new_arrow_entries(series, rows, converted)
    if dtype in (nw.Categorical, nw.Enum):
        return series.cast(nw.String).scatter(rows.tolist(), converted).cast(dtype)
    values = nw.new_series("new", converted, dtype, backend=series.implementation)
    return series.scatter(rows.tolist(), values)


def _with_new_arrow_entries(
    series: nw.Series[Any], rows: NDArray[np.int64], new: list[Any]
) -> nw.Series[Any]:
    import pyarrow

    native = series.to_native()
    # A dictionary may lack the new entries.
    stored = native.type.value_type if pyarrow.types.is_dictionary(native.type) else native.type
    old = native.cast(stored)
    # Appended and then selected, because arrow cannot replace entries of every type.
    index = np.arange(len(series))
    index[rows] = len(series) + np.arange(len(rows))
    both = pyarrow.chunked_array([*old.chunks, pyarrow.array(new, type=stored)], type=stored)
    replaced = both.take(pyarrow.array(index))
    return nw.from_native(replaced.cast(native.type), series_only=True).alias(series.name)


def _with_new_categories(series: nw.Series[Any], rows: NDArray[np.int64], new: NDArray) -> nw.Series[Any]:
    """The same for a categorical column of pandas."""
    native = series.to_native().copy()
    # Categories that are integers were read as text.
    category_of = {category_text(category): category for category in native.cat.categories}
    absent = sorted({text for text in new.tolist() if text not in category_of})
    if absent:
        native = native.cat.add_categories(absent)
    native.iloc[rows] = [category_of.get(text, text) for text in new.tolist()]
    return nw.from_native(native, series_only=True)


def _converter(dtype: Any) -> Callable[[Any], Any]:
    """Function that converts a number, text or datetime to an entry of a column of this type."""
    if dtype.is_integer():
        return lambda number: int(np.rint(number))
    if dtype == nw.Boolean:
        return lambda number: bool(number >= 0.5)
    if dtype.is_decimal():
        return lambda number: Decimal(repr(number))
    if dtype == nw.Duration:
        return lambda seconds: timedelta(seconds=seconds)
    if dtype == nw.Datetime and dtype.time_zone is not None:
        from zoneinfo import ZoneInfo

        zone = ZoneInfo(dtype.time_zone)
        return lambda moment: moment.replace(tzinfo=zone)
    if dtype == nw.Date:
        return lambda moment: moment.date()
    if dtype == nw.Time:
        return lambda moment: moment.time()
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return _to_text
    return lambda entry: entry


def _converter_of_objects(column: NDArray) -> Callable[[Any], Any]:
    """Function that converts a number, text or datetime to the type of the first observed object."""
    table_column = read_table(np.asarray(column, dtype=object)[:, None]).columns[0]
    observed = np.asarray(column, dtype=object)[~missing_entries(table_column)]
    example = observed[0] if len(observed) else None
    if isinstance(example, bool | np.bool_):
        return lambda number: bool(number >= 0.5)
    if isinstance(example, int | np.integer):
        return lambda number: int(np.rint(number))
    if isinstance(example, Decimal):
        return lambda number: Decimal(repr(number))
    if isinstance(example, timedelta):
        return lambda seconds: timedelta(seconds=seconds)
    if isinstance(example, time):
        return lambda moment: moment.time()
    if isinstance(example, date) and not isinstance(example, datetime):
        return lambda moment: moment.date()
    return _to_text if isinstance(example, str) else lambda entry: entry


def _to_text(entry: Any) -> str:
    """Text of a category, or of a date as in 2014-10-13."""
    if not isinstance(entry, datetime):
        return str(entry)
    return str(entry.date()) if entry.time() == time() else entry.isoformat(sep=" ")
