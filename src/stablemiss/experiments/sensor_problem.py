"""Rows of the runs with sensor networks: windows of two periods, or with imposed outages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2

from stablemiss.data import Bools, Floats
from stablemiss.datasets import Graph, SensorData, SensorWindows, load_berlin_traffic, load_sensor_folder
from stablemiss.datasets.source import data_folder
from stablemiss.datasets.times import hour_of_week, time_step, week_number
from stablemiss.evaluation import TestSets, TestSetting
from stablemiss.experiments.array_tables import BERLIN, DIDI, NO_OUTAGE, OUTAGE_LEVEL, OUTAGES, SENSORS_DARK
from stablemiss.experiments.problem import Problem
from stablemiss.experiments.shown import ShownOutage, ShownSensors, longest_outage
from stablemiss.missingness import SensorOutage
from stablemiss.seeding import Rng

if TYPE_CHECKING:
    from stablemiss.experiments.budgets import Budget
    from stablemiss.experiments.runs import Run

# PAPER: eight hours to predict from, eight to predict.
N_PAST, N_FUTURE = 8, 8
# Share of the training weeks that is held out for early stopping, of methods that have it.
VALIDATION_FRACTION = 0.1
# Of the usual readings by hour of the week; compared on later and earlier months of the training years.
SHRINKAGE = 20.0
# Sensors whose histories a sensor receives.
N_NEIGHBOURS = 8
# Imposed shifts: trained on three of four weeks of 2023, tested on the fourth.
WITHIN_YEAR, TEST_WEEK, WEEKS_PER_CYCLE = "2023", 3, 4
N_DISTRICTS = 12
# Mean length of an outage of a sensor, and of a district.
HOURS_SENSORS_DARK, HOURS_DISTRICTS_DARK = 48, 72
# Pictures show curves of the first instance, from so many hours before an outage.
HOURS_BEFORE_OUTAGE, SHOWN_HOURS = 24, 96


# First day of a period, and the day after its last.
Period = tuple[str, str | None]


class SensorNetwork(NamedTuple):
    """Readings, the graph, and named periods between which missingness differs."""

    data: SensorData
    graph: Graph | None
    periods: Mapping[str, Period]


@cache
def sensor_network(dataset: str) -> SensorNetwork:
    """The network of a data set; raises an error that says how to get data that are not there."""
    return _berlin() if dataset == BERLIN else _didi()


def _berlin() -> SensorNetwork:
    data = load_berlin_traffic()
    periods: dict[str, Period] = {
        "2023": ("2023-01-01", "2024-01-01"),
        "2024": ("2024-01-01", None),
        "Mar–Apr 2023": ("2023-03-01", "2023-05-01"),
        "Jan–Feb 2024": ("2024-01-01", "2024-03-01"),
    }
    return SensorNetwork(data, _graph(data), periods)


def _didi() -> SensorNetwork:
    folder = data_folder() / DIDI
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder} does not exist. The speeds of DiDi's City Traffic Index (Chengdu, 2018), which the "
            "paper uses, are not public; if you have them, write them there in the layout of "
            "load_sensor_folder."
        )
    data = load_sensor_folder(folder)
    step = time_step(data.times)
    if step != np.timedelta64(1, "h"):
        raise ValueError(
            f"The readings in {folder} must have a time step of one hour, because table 5 predicts "
            f"{N_FUTURE} hours from {N_PAST}; got a step of {step.astype('timedelta64[s]').item()}. Average "
            "them by hour."
        )
    # Of the middle, because clocks of other zones may have begun a year earlier.
    year = int(str(data.times[len(data.times) // 2])[:4])
    # PAPER: January to June for training, July to December for testing.
    halves: dict[str, Period] = {
        "Jan–Jun": (f"{year}-01-01", f"{year}-07-01"),
        "Jul–Dec": (f"{year}-07-01", f"{year + 1}-01-01"),
    }
    return SensorNetwork(data, _graph(data), halves)


def _graph(data: SensorData) -> Graph | None:
    """The listed edges, else the nearest neighbours; None if there are no coordinates either."""
    if data.graph is not None or data.coordinates is None:
        return data.graph
    k = min(N_NEIGHBOURS, max(1, len(data.names) - 1))
    return Graph.nearest(data.coordinates, k=k, names=data.names)


def sensor_settings(budget: Budget) -> dict[str, Any]:
    """What determines the windows beside the seed, for the record of a run."""
    return {
        "window_stride": budget.window_stride,
        "n_past": N_PAST,
        "n_future": N_FUTURE,
        "n_neighbours": N_NEIGHBOURS,
        "validation_fraction": VALIDATION_FRACTION,
        "shrinkage": SHRINKAGE,
        "outages": {
            "level": OUTAGE_LEVEL,
            "test_week": [TEST_WEEK, WEEKS_PER_CYCLE],
            "hours": [HOURS_SENSORS_DARK, HOURS_DISTRICTS_DARK],
            "n_districts": N_DISTRICTS,
        },
    }


class _Periods(NamedTuple):
    """Training windows, and the test windows under each setting."""

    train: SensorWindows
    tests: dict[TestSetting, SensorWindows]


def draw_sensor_problem(run: Run) -> Problem:
    """Histories and futures relative to the mean by hour of the week of the training windows."""
    network = sensor_network(run.dataset)
    windows = SensorWindows.of(network.data.values, network.data.times, N_PAST, N_FUTURE)
    rng = np.random.default_rng(run.seed)
    draw = _imposed if run.mechanism in OUTAGES else _natural
    periods = draw(run, windows, network)
    train = periods.train.with_target()[:: run.budget.window_stride]
    usual = periods.train.hour_of_week_mean(shrinkage=SHRINKAGE)
    tests = {
        setting: one.deseasonalised(usual)[:: run.budget.window_stride]
        for setting, one in periods.tests.items()
    }
    # All tests of a run predict the same readings.
    future = next(iter(tests.values())).future()
    residual = train.deseasonalised(usual)

    def measure(setting: TestSetting, predicted: Floats) -> dict[str, Any]:
        if run.instance != 0 or setting.mechanism == NO_OUTAGE:
            return {}
        windows = tests[setting]
        if setting.mechanism not in OUTAGES:
            places = network.data.coordinates
            if places is None:
                return {}
            sensors = ShownSensors.of(places, windows.history(), windows.future(), predicted)
            return {ShownSensors.key: sensors.to_extra()}
        outage = shown_outage(windows, usual, predicted, network.data.names, run.budget.window_stride)
        return {} if outage is None else {ShownOutage.key: outage.to_extra()}

    return Problem(
        _history(residual),
        residual.future().astype(np.float64),
        _validation_weeks(train, rng),
        TestSets({setting: _history(one) for setting, one in tests.items()}, future, measure),
        None,
        network.graph,
    )


def shown_outage(
    windows: SensorWindows, usual: Floats, predicted: Floats, names: Sequence[str], step: int
) -> ShownOutage | None:
    """The longest outage of one sensor within a week, with the newest prediction of each hour.

    Windows follow each other by `step` hours.
    """
    is_missing = np.isnan(windows.history()[:, :, -1])
    is_target = ~np.isnan(windows.future()[:, :, 0])
    n_before, best, found = max(1, HOURS_BEFORE_OUTAGE // step), 0, None
    for week in np.unique(windows.blocks):
        rows = np.flatnonzero(windows.blocks == week)
        outage = longest_outage(is_missing[rows], is_target[rows], n_before)
        if outage is not None and outage.length > best:
            best, found = outage.length, (rows[outage.first - n_before :], outage.column)
    if found is None:
        return None
    rows, sensor = found
    shown = windows[rows]
    first = int(shown.starts[0]) + shown.n_past
    n_hours = min(SHOWN_HOURS, int(shown.starts[-1]) + shown.n_past + shown.n_future - first)
    newest = np.full(n_hours, np.nan)
    relative = predicted[rows, sensor] + shown.seasonal(usual)[:, sensor]
    for row, start in enumerate(shown.starts - shown.starts[0]):
        stop = min(n_hours, int(start) + shown.n_future)
        # A later window replaces what an earlier one predicted.
        newest[start:stop] = relative[row, : max(0, stop - start)]
    hours = np.arange(first, first + n_hours)
    is_dark = np.isnan(shown.inputs[hours, sensor])
    observed = shown.values[hours, sensor] + usual[hour_of_week(shown.times[hours]), sensor]
    return ShownOutage(names[sensor], str(shown.times[first]), is_dark, observed.astype(np.float64), newest)


def _history(windows: SensorWindows) -> Floats:
    return windows.history(calendar=True).astype(np.float64, copy=False)


def _natural(run: Run, windows: SensorWindows, network: SensorNetwork) -> _Periods:
    """Another period: the missingness moves, and some speeds with it."""
    train = windows.between(*network.periods[run.mechanism])
    tests = {test: windows.between(*network.periods[test.mechanism]).with_target() for test in run.tests}
    return _Periods(train, tests)


def _imposed(run: Run, windows: SensorWindows, network: SensorNetwork) -> _Periods:
    """Outages imposed on held-out weeks of the training year: only the missingness moves."""
    train, held_out = split_weeks(windows.between(*network.periods[WITHIN_YEAR]))
    held_out = held_out.with_target()
    train_seed, test_seed = np.random.SeedSequence(run.seed).spawn(2)

    def with_outage(name: str, seed: np.random.SeedSequence) -> np.ndarray:
        return _with_outage(name, windows.values, network, np.random.default_rng(seed))

    train = train.with_inputs(with_outage(run.mechanism, train_seed))
    tests = {test: held_out.with_inputs(with_outage(test.mechanism, test_seed)) for test in run.tests}
    return _Periods(train, tests)


def split_weeks(windows: SensorWindows) -> tuple[SensorWindows, SensorWindows]:
    """Windows of training weeks, and of test weeks; those that lie in both are in neither."""
    is_test = np.stack([week_number(times) % WEEKS_PER_CYCLE == TEST_WEEK for times in _bounds(windows)])
    return windows[~is_test.any(axis=0)], windows[is_test.all(axis=0)]


def _bounds(windows: SensorWindows) -> tuple[np.ndarray, np.ndarray]:
    """First and last time of each window."""
    last = windows.starts + windows.n_past + windows.n_future - 1
    return windows.times[windows.starts], windows.times[last]


def _with_outage(name: str, readings: np.ndarray, network: SensorNetwork, rng: Rng) -> np.ndarray:
    """Readings with an imposed outage."""
    if name == NO_OUTAGE:
        return readings
    if name == SENSORS_DARK:
        return SensorOutage(OUTAGE_LEVEL, duration=HOURS_SENSORS_DARK).hide(readings, rng)
    # Neighbouring road sections, in groups of about twenty.
    places = np.asarray(network.data.coordinates, dtype=np.float64)
    _, districts = kmeans2(places, N_DISTRICTS, minit="++", seed=np.random.default_rng(0))
    return SensorOutage(
        OUTAGE_LEVEL, duration=HOURS_DISTRICTS_DARK, districts=tuple(districts.tolist())
    ).hide(readings, rng)


def _validation_weeks(train: SensorWindows, rng: Rng) -> Bools:
    weeks = np.unique(train.blocks)
    n_held_out = max(1, round(VALIDATION_FRACTION * len(weeks)))
    return np.isin(train.blocks, rng.permutation(weeks)[:n_held_out])
