"""Missing completely at random: the missingness does not depend on any values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from stablemiss.checks import check_number
from stablemiss.data import Bools, Floats, to_table
from stablemiss.missingness.mechanism import Mechanism, draw_row_rates
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class MCARIndependent(Mechanism):
    """Missing completely at random: each value is hidden independently, with the missing rate of its row.

    With ``spread=0.2``, the mask values of a row are independent only given its rate: two of them have a
    correlation of 0.28 at level 0.1 or 0.9, and of 0.06 at level 0.5. With ``spread=0`` they are independent.

    Parameters
    ----------
    level : float
        Missing rate of most rows, from 0 to 1. Raising it hides more values.
    spread : float, default=0.2
        Share of rows whose missing rate is another value from 0.1, 0.2, …, 0.9, as in the paper; see
        `draw_row_rates`.
        Raising it moves the mean rate towards one half. 0 gives all rows the same rate.

    See Also
    --------
    MCARWindow : Hides neighbouring columns together.
    MAR : Missing at random.
    MNAR : Missing not at random.

    Examples
    --------
    >>> mechanism = MCARIndependent(level=0.3, spread=0.0)
    >>> mask = mechanism.draw(np.zeros((1000, 50)), np.random.default_rng(0))
    >>> bool(abs(mask.mean() - 0.7) < 0.01)
    True
    """

    level: float
    spread: float = 0.2

    def __post_init__(self) -> None:
        check_number(self, level="[0, 1]", spread="[0, 1]")

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """Return the mechanism itself, which has no parameters to fit."""
        to_table(X)
        return self

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def _draw(self, table: Floats, rng: Rng) -> Bools:
        rates = draw_row_rates(len(table), self.level, self.spread, rng)
        return rng.random(table.shape) >= rates[:, None]


@dataclass(frozen=True, eq=False)
class MCARWindow(Mechanism):
    """Missing completely at random: a window of neighbouring columns is hidden in each row.

    The window starts at a random column and wraps around after the last one. Its length is the missing rate
    of the row times the number of columns, rounded down, so a small rate hides nothing in a table with few
    columns.

    Parameters
    ----------
    level : float
        Missing rate of most rows, from 0 to 1. Raising it makes the windows longer.
    spread : float, default=0.2
        Share of rows whose missing rate is another value from 0.1, 0.2, …, 0.9, as in the paper; see
        `draw_row_rates`.
        Raising it makes the lengths vary more between rows. 0 gives all rows the same length.

    See Also
    --------
    MCARIndependent : Hides each value independently.
    Outage : Hides the same columns in every row.

    Examples
    --------
    >>> mechanism = MCARWindow(level=0.5, spread=0.0)
    >>> mechanism.draw(np.zeros((2, 10)), np.random.default_rng(0)).sum(axis=1).tolist()
    [5, 5]
    """

    level: float
    spread: float = 0.2

    def __post_init__(self) -> None:
        check_number(self, level="[0, 1]", spread="[0, 1]")

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """Return the mechanism itself, which has no parameters to fit."""
        to_table(X)
        return self

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def _draw(self, table: Floats, rng: Rng) -> Bools:
        n, d = table.shape
        rates = draw_row_rates(n, self.level, self.spread, rng)
        # PAPER: a window of ⌊n_features · rate⌋ consecutive columns at a random position.
        # AUTHORS' CODE: the start is uniform over all columns, and the window continues at the first column
        # after the last one (48% of the windows of rate 0.5 in 50 columns do).
        # The small constant prevents a rounding error: 0.29 · 100 is 28.999… in floating point.
        length = np.floor(d * rates + 1e-9)
        start = rng.integers(d, size=(n, 1))
        steps_from_start = (np.arange(d) - start) % d
        return steps_from_start >= length[:, None]
