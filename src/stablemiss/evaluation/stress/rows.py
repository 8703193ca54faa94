"""The rows on which models are tested."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.encoding import numeric_columns, observed_cells, read_table, take_rows, with_missing


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
        X, y = (X, y) if index is None else (take_rows(X, index), y[index])
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
