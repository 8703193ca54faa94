"""What records keep for pictures."""

import json

import numpy as np
import pytest

from stablemiss.experiments.shown import ShownDigits, ShownOutage, ShownSensors, longest_outage


def stored(shown):
    """The same after a round trip through JSON."""
    return type(shown).from_extra(json.loads(json.dumps(shown.to_extra(), allow_nan=False)))


def test_digits_survive_and_predictions_beyond_the_range_are_cut_off():
    rng = np.random.default_rng(0)
    complete = rng.integers(0, 256, size=(3, 5, 7)).astype(float)
    missing = rng.random(complete.shape) < 0.4
    digits = stored(ShownDigits.of(complete, np.where(missing, np.nan, complete), complete * 3 - 200))
    np.testing.assert_array_equal(digits.complete, complete)
    np.testing.assert_array_equal(digits.missing, missing)
    np.testing.assert_array_equal(digits.predicted, np.clip(complete * 3 - 200, 0, 255))


def test_error_of_a_sensor_is_over_its_observed_targets():
    target = np.array([[[1.0, np.nan], [np.nan, np.nan]], [[2.0, 3.0], [np.nan, np.nan]]])
    histories = np.array([[[np.nan], [0.0]], [[0.0], [0.0]]])
    sensors = stored(ShownSensors.of(np.array([[52.5, 13.4], [52.6, 13.5]]), histories, target, target + 2))
    assert sensors.rmse[0] == 2
    assert np.isnan(sensors.rmse[1])
    assert sensors.missing.tolist() == [0.5, 0]
    assert sensors.latitude.tolist() == [52.5, 52.6]


def test_an_outage_survives():
    outage = stored(
        ShownOutage(
            "a", "2024-01-01T00", np.array([False, True]), np.array([1.0, np.nan]), np.array([2.5, 3.0])
        )
    )
    assert (outage.sensor, outage.start) == ("a", "2024-01-01T00")
    assert outage.is_dark.tolist() == [False, True]
    np.testing.assert_array_equal(outage.observed, [1, np.nan])
    np.testing.assert_array_equal(outage.predicted, [2.5, 3])


@pytest.mark.parametrize(
    ("missing", "is_target", "expected"),
    [
        ("000111", "111111", (3, 3, 0)),
        # Dark from the start, so there is nothing before it.
        ("111001", "111111", (5, 1, 0)),
        # Nothing to compare with during the longest run.
        ("0010111", "1111000", (2, 1, 0)),
        ("0000", "1111", None),
    ],
)
def test_an_outage_needs_readings_before_it_and_targets_during_it(missing, is_target, expected):
    columns = (np.array([[bit == "1"] for bit in text]) for text in (missing, is_target))
    assert longest_outage(*columns, n_before=1) == expected
