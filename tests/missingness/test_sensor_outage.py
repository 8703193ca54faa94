"""Sensors that are dark for many rows in a row."""

from __future__ import annotations

import numpy as np
import pytest

from stablemiss.missingness import SensorOutage

READINGS = np.random.default_rng(0).normal(size=(20_000, 6))


def draw(mechanism: SensorOutage, readings: np.ndarray = READINGS) -> np.ndarray:
    return mechanism.draw(readings, np.random.default_rng(1))


def outages(mask: np.ndarray) -> np.ndarray:
    """Lengths of the complete outages of one column."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], mask, [True]]).astype(int)))
    return np.diff(edges)[::2][1:-1]


@pytest.mark.parametrize("level", [0.1, 0.5])
@pytest.mark.parametrize("duration", [1, 24])
def test_level_and_mean_duration_are_as_given(level: float, duration: float) -> None:
    mask = draw(SensorOutage(level, duration))
    assert 1 - mask.mean() == pytest.approx(level, abs=0.04)
    lengths = np.concatenate([outages(column) for column in mask.T])
    assert lengths.mean() == pytest.approx(duration, rel=0.15)


def test_sensors_fail_alone_or_with_their_district() -> None:
    alone = draw(SensorOutage(0.3))
    assert all(np.any(alone[:, 0] != alone[:, column]) for column in range(1, 6))
    together = draw(SensorOutage(0.3, districts=[7, 7, 7, 2, 2, 9]))
    for first, second, is_same in ((0, 2, True), (3, 4, True), (0, 3, False), (3, 5, False)):
        assert np.array_equal(together[:, first], together[:, second]) == is_same


def test_failures_do_not_depend_on_the_readings() -> None:
    np.testing.assert_array_equal(draw(SensorOutage(0.3)), draw(SensorOutage(0.3), -5 * READINGS))


def test_nothing_or_everything_is_hidden_at_the_extreme_levels() -> None:
    assert draw(SensorOutage(0.0)).all()
    assert not draw(SensorOutage(0.3).at(1.0)).any()


def test_missing_readings_stay_missing() -> None:
    readings = READINGS.copy()
    readings[:5] = np.nan
    assert not draw(SensorOutage(0.0), readings)[:5].any()


def test_a_level_that_short_outages_cannot_reach_is_refused() -> None:
    with pytest.raises(ValueError, match=r"duration=2 the level can be at most 0\.666667.* got 0\.8"):
        SensorOutage(0.8, duration=2)
    assert 1 - draw(SensorOutage(2 / 3, duration=2)).mean() == pytest.approx(2 / 3, abs=0.02)


@pytest.mark.parametrize("bad", [{"level": 2.0}, {"level": 0.1, "duration": 0.5}, {"level": None}])
def test_invalid_parameters_are_refused(bad: dict) -> None:
    with pytest.raises(ValueError, match=next(name for name in reversed(bad))):
        SensorOutage(**bad)


def test_districts_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="each of the 6 columns; got 2"):
        draw(SensorOutage(0.3, districts=[0, 1]))
