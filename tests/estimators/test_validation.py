"""Choosing validation rows by groups, time or a splitter, and the scores on them."""

import warnings
from datetime import date, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, TimeSeriesSplit

from stablemiss import MissingClassifier, MissingRegressor, SuspiciousDataWarning, load_model
from stablemiss.estimators.validation import check_validation_split, choose_validation_rows, read_row_labels
from stablemiss.methods import METHODS, Boosting
from stablemiss.seeding import to_rng

N = 200


def split(fraction_or_splitter, target=None, seed=0, **labels):
    target = np.zeros(N) if target is None else target
    return choose_validation_rows(target, fraction_or_splitter, to_rng(seed), **labels)


@pytest.mark.parametrize("seed", range(5))
def test_whole_groups_are_held_out_and_every_row_is_used_once(seed):
    groups = np.random.default_rng(seed).integers(12, size=N)
    train, valid = split(0.2, groups=groups, seed=seed)
    assert not set(groups[train]) & set(groups[valid])
    assert sorted([*train, *valid]) == list(range(N))
    largest = np.bincount(groups).max()
    assert 0.2 * N <= len(valid) < 0.2 * N + largest


def test_the_choice_of_groups_depends_on_the_seed():
    groups = np.arange(N) // 10
    chosen = {tuple(split(0.2, groups=groups, seed=seed)[1]) for seed in range(5)}
    assert len(chosen) > 1


@pytest.mark.parametrize("fraction", [0.001, 0.15, 0.999])
def test_the_latest_rows_are_held_out(fraction):
    time = np.random.default_rng(0).permutation(N)
    train, valid = split(fraction, time=time)
    assert time[train].max() < time[valid].min()
    assert len(train) >= 1
    assert len(valid) == max(1, min(N - 1, round(fraction * N)))


def test_rows_of_the_same_time_are_on_the_same_side():
    time = np.repeat([1, 2, 3], [150, 40, 10])
    train, valid = split(0.1, time=time)  # the latest 20 rows would divide the rows of time 2
    assert set(time[train]) == {1}
    assert set(time[valid]) == {2, 3}
    # All but the first time are held out if the first time has most of the rows.
    assert set(time[split(0.9, time=time)[1]]) == {2, 3}


def test_the_last_split_of_a_splitter_is_used():
    train, valid = split(TimeSeriesSplit(4))
    expected = list(TimeSeriesSplit(4).split(np.zeros((N, 1))))[-1]
    np.testing.assert_array_equal(train, expected[0])
    np.testing.assert_array_equal(valid, expected[1])


def test_a_splitter_receives_groups():
    groups = np.arange(N) // 20
    train, valid = split(GroupKFold(5), groups=groups)
    assert not set(groups[train]) & set(groups[valid])


def test_a_splitter_receives_the_rows_in_the_order_of_their_times():
    time = np.random.default_rng(0).permutation(N)
    train, valid = split(TimeSeriesSplit(4), time=time)
    assert time[train].max() < time[valid].min()
    groups = time // 10
    train, valid = split(GroupKFold(4), time=time, groups=groups)
    assert not set(groups[train]) & set(groups[valid])


class OfOneNumber:
    def split(self, X, y=None, groups=None):
        yield 5


class Overlapping:
    def split(self, X, y=None, groups=None):
        yield np.arange(5), np.arange(4, 9)


@pytest.mark.parametrize(
    ("given", "labels", "words"),
    [
        (0.2, {"groups": np.zeros(N)}, ["groups", "2 groups"]),
        (0.2, {"time": np.zeros(N)}, ["time", "2 different times"]),
        (0.2, {"time": np.arange(N), "groups": np.arange(N)}, ["groups", "time", "not both"]),
        (GroupKFold(5), {}, ["validation_split", "GroupKFold", "groups"]),
        (KFold(N + 1), {}, ["validation_split", "KFold"]),
        (OfOneNumber(), {}, ["validation_split", "OfOneNumber"]),
        (Overlapping(), {}, ["validation_split", "1 of them repeated"]),
    ],
)
def test_a_choice_that_is_impossible_is_refused(given, labels, words):
    with pytest.raises(ValueError) as caught:
        split(given, **labels)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("labels", [{"groups": np.arange(N) // 10}, {"time": np.arange(N)}])
def test_a_class_without_training_rows_is_refused(labels):
    target = np.where(np.arange(N) >= 195, "late", np.where(np.arange(N) % 2, "a", "b"))
    seeds = range(20) if "groups" in labels else [0]
    messages = []
    for seed in seeds:
        try:
            split(0.1, target=target, seed=seed, stratify=True, **labels)
        except ValueError as error:
            messages.append(str(error))
    assert messages
    assert all("'late'" in message for message in messages)


DAYS = [date(2024, 1, 1) + timedelta(days=int(day)) for day in range(N)]


@pytest.mark.parametrize(
    "time",
    [
        DAYS,
        [str(day) for day in DAYS],
        [day.strftime("%d.%m.%Y") for day in DAYS],
        [str(number) for number in range(N)],
        np.array(DAYS, dtype="datetime64[D]"),
        pd.Series(DAYS),
        pl.Series(DAYS),
    ],
    ids=["dates", "text", "day first", "digits", "numpy", "pandas", "polars"],
)
def test_time_is_read_from_any_container(time):
    _, valid = split(0.1, time=read_row_labels(time, N, "time"))
    np.testing.assert_array_equal(valid, np.arange(180, N))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.arange(5), ["groups", "200 rows", "(5,)"]),
        ([None, *range(N - 1)], ["groups", "missing in 1 of 200"]),
        ([float("nan")] * N, ["groups", "missing in 200 of 200"]),
        (["a", 1] * (N // 2), ["groups", "mixture"]),
    ],
)
def test_unusable_labels_of_rows_are_refused(labels, words):
    array = np.array(labels, dtype=object) if isinstance(labels, list) else labels
    with pytest.raises(ValueError) as caught:
        read_row_labels(array, N, "groups")
    assert all(word in str(caught.value) for word in words)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X, np.nan_to_num(X) @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=N)


def test_scores_are_those_of_the_validation_rows(table):
    X, y = table
    model = MissingRegressor("boosting", random_state=0).fit(X, 1000 * y, time=np.arange(N))
    valid = slice(N - 30, N)
    prediction, truth = model.predict(X[valid]), 1000 * y[valid]
    scores = model.validation_scores_
    assert scores["n_rows"] == 30
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((prediction - truth) ** 2)))
    assert scores["r2"] == pytest.approx(r2_score(truth, prediction))
    assert scores["rmse_constant"] == pytest.approx(np.sqrt(np.mean((truth - 1000 * y[:170].mean()) ** 2)))


def test_scores_of_a_classifier_are_those_of_the_validation_rows(table):
    X, y = table
    label = np.where(y > 0.5, "up", "down")
    model = MissingClassifier("boosting", random_state=0).fit(X, label, time=np.arange(N))
    valid = slice(N - 30, N)
    scores = model.validation_scores_
    assert scores["log_loss"] == pytest.approx(log_loss(label[valid], model.predict_proba(X[valid])))
    assert scores["accuracy"] == pytest.approx(np.mean(model.predict(X[valid]) == label[valid]))
    frequent = "up" if np.mean(label[:170] == "up") > 0.5 else "down"
    assert scores["accuracy_constant"] == pytest.approx(np.mean(label[valid] == frequent))
    assert scores["log_loss_constant"] > scores["log_loss"]


def test_scores_and_the_name_of_the_target_survive_saving(table, tmp_path):
    X, y = table
    model = MissingRegressor("boosting", random_state=0, validation_split=0.3)
    model.fit(X, pd.Series(y, name="price"))
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.validation_scores_ == model.validation_scores_
    assert loaded.validation_scores_["n_rows"] == 60
    assert loaded.target_name_ == "price"
    assert loaded.validation_split == 0.3


def test_an_estimator_with_a_splitter_is_saved_without_it(table, tmp_path):
    model = MissingRegressor("ols", validation_split=KFold(5)).fit(*table)
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").validation_split is None


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name]().trains_on_validation])
def test_no_scores_are_given_on_rows_that_the_method_was_trained_on(name, table):
    model = MissingRegressor(name, params=dict(METHODS[name].brief), random_state=0).fit(*table)
    assert model.validation_scores_ is None


@pytest.mark.parametrize("split", [None, 0.2, np.float32(0.5), KFold(3)])
def test_a_fraction_a_splitter_or_none_is_a_validation_split(split):
    check_validation_split(split)


@pytest.mark.parametrize("split", ["a", 0, 1.0, True, KFold, [0.2]])
def test_other_validation_splits_raise(split):
    with pytest.raises(ValueError, match=r"validation_split must be .* or None; got"):
        check_validation_split(split)


def test_rows_outside_the_split_are_not_used(table):
    X, y = table
    X = X.copy()
    X[:100] = 1e6  # would dominate the scale of the columns

    class SecondHalf:
        def split(self, X, y=None, groups=None):
            yield np.arange(100, 180), np.arange(180, 200)

    model = MissingRegressor("ols", random_state=0, validation_split=SecondHalf()).fit(X, y)
    reference = MissingRegressor("ols", random_state=0).fit(X[100:], y[100:])
    np.testing.assert_allclose(model.predict(X[100:]), reference.predict(X[100:]), rtol=0.05, atol=0.1)


@pytest.mark.parametrize(("n", "split", "expected"), [(6, None, 1), (N, LeaveOneOut(), 1), (60, None, 9)])
def test_few_validation_rows_give_a_warning_that_points_at_the_caller(n, split, expected):
    X = np.random.default_rng(0).normal(size=(n, 2))
    model = MissingRegressor(Boosting(), validation_split=split, random_state=0)
    with pytest.warns(
        SuspiciousDataWarning, match=f"Only {expected} validation rows? among {n} rows"
    ) as caught:
        model.fit(X, X[:, 0])
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(("method", "n"), [("boosting", 67), ("ols", 6)])
def test_enough_validation_rows_or_a_method_without_them_give_no_warning(method, n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MissingRegressor(method, random_state=0).fit(X, X[:, 0])
