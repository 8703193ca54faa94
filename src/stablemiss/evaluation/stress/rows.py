"""The rows on which models are tested."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, missing_cells, to_array
from stablemiss.encoding import numeric_columns, observed_cells, read_table, with_missing


@dataclass(frozen=True, eq=False)
class TestRows:
    """A table, its target, and what is needed to hide further values.

    Attributes
    ----------
    X : table, (n, d)
        As the user gave it.
    y : (n,) or (n, n_outputs)
        Numbers or class labels.
    observed : (n, d) bool
        True = observed.
    numbers : (n, d) float64
        The values as numbers, on which mechanisms depend; medians where missing.
    names : list of str or None
        Names of the columns; None if they have none.
    is_classification : bool
        Whether y holds class labels.
    """

    # pytest would collect a class with this name as a test.
    __test__ = False

    X: Any
    y: NDArray
    observed: Bools
    numbers: Floats
    names: list[str] | None
    is_classification: bool = False

    @classmethod
    def of(
        cls, X: Any, y: NDArray, index: NDArray | None = None, is_classification: bool = False
    ) -> TestRows:
        """Read a table.

        Parameters
        ----------
        X : table, (n, d)
        y : (n,) or (n, n_outputs)
        index : (n_selected,) int, default=None
            Positions of the rows to keep; None keeps all.
        is_classification : bool, default=False

        Examples
        --------
        >>> rows = TestRows.of([[1.0, "a"], [None, "b"], [4.0, None]], np.arange(3.0))
        >>> rows.numbers.tolist()
        [[1.0, 0.0], [2.5, 1.0], [4.0, 0.5]]
        """
        # Selected before they are read, so that the copies are small.
        X, y = take_rows(X, index), (y if index is None else y[index])
        table = read_table(X)
        numbers, observed = numeric_columns(table), observed_cells(table)
        for column, is_observed in zip(numbers.T, observed.T, strict=True):
            column[~is_observed] = np.median(column[is_observed]) if is_observed.any() else 0.0
        return cls(X, y, observed, numbers, table.names, is_classification)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_columns(self) -> int:
        return self.observed.shape[1]

    def column_name(self, position: int) -> str:
        """Name of a column, or its position, counted from 0."""
        return str(position) if self.names is None else self.names[position]

    def rows(self, index: NDArray) -> TestRows:
        """Select rows."""
        X, y = take_rows(self.X, index), self.y[index]
        return replace(self, X=X, y=y, observed=self.observed[index], numbers=self.numbers[index])

    def masked(self, observed: Bools) -> Any:
        """The table with missing values where `observed` (n, d) is False."""
        # What is missing already need not be hidden, so that most columns stay as they are.
        return with_missing(self.X, observed | ~self.observed)


def take_rows(X: Any, index: NDArray | None) -> Any:
    """Rows of any table, in the same library; all of them, without a copy, if `index` is None.

    Examples
    --------
    >>> take_rows([[1, 2], [3, 4]], np.array([1])).tolist()
    [[3, 4]]
    """
    if index is None:
        return X
    # By position: narwhals refuses duplicate labels, on which models may not depend.
    if nw.dependencies.is_pandas_dataframe(X):
        return X.iloc[index]
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame[index, :].to_native() if isinstance(frame, nw.DataFrame) else to_array(X)[index]


def read_target(y: Any, n_rows: int, is_classification: bool) -> NDArray:
    """The target as an array; raises ValueError if models cannot be tested on it.

    Parameters
    ----------
    y : array-like, (n,) or (n, n_outputs)
    n_rows : int
        Number of rows of the table.
    is_classification : bool
        Whether y holds class labels, which then must be in one dimension.
    """
    target = np.asarray(y)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim not in ((1,) if is_classification else (1, 2)) or len(target) != n_rows:
        raise ValueError(
            f"y must have one entry for each of the {n_rows:,} rows of X; got shape {target.shape}."
        )
    if n_rows < 2:
        raise ValueError(
            f"A stress test compares errors over rows, so it needs at least 2 rows; got {n_rows}."
        )
    if not is_classification:
        try:
            target = target.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "y must be numeric for regressors, but some entries are not numbers. Use classifiers for "
                "class labels."
            ) from error
    missing = missing_cells(target if target.dtype.kind in "fiub" else target.astype(object))
    if missing.any() or (target.dtype.kind == "f" and np.isinf(target).any()):
        raise ValueError(
            "y must be known and finite in all rows, but some entries are missing or infinite. Drop these "
            "rows of X and y."
        )
    return target
