"""Base class of the missingness mechanisms, and the missing rates of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stablemiss.data import Bools, Floats, to_table
from stablemiss.seeding import Rng, check_rng

# PAPER: the nine missing rates of the experiments.
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class Mechanism(ABC):
    """Base class of the missingness mechanisms: how values of a table are hidden, and how many.

    A mechanism is immutable. `fit` and `at` return a new mechanism, so the same mechanism can be used at
    several levels: ``train = MAR(0.1).fit(X, rng)`` and ``test = train.at(0.9)`` share their drivers and
    coefficients, while ``train.fit(X, rng)`` draws new ones.

    Attributes
    ----------
    level : float or None
        Share of values to hide, from 0 to 1. Each subclass documents which values it refers to. None is
        allowed only for `Resampled` and means the share of missing values in its masks.

    See Also
    --------
    MCARIndependent, MCARWindow : Missing completely at random.
    MAR : Missing at random.
    MNAR : Missing not at random.
    Outage : Whole columns are hidden.
    SensorOutage : Columns are hidden for many rows in a row.
    Resampled : Masks of another table.
    Only : Restricts a mechanism to some columns.

    Examples
    --------
    >>> from stablemiss.missingness import MCARWindow
    >>> rng = np.random.default_rng(0)
    >>> mechanism = MCARWindow(level=0.5, spread=0.0)
    >>> mechanism.draw(np.zeros((3, 4)), rng).sum(axis=1).tolist()
    [2, 2, 2]
    >>> int(np.isnan(mechanism.at(0.75).hide(np.zeros((3, 4)), rng)).sum())
    9
    """

    level: float | None

    @abstractmethod
    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """Return a copy whose parameters (drivers, coefficients, intercepts) are fixed on the rows of X.

        Parameters
        ----------
        X : (n, d) numbers
            Rows from the same distribution as those to be hidden. The missing rates are exact if these
            rows are complete. The order of the rows does not matter.
        rng : numpy Generator
            Draws the random parameters of the mechanism.
        """

    @abstractmethod
    def at(self, level: float) -> Self:
        """Return the same mechanism at another level, from 0 to 1."""

    @final
    def draw(self, X: ArrayLike, rng: Rng) -> Bools:
        """Draw which values of X stay observed.

        Parameters
        ----------
        X : (n, d) numbers
            The rows to draw a mask for. Values that are already NaN count as hidden.
        rng : numpy Generator
            Draws the mask.

        Returns
        -------
        (n, d) bool
            True = observed.
        """
        check_rng(rng)
        table = to_table(X)
        return self._draw(table, rng) & ~np.isnan(table)

    @final
    def hide(self, X: ArrayLike, rng: Rng) -> Floats:
        """Return a float copy of X with NaN exactly where `draw` returns False for the same `rng`."""
        table = to_table(X)
        return np.where(self.draw(table, rng), table, np.nan)

    @abstractmethod
    def _draw(self, table: Floats, rng: Rng) -> Bools:
        """Draw a mask (n, d), True = observed. Implemented by subclasses; `draw` checks the table first."""


def draw_row_rates(n: int, level: float, spread: float, rng: Rng) -> Floats:
    """Draw the missing rate of each row: usually `level`, sometimes one of the other values in `LEVELS`.

    The rates are independent of each other and of the data. At level 0 or 1 all rows have that rate.

    Parameters
    ----------
    n : int
        Number of rows.
    level : float
        The rate of most rows.
    spread : float
        Share of rows whose rate is drawn uniformly from the other values in `LEVELS`. With 0.2 the mean rate
        is 0.1125 + 0.775 · level for the nine levels. Raising it reduces the differences between levels and
        increases the dependence between the mask values of a row: a row with one hidden value is then more
        likely to have another one.
    rng : numpy Generator
        Draws the rates.

    Returns
    -------
    (n,) float64

    Examples
    --------
    >>> rates = draw_row_rates(10_000, level=0.1, spread=0.2, rng=np.random.default_rng(0))
    >>> bool(abs(np.mean(rates == 0.1) - 0.8) < 0.02)
    True
    """
    rates = np.full(n, level, dtype=np.float64)
    if level in (0, 1):
        return rates
    # PAPER: 80% of the rows at the level itself, 2.5% at each of the other eight.
    # DEVIATION: rates are drawn independently for each row, not in sorted blocks as in the authors' code,
    # because otherwise, in a table sorted by mixture component, the mask would depend on the values.
    other_levels = np.array([candidate for candidate in LEVELS if not np.isclose(candidate, level)])
    is_other = rng.random(n) < spread
    rates[is_other] = rng.choice(other_levels, size=int(is_other.sum()))
    return rates


def check_columns(table: NDArray, n_columns: int) -> None:
    """Raise ValueError unless the table has as many columns as the mechanism was fitted on."""
    if table.shape[1] != n_columns:
        raise ValueError(
            f"This mechanism was fitted on {n_columns} columns, but X has {table.shape[1]}. "
            "Pass the same columns in the same order, or fit the mechanism again."
        )


def not_fitted_error(mechanism: Mechanism) -> Exception:
    """The error for a mechanism that is used before it was fitted."""
    # Imported here, because views of stored results know mechanisms and start without scikit-learn.
    from sklearn.exceptions import NotFittedError

    name = type(mechanism).__name__
    return NotFittedError(
        f"{name} must be fitted before it is used: mechanism = {name}(...).fit(X, rng). "
        "`fit` returns a new, fitted mechanism."
    )
