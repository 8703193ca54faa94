"""Logistic missingness probabilities, with intercepts that give each column the required missing rate."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from stablemiss.data import Bools, Floats
from stablemiss.seeding import Rng

# Number of quantiles kept per column. The error of the mean probability is then well below 0.001.
_N_QUANTILES = 1024


def deviations_from(centre: Floats, columns: Floats) -> Floats:
    """Difference between each value (n, d) and the `centre` of its column; zero for missing values."""
    return np.nan_to_num(columns - centre, nan=0.0)


def to_quantiles(scores: Floats) -> Floats:
    """Summarise each column of scores (n, d) by at most 1024 equally spaced quantiles, (n_quantiles, d).

    At most 1024 rows without NaN are returned unchanged. Intercepts for any rate can be computed from the
    quantiles later, without the rows. NaN is ignored; a column without scores gets zeros.
    """
    observed = ~np.isnan(scores)
    if len(scores) <= _N_QUANTILES and observed.all():
        return scores
    steps = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
    ranks = (steps[:, None] * observed.sum(axis=0)).astype(np.int64)
    # Sorting puts NaN last.
    return np.nan_to_num(np.take_along_axis(np.sort(scores, axis=0), ranks, axis=0), nan=0.0)


def find_intercepts(quantiles: Floats, rate: float) -> Floats:
    """Find the intercept (d,) of each column at which the mean of σ(score + intercept) is `rate`.

    Parameters
    ----------
    quantiles : (n, d)
        Quantiles of the scores of each column, from `to_quantiles`.
    rate : float
        The required mean probability. 0 and 1 give intercepts of minus and plus infinity.
    """
    if rate in (0, 1):
        return np.full(quantiles.shape[1], logit(rate))
    # The minimum and the maximum score give bounds of the intercept.
    low, high = logit(rate) - quantiles.max(axis=0), logit(rate) - quantiles.min(axis=0)
    intercepts = (low + high) / 2
    for _ in range(200):
        probabilities = expit(quantiles + intercepts)
        excess = probabilities.mean(axis=0) - rate
        if (np.abs(excess) < 1e-10).all():
            break
        low, high = np.where(excess < 0, intercepts, low), np.where(excess > 0, intercepts, high)
        # Newton steps converge fast, but leave the bracket if most probabilities are near 0 or 1; then
        # bisect.
        slope = np.maximum((probabilities * (1 - probabilities)).mean(axis=0), 1e-300)
        newton = intercepts - excess / slope
        intercepts = np.where((low < newton) & (newton < high), newton, (low + high) / 2)
    return intercepts


def draw_hidden(scores: Floats, quantiles: Floats, rates: Floats, rng: Rng) -> Bools:
    """Hide each value with probability σ(score + intercept), with the intercept for the rate of its row.

    Parameters
    ----------
    scores : (n, d)
        Values with larger scores are more likely to be hidden.
    quantiles : (n_quantiles, d)
        Scores on which the intercepts are calibrated, from `to_quantiles`.
    rates : (n,)
        Missing rate of each row, on average over the scores in `quantiles`.
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
        hidden[rows] = uniform[rows] < expit(scores[rows] + find_intercepts(quantiles, rate))
    return hidden
