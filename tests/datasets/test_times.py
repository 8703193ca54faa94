"""Times: conversion, the regular grid, hours and weeks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from stablemiss.datasets import hour_of_week, to_regular_grid
from stablemiss.datasets.times import time_step, to_times, week_number

START = np.datetime64("2024-01-01T00", "h")  # a Monday


def grid_of(hours: list[int], **options):
    """Readings 0, 10, 20, … at the given hours."""
    return to_regular_grid(10.0 * np.array(hours)[:, None], START + np.array(hours), **options)


@pytest.mark.parametrize(
    "times",
    [
        np.array(["2024-01-01T08:30"], dtype="datetime64[m]"),
        ["2024-01-01 08:30"],
        ["2024-01-01T08:30:00Z"],
        ["2024-01-01T09:30+01:00"],
        [datetime(2024, 1, 1, 8, 30)],
        [datetime(2024, 1, 1, 9, 30, tzinfo=timezone(timedelta(hours=1)))],
        [np.datetime64("2024-01-01T08:30")],
        pd.DatetimeIndex(["2024-01-01T08:30"]),
        pd.Series(pd.to_datetime(["2024-01-01T08:30"])),
        pd.DatetimeIndex(["2024-01-01T09:30"], tz="Europe/Berlin"),
    ],
    ids=lambda times: type(times).__name__,
)
def test_the_same_moment_in_any_form_is_the_same_time(times):
    assert to_times(times)[0] == np.datetime64("2024-01-01T08:30")


def test_dates_and_fractions_of_seconds_are_kept():
    assert to_times([date(2024, 1, 1)])[0] == START
    assert to_times(["2024-01-01T00:00:00.25"])[0] == START + np.timedelta64(250, "ms")


@pytest.mark.parametrize(
    ("times", "facts"),
    [
        (["2024-01-01", "01.02.2024"], ["'01.02.2024'", "position 1", "ISO 8601"]),
        ([1.5], ["1.5"]),
        (["2024-01-01", None], ["None", "position 1"]),
        (np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"), ["entry 1"]),
        ([pd.Timestamp("2024-01-01"), pd.NaT], ["NaT", "position 1"]),
        (["2024-01-01", "2024-01-01T00:00Z"], ["UTC offset", "1 of 2"]),
        (np.array([["2024-01-01"]], dtype="datetime64[D]"), ["(1, 1)"]),
        ("2024-01-01", ["sequence"]),
    ],
)
def test_the_error_for_wrong_times_says_which_one(times, facts):
    with pytest.raises(ValueError) as error:
        to_times(times)
    for fact in facts:
        assert fact in str(error.value)


def test_a_gap_becomes_missing_rows_and_nothing_else_changes():
    values, times = grid_of([0, 1, 2, 5, 6])
    np.testing.assert_array_equal(values[:, 0], [0, 10, 20, np.nan, np.nan, 50, 60])
    np.testing.assert_array_equal(times, START + np.arange(7))


def test_the_order_of_the_rows_does_not_matter():
    shuffled = grid_of([5, 0, 2, 6, 1])
    for given, expected in zip(shuffled, grid_of([0, 1, 2, 5, 6]), strict=True):
        np.testing.assert_array_equal(given, expected)


def test_a_regular_grid_is_returned_without_a_copy():
    values = np.zeros((5, 2), dtype=np.float32)
    assert to_regular_grid(values, START + np.arange(5))[0] is values


@pytest.mark.parametrize("step", [np.timedelta64(30, "m"), timedelta(minutes=30), np.timedelta64(1800, "s")])
def test_a_given_step_makes_a_finer_grid(step):
    values, times = grid_of([0, 1, 2], step=step)
    np.testing.assert_array_equal(values[:, 0], [0, np.nan, 10, np.nan, 20])
    assert times[1] - times[0] == np.timedelta64(30, "m")


def test_one_row_is_a_grid():
    values, times = grid_of([3])
    assert values.shape == (1, 1)
    assert len(times) == 1


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: grid_of([0, 1, 1, 2]), ["2024-01-01T01", "more than once", "UTC"]),
        (lambda: grid_of([0, 2, 4, 5, 6, 8]), ["2024-01-01T05", "0 others", "2 hours"]),
        (lambda: grid_of([0, 1, 2, 90_000]), ["90001 times", "only 4"]),
        (lambda: grid_of([0, 1], step="1h"), ["step", "'1h'"]),
        (lambda: grid_of([0, 1], step=np.timedelta64(0, "h")), ["step", "above 0"]),
        (lambda: grid_of([0, 1], step=np.timedelta64(1, "M")), ["step", "months"]),
        (lambda: to_regular_grid(np.zeros((3, 1)), START + np.arange(2)), ["3 rows", "got 2"]),
    ],
)
def test_the_error_for_irregular_times_names_one(call, facts):
    with pytest.raises(ValueError) as error:
        call()
    for fact in facts:
        assert fact in str(error.value)


def test_the_step_of_irregular_times_is_an_error():
    assert time_step(START + np.arange(0, 9, 3)) == np.timedelta64(3, "h")
    for hours in ([0, 1, 3], [0, 0], [2, 1], [0, 1, 0]):
        with pytest.raises(ValueError, match="equal steps"):
            time_step(START + np.array(hours))


def test_hours_and_weeks_agree_with_the_calendar():
    moments = [datetime(1969, 12, 1, tzinfo=UTC) + timedelta(hours=37 * i) for i in range(600)]
    times = to_times(moments)
    assert hour_of_week(times).tolist() == [24 * m.weekday() + m.hour for m in moments]
    weeks = [m.isocalendar()[:2] for m in moments]
    number = week_number(times)
    assert all((number[i] == number[i + 1]) == (weeks[i] == weeks[i + 1]) for i in range(599))
    assert (np.diff(number) >= 0).all()
