"""Chances that grow with a score, with an intercept per column that makes their mean the wanted rate."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from stablemiss.data import Bools, Floats
from stablemiss.seeding import Rng

# So many points stand for the scores of a column; the mean chance is then right to well below 0.001.
_N_POINTS = 1024


def deviations_from(center: Floats, columns: Floats) -> Floats:
    """How far each cell (n, d) lies from its column's `center`; a missing cell counts as lying on it."""
    return np.nan_to_num(columns - center, nan=0.0)


def to_points(scores: Floats) -> Floats:
    """Equally likely points (at most 1024, d) that stand for the scores (n, d) of the reference rows.

    Quantiles at the middle of equal steps, so intercepts for any rate can be found later without the rows.
    Each column's are those of its scores that are not NaN; zeros where there are none.
    """
    seen = ~np.isnan(scores)
    if len(scores) <= _N_POINTS and seen.all():
        return scores
    steps = (np.arange(_N_POINTS) + 0.5) / _N_POINTS
    ranks = (steps[:, None] * seen.sum(axis=0)).astype(np.int64)
    # Sorting puts NaN last.
    return np.nan_to_num(np.take_along_axis(np.sort(scores, axis=0), ranks, axis=0), nan=0.0)


def find_intercepts(points: Floats, rate: float) -> Floats:
    """The intercept (d,) of each column at which the mean of σ(score + intercept) is `rate`.

    Parameters
    ----------
    points : (n, d)
        Equally likely scores of each column.
    rate : float
        The wanted mean chance. 0 and 1 give intercepts of minus and plus infinity.
    """
    if rate in (0, 1):
        return np.full(points.shape[1], logit(rate))
    # All scores lie between their extremes, so the intercept lies between these.
    low, high = logit(rate) - points.max(axis=0), logit(rate) - points.min(axis=0)
    intercepts = (low + high) / 2
    for _ in range(200):
        chances = expit(points + intercepts)
        excess = chances.mean(axis=0) - rate
        if (np.abs(excess) < 1e-10).all():
            break
        low, high = np.where(excess < 0, intercepts, low), np.where(excess > 0, intercepts, high)
        # Newton's step is fast, but leaves the bracket where the chances are nearly all 0 or 1; halve there.
        slope = np.maximum((chances * (1 - chances)).mean(axis=0), 1e-300)
        newton = intercepts - excess / slope
        intercepts = np.where((low < newton) & (newton < high), newton, (low + high) / 2)
    return intercepts


def draw_hidden(scores: Floats, points: Floats, rates: Floats, rng: Rng) -> Bools:
    """Hide each cell with chance σ(score + intercept), the intercept being that of its row's rate.

    Parameters
    ----------
    scores : (n, d)
        Larger means more likely hidden.
    points : (n_points, d)
        The scores the intercepts are calibrated on, from `to_points`.
    rates : (n,)
        The mean chance each row should have if its scores were as in `points`.
    rng : numpy Generator
        Draws the cells.

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
