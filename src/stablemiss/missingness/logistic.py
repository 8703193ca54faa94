"""Logistic missingness probabilities, with intercepts that give each column the required missing rate."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from stablemiss.data import Bools, Floats
from stablemiss.seeding import Rng

# Number of quantiles kept per column. The error of the mean probability is then well below 0.001.
_N_POINTS = 1024


def deviations_from(centre: Floats, columns: Floats) -> Floats:
    """Difference between each value (n, d) and the `centre` of its column; zero for missing values."""
    return np.nan_to_num(columns - centre, nan=0.0)


def to_points(scores: Floats) -> Floats:
    """Summarise the scores (n, d) of the reference rows by equally likely points (at most 1024, d).

    The points are quantiles at the midpoints of equal steps. Intercepts for any rate can be computed from
    them later, without the rows. NaN is ignored; a column with no scores gets zeros.
    """
    observed = ~np.isnan(scores)
    if len(scores) <= _N_POINTS and observed.all():
        return scores
    steps = (np.arange(_N_POINTS) + 0.5) / _N_POINTS
    ranks = (steps[:, None] * observed.sum(axis=0)).astype(np.int64)
    # Sorting puts NaN last.
    return np.nan_to_num(np.take_along_axis(np.sort(scores, axis=0), ranks, axis=0), nan=0.0)


def find_intercepts(points: Floats, rate: float) -> Floats:
    """Find the intercept (d,) of each column at which the mean of σ(score + intercept) is `rate`.

    Parameters
    ----------
    points : (n, d)
        Equally likely scores of each column.
    rate : float
        The required mean probability. 0 and 1 give intercepts of minus and plus infinity.
    """
    if rate in (0, 1):
        return np.full(points.shape[1], logit(rate))
    # The minimum and the maximum score give bounds of the intercept.
    low, high = logit(rate) - points.max(axis=0), logit(rate) - points.min(axis=0)
    intercepts = (low + high) / 2
    for _ in range(200):
        probabilities = expit(points + intercepts)
        excess = probabilities.mean(axis=0) - rate
        if (np.abs(excess) < 1e-10).all():
            break
        low, high = np.where(excess < 0, intercepts, low), np.where(excess > 0, intercepts, high)
        # Newton steps converge fast, but may leave the bracket if most probabilities are 0 or 1: bisect then.
        slope = np.maximum((probabilities * (1 - probabilities)).mean(axis=0), 1e-300)
        newton = intercepts - excess / slope
        intercepts = np.where((low < newton) & (newton < high), newton, (low + high) / 2)
    return intercepts


def draw_hidden(scores: Floats, points: Floats, rates: Floats, rng: Rng) -> Bools:
    """Hide each value with probability σ(score + intercept), with the intercept for the rate of its row.

    Parameters
    ----------
    scores : (n, d)
        Values with larger scores are more likely to be hidden.
    points : (n_points, d)
        Scores on which the intercepts are calibrated, from `to_points`.
    rates : (n,)
        Missing rate of each row, on average over the scores in `points`.
    rng : numpy Generator
        Draws which values are hidden.

    Returns
    -------
    (n, d) bool
        True = hidden.
    """
    uniform = rng.random(scores.shape)
    hidden = np.empty(scores.shape, dtype=bool)
    for rate in np.unique(rates):
        rows = rates == rate
        hidden[rows] = uniform[rows] < expit(scores[rows] + find_intercepts(points, rate))
    return hidden
