"""Missing not at random: a cell's own value decides how likely it is hidden."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from stablemiss.data import Bools, Floats, centre_and_scale, to_table
from stablemiss.missingness.logistic import deviations_from, draw_hidden, to_points
from stablemiss.missingness.mechanism import Mechanism, check_columns, check_share, draw_row_rates, unfitted
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class SelfMaskingModel:
    """What `MNAR.fit` fixes, whatever the level.

    Attributes
    ----------
    center, scale : (d,) float64
        Mean and standard deviation of each column over its observed reference cells; the scale of a constant
        column is infinite, so that its values decide nothing.
    points : (n_points, d) float64
        Scores of the observed reference cells, from `to_points`; intercepts for any rate are found on them.
    """

    center: Floats
    scale: Floats
    points: Floats


@dataclass(frozen=True, eq=False)
class MNAR(Mechanism):
    """Each cell hides itself: the larger its own value, the likelier it is hidden.

    The chance follows a logistic curve of the cell's standardised value, with an intercept per column that
    makes the mean chance the row's rate. Such missingness is not ignorable: what is hidden differs from what
    is seen, and no method can fully undo that from the observed cells alone.

    Parameters
    ----------
    level : float
        Rate of most rows, 0 to 1. Raising it hides more cells, starting from the large values.
    slope : float
        Log-odds of being hidden per standard deviation of the value. Raising it makes the cut between hidden
        and seen values sharper; 0 makes the values irrelevant; below 0 small values are hidden first.
    spread : float
        Share of rows whose own rate is one of the other levels, as in the paper; see `draw_row_rates`.
        Raising it draws the mean rate towards one half. 0 turns it off.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> mask = MNAR(level=0.5).fit(X, rng).draw(X, rng)
    >>> bool(X[mask].mean() < X[~mask].mean())
    True
    """

    level: float
    slope: float = 2.0
    spread: float = 0.2
    model: SelfMaskingModel | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_share("level", self.level)
        check_share("spread", self.spread)
        if not np.isfinite(self.slope):
            raise ValueError(f"slope must be a finite number, but {self.slope!r} came. Try 2.0.")

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """The mechanism calibrated on the rows of X. Nothing in it is random, so `rng` is left alone."""
        table = to_table(X)
        if len(table) == 0:
            raise ValueError("MNAR calibrates its chances on rows, but X has none. Fit it on at least one.")
        center, scale = centre_and_scale(table)
        # Cells that are missing already cannot be hidden, so the rate is that among the others.
        points = to_points(self.slope * (table - center) / scale)
        return replace(self, model=SelfMaskingModel(center, scale, points))

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def keep(self, table: Floats, rng: Rng) -> Bools:
        if self.model is None:
            raise unfitted(self)
        center, scale, points = self.model.center, self.model.scale, self.model.points
        check_columns(table, len(center))
        rates = draw_row_rates(len(table), self.level, self.spread, rng)
        return ~draw_hidden(self.slope * deviations_from(center, table) / scale, points, rates, rng)
