"""A law that reaches some columns only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from stablemiss.data import Bools, Floats, to_table
from stablemiss.missingness.law import Law
from stablemiss.missingness.outage import check_positions, to_positions
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class Only(Law):
    """Another law on chosen columns; all other cells stay as they are.

    The law sees the chosen columns as if they were the whole table: its level is the share hidden of these.

    Parameters
    ----------
    law : Law
        How cells of the chosen columns get hidden.
    columns : sequence of int
        Positions of the columns within reach, counted from 0.

    Examples
    --------
    >>> from stablemiss.missingness import MCARIndependent
    >>> law = Only(MCARIndependent(1.0), columns=[1])
    >>> law.hide([[1.0, 2.0], [3.0, 4.0]], np.random.default_rng(0)).tolist()
    [[1.0, nan], [3.0, nan]]
    """

    law: Law
    columns: Sequence[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", to_positions(self.columns))

    @property
    def level(self) -> float | None:  # type: ignore[override]
        """The level of the law within."""
        return self.law.level

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        table = to_table(X)
        check_positions(self.columns, table)
        return replace(self, law=self.law.fit(table[:, list(self.columns)], rng))

    def at(self, level: float) -> Self:
        return replace(self, law=self.law.at(level))

    def keep(self, table: Floats, rng: Rng) -> Bools:
        check_positions(self.columns, table)
        columns = list(self.columns)
        observed = np.ones(table.shape, dtype=bool)
        if columns:
            observed[:, columns] = self.law.keep(table[:, columns], rng)
        return observed
