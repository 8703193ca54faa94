"""Missing completely at random: nothing in the table decides what is hidden."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from stablemiss.data import Bools, Floats, to_table
from stablemiss.missingness.mechanism import Mechanism, check_share, draw_row_rates
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class MCARIndependent(Mechanism):
    """Every cell of a row is hidden with the row's own rate, independently of the other cells.

    With a spread the cells of a row are independent only once its rate is known: two mask bits correlate
    by 0.28 at level 0.1 or 0.9, by 0.06 at level 0.5. With ``spread=0`` they are independent.

    Parameters
    ----------
    level : float
        Rate of most rows, 0 to 1. Raising it hides more cells.
    spread : float
        Share of rows whose own rate is one of the other levels, as in the paper; see `draw_row_rates`.
        Raising it draws the mean rate towards one half. 0 turns it off.

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
        check_share("level", self.level)
        check_share("spread", self.spread)

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """This mechanism itself: there is nothing to fix."""
        to_table(X)
        return self

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def keep(self, table: Floats, rng: Rng) -> Bools:
        rates = draw_row_rates(len(table), self.level, self.spread, rng)
        return rng.random(table.shape) >= rates[:, None]


@dataclass(frozen=True, eq=False)
class MCARWindow(Mechanism):
    """A run of neighbouring columns is hidden in each row, starting anywhere and going round at the end.

    The run's length is the row's rate times the number of columns, rounded down: with few columns a small
    rate hides nothing.

    Parameters
    ----------
    level : float
        Rate of most rows, 0 to 1. Raising it makes the runs longer.
    spread : float
        Share of rows whose own rate is one of the other levels, as in the paper; see `draw_row_rates`.
        Raising it makes the lengths differ more between rows. 0 turns it off.

    Examples
    --------
    >>> mechanism = MCARWindow(level=0.5, spread=0.0)
    >>> mechanism.draw(np.zeros((2, 10)), np.random.default_rng(0)).sum(axis=1).tolist()
    [5, 5]
    """

    level: float
    spread: float = 0.2

    def __post_init__(self) -> None:
        check_share("level", self.level)
        check_share("spread", self.spread)

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """This mechanism itself: there is nothing to fix."""
        to_table(X)
        return self

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def keep(self, table: Floats, rng: Rng) -> Bools:
        n, d = table.shape
        rates = draw_row_rates(n, self.level, self.spread, rng)
        # PAPER: a window of ⌊n_features · rate⌋ columns with a uniform start. The small addition keeps the
        # product of a rate such as 0.29 and 100 columns, 28.999…, from losing a column.
        length = np.floor(d * rates + 1e-9)
        start = rng.integers(d, size=(n, 1))
        steps_from_start = (np.arange(d) - start) % d
        return steps_from_start >= length[:, None]
