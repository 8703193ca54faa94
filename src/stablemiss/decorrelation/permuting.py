"""The same columns without their dependence: each in an order of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.seeding import Rng


def permute_columns(
    values: NDArray, mask: NDArray, rng: Rng, groups: NDArray | None = None
) -> tuple[Floats, Bools]:
    """The same columns, each with its mask bits in an order of its own: margins kept, columns independent.

    Parameters
    ----------
    values, mask : (n, d)
        Columns and 1 = observed.
    rng : numpy Generator
    groups : (d,) int, optional
        Columns with the same number are parts of one and stay together.

    Examples
    --------
    >>> values, mask = permute_columns(np.eye(4), np.eye(4), np.random.default_rng(0))
    >>> values.sum(axis=0), bool((mask == (values == 1)).all())
    (array([1., 1., 1., 1.]), True)
    """
    n, d = np.shape(values)
    order = draw_orders(n, np.arange(d) if groups is None else groups, rng)
    mask = np.asarray(mask, dtype=bool)
    return np.take_along_axis(np.asarray(values), order, axis=0), np.take_along_axis(mask, order, axis=0)


def draw_orders(n: int, groups: NDArray, rng: Rng) -> NDArray[np.int64]:
    """Orders of n rows, one in each column of (n, d); columns of one group have the same."""
    names, own = np.unique(groups, return_inverse=True)
    each = np.broadcast_to(np.arange(n)[:, None], (n, len(names)))
    return rng.permuted(each, axis=0)[:, own]


def rows_in_proportion(weight: Floats) -> NDArray[np.int64]:
    """Places of rows, as many as there are weights (n,), each as often as its weight says.

    Examples
    --------
    >>> rows_in_proportion(np.array([2.0, 0.0, 1.0, 1.0]))
    array([0, 0, 2, 3])
    """
    n = len(weight)
    middles = (np.arange(n) + 0.5) / n
    return np.searchsorted(weight.cumsum() / weight.sum(), middles).clip(max=n - 1)
