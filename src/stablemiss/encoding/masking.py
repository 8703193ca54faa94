"""Masks of any table, and tables with further values hidden, in the library of the user's table."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, to_array
from stablemiss.encoding.table import Table, missing_entries


def observed_cells(table: Table) -> Bools:
    """Mask (n, d) of a table, True = observed.

    Examples
    --------
    >>> from stablemiss.encoding import read_table
    >>> observed_cells(read_table([[1.0, None], [2.0, "b"]])).tolist()
    [[True, False], [True, True]]
    """
    return np.column_stack([~missing_entries(column) for column in table.columns])


def numeric_columns(table: Table) -> Floats:
    """Columns as numbers (n, d), NaN where missing: categories by their rank, dates in seconds.

    Examples
    --------
    >>> from stablemiss.encoding import read_table
    >>> numeric_columns(read_table([["b"], ["a"], [None]])).ravel().tolist()
    [1.0, 0.0, nan]
    """
    return np.column_stack([_to_numbers(column) for column in table.columns])


def _to_numbers(column: NDArray) -> Floats:
    if column.dtype.kind == "f":
        return column
    numbers, observed = np.full(len(column), np.nan), ~missing_entries(column)
    if column.dtype == object:
        numbers[observed] = np.unique(column[observed].astype(str), return_inverse=True)[1]
    else:
        numbers[observed] = column[observed].astype(np.int64) / 1e6
    return numbers


def with_missing(X: Any, observed: Bools) -> Any:
    """The table with the values missing where `observed` is False, in the same library.

    Integers become floats, and booleans of pandas and numpy as well, if their type has no missing value. The
    table itself is not modified.

    Parameters
    ----------
    X : array-like or data frame, (n, d)
    observed : (n, d) bool
        True = stays as it is.

    Examples
    --------
    >>> import polars
    >>> table = polars.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    >>> with_missing(table, np.array([[True, False], [False, True]])).rows()
    [(1, None), (None, 'y')]
    """
    if nw.dependencies.is_pandas_dataframe(X):
        changed = np.flatnonzero(~observed.all(axis=0))
        if len(changed) > 1 and all(isinstance(t, np.dtype) and t.kind == "f" for t in X.dtypes):
            return X.where(observed)
        result = X.copy(deep=False)
        # Columns that stay as they are cost no time. By position, because labels need not be unique.
        for j in changed:
            column = X.iloc[:, j]
            # Booleans would become objects.
            column = column.astype(float) if column.dtype == bool else column
            result.isetitem(j, column.where(observed[:, j]))
        return result
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        masks = {
            name: nw.new_series("mask", mask.tolist(), nw.Boolean, backend=frame.implementation)
            for name, mask in zip(frame.columns, observed.T, strict=True)
            if not mask.all()
        }
        return frame.with_columns(
            nw.when(mask).then(nw.col(name)).alias(name) for name, mask in masks.items()
        ).to_native()
    array = to_array(X)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.kind == "f":
        return np.where(observed, array, np.nan).astype(array.dtype, copy=False)
    hidden_array = array.astype(object)
    hidden_array[~observed] = None
    return hidden_array


def take_rows(X: Any, rows: NDArray) -> Any:
    """Rows of a table of any library, in a given order, possibly repeated.

    Examples
    --------
    >>> take_rows([[1, 2], [3, 4]], np.array([1, 1])).tolist()
    [[3, 4], [3, 4]]
    """
    # By position: narwhals refuses duplicate labels, on which models may not depend.
    if nw.dependencies.is_pandas_dataframe(X):
        return X.iloc[rows]
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame[rows, :].to_native() if isinstance(frame, nw.DataFrame) else to_array(X)[rows]
