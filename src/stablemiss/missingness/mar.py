"""Missing at random: the missingness depends on a few columns that are always observed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stablemiss.checks import check_number
from stablemiss.data import Bools, Floats, centre_and_scale, to_table
from stablemiss.missingness.logistic import deviations_from, draw_hidden, to_quantiles
from stablemiss.missingness.mechanism import (
    Mechanism,
    check_columns,
    draw_row_rates,
    not_fitted_error,
)
from stablemiss.seeding import Rng, check_rng


@dataclass(frozen=True, eq=False)
class DriverModel:
    """Fitted parameters of `MAR`, the same at every level.

    Attributes
    ----------
    drivers : (n_drivers,) int
        Columns that are always observed and determine the missingness of the others, ascending.
    driven : (n_driven,) int
        The other columns, ascending.
    centre : (n_drivers,) float64
        Mean of the observed values of each driver in the rows passed to `fit`; replaces missing values.
    coefficients : (n_drivers, n_driven) float64
        Log-odds of being hidden per unit of each driver.
    quantiles : (n_quantiles, n_driven) float64
        Quantiles of the scores of the rows passed to `fit`, from which the intercept for any rate is
        computed.
    """

    drivers: NDArray[np.int64]
    driven: NDArray[np.int64]
    centre: Floats
    coefficients: Floats
    quantiles: Floats

    @property
    def n_columns(self) -> int:
        return len(self.drivers) + len(self.driven)

    def scores(self, table: Floats) -> Floats:
        """Log-odds (n, n_driven) of being hidden, up to the intercept."""
        return deviations_from(self.centre, table[:, self.drivers]) @ self.coefficients


@dataclass(frozen=True, eq=False)
class MAR(Mechanism):
    """Missing at random: always-observed driver columns determine the missingness of the others.

    The probability that a value is hidden is a logistic function of the drivers in its row and does not
    depend on hidden values. The missingness is therefore ignorable, although masks and values are dependent.
    The missingness of each other column depends strongly on a random combination of the drivers: its log-odds
    have a standard deviation of 2 to 10. `level` refers to the columns that are not drivers, so the missing
    rate of the whole table is lower. In a table with one column nothing is hidden, because that column is a
    driver.

    Parameters
    ----------
    level : float
        Missing rate of the columns that are not drivers, in most rows, from 0 to 1. Raising it hides more of
        their values; the drivers and their coefficients do not change.
    driver_share : float, default=0.1
        Share of columns that are drivers, rounded down, but at least one column. Raising it leaves fewer
        columns that can be hidden, and makes each depend on more drivers.
    spread : float, default=0.2
        Share of rows whose missing rate is another value from 0.1, 0.2, …, 0.9, as in the paper; see
        `draw_row_rates`.
        Raising it moves the mean rate towards one half. 0 gives all rows the same rate.

    Attributes
    ----------
    model : DriverModel or None
        Fitted parameters; None before `fit`.

    See Also
    --------
    MCARIndependent, MCARWindow : Missing completely at random.
    MNAR : Missing not at random.
    Only : Restricts a mechanism to some columns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 20))
    >>> mechanism = MAR(level=0.5).fit(X, rng)
    >>> mask = mechanism.at(0.9).draw(X, rng)
    >>> len(mechanism.drivers), bool(mask[:, mechanism.drivers].all())
    (2, True)
    """

    level: float
    driver_share: float = 0.1
    spread: float = 0.2
    model: DriverModel | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_number(self, level="[0, 1]", driver_share="[0, 1]", spread="[0, 1]")

    @property
    def drivers(self) -> NDArray[np.int64]:
        """Indices of the columns that are always observed, ascending."""
        return self._fitted_model().drivers

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """Return a copy with drivers and coefficients drawn from `rng` and calibrated on the rows of X."""
        check_rng(rng)
        table = to_table(X)
        if len(table) == 0:
            raise ValueError("MAR must be fitted on at least one row; got X with no rows.")
        d = table.shape[1]
        # DEVIATION: at least one driver because ⌊0.1 d⌋ is zero for fewer than ten columns.
        n_drivers = max(1, int(np.floor(self.driver_share * d + 1e-9)))
        drivers = np.sort(rng.choice(d, size=n_drivers, replace=False))
        driven = np.setdiff1d(np.arange(d), drivers)

        centre, driver_scale = centre_and_scale(table[:, drivers])
        deviations = deviations_from(centre, table[:, drivers])
        # PAPER: a model whose parameters depend on the columns that are always observed.
        # AUTHORS' CODE: a logistic model with coefficients a_j ~ N(0, I), divided by t_j · sqrt(a_jᵀ Cov a_j)
        # with t_j ~ U[0.1, 0.5].
        # DEVIATION: coefficients are drawn once for all splits and levels, not at each call as in the
        # authors' code, because training and test would otherwise have different mechanisms at equal levels.
        coefficients = rng.normal(size=(n_drivers, len(driven)))
        # Drivers that are constant up to rounding must have no influence, because the division below would
        # amplify their rounding errors.
        coefficients[np.isinf(driver_scale)] = 0.0
        score_sd = (deviations @ coefficients).std(axis=0)
        scale = rng.uniform(0.1, 0.5, size=len(driven)) * score_sd
        coefficients /= np.where(scale == 0.0, 1.0, scale)
        quantiles = to_quantiles(deviations @ coefficients)
        return replace(self, model=DriverModel(drivers, driven, centre, coefficients, quantiles))

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def _draw(self, table: Floats, rng: Rng) -> Bools:
        model = self._fitted_model()
        check_columns(table, model.n_columns)
        rates = draw_row_rates(len(table), self.level, self.spread, rng)
        observed = np.ones(table.shape, dtype=bool)
        observed[:, model.driven] = ~draw_hidden(model.scores(table), model.quantiles, rates, rng)
        return observed

    def _fitted_model(self) -> DriverModel:
        if self.model is None:
            raise not_fitted_error(self)
        return self.model
