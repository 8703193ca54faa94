"""How dependent each pair of columns and mask bits is under row weights, on a scale from 0 to 1.

Two variables are compared through the same random Fourier features, u of one and v of the other: the
squared norm of their weighted cross-covariance, divided by the norms of the two self-covariances over the
same rows,

    ‖Cov(u, v)‖² / (‖Cov(u, u)‖ · ‖Cov(v, v)‖).

For two mask bits this is their squared correlation, whatever the features; for two columns it sees any kind
of dependence. The sums of squares that weights are learnt on have the same numerators.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from stablemiss.data import Floats, hide
from stablemiss.decorrelation import RandomFeatures
from stablemiss.decorrelation.dependence import MIN_ROWS
from stablemiss.seeding import Rng

# Columns worked on at a time: arrays of n · BLOCK · q (q + 1) / 2 numbers are built, whatever the width.
BLOCK = 64
# Covariances of what is constant are zero up to rounding. The features are of order one.
ROUNDING = 1e-12


def dependence_matrix(
    values: NDArray, mask: NDArray, weight: NDArray | None = None, q: int = 5, *, rng: Rng
) -> Floats:
    """Measure the dependence of every pair of columns and mask bits.

    Two columns are compared over the rows where both are observed, a column and another column's bit over
    the rows where the column is observed, two bits over all rows. Zero says that the features see no
    dependence, one that both are the same; a bent or turned copy lies between. Independent pairs come out
    near 1/N for bits and up to q/N for columns, N being the effective number of rows compared: differences
    below that are noise.

    Parameters
    ----------
    values : (n, d)
        Standardised columns; hidden cells have no influence.
    mask : (n, d)
        1 = observed.
    weight : (n,), optional
        How much each row counts, not negative; equal by default. Only proportions matter.
    q : int
        Features per column. More see more kinds of dependence, at a cost that grows with their square.
    rng : numpy Generator
        Draws the features, the same for all columns. Another draw gives other numbers, often by a third, so
        compare matrices of one draw, or means over several.

    Returns
    -------
    (2d, 2d) float64
        First the d columns, then their d mask bits. Symmetric; one on the diagonal; zero for what is
        constant, such as the bit of a column that is never missing, and for a column with its own bit,
        which is constant wherever the column is observed. NaN for pairs compared over fewer than 30 rows
        of positive weight.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> values = np.hstack([x, x[:, :1]])
    >>> all_seen = np.ones((2000, 3), dtype=bool)
    >>> matrix = dependence_matrix(values, all_seen, rng=rng)
    >>> matrix[0, :3].round(2).tolist()
    [1.0, 0.0, 1.0]
    """
    seen = np.asarray(mask, dtype=bool)
    share = np.ones(len(seen)) if weight is None else np.asarray(weight, dtype=np.float64)
    # Rows that weigh nothing take part in nothing, the counts included.
    rows = share > 0
    seen, share = seen[rows], share[rows] / share.sum()
    values = hide(np.asarray(values, dtype=np.float64)[rows], seen)
    # The same for all columns: entries can then be compared, and a copy of a column shows as one.
    features = RandomFeatures.draw(1, q, rng)

    bits = seen.astype(np.float64)
    count = bits.T @ bits
    # (k, l): the weight of the rows that have both columns; on the diagonal of those that have the column.
    both = (bits * share[:, None]).T @ bits
    mean, spread = _means_and_spreads(values, bits, share, both, features)
    columns = _ratio(_squared_covariances(values, bits, share, both, mean, features), spread, spread.T)

    has = np.diag(both)
    variance = has * (1 - has)
    among_bits = _ratio((both - np.outer(has, has)) ** 2, variance[:, None], variance)

    # Of the rows that have column k, the share that has column l too.
    given = both / np.where(has > 0, has, 1.0)[:, None]
    own_mean = np.diagonal(mean, axis1=0, axis2=2).T
    covariance = given[:, None, :] * (mean - own_mean[:, :, None])
    columns_bits = _ratio((covariance**2).sum(axis=1), np.diag(spread)[:, None], given * (1 - given))

    columns[count < MIN_ROWS] = np.nan
    columns_bits[np.diag(count) < MIN_ROWS] = np.nan
    np.fill_diagonal(columns_bits, 0.0)
    among_bits[:] = among_bits if len(seen) >= MIN_ROWS else np.nan
    return np.block([[columns, columns_bits], [columns_bits.T, among_bits]])


def _blocks(d: int) -> list[slice]:
    return [slice(start, min(start + BLOCK, d)) for start in range(0, d, BLOCK)]


def _features_of(values: Floats, bits: Floats, features: RandomFeatures, block: slice) -> Floats:
    """Features (n, b, q) of a block of columns, zero where hidden."""
    part = values[:, block]
    cosines: Floats = features.of_values(torch.from_numpy(part.reshape(-1, 1))).numpy()
    return cosines.reshape(*part.shape, -1) * bits[:, block, None]


def _means_and_spreads(
    values: Floats, bits: Floats, share: Floats, both: Floats, features: RandomFeatures
) -> tuple[Floats, Floats]:
    """Of each column k over the rows that have column l as well: mean (k, q, l) and ‖Cov(u, u)‖ (k, l)."""
    n, d = bits.shape
    q = features.frequency.shape[1]
    mean, spread = np.empty((d, q, d)), np.empty((d, d))
    # Self-covariances are symmetric: what stands off their diagonals is computed once and counts twice.
    s, t = np.triu_indices(q)
    times = np.where(s == t, 1.0, 2.0)[:, None]
    for block in _blocks(d):
        cosines = _features_of(values, bits, features, block)
        weighted = cosines * share[:, None, None]
        total = np.where(both[block] > 0, both[block], 1.0)[:, None, :]
        mean[block] = (weighted.reshape(n, -1).T @ bits).reshape(-1, q, d) / total
        products = (weighted[:, :, s] * cosines[:, :, t]).reshape(n, -1)
        covariance = (products.T @ bits).reshape(-1, len(s), d) / total
        covariance -= mean[block][:, s] * mean[block][:, t]
        spread[block] = np.sqrt((times * covariance**2).sum(axis=1))
    return mean, spread


def _squared_covariances(
    values: Floats, bits: Floats, share: Floats, both: Floats, mean: Floats, features: RandomFeatures
) -> Floats:
    """‖Cov(u, v)‖² of each pair of columns over the rows that have both, (d, d)."""
    n, d = bits.shape
    q = mean.shape[1]
    squares = np.empty((d, d))
    blocks = _blocks(d)
    for number, first in enumerate(blocks):
        left = _features_of(values, bits, features, first) * share[:, None, None]
        for second in blocks[number:]:
            right = _features_of(values, bits, features, second)
            products = (left.reshape(n, -1).T @ right.reshape(n, -1)).reshape(left.shape[1], q, -1, q)
            total = np.where(both[first, second] > 0, both[first, second], 1.0)[:, None, :, None]
            means = mean[first, :, second, None] * mean[second, :, first].transpose(2, 0, 1)[:, None]
            squares[first, second] = ((products / total - means) ** 2).sum(axis=(1, 3))
            squares[second, first] = squares[first, second].T
    return squares


def _ratio(squares: Floats, first: Floats, second: Floats) -> Floats:
    """Squares divided by two spreads, from 0 to 1; zero where either has no spread."""
    has_spread = np.minimum(first, second) > ROUNDING
    return np.minimum(squares / np.where(has_spread, first * second, np.inf), 1.0)
