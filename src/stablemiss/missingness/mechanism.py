"""What every missingness mechanism can do, and how often each row loses its cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stablemiss.data import Bools, Floats, to_table
from stablemiss.seeding import Rng

# PAPER: the nine missing rates of the experiments.
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class Mechanism(ABC):
    """How cells of a table get hidden: a mechanism at a level.

    A mechanism never changes. `fit` and `at` return a mechanism, so one mechanism can be used at several levels side
    by side: ``train = MAR(0.1).fit(X, rng)`` and ``test = train.at(0.9)`` share their drivers and
    coefficients, while ``train.fit(X, rng)`` redraws them.

    Attributes
    ----------
    level : float
        Share of cells to hide, 0 to 1; each mechanism says of which cells. For `Resampled` None means as often as
        in its masks.

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
        """The mechanism with its mechanism fixed on the rows of X; this object stays as it is.

        Parameters
        ----------
        X : (n, d) numbers
            Rows like those to be hidden, complete where the rates shall be exact. Their order is irrelevant.
        rng : numpy Generator
            Draws what is random in the mechanism. Another generator gives another mechanism.
        """

    @abstractmethod
    def at(self, level: float) -> Self:
        """The same mechanism at another level, any number from 0 to 1."""

    @final
    def draw(self, X: ArrayLike, rng: Rng) -> Bools:
        """Draw which cells of X stay observed.

        Parameters
        ----------
        X : (n, d) numbers
            The rows to hide cells of. Cells that are NaN already count as hidden.
        rng : numpy Generator
            Draws the mask.

        Returns
        -------
        (n, d) bool
            True = observed.
        """
        table = to_table(X)
        return self.keep(table, rng) & ~np.isnan(table)

    @final
    def hide(self, X: ArrayLike, rng: Rng) -> Floats:
        """A float copy of X with NaN exactly where `draw` would say hidden for the same `rng`."""
        table = to_table(X)
        return np.where(self.draw(table, rng), table, np.nan)

    @abstractmethod
    def keep(self, table: Floats, rng: Rng) -> Bools:
        """The cells (n, d) this mechanism leaves observed, True = observed, for a table that has been checked."""


def draw_row_rates(n: int, level: float, spread: float, rng: Rng) -> Floats:
    """Each row's own missing rate: mostly `level`, sometimes one of the other levels of `LEVELS`.

    The rows are independent of each other and of everything else. A level of 0 or 1 has no spread: nothing
    hidden and everything hidden mean what they say.

    Parameters
    ----------
    n : int
        Number of rows.
    level : float
        The rate of most rows.
    spread : float
        Share of rows with another rate, all other levels equally likely. With 0.2 the mean rate is
        0.1125 + 0.775 · level for the nine levels. Raising it makes the levels more alike and the cells of
        a row more dependent: a row with one hidden cell is then more likely to have another.
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
    # DEVIATION: rates are drawn row by row because in sorted blocks, as in the authors' code, they follow the
    # order of the rows; where rows are sorted by mixture component that is not missing completely at random.
    others = np.array([other for other in LEVELS if not np.isclose(other, level)])
    is_other = rng.random(n) < spread
    rates[is_other] = rng.choice(others, size=int(is_other.sum()))
    return rates


def check_share(name: str, value: float) -> None:
    """Refuse a parameter that is no share from 0 to 1."""
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(
            f"{name} must be a share from 0 to 1, but {value!r} came. Write 50% as 0.5, for example."
        )


def check_columns(table: NDArray, n_columns: int) -> None:
    """Refuse a table whose width differs from the one the mechanism was made for."""
    if table.shape[1] != n_columns:
        raise ValueError(
            f"This mechanism was made for {n_columns} columns, but X has {table.shape[1]}. "
            "Pass the same columns in the same order, or fit the mechanism again."
        )


def unfitted(mechanism: Mechanism) -> RuntimeError:
    """The error for a mechanism that needs its mechanism before it can be used."""
    name = type(mechanism).__name__
    return RuntimeError(
        f"This {name} mechanism has no mechanism yet. `fit` returns the mechanism that has one: "
        f"write `mechanism = {name}(...).fit(X, rng)` and use that."
    )
