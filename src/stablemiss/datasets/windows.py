"""Windows of a sensor network: predict the next readings of all sensors from the last ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from stablemiss.checks import check_bool, check_integer, check_number, shown
from stablemiss.data import Floats, to_numbers, to_table
from stablemiss.datasets.hour_means import shrunk_means_by_hour
from stablemiss.datasets.times import HOURS_OF_WEEK, Times, hour_of_week, time_step, to_times, week_number
from stablemiss.text import count

# Frequencies of the sine and cosine of the hour of the day.
HARMONICS = (1, 2, 3)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# None, a slice, positions or booleans.
Rows = Any


@dataclass(frozen=True, eq=False, repr=False)
class SensorWindows:
    """All windows of `n_past` + `n_future` successive times, stored as positions in one table of readings.

    The readings are not copied: `history` and `future` return read-only views if the windows are evenly
    spaced, and copies only of the requested windows otherwise. Create the windows by `SensorWindows.of`.

    Successive windows share all but one of their times. Validation rows that are drawn at random would
    therefore be known from the training rows; pass ``groups=windows.blocks`` to `fit` to hold out whole
    weeks.

    Attributes
    ----------
    values : (n_times, n_nodes)
        Readings, from which `future` is taken; NaN = missing.
    inputs : (n_times, n_nodes)
        Readings from which `history` is taken; the same array as `values` unless `with_inputs` changed it.
    times : (n_times,) datetime64
        Times of the rows, on a regular grid.
    starts : (n,) int64
        Row of the first reading of each window.
    n_past, n_future : int
        Number of times to predict from, and to predict.

    See Also
    --------
    load_berlin_traffic, load_sensor_folder : Readings of sensor networks.
    Graph : Which sensors exchange information.

    Examples
    --------
    >>> times = np.datetime64("2024-01-01T00") + np.arange(24 * 14)
    >>> values = np.random.default_rng(0).normal(size=(len(times), 3))
    >>> windows = SensorWindows.of(values, times, past=8, future=4)
    >>> windows
    SensorWindows(325 windows of 8 + 4 times, 3 nodes, 2024-01-01T00 to 2024-01-14T23)
    >>> windows.history().shape, windows.future([0, 5]).shape, windows.calendar().shape
    ((325, 3, 8), (2, 3, 4), (325, 19))
    >>> train, test = windows.between(None, "2024-01-08"), windows.between("2024-01-08", None)
    >>> len(train), len(test), len(np.unique(train.blocks))
    (157, 157, 1)
    """

    values: NDArray[np.floating]
    inputs: NDArray[np.floating]
    times: Times
    starts: NDArray[np.int64]
    n_past: int
    n_future: int

    @classmethod
    def of(cls, values: ArrayLike, times: ArrayLike, past: int = 8, future: int = 8) -> SensorWindows:
        """Create all windows of a table of readings.

        Parameters
        ----------
        values : (n_times, n_nodes)
            Readings; NaN = missing. Arrays of floats are not copied.
        times : (n_times,)
            Times of the rows (datetime64, datetime or text in ISO 8601), which must increase in equal steps.
            Rows at which nothing was read must be kept, otherwise windows would jump over time;
            `to_regular_grid` inserts them.
        past : int, default=8
            Number of times to predict from. Raising it shows a method more of the past, and makes rows wider.
        future : int, default=8
            Number of times to predict. Raising it makes later predictions less accurate.

        See Also
        --------
        between : Restrict windows to a period.
        """
        check_integer({"past": past, "future": future}, past=1, future=1)
        table, moments = _read(values, times)
        n_windows = len(table) - past - future + 1
        if n_windows < 1:
            raise ValueError(
                f"values must have at least past + future = {past + future} rows; got {len(table)}."
            )
        time_step(moments)
        return cls(table, table, moments, np.arange(n_windows), past, future)

    @classmethod
    def latest(cls, values: ArrayLike, times: ArrayLike, past: int = 8, future: int = 8) -> SensorWindows:
        """The one window from which the times after the last row are predicted; their readings are NaN.

        Parameters
        ----------
        values, times, past, future
            As in `of`. At least `past` rows are needed.

        See Also
        --------
        of : All windows whose future is part of the table.

        Examples
        --------
        >>> times = np.datetime64("2024-01-01T00", "h") + np.arange(10)
        >>> SensorWindows.latest(np.zeros((10, 3)), times, past=8, future=4)
        SensorWindows(1 window of 8 + 4 times, 3 nodes, 2024-01-01T02 to 2024-01-01T13)
        """
        check_integer({"past": past, "future": future}, past=1, future=1)
        table, moments = _read(values, times)
        if len(table) < past:
            raise ValueError(f"values must have at least past = {past} rows; got {len(table)}.")
        later = moments[-1] + time_step(moments) * np.arange(1, future + 1)
        unknown = np.full((future, table.shape[1]), np.nan, dtype=table.dtype)
        readings = np.concatenate([table[-past:], unknown])
        return cls.of(readings, np.concatenate([moments[-past:], later]), past, future)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: Rows) -> SensorWindows:
        """Select windows by a slice, positions or booleans. Readings are shared, not copied."""
        return replace(self, starts=self._select(rows))

    def __repr__(self) -> str:
        first, last = (self.times[self.starts[0]], self._last_times()[-1]) if len(self) else ("-", "-")
        size = f"{count(len(self), 'window')} of {self.n_past} + {self.n_future} times"
        return f"SensorWindows({size}, {self.n_nodes} nodes, {first} to {last})"

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray:
        """Raise TypeError: windows hold two arrays. Without this, numpy would take them for nested lists."""
        raise TypeError(
            "SensorWindows are not an array. Pass windows.history(), or windows.history(calendar=True), as X "
            "and windows.future() as y."
        )

    @property
    def n_nodes(self) -> int:
        return self.values.shape[1]

    @property
    def blocks(self) -> NDArray[np.int64]:
        """Number of the week, Monday to Sunday, in which each window starts, (n,).

        Pass it as ``groups=`` to `fit`, which then holds out whole weeks for validation. A week has the same
        number in every selection of windows. The last `n_past` + `n_future` - 1 windows of a week reach into
        the next one: 15 of 168 for eight and eight hours.
        """
        return week_number(self.times[self.starts])

    def history(self, rows: Rows = None, calendar: bool = False) -> NDArray[np.floating]:
        """Readings to predict from, (n, n_nodes, n_past), the last one most recent; NaN = missing.

        Parameters
        ----------
        rows : slice, positions or booleans, default=None
            Windows to return. None returns all of them. The result is a read-only view if the windows are
            evenly spaced, and a copy otherwise.
        calendar : bool, default=False
            Whether to append the features of `calendar` as 19 further rows, constant over time, to a copy:
            (n, n_nodes + 19, n_past). ``architecture=GraphTemporal()`` shows them to all nodes.

        Examples
        --------
        >>> hours = np.datetime64("2024-01-01T00") + np.arange(24)
        >>> windows = SensorWindows.of(np.zeros((24, 3)), hours, past=8, future=8)
        >>> windows.history(calendar=True).shape
        (9, 22, 8)
        """
        check_bool({"calendar": calendar}, "calendar")
        readings = _gather(self.inputs, self._select(rows), self.n_past)
        if not calendar:
            return readings
        features = self.calendar(rows).astype(readings.dtype)[:, :, None]
        return np.concatenate([readings, np.repeat(features, self.n_past, axis=2)], axis=1)

    def future(self, rows: Rows = None) -> NDArray[np.floating]:
        """Readings to predict, (n, n_nodes, n_future), the first one next; NaN = missing.

        Parameters
        ----------
        rows : slice, positions or booleans, default=None
            Windows to return. None returns all of them. The result is a read-only view if the windows are
            evenly spaced, and a copy otherwise.
        """
        return _gather(self.values, self._select(rows) + self.n_past, self.n_future)

    def calendar(self, rows: Rows = None) -> Floats:
        """Features of the hour of the week of the first time to predict, (n, 19), which are never missing.

        Sine and cosine of the hour of the day at one, two and three cycles a day, the same set to zero from
        Monday to Friday (the weekend has a different daily course), and seven indicators of the weekday. For
        speeds in Berlin, a linear function of these 19 features explains 93 % of the variance of the mean
        speeds by hour of the week, compared with 71 % for one sine and cosine of the day and of the week
        (4 features), 86 % for indicators of hour and weekday (31 features), and 100 % for 168 indicators of
        the hour of the week, each of which has few rows to learn from.

        Parameters
        ----------
        rows : slice, positions or booleans, default=None
            Windows to return. None returns all of them.

        See Also
        --------
        calendar_names : Names of the features.
        """
        moments = self.times[self._select(rows) + self.n_past]
        in_seconds = moments.astype("datetime64[s]").astype(np.int64)
        angle = (2 * np.pi / 86_400) * (in_seconds % 86_400)
        day = hour_of_week(moments) // 24
        daily = np.column_stack([f(k * angle) for k in HARMONICS for f in (np.sin, np.cos)])
        return np.column_stack([daily, daily * (day >= 5)[:, None], np.eye(7)[day]])

    @property
    def calendar_names(self) -> tuple[str, ...]:
        """Names of the columns of `calendar`."""
        daily = [f"{f}_{k}_per_day" for k in HARMONICS for f in ("sin", "cos")]
        return (*daily, *(f"{name}_on_weekends" for name in daily), *WEEKDAYS)

    def between(self, start: Any = None, stop: Any = None) -> SensorWindows:
        """Return the windows of a period: all their times are at or after `start` and before `stop`.

        Windows of two periods that do not overlap share no reading.

        Parameters
        ----------
        start, stop : time or None, default=None
            Bounds of the period, such as "2024-01-01" or a datetime64. None leaves it open.

        See Also
        --------
        with_target : Leaves out windows without anything to predict.
        """
        is_inside = np.ones(len(self), dtype=bool)
        if start is not None:
            is_inside &= self.times[self.starts] >= to_times([start], "start")[0]
        if stop is not None:
            is_inside &= self._last_times() < to_times([stop], "stop")[0]
        if not is_inside.any():
            raise ValueError(
                f"No window lies between {shown(start)} and {shown(stop)}; the readings reach from "
                f"{self.times[0]} to {self.times[-1]}."
            )
        return self[is_inside]

    def with_target(self, n_observed: int = 1) -> SensorWindows:
        """Return the windows that have at least `n_observed` observed readings to predict.

        Parameters
        ----------
        n_observed : int, default=1
            Number of observed readings in `future`. Raising it leaves out windows with little to learn from.
        """
        check_integer({"n_observed": n_observed}, n_observed=1)
        # Counted by differences of cumulative sums, so that no window is copied.
        total = np.concatenate([[0], np.cumsum((~np.isnan(self.values)).sum(axis=1))])
        first = self.starts + self.n_past
        return self[total[first + self.n_future] - total[first] >= n_observed]

    def with_inputs(self, inputs: ArrayLike) -> SensorWindows:
        """Return the same windows with histories from other readings; what to predict stays the same.

        Imposed missingness belongs into the table of readings, not into single windows: a reading is then
        missing in all windows that contain it.

        Parameters
        ----------
        inputs : (n_times, n_nodes)
            Readings to predict from, such as ``np.where(is_dark, np.nan, windows.values)``.

        Examples
        --------
        >>> days = np.datetime64("2024-01-01") + np.arange(6)
        >>> windows = SensorWindows.of(np.arange(6.0)[:, None], days, past=2, future=1)
        >>> dark = windows.with_inputs(np.where(np.arange(6)[:, None] == 1, np.nan, windows.values))
        >>> dark.history()[:2, 0].tolist(), dark.future()[:2, 0].tolist()
        ([[0.0, nan], [nan, 2.0]], [[2.0], [3.0]])
        """
        table = _to_readings(inputs, "inputs")
        if table.shape != self.values.shape:
            raise ValueError(
                f"inputs must have the shape of the readings, {self.values.shape}; got {table.shape}."
            )
        return replace(self, inputs=table)

    def hour_of_week_mean(self, rows: Rows = None, shrinkage: float = 20.0) -> Floats:
        """Usual reading of each node by hour of the week, (168, n_nodes), from the times of these windows.

        Every time counts once, however many windows contain it. An hour of the week has few readings, so its
        mean is shrunk towards the mean of the node at this hour of working days, Saturdays or Sundays; that
        one towards the daily course of all nodes, added to the mean of the node; and that mean towards the
        mean of all nodes. The result has no missing values, even if a node has no reading. Use training
        windows only.

        Parameters
        ----------
        rows : slice, positions or booleans, default=None
            Windows to use. None uses all of them.
        shrinkage : float, default=20.0
            Number of readings that count as much as the mean that is shrunk to. Raising it makes usual
            readings smoother and less noisy; 0 returns plain means where there are readings. The fewer
            weeks of readings there are, the more shrinkage helps.

        See Also
        --------
        seasonal : The means at the times to predict.

        Examples
        --------
        >>> times = np.datetime64("2024-01-01T00") + np.arange(24 * 14)
        >>> windows = SensorWindows.of(np.where(times < times[30], 5.0, 1.0)[:, None], times)
        >>> windows.hour_of_week_mean(shrinkage=0)[:2, 0].tolist()
        [3.0, 3.0]
        """
        check_number({"shrinkage": shrinkage}, shrinkage="[0, inf)")
        starts = self._select(rows)
        is_past, is_future = np.zeros((2, len(self.times)), dtype=bool)
        for step in range(self.n_past):
            is_past[starts + step] = True
        for step in range(self.n_past, self.n_past + self.n_future):
            is_future[starts + step] = True
        # A time that is to be predicted in one window is known in training, even if it is hidden in others.
        sums, counts = (
            future + past
            for future, past in zip(
                self._sums_by_hour(self.values, is_future),
                self._sums_by_hour(self.inputs, is_past & ~is_future),
                strict=True,
            )
        )
        if not counts.any():
            raise ValueError("There is no observed reading in these windows. Use more windows.")
        return shrunk_means_by_hour(sums, counts, shrinkage)

    def deseasonalised(self, mean: ArrayLike) -> SensorWindows:
        """Return the same windows with readings relative to the means by hour of the week.

        A method then predicts by how much readings will differ from the usual; add `seasonal` to its
        predictions.

        Parameters
        ----------
        mean : (168, n_nodes)
            Result of `hour_of_week_mean` of the training windows.

        Examples
        --------
        >>> times = np.datetime64("2024-01-01T00") + np.arange(24 * 21)
        >>> windows = SensorWindows.of(5.0 + hour_of_week(times)[:, None], times)
        >>> usual = windows.hour_of_week_mean(shrinkage=0)
        >>> float(abs(windows.deseasonalised(usual).future()).max().round(9))
        0.0
        """
        usual = self._check_mean(mean)[hour_of_week(self.times)]
        values = self.values - usual
        return replace(
            self, values=values, inputs=values if self.inputs is self.values else self.inputs - usual
        )

    def seasonal(self, mean: ArrayLike, rows: Rows = None) -> Floats:
        """The means by hour of the week at the times to predict, (n, n_nodes, n_future): a simple prediction.

        Parameters
        ----------
        mean : (168, n_nodes)
            Result of `hour_of_week_mean` of the training windows.
        rows : slice, positions or booleans, default=None
            Windows to predict. None predicts all of them.

        Examples
        --------
        >>> times = np.datetime64("2024-01-01T00") + np.arange(24 * 21)
        >>> windows = SensorWindows.of(hour_of_week(times)[:, None].astype(float), times)
        >>> prediction = windows.seasonal(windows.hour_of_week_mean(shrinkage=0))
        >>> bool(np.allclose(prediction, windows.future()))
        True
        """
        table = self._check_mean(mean)
        first = self._select(rows) + self.n_past
        hours = hour_of_week(self.times)[first[:, None] + np.arange(self.n_future)]
        return table[hours].transpose(0, 2, 1)

    def _check_mean(self, mean: ArrayLike) -> Floats:
        """Means by hour of the week as an array (168, n_nodes)."""
        table = to_numbers("mean", mean)
        if table.shape != (HOURS_OF_WEEK, self.n_nodes):
            raise ValueError(
                f"mean must have the shape ({HOURS_OF_WEEK}, {self.n_nodes}); got {table.shape}. Use "
                "hour_of_week_mean of windows with the same nodes."
            )
        return table

    def _select(self, rows: Rows) -> NDArray[np.int64]:
        """Starts of the selected windows."""
        if rows is None:
            return self.starts
        try:
            return np.atleast_1d(self.starts[rows])
        except IndexError as error:
            raise IndexError(
                f"rows must be a slice, positions from 0 to {len(self) - 1}, or one boolean for each of the "
                f"{len(self)} windows; got {shown(rows)}."
            ) from error

    def _last_times(self) -> Times:
        return self.times[self.starts + (self.n_past + self.n_future - 1)]

    def _sums_by_hour(self, table: NDArray[np.floating], is_used: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Sums and numbers of the observed readings at the given times, each (168, n_nodes)."""
        used = np.flatnonzero(is_used)
        hours = hour_of_week(self.times[used])
        sums, counts = np.zeros((2, HOURS_OF_WEEK, self.n_nodes))
        for hour in np.unique(hours):
            readings = table[used[hours == hour]].astype(np.float64)
            is_observed = ~np.isnan(readings)
            sums[hour] = np.where(is_observed, readings, 0.0).sum(axis=0)
            counts[hour] = is_observed.sum(axis=0)
        return sums, counts


def _gather(table: NDArray, first: NDArray[np.int64], length: int) -> NDArray:
    """Rows `first` to `first + length` of the table for each window, (n, n_columns, length)."""
    windows = sliding_window_view(table, length, axis=0)
    steps = np.diff(first)
    if len(first) and (not len(steps) or (steps[0] > 0 and (steps == steps[0]).all())):
        return windows[first[0] : first[-1] + 1 : steps[0] if len(steps) else 1]
    return windows[first]


def _read(values: ArrayLike, times: ArrayLike) -> tuple[NDArray[np.floating], Times]:
    """Readings and their times; raises ValueError unless there is one time per row."""
    table, moments = _to_readings(values, "values"), to_times(times)
    if len(moments) != len(table):
        raise ValueError(
            f"times must have one entry for each of the {len(table)} rows of values; got {len(moments)}."
        )
    return table, moments


def _to_readings(values: ArrayLike, name: str) -> NDArray[np.floating]:
    """Convert readings to a table of floats, without copying one."""
    is_float = isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.ndim == 2
    try:
        table = values if is_float else to_table(values)
    except ValueError as error:
        raise ValueError(str(error).replace("X ", f"{name} ", 1)) from error
    assert isinstance(table, np.ndarray)
    if np.isinf(table).any():
        raise ValueError(f"{name} contains infinite values. Replace them with NaN if they are unknown.")
    return table
