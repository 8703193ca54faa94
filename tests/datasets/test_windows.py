"""Windows of sensor networks: what they contain, that nothing is copied, and what they leave out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from stablemiss import MissingRegressor
from stablemiss.datasets import SensorWindows, hour_of_week
from stablemiss.estimators.validation import choose_validation_rows

START = np.datetime64("2024-01-01T00", "h")  # a Monday


def times_of(n: int) -> np.ndarray:
    return START + np.arange(n)


def readings(n: int, n_nodes: int = 3, missing: float = 0.2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, n_nodes))
    values[rng.random(values.shape) < missing] = np.nan
    return values


def windows_of(n: int = 500, past: int = 5, future: int = 3, **options) -> SensorWindows:
    return SensorWindows.of(readings(n, **options), times_of(n), past=past, future=future)


@pytest.mark.parametrize(("past", "future"), [(1, 1), (5, 3), (2, 7)])
def test_every_window_holds_successive_readings_of_each_node(past, future):
    windows = windows_of(40, past, future)
    assert len(windows) == 40 - past - future + 1
    history, target = windows.history(), windows.future()
    for i in range(len(windows)):
        np.testing.assert_array_equal(history[i], windows.values[i : i + past].T)
        np.testing.assert_array_equal(target[i], windows.values[i + past : i + past + future].T)


@pytest.mark.parametrize(
    "rows",
    [slice(3, 90, 7), [5, 2, 2, 8], np.array([4]), np.arange(450) % 3 == 0, [], slice(0, 0), 6, [0, -1]],
    ids=str,
)
def test_selected_rows_are_those_of_all_windows(rows):
    windows = windows_of(457)
    assert len(windows) == 450
    index = np.atleast_1d(np.arange(450)[rows])
    np.testing.assert_array_equal(windows.history(rows), windows.history()[index])
    np.testing.assert_array_equal(windows.future(rows), windows.future()[index])
    np.testing.assert_array_equal(windows.calendar(rows), windows.calendar()[index])
    selected = windows[rows]
    np.testing.assert_array_equal(selected.future(), windows.future()[index])
    np.testing.assert_array_equal(selected.blocks, windows.blocks[index])
    assert repr(selected)


def test_nothing_is_copied_until_windows_are_asked_for_and_then_only_these():
    # The size of a city: copies of history and future would take 740 MB.
    values = np.zeros((4_315, 1_343))
    times = times_of(len(values))
    tracemalloc.start()
    try:
        windows = SensorWindows.of(values, times)
        history, future = windows.history(), windows.future()
        half = windows[::2].between("2024-02-01", "2024-03-01")
        batch = windows.history([7, 3, 100])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert history.shape == future.shape == (4_300, 1_343, 8)
    for view in (windows.values, windows.inputs, history, future, half.history(), half.future(slice(5))):
        assert np.shares_memory(view, values)
    assert batch.nbytes == 3 * 1_343 * 8 * 8
    # The check for infinite readings takes one byte for each of them.
    assert peak < 10e6
    with pytest.raises(ValueError, match="read-only"):
        history[0, 0, 0] = 1.0


def test_single_precision_is_kept():
    windows = SensorWindows.of(readings(30).astype(np.float32), times_of(30))
    assert windows.history().dtype == windows.future([3, 1]).dtype == np.float32


def test_a_period_contains_whole_windows_only_so_that_two_periods_share_no_reading():
    windows = windows_of(24 * 28)
    middle = np.datetime64("2024-01-15")
    before, after = windows.between(None, middle), windows.between(middle, None)
    length = windows.n_past + windows.n_future
    assert len(before) + len(after) == len(windows) - (length - 1)
    used = [{int(s) + i for s in part.starts for i in range(length)} for part in (before, after)]
    assert not used[0] & used[1]
    assert len(windows.between()) == len(windows)
    assert len(windows.between("2024-01-02", "2024-01-02T08:00")) == 1


def test_blocks_are_calendar_weeks_and_the_same_in_every_selection():
    windows = windows_of(24 * 7 * 4)
    assert np.unique(windows.blocks, return_counts=True)[1].tolist() == [168, 168, 168, 161]
    later = windows.between("2024-01-15")
    assert set(later.blocks) == set(windows.blocks[-len(later) :])
    assert windows.blocks[167] + 1 == windows.blocks[168]


def test_blocks_as_groups_hold_out_whole_weeks():
    windows = windows_of(24 * 7 * 10)
    rng = np.random.default_rng(0)
    train, valid = choose_validation_rows(np.zeros(len(windows)), 0.2, rng, groups=windows.blocks)
    assert not set(windows.blocks[train]) & set(windows.blocks[valid])
    table = windows.history().reshape(len(windows), -1)
    target = np.nan_to_num(windows.future()[:, 0, 0])
    model = MissingRegressor("constant", random_state=0).fit(table, target, groups=windows.blocks)
    assert np.isfinite(model.predict(table[:3])).all()


def test_calendar_features_are_finite_repeat_every_week_and_distinguish_its_hours():
    windows = windows_of(24 * 7 * 3)
    calendar = windows.calendar()
    assert calendar.shape == (len(windows), len(windows.calendar_names))
    assert np.abs(calendar).max() <= 1
    np.testing.assert_allclose(calendar[168:336], calendar[:168], atol=1e-12)
    assert len(np.unique(calendar[:168].round(9), axis=0)) == 168


def test_calendar_features_describe_the_first_time_to_predict():
    times = np.datetime64("2024-01-06T15") + np.arange(20)  # a Saturday
    windows = SensorWindows.of(readings(20), times, past=9, future=1)
    first = dict(zip(windows.calendar_names, windows.calendar()[0], strict=True))  # Sunday, 0:00
    assert first["sunday"] == 1
    assert first["saturday"] == 0
    assert first["cos_1_per_day"] == first["cos_1_per_day_on_weekends"] == 1


def test_hour_of_week_means_agree_with_a_loop():
    windows = windows_of(24 * 7 * 8, missing=0.1)
    mean = windows.hour_of_week_mean(shrinkage=0)
    hours = hour_of_week(windows.times)
    for hour in range(0, 168, 13):
        np.testing.assert_allclose(mean[hour], np.nanmean(windows.values[hours == hour], axis=0))


def test_every_time_counts_once_whatever_the_overlap_and_test_times_do_not_count():
    windows = windows_of(24 * 7 * 6, missing=0.0)
    train = windows.between(None, "2024-01-29")
    mean = windows.hour_of_week_mean(np.arange(len(train)), shrinkage=0)
    np.testing.assert_array_equal(mean, train.hour_of_week_mean(shrinkage=0))
    expected = windows.values[: 4 * 168].reshape(4, 168, -1).mean(axis=0)
    np.testing.assert_allclose(mean, expected)
    # Two windows that share 7 of their 8 times have 9 times.
    pair = windows[[0, 1]].hour_of_week_mean(shrinkage=0)
    np.testing.assert_allclose(pair[:9], windows.values[:9])


def test_hours_without_readings_take_the_course_of_the_same_kind_of_day_or_of_all_nodes():
    values = np.full((24 * 14, 3), np.nan)
    values[:, 0] = np.tile(np.arange(24.0), 14)
    values[5, 0] = values[5 + 168, 0] = np.nan  # both Mondays at 5:00
    values[10, 1] = 99.0
    mean = SensorWindows.of(values, times_of(len(values))).hour_of_week_mean(shrinkage=0)
    assert mean[5, 0] == pytest.approx(5.0)
    assert mean[10, 1] == 99.0
    # Saturdays have the course of the first node, at the level of the second one, 89 above it at 10:00.
    np.testing.assert_allclose(mean[120:144, 1], 89 + np.arange(24.0))
    # A node without readings has the mean level of all readings.
    n_readings = np.isfinite(values).sum()
    np.testing.assert_allclose(mean[120:144, 2], 89 / n_readings + np.arange(24.0))
    empty = SensorWindows.of(np.full((20, 2), np.nan), times_of(20))
    with pytest.raises(ValueError, match="no observed reading"):
        empty.hour_of_week_mean()


def test_the_level_of_a_node_does_not_depend_on_the_hours_at_which_it_was_read():
    times = times_of(24 * 7 * 12)
    is_night = hour_of_week(times) % 24 < 8
    values = np.where(is_night, 50.0, 30.0)[:, None] + np.zeros(6)
    values[~is_night, 0] = np.nan
    mean = SensorWindows.of(values, times).hour_of_week_mean(shrinkage=20)
    np.testing.assert_allclose(mean[:, 0], np.where(np.arange(168) % 24 < 8, 50.0, 30.0), atol=0.1)


def test_shrunk_means_are_closer_to_the_usual_readings_than_plain_ones():
    rng = np.random.default_rng(0)
    times = times_of(24 * 7 * 6)
    hours = hour_of_week(times)
    course = np.sin(2 * np.pi * np.arange(168) / 24) * np.where(np.arange(168) < 120, 3, 1)
    usual = course[:, None] + rng.normal(0, 5, 8)
    windows = SensorWindows.of(usual[hours] + rng.normal(0, 4, (len(times), 8)), times)
    errors = {k: np.abs(windows.hour_of_week_mean(shrinkage=k) - usual).mean() for k in (0, 20)}
    assert errors[20] < 0.6 * errors[0]
    # Deviations from the level of the node are shrunk, not the level itself.
    np.testing.assert_allclose(
        windows.hour_of_week_mean(shrinkage=20).mean(axis=0), windows.values.mean(axis=0), atol=0.2
    )
    with pytest.raises(ValueError, match="shrinkage must be a finite number of at least 0"):
        windows.hour_of_week_mean(shrinkage=-1)


def test_seasonal_predictions_are_the_means_at_the_times_to_predict():
    windows = windows_of(24 * 7 * 3)
    mean = windows.hour_of_week_mean()
    prediction = windows.seasonal(mean, [3, 200])
    assert prediction.shape == (2, 3, 3)
    hours = hour_of_week(windows.times)
    for row, start in enumerate((3, 200)):
        for step in range(3):
            np.testing.assert_array_equal(prediction[row, :, step], mean[hours[start + 5 + step]])
    with pytest.raises(ValueError, match=r"\(168, 3\)"):
        windows.seasonal(mean[:, :2])


def test_imposed_missingness_hides_histories_but_not_what_is_to_be_predicted():
    windows = windows_of(100, missing=0.0)
    inputs = windows.values.copy()
    inputs[30:60, 1] = np.nan
    dark = windows.with_inputs(inputs)
    np.testing.assert_array_equal(dark.future(), windows.future())
    assert np.isnan(dark.history()).sum() == 30 * windows.n_past
    assert np.isnan(dark[40:45].history()[:, 1]).all()
    assert dark.values is windows.values
    # Times to predict are known in training.
    for shrinkage in (0, 20):
        np.testing.assert_array_equal(
            dark.hour_of_week_mean(shrinkage=shrinkage), windows.hour_of_week_mean(shrinkage=shrinkage)
        )
    with pytest.raises(ValueError, match=r"\(100, 3\); got \(99, 3\)"):
        windows.with_inputs(inputs[1:])


def test_windows_without_anything_to_predict_are_left_out():
    values = readings(200, missing=0.0)
    values[50:90] = np.nan
    values[60, 2] = 1.0
    windows = SensorWindows.of(values, times_of(200), past=5, future=3)
    for n in (1, 2, 9):
        n_observed = (~np.isnan(windows.future())).sum(axis=(1, 2))
        np.testing.assert_array_equal(windows.with_target(n).starts, windows.starts[n_observed >= n])
    assert len(windows.with_target()) == len(windows) - 38 + 3


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: windows_of(7), ["8 rows", "got 7"]),
        (lambda: windows_of(20, past=0), ["past", "0"]),
        (lambda: windows_of(20, future=1.5), ["future", "1.5"]),
        (lambda: SensorWindows.of(readings(20), times_of(19)), ["20 rows", "got 19"]),
        (lambda: SensorWindows.of(readings(20)[:, 0], times_of(20)), ["values", "(20,)"]),
        (lambda: SensorWindows.of([["a"]] * 20, times_of(20)), ["values", "numbers"]),
        (lambda: SensorWindows.of(np.full((20, 1), np.inf), times_of(20)), ["values", "infinite"]),
        (
            lambda: SensorWindows.of(readings(20), np.delete(times_of(21), 4)),
            ["2024-01-01T03", "2024-01-01T05", "to_regular_grid"],
        ),
        (lambda: windows_of(20).between("2025-01-01", None), ["'2025-01-01'", "2024-01-01T19"]),
        (lambda: windows_of(20).between("January"), ["start", "'January'", "ISO"]),
        (lambda: windows_of(20).with_target(0), ["n_observed", "0"]),
    ],
)
def test_the_error_for_wrong_input_says_what_is_wrong(call, facts):
    with pytest.raises(ValueError) as error:
        call()
    for fact in facts:
        assert fact in str(error.value)


@pytest.mark.parametrize("rows", [[0, 13], np.ones(5, dtype=bool), "a", 0.5])
def test_rows_that_do_not_exist_raise(rows):
    with pytest.raises(IndexError, match="from 0 to 12"):
        windows_of(20).history(rows)


def test_the_calendar_is_appended_as_rows_that_are_constant_over_time():
    windows = windows_of()
    with_calendar = windows.history([0, 7], calendar=True)
    np.testing.assert_array_equal(with_calendar[:, : windows.n_nodes], windows.history([0, 7]))
    calendar = with_calendar[:, windows.n_nodes :]
    assert calendar.shape == (2, 19, 5)
    for step in range(5):
        np.testing.assert_allclose(calendar[:, :, step], windows.calendar([0, 7]), atol=1e-6)


def test_deseasonalised_readings_plus_the_usual_ones_are_the_readings():
    windows = windows_of()
    hidden = windows.with_inputs(np.where(np.arange(500)[:, None] % 3 == 0, np.nan, windows.values))
    usual = windows.hour_of_week_mean()
    for one in (windows, hidden):
        relative = one.deseasonalised(usual)
        np.testing.assert_allclose(relative.future() + one.seasonal(usual), one.future())
        hours = hour_of_week(one.times)[one.starts]
        np.testing.assert_allclose(relative.history()[:, :, 0] + usual[hours], one.history()[:, :, 0])
    with pytest.raises(ValueError, match="mean must have the shape"):
        windows.deseasonalised(usual[:, :1])


def test_windows_that_are_passed_instead_of_their_histories_say_what_to_pass():
    windows = windows_of(60)
    for X, y in ((windows, windows.future()), (windows.history(), windows)):
        with pytest.raises(TypeError, match=r"windows\.history\(\).* as X and windows\.future\(\) as y"):
            MissingRegressor("ols").fit(X, y)


def test_the_latest_window_predicts_the_times_after_the_last_row():
    values = np.arange(20.0)[:, None] + [0.0, 100.0]
    times = times_of(20)
    latest = SensorWindows.latest(values, times, past=8, future=4)
    assert len(latest) == 1
    np.testing.assert_array_equal(latest.history()[0], values[-8:].T)
    assert np.isnan(latest.future()).all()
    # Its seasonal part is that of the four hours after the table.
    means = np.arange(168.0)[:, None] + np.zeros(2)
    np.testing.assert_array_equal(latest.seasonal(means)[0, 0], [20, 21, 22, 23])
    with pytest.raises(ValueError, match=r"at least past = 21 rows; got 20"):
        SensorWindows.latest(values, times, past=21)
    with pytest.raises(ValueError, match=r"one entry for each of the 20 rows"):
        SensorWindows.latest(values, times[1:])
