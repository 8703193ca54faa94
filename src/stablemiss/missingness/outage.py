"""Outage: chosen columns go dark, as when a sensor fails or a supplier stops delivering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from stablemiss.data import Bools, Floats, to_table
from stablemiss.missingness.mechanism import Mechanism, check_share
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class Outage(Mechanism):
    """Chosen columns are hidden together in a share of the rows; all other cells stay as they are.

    A row loses either all of the chosen columns or none. Every row has the same chance, so there is no
    spread of rates.

    Parameters
    ----------
    columns : sequence of int
        Positions of the columns that go dark, counted from 0. More columns make a larger outage.
    level : float
        Chance of each row to be hit, 0 to 1. Raising it darkens more rows; 1 darkens all.

    Examples
    --------
    >>> Outage(columns=[1]).hide([[1.0, 2.0], [3.0, 4.0]], np.random.default_rng(0)).tolist()
    [[1.0, nan], [3.0, nan]]
    """

    columns: Sequence[int]
    level: float = 1.0

    def __post_init__(self) -> None:
        check_share("level", self.level)
        object.__setattr__(self, "columns", to_positions(self.columns))

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """This mechanism itself, once the chosen columns are found to be columns of X."""
        check_positions(self.columns, to_table(X))
        return self

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def keep(self, table: Floats, rng: Rng) -> Bools:
        check_positions(self.columns, table)
        is_hit = rng.random(len(table)) < self.level
        observed = np.ones(table.shape, dtype=bool)
        observed[np.ix_(np.flatnonzero(is_hit), np.array(self.columns, dtype=np.int64))] = False
        return observed


def to_positions(columns: Sequence[int]) -> tuple[int, ...]:
    """Column positions as whole numbers, or an error that says what a position is."""
    try:
        if any(isinstance(column, bool) for column in columns):
            raise TypeError("True and False are no positions")
        return tuple(index(column) for column in columns)
    except TypeError as error:
        raise ValueError(
            f"columns must be a sequence of column positions such as [0, 3], but {columns!r} came."
        ) from error


def check_positions(columns: Sequence[int], table: Floats) -> None:
    """Refuse positions of columns that the table does not have."""
    d = table.shape[1]
    absent = [column for column in columns if not 0 <= column < d]
    if absent:
        raise ValueError(
            f"The mechanism names columns {absent}, but X has columns 0 to {d - 1}. "
            "Name columns by their position, counted from 0."
        )
