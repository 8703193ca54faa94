"""Permute each column independently, which removes the dependence between columns and keeps the marginals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.seeding import Rng, check_rng


def permute_columns(
    values: NDArray, mask: NDArray, rng: Rng, groups: NDArray | None = None
) -> tuple[Floats, Bools]:
    """Permute each column together with its mask indicators, independently of the other columns.

    Parameters
    ----------
    values, mask : (n, d)
        Columns, and their mask with 1 = observed.
    rng : numpy Generator
    groups : (d,) int, default=None
        Columns with the same group number encode the same original column and are permuted together. None
        gives every column its own group.

    Returns
    -------
    values, mask : (n, d)

    See Also
    --------
    dependence : Measure the dependence that permuting removes.

    Examples
    --------
    >>> values, mask = permute_columns(np.eye(4), np.eye(4), np.random.default_rng(0))
    >>> values.sum(axis=0), bool((mask == (values == 1)).all())
    (array([1., 1., 1., 1.]), True)
    """
    check_rng(rng)
    data = MaskedData.of(values, mask, groups=groups)
    order = draw_orders(len(data), data.groups, rng)
    return np.take_along_axis(np.asarray(values), order, axis=0), np.take_along_axis(data.mask, order, axis=0)


def draw_orders(n: int, groups: NDArray, rng: Rng) -> NDArray[np.int64]:
    """Draw a permutation of n rows for each column, (n, d); columns of one group get the same permutation."""
    names, group_of_column = np.unique(groups, return_inverse=True)
    orders = np.broadcast_to(np.arange(n)[:, None], (n, len(names)))
    return rng.permuted(orders, axis=0)[:, group_of_column]


def resample_by_weight(weight: Floats) -> NDArray[np.int64]:
    """Indices of n rows, in which each row occurs in proportion to its weight (n,). Deterministic.

    Examples
    --------
    >>> resample_by_weight(np.array([2.0, 0.0, 1.0, 1.0]))
    array([0, 0, 2, 3])
    """
    n = len(weight)
    quantiles = (np.arange(n) + 0.5) / n
    return np.searchsorted(weight.cumsum() / weight.sum(), quantiles).clip(max=n - 1)
