"""Outage: whole columns are hidden, as when a sensor fails or a data supplier stops delivering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from stablemiss.checks import check_number, shown
from stablemiss.data import Bools, Floats, to_table
from stablemiss.missingness.mechanism import Mechanism
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class Outage(Mechanism):
    """Hides given columns together in a share of the rows.

    A row loses either all of these columns or none of them. All rows have the same probability.

    Parameters
    ----------
    columns : sequence of int
        Positions of the columns to hide, counted from 0. More columns make a larger outage.
    level : float, default=1.0
        Probability that a row is affected, from 0 to 1. Raising it affects more rows; 1 affects all.

    See Also
    --------
    Only : Restricts any mechanism to some columns.
    MCARWindow : Hides neighbouring columns, different ones in each row.

    Examples
    --------
    >>> Outage(columns=[1]).hide([[1.0, 2.0], [3.0, 4.0]], np.random.default_rng(0)).tolist()
    [[1.0, nan], [3.0, nan]]
    """

    columns: Sequence[int]
    level: float = 1.0

    def __post_init__(self) -> None:
        check_number(self, level="[0, 1]")
        object.__setattr__(self, "columns", to_positions(self.columns))

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """Return the mechanism itself after checking that X has the given columns."""
        check_positions(self.columns, to_table(X))
        return self

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def _draw(self, table: Floats, rng: Rng) -> Bools:
        check_positions(self.columns, table)
        is_affected = rng.random(len(table)) < self.level
        observed = np.ones(table.shape, dtype=bool)
        observed[np.ix_(np.flatnonzero(is_affected), np.array(self.columns, dtype=np.int64))] = False
        return observed


def to_positions(columns: Sequence[int]) -> tuple[int, ...]:
    """Convert column positions to a tuple of int; raise ValueError if that is impossible."""
    try:
        if isinstance(columns, str | bytes | Mapping) or any(isinstance(column, bool) for column in columns):
            raise TypeError("text, dictionaries, True and False are not positions")
        return tuple(index(column) for column in columns)
    except TypeError as error:
        raise ValueError(
            f"columns must be a sequence of column positions such as [0, 3]; got {shown(columns)}."
        ) from error


def check_positions(columns: Sequence[int], table: Floats) -> None:
    """Raise ValueError if the table does not have one of the columns."""
    d = table.shape[1]
    absent = [column for column in columns if not 0 <= column < d]
    if absent:
        raise ValueError(
            f"The mechanism refers to columns {absent}, but X has columns 0 to {d - 1}. "
            "Specify columns by position, counted from 0."
        )
