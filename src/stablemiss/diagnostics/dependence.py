"""Dependence of each pair of columns and mask indicators under row weights, on a scale from 0 to 1.

With u and v the random Fourier features of two variables, the dependence is the squared norm of their
weighted cross-covariance, divided by the norms of the two auto-covariances over the same rows,

    ‖Cov(u, v)‖² / (‖Cov(u, u)‖ · ‖Cov(v, v)‖).

For two mask indicators this is their squared correlation, whatever the random features; for two columns it
detects any kind of dependence. `Decorrelator` minimises sums of the same numerators.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from stablemiss.data import Floats, zero_where_missing
from stablemiss.decorrelation import RandomFeatures
from stablemiss.decorrelation.dependence import MIN_ROWS
from stablemiss.seeding import Rng

# Columns processed at a time; the largest arrays have n · BLOCK · q (q + 1) / 2 elements for any table width.
BLOCK = 64
# Covariances below this count as zero: the features are of order one, so those of a constant are rounding
# errors.
ROUNDING = 1e-12


def dependence_matrix(
    values: NDArray, mask: NDArray, weight: NDArray | None = None, q: int = 5, *, rng: Rng
) -> Floats:
    """Measure the dependence of every pair of columns and mask indicators.

    Two columns are compared over the rows where both are observed, a column and the mask indicator of another
    column over the rows where the column is observed, and two indicators over all rows. Zero means that the
    features detect no dependence, one that both variables are identical. If one variable is a deterministic
    function of the other, the value is in between. For independent pairs the values are about 1/N for
    indicators and up to q/N for columns, where N is the effective sample size of the rows compared;
    differences below that are noise.

    Parameters
    ----------
    values : (n, d)
        Standardised columns; missing values have no influence.
    mask : (n, d)
        1 = observed.
    weight : (n,), default=None
        Non-negative row weights; None for equal weights. Only proportions matter.
    q : int, default=5
        Number of random features per column. A larger value detects more kinds of dependence; the cost grows
        with its square.
    rng : numpy Generator
        Draws the random features, which are the same for all columns. Results often differ by a third between
        draws, so compare matrices of the same draw, or means over several draws.

    Returns
    -------
    (2d, 2d) float64
        First the d columns, then their d mask indicators. Symmetric with ones on the diagonal. Zero for
        constants, such as the indicator of a column without missing values, and for a column and its own
        indicator, which is constant wherever the column is observed. NaN for pairs with fewer than 30 joint
        rows of positive weight.

    See Also
    --------
    stablemiss.decorrelation.dependence : Sums over all pairs.
    weight_report : Matrices before and after weighting.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> values = np.hstack([x, x[:, :1]])
    >>> complete = np.ones((2000, 3), dtype=bool)
    >>> matrix = dependence_matrix(values, complete, rng=rng)
    >>> matrix[0, :3].round(2).tolist()
    [1.0, 0.0, 1.0]
    """
    observed = np.asarray(mask, dtype=bool)
    fraction = np.ones(len(observed)) if weight is None else np.asarray(weight, dtype=np.float64)
    # Rows of weight zero are excluded, so that they do not count towards the minimum number of rows.
    rows = fraction > 0
    observed, fraction = observed[rows], fraction[rows] / fraction.sum()
    values = zero_where_missing(np.asarray(values, dtype=np.float64)[rows], observed)
    # The same features for all columns make entries comparable, and a copy of a column gives exactly one.
    features = RandomFeatures.draw(1, q, rng)

    indicators = observed.astype(np.float64)
    count = indicators.T @ indicators
    # (k, l): weight of the rows where both columns are observed. The diagonal holds that of one column.
    both = (indicators * fraction[:, None]).T @ indicators
    mean, spread = _means_and_spreads(values, indicators, fraction, both, features)
    columns = _ratio(
        _squared_covariances(values, indicators, fraction, both, mean, features), spread, spread.T
    )

    rate = np.diag(both)
    variance = rate * (1 - rate)
    between_indicators = _ratio((both - np.outer(rate, rate)) ** 2, variance[:, None], variance)

    # P(column l observed | column k observed).
    conditional = both / np.where(rate > 0, rate, 1.0)[:, None]
    own_mean = np.diagonal(mean, axis1=0, axis2=2).T
    covariance = conditional[:, None, :] * (mean - own_mean[:, :, None])
    indicator_variance = conditional * (1 - conditional)
    columns_indicators = _ratio((covariance**2).sum(axis=1), np.diag(spread)[:, None], indicator_variance)

    columns[count < MIN_ROWS] = np.nan
    columns_indicators[np.diag(count) < MIN_ROWS] = np.nan
    np.fill_diagonal(columns_indicators, 0.0)
    between_indicators[:] = between_indicators if len(observed) >= MIN_ROWS else np.nan
    return np.block([[columns, columns_indicators], [columns_indicators.T, between_indicators]])


def _blocks(d: int) -> list[slice]:
    return [slice(start, min(start + BLOCK, d)) for start in range(0, d, BLOCK)]


def _features_of(values: Floats, indicators: Floats, features: RandomFeatures, block: slice) -> Floats:
    """Features (n, b, q) of a block of columns, zero where missing."""
    columns = values[:, block]
    cosines: Floats = features.of_values(torch.from_numpy(columns.reshape(-1, 1))).numpy()
    return cosines.reshape(*columns.shape, -1) * indicators[:, block, None]


def _means_and_spreads(
    values: Floats, indicators: Floats, fraction: Floats, both: Floats, features: RandomFeatures
) -> tuple[Floats, Floats]:
    """Mean (k, q, l) and ‖Cov(u, u)‖ (k, l) of column k over the rows where column l is also observed."""
    n, d = indicators.shape
    q = features.frequency.shape[1]
    mean, spread = np.empty((d, q, d)), np.empty((d, d))
    # Auto-covariances are symmetric: off-diagonal entries are computed once and counted twice.
    s, t = np.triu_indices(q)
    times = np.where(s == t, 1.0, 2.0)[:, None]
    for block in _blocks(d):
        cosines = _features_of(values, indicators, features, block)
        weighted = cosines * fraction[:, None, None]
        total = np.where(both[block] > 0, both[block], 1.0)[:, None, :]
        mean[block] = (weighted.reshape(n, -1).T @ indicators).reshape(-1, q, d) / total
        products = (weighted[:, :, s] * cosines[:, :, t]).reshape(n, -1)
        covariance = (products.T @ indicators).reshape(-1, len(s), d) / total
        covariance -= mean[block][:, s] * mean[block][:, t]
        spread[block] = np.sqrt((times * covariance**2).sum(axis=1))
    return mean, spread


def _squared_covariances(
    values: Floats, indicators: Floats, fraction: Floats, both: Floats, mean: Floats, features: RandomFeatures
) -> Floats:
    """‖Cov(u, v)‖² of each pair of columns over the rows where both are observed, (d, d)."""
    n, d = indicators.shape
    q = mean.shape[1]
    squares = np.empty((d, d))
    blocks = _blocks(d)
    for number, first in enumerate(blocks):
        left = _features_of(values, indicators, features, first) * fraction[:, None, None]
        for second in blocks[number:]:
            right = _features_of(values, indicators, features, second)
            products = (left.reshape(n, -1).T @ right.reshape(n, -1)).reshape(left.shape[1], q, -1, q)
            total = np.where(both[first, second] > 0, both[first, second], 1.0)[:, None, :, None]
            means = mean[first, :, second, None] * mean[second, :, first].transpose(2, 0, 1)[:, None]
            squares[first, second] = ((products / total - means) ** 2).sum(axis=(1, 3))
            squares[second, first] = squares[first, second].T
    return squares


def _ratio(squares: Floats, first: Floats, second: Floats) -> Floats:
    """Squares divided by the product of two spreads, from 0 to 1; zero where a spread is zero."""
    has_spread = np.minimum(first, second) > ROUNDING
    return np.minimum(squares / np.where(has_spread, first * second, np.inf), 1.0)
