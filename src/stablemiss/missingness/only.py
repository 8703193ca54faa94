"""A mechanism restricted to some columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from stablemiss.checks import shown
from stablemiss.data import Bools, Floats, to_table
from stablemiss.missingness.mechanism import Mechanism
from stablemiss.missingness.outage import check_positions, to_positions
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class Only(Mechanism):
    """Applies another mechanism to some columns; the other columns are never hidden.

    The mechanism treats these columns as if they were the whole table, so its level refers to them alone.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism for the given columns.
    columns : sequence of int
        Positions of the columns that can be hidden, counted from 0. More columns hide more values.

    See Also
    --------
    Outage : Hides given columns completely.

    Examples
    --------
    >>> from stablemiss.missingness import MCARIndependent
    >>> mechanism = Only(MCARIndependent(1.0), columns=[1])
    >>> mechanism.hide([[1.0, 2.0], [3.0, 4.0]], np.random.default_rng(0)).tolist()
    [[1.0, nan], [3.0, nan]]
    """

    mechanism: Mechanism
    columns: Sequence[int]

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(
                f"mechanism must be a mechanism, such as MCARIndependent(0.5); got {shown(self.mechanism)}."
            )
        object.__setattr__(self, "columns", to_positions(self.columns))

    @property
    def level(self) -> float | None:  # type: ignore[override]
        """The level of the restricted mechanism."""
        return self.mechanism.level

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        table = to_table(X)
        check_positions(self.columns, table)
        return replace(self, mechanism=self.mechanism.fit(table[:, list(self.columns)], rng))

    def at(self, level: float) -> Self:
        return replace(self, mechanism=self.mechanism.at(level))

    def _draw(self, table: Floats, rng: Rng) -> Bools:
        check_positions(self.columns, table)
        columns = list(self.columns)
        observed = np.ones(table.shape, dtype=bool)
        if columns:
            observed[:, columns] = self.mechanism._draw(table[:, columns], rng)
        return observed
