"""Usual readings of sensors by hour of the week, from few readings each."""

from __future__ import annotations

import numpy as np

from stablemiss.data import Floats

# First and last day of each kind: working days, Saturdays, Sundays.
KINDS_OF_DAY = ((0, 4), (5, 5), (6, 6))


def shrunk_means_by_hour(sums: Floats, counts: Floats, shrinkage: float) -> Floats:
    """Means by hour of the week, each shrunk towards the mean of a larger group of readings.

    Parameters
    ----------
    sums, counts : (168, n_nodes)
        Sums and numbers of the readings of each node at each hour of the week, from Monday 0:00 on.
    shrinkage : float
        Number of readings that count as much as the mean of the larger group.

    Returns
    -------
    (168, n_nodes)
        ``level + deviation``: the level of a node is shrunk to the mean of all readings; its deviation at an
        hour of the week to that at this hour of working days, Saturdays or Sundays, which is shrunk to the
        one of all nodes.

    Examples
    --------
    A node that was read twice at each hour, and one that was never read:

    >>> counts = np.zeros((168, 2))
    >>> counts[:, 0] = 2
    >>> sums = counts * (np.arange(168) % 24 == 8)[:, None]
    >>> abs(shrunk_means_by_hour(sums, counts, shrinkage=20.0))[7:9].round(9).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    overall = np.broadcast_to(sums.sum() / counts.sum(), sums.shape[1:])
    level = _shrunk(sums.sum(axis=0), counts.sum(axis=0), overall, shrinkage)
    # Sums of deviations from the level.
    deviations = (sums - counts * level).reshape(7, 24, -1)
    numbers = counts.reshape(7, 24, -1)
    result = np.empty_like(deviations)
    for first, last in KINDS_OF_DAY:
        days = slice(first, last + 1)
        total, number = deviations[days].sum(axis=0), numbers[days].sum(axis=0)
        of_all = np.broadcast_to(
            _shrunk(total.sum(axis=1), number.sum(axis=1), np.zeros(24), 0.0)[:, None], total.shape
        )
        of_node = _shrunk(total, number, of_all, shrinkage)
        result[days] = _shrunk(
            deviations[days], numbers[days], np.broadcast_to(of_node, result[days].shape), shrinkage
        )
    return level + result.reshape(sums.shape)


def _shrunk(totals: Floats, numbers: Floats, prior: Floats, shrinkage: float) -> Floats:
    """Means of readings with these totals and numbers, and as many of the prior as `shrinkage` says."""
    weights = numbers + shrinkage
    return np.divide(totals + shrinkage * prior, weights, out=prior.copy(), where=weights > 0)
