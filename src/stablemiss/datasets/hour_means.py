"""Usual readings of sensors by hour of the week, from few readings each."""

from __future__ import annotations

import numpy as np

from stablemiss.data import Floats

# Working days, Saturdays, Sundays.
KINDS_OF_DAY = (slice(0, 5), slice(5, 6), slice(6, 7))
# Alternating estimates of levels and of the course of the week.
N_SWEEPS = 10


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
        ``level + deviation``: the level of a node is shrunk to that of all nodes; its deviation at an hour of
        the week to that at this hour of working days, Saturdays or Sundays, which is shrunk to the one of all
        nodes. The hours at which a node was read do not shift its level.

    Examples
    --------
    A node that was read twice at each hour, and one that was never read:

    >>> counts = np.zeros((168, 2))
    >>> counts[:, 0] = 2
    >>> sums = counts * (np.arange(168) % 24 == 8)[:, None]
    >>> abs(shrunk_means_by_hour(sums, counts, shrinkage=20.0))[7:9].round(9).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    course: Floats = np.zeros((len(sums), 1))
    level = np.zeros(sums.shape[1])
    # A node that is read at night only would look faster or slower than it is, so levels are computed from
    # readings without the usual course of the week, and this course from readings without the levels.
    for _ in range(N_SWEEPS):
        residuals = sums - counts * course
        overall = np.broadcast_to(residuals.sum() / counts.sum(), level.shape)
        level = _shrunk(residuals.sum(axis=0), counts.sum(axis=0), overall, shrinkage)
        course = _network_course(sums - counts * level, counts)
    deviations = (sums - counts * level).reshape(7, 24, -1)
    by_day = counts.reshape(7, 24, -1)
    prior = course.reshape(7, 24, 1)
    result = np.empty_like(deviations)
    for days in KINDS_OF_DAY:
        of_network = np.broadcast_to(prior[days.start], deviations.shape[1:])
        of_node = _shrunk(deviations[days].sum(axis=0), by_day[days].sum(axis=0), of_network, shrinkage)
        result[days] = _shrunk(
            deviations[days], by_day[days], np.broadcast_to(of_node, result[days].shape), shrinkage
        )
    return level + result.reshape(sums.shape)


def _network_course(deviations: Floats, counts: Floats) -> Floats:
    """Mean deviation of all nodes at each hour of working days, Saturdays and Sundays, (168, 1)."""
    totals, numbers = (array.sum(axis=1).reshape(7, 24) for array in (deviations, counts))
    course = np.empty((7, 24))
    for days in KINDS_OF_DAY:
        course[days] = _shrunk(totals[days].sum(axis=0), numbers[days].sum(axis=0), np.zeros(24), 0.0)
    return course.reshape(-1, 1)


def _shrunk(totals: Floats, numbers: Floats, prior: Floats, shrinkage: float) -> Floats:
    """Means of readings with these totals and numbers, and as many of the prior as `shrinkage` says."""
    weights = numbers + shrinkage
    return np.divide(totals + shrinkage * prior, weights, out=prior.copy(), where=weights > 0)
