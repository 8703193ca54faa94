"""Pictures of digits, sensors and outages from records."""

import re
from dataclasses import replace

import numpy as np
import pytest

from stablemiss.experiments.array_tables import ARRAY_TABLES, SENSORS_DARK
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.shown import ShownDigits, ShownOutage, ShownSensors
from stablemiss.report.page import render_page
from stablemiss.report.pictures import array_pictures
from stablemiss.results import Record, Score

QUICK = BUDGETS["quick"]
NATURAL = {"train": ("2023", None), "test": ("2024", None), "dataset": "berlin"}
REVERSED = {"train": ("2024", None), "test": ("2023", None), "dataset": "berlin"}
IMPOSED = {"train": ("no outage", 0.0), "test": (SENSORS_DARK, 0.3), "dataset": "berlin"}


def record(label, shown, train=("mar", 0.5), test=("mar", 0.5), dataset="mnist"):
    """A record of table 4 or 5 that keeps something to show."""
    scores = (Score(*test, 12.0, extra={shown.key: shown.to_extra()}),)
    return Record(
        *("quick", dataset, *train, 0, label),
        seed=0,
        scores=scores,
        versions={"python": "3.11"},
        finished="2025-01-01T00:00:00+00:00",
        seconds=1.0,
    )


def digits(brightness):
    image = np.full((2, 4, 4), 100.0)
    return ShownDigits.of(image, np.where(np.eye(4), np.nan, image), np.full(image.shape, brightness))


def sensors(error):
    target = np.zeros((5, 3, 2))
    return ShownSensors.of(
        np.array([[52.5, 13.4], [52.6, 13.5], [52.4, 13.3]]), target, target, target + error
    )


def outage(speed):
    dark = np.arange(30) > 20
    return ShownOutage("TE1", "2023-01-09T08", dark, np.full(30, 40.0), np.full(30, speed))


def test_digits_have_a_row_for_each_method_with_records():
    records = [record("ols", digits(10.0)), record("neumiss", digits(200.0))]
    (picture,) = array_pictures(ARRAY_TABLES["table4"], records, QUICK)
    # A quarter of the pixels of each digit is missing.
    for text in ("complete", "incomplete", "OLS", "NeuMiss", "50%", ">25%<"):
        assert text in picture.svg
    assert "MIWAE" not in picture.svg
    changed = [records[0], record("neumiss", digits(100.0))]
    assert array_pictures(ARRAY_TABLES["table4"], changed, QUICK)[0].svg != picture.svg


def test_a_map_and_curves_compare_methods_with_records():
    records = [
        record("ridge_on_lags", sensors(3.0), **NATURAL),
        record("kalman", sensors(4.0), **NATURAL),
        record("ridge_on_lags", outage(42.0), **IMPOSED),
    ]
    where, curve = array_pictures(ARRAY_TABLES["table5"], records, QUICK)
    assert "missing in the test" in where.svg
    assert where.caption.startswith("2023 → 2024")
    assert "Kalman" in where.svg
    assert "sensor dark" in curve.svg
    assert "TE1" in curve.caption


def sensor_pictures(*records):
    return array_pictures(ARRAY_TABLES["table5"], records, QUICK)


def test_the_last_map_is_the_difference_between_two_methods():
    ridge = record("ridge_on_lags", sensors(3.0), **NATURAL)
    [one] = sensor_pictures(ridge)
    assert "minus" not in one.svg
    [both] = sensor_pictures(ridge, record("kalman", sensors(4.0), **NATURAL))
    assert "minus" in both.svg
    assert "ridge on lags has the lower error (3 of 3 sensors)" in both.caption
    ids = re.findall(r'\bid="([^"]+)"', both.svg)
    assert len(ids) == len(set(ids))


def test_colours_mean_the_same_in_all_maps():
    """The scales of both pictures reach the larger errors."""
    small, large = record("kalman", sensors(3.0), **NATURAL), record("kalman", sensors(300.0), **REVERSED)
    assert ">200<" not in sensor_pictures(small)[0].svg
    assert [">200<" in picture.svg for picture in sensor_pictures(small, large)] == [True, True]


def test_sensors_and_hours_without_observations_are_explained():
    known, unknown = sensors(3.0), sensors(3.0)
    unknown.rmse[1] = np.nan
    captions = [sensor_pictures(record("kalman", one, **NATURAL))[0].caption for one in (known, unknown)]
    assert ["1 of 3 sensors" in caption for caption in captions] == [False, True]
    complete, interrupted = outage(42.0), outage(42.0)
    interrupted.observed[5:12] = np.nan
    shown = (complete, interrupted)
    captions = [sensor_pictures(record("kalman", one, **IMPOSED))[0].caption for one in shown]
    assert ["interrupted in 7 hours" in caption for caption in captions] == [False, True]


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("table4", record("ols", digits(1.0))),
        ("table5", record("kalman", sensors(1.0), ("2023", None), ("2024", None), "berlin")),
    ],
)
def test_records_that_keep_nothing_or_are_of_another_budget_have_no_pictures(name, one):
    table = ARRAY_TABLES[name]
    assert len(array_pictures(table, [one], QUICK)) == 1
    empty = replace(one, scores=tuple(replace(score, extra={}) for score in one.scores))
    assert array_pictures(table, [empty], QUICK) == []
    assert array_pictures(table, [replace(one, experiment="standard")], QUICK) == []


def test_the_page_contains_the_pictures():
    page = render_page([record("ols", digits(10.0))], QUICK)
    assert "table4-digits" in page
    assert "missing pixels are blue" in page
