"""Missing not at random: the probability that a value is hidden depends on the value itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from numpy.typing import ArrayLike

from stablemiss.checks import check_number
from stablemiss.data import Bools, Floats, centre_and_scale, to_table
from stablemiss.missingness.logistic import deviations_from, draw_hidden, to_quantiles
from stablemiss.missingness.mechanism import (
    Mechanism,
    check_columns,
    draw_row_rates,
    not_fitted_error,
)
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class SelfMaskingModel:
    """Fitted parameters of `MNAR`, the same at every level.

    Attributes
    ----------
    centre, scale : (d,) float64
        Mean and standard deviation of the observed values of each column in the rows passed to `fit`. The
        scale of a constant column is infinite, so that its values have no influence.
    quantiles : (n_quantiles, d) float64
        Quantiles of the scores of the observed values passed to `fit`, from which the intercept for any rate
        is computed.
    """

    centre: Floats
    scale: Floats
    quantiles: Floats


@dataclass(frozen=True, eq=False)
class MNAR(Mechanism):
    """Missing not at random (self-masking): large values are more likely to be hidden.

    The probability is a logistic function of the standardised value, with intercepts that give each
    column the required missing rate. Such missingness is not ignorable: hidden values differ
    systematically from observed ones, and no method can fully correct that from the observed values alone.

    Parameters
    ----------
    level : float
        Missing rate of most rows, from 0 to 1. Raising it hides more values, large ones preferentially.
    slope : float, default=2.0
        Log-odds of being hidden per standard deviation of the value. Raising it makes the boundary between
        hidden and observed values sharper. At 0 the values have no influence; below 0 small values are
        hidden preferentially.
    spread : float, default=0.2
        Share of rows whose missing rate is another value from 0.1, 0.2, …, 0.9, as in the paper; see
        `draw_row_rates`.
        Raising it moves the mean rate towards one half. 0 gives all rows the same rate.

    Attributes
    ----------
    model : SelfMaskingModel or None
        Fitted parameters; None before `fit`.

    See Also
    --------
    MCARIndependent, MCARWindow : Missing completely at random.
    MAR : Missing at random.
    Only : Restricts a mechanism to some columns.

    Examples
    --------
    >>> import numpy as np
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
        check_number(self, level="[0, 1]", slope="[-1e6, 1e6]", spread="[0, 1]")

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """Return a copy calibrated on the rows of X. Nothing is random, so `rng` is not used."""
        table = to_table(X)
        if len(table) == 0:
            raise ValueError("MNAR must be fitted on at least one row; got X with no rows.")
        centre, scale = centre_and_scale(table)
        # Values that are already missing cannot be hidden, so the rate refers to the others.
        quantiles = to_quantiles(self.slope * (table - centre) / scale)
        return replace(self, model=SelfMaskingModel(centre, scale, quantiles))

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def _draw(self, table: Floats, rng: Rng) -> Bools:
        if self.model is None:
            raise not_fitted_error(self)
        centre, scale, quantiles = self.model.centre, self.model.scale, self.model.quantiles
        check_columns(table, len(centre))
        rates = draw_row_rates(len(table), self.level, self.spread, rng)
        return ~draw_hidden(self.slope * deviations_from(centre, table) / scale, quantiles, rates, rng)
