"""Times of readings: conversion, the regular grid, and the hour of the week."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stablemiss.checks import shown, to_list
from stablemiss.data import Floats, is_missing

Times = NDArray[np.datetime64]

HOURS_OF_WEEK = 168
# 1 January 1970, from which numpy counts, was a Thursday.
DAYS_FROM_MONDAY = 3
# A grid longer than this many times its readings is probably caused by a wrong date.
MAX_GRID_RATIO = 10
MIN_GRID_LIMIT = 10_000


def to_times(times: Any, name: str = "times") -> Times:
    """Convert times to an array of datetime64, without changing their order.

    Parameters
    ----------
    times : (n,) datetime64, datetime, date, or text in ISO 8601
        Times with a UTC offset are converted to UTC; those without one are kept as they are.
    name : str, default="times"
        Name of the argument in error messages.

    Examples
    --------
    >>> to_times(["2024-03-31T01:00", "2024-03-31T03:00"])
    array(['2024-03-31T01:00:00', '2024-03-31T03:00:00'], dtype='datetime64[s]')
    >>> to_times(["2024-03-31T01:00+01:00"])
    array(['2024-03-31T00:00:00'], dtype='datetime64[s]')
    """
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        array = times
    else:
        items = to_list(times)
        if items is None:
            raise ValueError(f"{name} must be a sequence of times; got {shown(times)}.")
        array = _from_items(items, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got shape {array.shape}.")
    if np.isnat(array).any():
        raise ValueError(f"{name} must not be missing; entry {int(np.isnat(array).argmax())} is.")
    return array


def time_step(times: Times) -> np.timedelta64:
    """The step of times on a regular grid; raises ValueError if they are not on one.

    Examples
    --------
    >>> time_step(np.array(["2024-01-01T00", "2024-01-01T01"], dtype="datetime64[h]"))
    np.timedelta64(1,'h')
    """
    steps = np.diff(times)
    if not len(steps):
        raise ValueError(f"times must contain at least 2 times, which show the step; got {len(times)}.")
    is_other = steps != steps[0]
    if steps[0] <= np.timedelta64(0) or is_other.any():
        position = int(is_other.argmax()) + 1 if is_other.any() else 1
        raise ValueError(
            f"times must increase in equal steps; got {times[position - 1]} followed by {times[position]} at "
            f"position {position}, and a first step of {steps[0]}. Build a regular grid first, with NaN "
            "where there is no reading (to_regular_grid)."
        )
    return steps[0]


def to_regular_grid(
    values: Floats, times: ArrayLike, step: np.timedelta64 | timedelta | None = None
) -> tuple[Floats, Times]:
    """Put readings on a regular grid of times, with NaN where there is no row.

    The grid starts at the first time and ends at the last one. Rows are sorted by time. No value is moved to
    another time, averaged or interpolated: a time that occurs twice, or that is not on the grid, raises
    ValueError.

    Parameters
    ----------
    values : (n, n_nodes)
        Readings; NaN = missing.
    times : (n,)
        Times of the rows, in any order; see `to_times`.
    step : timedelta, default=None
        Step of the grid. None means the most frequent difference between successive times. A shorter step
        makes more rows, which are missing throughout.

    Returns
    -------
    values : (n_times, n_nodes)
        Readings on the grid. They are not copied if the times are on a regular grid already.
    times : (n_times,) datetime64

    See Also
    --------
    SensorWindows : Needs a regular grid.

    Examples
    --------
    >>> times = ["2024-01-01T00:00", "2024-01-01T01:00", "2024-01-01T03:00", "2024-01-01T04:00"]
    >>> values, times = to_regular_grid(np.arange(4.0)[:, None], times)
    >>> values.ravel()
    array([ 0.,  1., nan,  2.,  3.])
    """
    moments = to_times(times)
    if len(moments) != len(values):
        raise ValueError(
            f"times must have one entry for each of the {len(values)} rows of readings; got {len(moments)}."
        )
    if len(moments) < 2:
        return values, moments
    if (np.diff(moments) < np.timedelta64(0)).any():
        order = np.argsort(moments, kind="stable")
        values, moments = values[order], moments[order]
    steps, counts = np.unique(np.diff(moments), return_counts=True)
    if steps[0] == np.timedelta64(0):
        repeated = moments[int((np.diff(moments) == np.timedelta64(0)).argmax())]
        raise ValueError(
            f"The time {repeated} occurs more than once. Keep one row per time; if clocks were set back "
            "then, use UTC, or leave one of the two hours out."
        )
    interval = steps[counts.argmax()] if step is None else _to_step(step)
    # Compared as integers in the finer of the two units.
    offset, unit = np.broadcast_arrays(moments - moments[0], interval)
    index, remainder = offset // unit, offset % unit
    off_grid = np.flatnonzero(remainder != np.timedelta64(0))
    if len(off_grid):
        raise ValueError(
            f"The time {moments[off_grid[0]]} and {len(off_grid) - 1} others are not a whole number of steps "
            f"of {interval} after the first time, {moments[0]}. Round the times to a regular grid, or pass "
            "its step."
        )
    n_times = int(index[-1]) + 1
    if n_times == len(moments):
        return values, moments
    if n_times > max(MIN_GRID_LIMIT, MAX_GRID_RATIO * len(moments)):
        raise ValueError(
            f"A regular grid from {moments[0]} to {moments[-1]} in steps of {interval} has {n_times} times, "
            f"but there are readings at only {len(moments)} of them. Correct the times, or pass a longer "
            "step."
        )
    grid = np.full((n_times, *values.shape[1:]), np.nan, dtype=values.dtype)
    grid[index] = values
    return grid, moments[0] + np.arange(n_times) * interval


def hour_of_week(times: ArrayLike) -> NDArray[np.int64]:
    """The hour of the week of each time, from 0 (Monday 0:00 to 0:59) to 167.

    Parameters
    ----------
    times : (n,)
        Times; see `to_times`. The hour is that of the given times, so pass local times if the readings
        follow the daily routine of people.

    See Also
    --------
    SensorWindows : Has the means by hour of the week of sensors.

    Examples
    --------
    >>> hour_of_week(["2024-01-01T00:30", "2024-01-07T23:00"])  # a Monday and a Sunday
    array([  0, 167])
    """
    hours = to_times(times).astype("datetime64[h]").astype(np.int64)
    return (hours + 24 * DAYS_FROM_MONDAY) % HOURS_OF_WEEK


def week_number(times: Times) -> NDArray[np.int64]:
    """Number of the week of each time, from Monday to Sunday, counted from that of 1 January 1970.

    Examples
    --------
    >>> np.diff(week_number(to_times(["2024-01-01", "2024-01-07", "2024-01-08"]))).tolist()
    [0, 1]
    """
    days = times.astype("datetime64[D]").astype(np.int64)
    return (days + DAYS_FROM_MONDAY) // 7


def _from_items(items: list[Any], name: str) -> Times:
    moments = []
    for position, item in enumerate(items):
        try:
            moment = datetime.fromisoformat(item.strip()) if isinstance(item, str) else item
            if isinstance(moment, np.datetime64):
                moment = moment.astype("datetime64[us]").item()
            # datetime is a subclass of date, and so is the NaT of pandas.
            if is_missing(moment) or not isinstance(moment, date):
                raise TypeError("it is not a time")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} must be dates and times in ISO 8601, such as 2024-01-31T08:00; got {shown(item)} at "
                f"position {position}. Convert them first."
            ) from error
        if isinstance(moment, datetime):
            moments.append(moment)
        else:
            moments.append(datetime(moment.year, moment.month, moment.day))
    n_with_zone = sum(moment.tzinfo is not None for moment in moments)
    if 0 < n_with_zone < len(moments):
        raise ValueError(
            f"Either all {name} or none must have a UTC offset; got {n_with_zone} of {len(moments)} with one."
        )
    if n_with_zone:
        moments = [moment.astimezone(UTC).replace(tzinfo=None) for moment in moments]
    array = np.array(moments, dtype="datetime64[us]")
    whole_seconds = array.astype("datetime64[s]")
    return whole_seconds if (whole_seconds == array).all() else array


def _to_step(step: Any) -> np.timedelta64:
    if not isinstance(step, np.timedelta64 | timedelta) or np.isnat(np.timedelta64(step)):
        raise ValueError(f"step must be a timedelta, such as numpy.timedelta64(5, 'm'); got {shown(step)}.")
    interval = np.timedelta64(step)
    if np.datetime_data(interval)[0] in ("Y", "M"):
        raise ValueError(f"step must not be in months or years, whose lengths vary; got {shown(step)}.")
    if not interval > np.timedelta64(0):
        raise ValueError(f"step must be above 0; got {shown(step)}.")
    return interval
