"""Rows of the runs with images and sensor networks: loaded, split and masked, all determined by the seed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2

from stablemiss.data import Bools, Floats
from stablemiss.datasets import (
    Graph,
    ImageDataset,
    SensorData,
    SensorWindows,
    load_berlin_traffic,
    load_mnist,
)
from stablemiss.datasets.times import hour_of_week, week_number
from stablemiss.evaluation import TestSets, TestSetting
from stablemiss.experiments.array_tables import NO_OUTAGE, OUTAGE_LEVEL, OUTAGES, SENSORS_DARK
from stablemiss.experiments.problem import Problem
from stablemiss.experiments.shown import ShownDigits, ShownOutage, ShownSensors, longest_outage
from stablemiss.missingness import MECHANISMS, Mechanism, SensorOutage
from stablemiss.seeding import Rng

if TYPE_CHECKING:
    from stablemiss.experiments.runs import Run

# PAPER: eight hours to predict from, eight to predict.
N_PAST, N_FUTURE = 8, 8
# Share of the training rows that is held out for early stopping, in whole weeks for sensors.
VALIDATION_FRACTION = 0.1
# Sensors whose histories a sensor receives.
N_NEIGHBOURS = 8
# Natural shifts: training period → test period, from the first day to before the last.
PERIODS = {
    "2023": ("2023-01-01", "2024-01-01"),
    "2024": ("2024-01-01", None),
    "Mar–Apr 2023": ("2023-03-01", "2023-05-01"),
    "Jan–Feb 2024": ("2024-01-01", "2024-03-01"),
}
# Imposed shifts: trained on three of four weeks of 2023, tested on the fourth.
WITHIN_YEAR, TEST_WEEK, WEEKS_PER_CYCLE = "2023", 3, 4
N_DISTRICTS = 12
# What pictures show, of the first instance: the first test digits at these levels; a curve from so many hours
# before an outage.
N_SHOWN_DIGITS, SHOWN_LEVELS = 3, (0.1, 0.5, 0.9)
HOURS_BEFORE_OUTAGE, SHOWN_HOURS = 24, 96


@cache
def mnist() -> ImageDataset:
    return load_mnist()


@cache
def berlin() -> SensorData:
    return load_berlin_traffic()


@cache
def berlin_graph() -> Graph:
    """Each road section with its nearest ones."""
    return Graph.nearest(_places(), k=N_NEIGHBOURS, names=berlin().names)


def _places() -> Floats:
    """Latitude and longitude of each road section."""
    return np.asarray(berlin().coordinates, dtype=np.float64)


def draw_image_problem(run: Run) -> Problem:
    """Incomplete digits and the complete ones. Runs that differ only in their label get identical rows.

    The mechanism is fitted once, on the complete training images; between training and test only its level
    changes.
    """
    budget, data = run.budget, mnist()
    train_seed, test_seed, mask_seed, validation_seed = np.random.SeedSequence(run.seed).spawn(4)
    rng = np.random.default_rng(train_seed)
    train = rng.permutation(data.n_train)[: budget.n_images]
    n_test = len(data.images) - data.n_train
    test = data.n_train + np.random.default_rng(test_seed).permutation(n_test)[: budget.n_test_images]
    images, test_images = data.images[train], data.images[test]
    mechanism = MECHANISMS[run.mechanism](run.level).fit(_flat(images), rng)
    tests = {
        # Each level starts from the same random numbers: pixels missing at 20% are mostly missing at 30% too.
        setting: _hide(mechanism.at(setting.level or 0.0), test_images, np.random.default_rng(mask_seed))
        for setting in run.tests
    }
    is_validation = np.zeros(len(train), dtype=bool)
    n_validation = round(VALIDATION_FRACTION * len(train))
    is_validation[np.random.default_rng(validation_seed).permutation(len(train))[:n_validation]] = True
    masked = _hide(mechanism, images, rng)

    def measure(setting: TestSetting, predicted: Floats) -> dict[str, Any]:
        if run.instance != 0 or setting.level not in SHOWN_LEVELS:
            return {}
        shown = (images[:N_SHOWN_DIGITS] for images in (test_images, tests[setting], predicted))
        return {ShownDigits.key: ShownDigits.of(*shown).to_extra()}

    tests_and_images = TestSets(tests, test_images, measure)
    return Problem(masked, images.astype(np.float64), is_validation, tests_and_images, None)


def _flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1)


def _hide(mechanism: Mechanism, images: np.ndarray, rng: Rng) -> Floats:
    return mechanism.hide(_flat(images), rng).reshape(images.shape)


class _Periods(NamedTuple):
    """Training windows, and the test windows under each setting."""

    train: SensorWindows
    tests: dict[TestSetting, SensorWindows]


def draw_sensor_problem(run: Run) -> Problem:
    """Histories and futures relative to the mean by hour of the week of the training windows."""
    windows = SensorWindows.of(berlin().values, berlin().times, N_PAST, N_FUTURE)
    rng = np.random.default_rng(run.seed)
    periods = _imposed(run, windows) if run.mechanism in OUTAGES else _natural(run, windows)
    train = periods.train.with_target()[:: run.budget.window_stride]
    usual = periods.train.hour_of_week_mean()
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
            sensors = ShownSensors.of(_places(), windows.history(), windows.future(), predicted)
            return {ShownSensors.key: sensors.to_extra()}
        outage = _shown_outage(windows, usual, predicted)
        return {} if outage is None else {ShownOutage.key: outage.to_extra()}

    return Problem(
        _history(residual),
        residual.future().astype(np.float64),
        _validation_weeks(train, rng),
        TestSets({setting: _history(one) for setting, one in tests.items()}, future, measure),
        None,
        berlin_graph(),
    )


def _shown_outage(windows: SensorWindows, usual: Floats, predicted: Floats) -> ShownOutage | None:
    """The longest outage of one sensor within a week, with the newest prediction of each hour."""
    is_missing = np.isnan(windows.history()[:, :, -1])
    is_target = ~np.isnan(windows.future()[:, :, 0])
    step = int(np.median(np.diff(windows.starts)))
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
    newest, is_dark = np.full(n_hours, np.nan), np.zeros(n_hours, dtype=bool)
    relative = predicted[rows, sensor] + shown.seasonal(usual)[:, sensor]
    for row, start in enumerate(shown.starts - shown.starts[0]):
        stop = min(n_hours, int(start) + shown.n_future)
        # A later window replaces what an earlier one predicted.
        newest[start:stop] = relative[row, : max(0, stop - start)]
        is_dark[start:stop] = is_missing[rows[row], sensor]
    hours = np.arange(first, first + n_hours)
    observed = shown.values[hours, sensor] + usual[hour_of_week(shown.times[hours]), sensor]
    return ShownOutage(
        str(berlin().names[sensor]), str(shown.times[first]), is_dark, observed.astype(np.float64), newest
    )


def _history(windows: SensorWindows) -> Floats:
    return windows.history(calendar=True).astype(np.float64, copy=False)


def _natural(run: Run, windows: SensorWindows) -> _Periods:
    """Another period: the missingness moves, and some speeds with it."""
    train = windows.between(*PERIODS[run.mechanism])
    tests = {test: windows.between(*PERIODS[test.mechanism]).with_target() for test in run.tests}
    return _Periods(train, tests)


def _imposed(run: Run, windows: SensorWindows) -> _Periods:
    """Outages imposed on held-out weeks of the training year: only the missingness moves."""
    year = windows.between(*PERIODS[WITHIN_YEAR])
    # No reading belongs to training and test windows: a window must lie in one kind of week.
    is_test = np.stack([week_number(times) % WEEKS_PER_CYCLE == TEST_WEEK for times in _bounds(year)])
    held_out = year[is_test.all(axis=0)].with_target()
    train_seed, test_seed = np.random.SeedSequence(run.seed).spawn(2)

    def with_outage(name: str, seed: np.random.SeedSequence) -> np.ndarray:
        return _with_outage(name, windows.values, np.random.default_rng(seed))

    train = year[~is_test.any(axis=0)].with_inputs(with_outage(run.mechanism, train_seed))
    tests = {test: held_out.with_inputs(with_outage(test.mechanism, test_seed)) for test in run.tests}
    return _Periods(train, tests)


def _bounds(windows: SensorWindows) -> tuple[np.ndarray, np.ndarray]:
    """First and last time of each window."""
    last = windows.starts + windows.n_past + windows.n_future - 1
    return windows.times[windows.starts], windows.times[last]


def _with_outage(name: str, readings: np.ndarray, rng: Rng) -> np.ndarray:
    """Readings with an imposed outage."""
    if name == NO_OUTAGE:
        return readings
    if name == SENSORS_DARK:
        return SensorOutage(OUTAGE_LEVEL, duration=48).hide(readings, rng)
    return SensorOutage(OUTAGE_LEVEL, duration=72, districts=_districts()).hide(readings, rng)


@cache
def _districts() -> tuple[int, ...]:
    """Neighbouring road sections, in groups of about twenty."""
    _, district = kmeans2(_places(), N_DISTRICTS, minit="++", seed=np.random.default_rng(0))
    return tuple(district.tolist())


def _validation_weeks(train: SensorWindows, rng: Rng) -> Bools:
    weeks = np.unique(train.blocks)
    n_held_out = max(1, round(VALIDATION_FRACTION * len(weeks)))
    return np.isin(train.blocks, rng.permutation(weeks)[:n_held_out])
