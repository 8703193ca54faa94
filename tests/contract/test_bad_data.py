"""Unusable tables, targets and weights: one sentence, and the caller's data stay as they were."""

import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import GroupKFold, LeavePGroupsOut, PredefinedSplit

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingClassifier, MissingRegressor
from stablemiss.seeding import to_rng

N = 30
RNG = to_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["size", "age"])
Y = pd.Series(X["size"] + X["age"], name="price")
LABELS = pd.Series(np.where(Y > 0, "up", "down"), name="trend")
ONES = np.ones(N)


def changed(values, row, value):
    """A copy as a list, with one entry replaced."""
    return [value if i == row else entry for i, entry in enumerate(values)]


# Name → sample weights, and what the error must contain.
WEIGHTS = {
    "text": (["a"] * N, ["'a'", "numbers"]),
    "digits as text": (["1"] * N, ["'1'", "numbers"]),
    "some text": (changed(ONES, 3, "a"), ["'a'", "numbers"]),
    "one column": (ONES[:, None], ["(30, 1)", "30 rows"]),
    "several columns": (np.ones((N, 2)), ["(30, 2)", "30 rows"]),
    "too few": (ONES[1:], ["(29,)", "30 rows"]),
    "too many": (np.ones(N + 1), ["(31,)", "30 rows"]),
    "a single number": (2.0, ["()", "30 rows"]),
    "negative": (changed(ONES, 4, -1.0), ["row 4", "-1.0", "weight 0"]),
    "NaN": (changed(ONES, 5, np.nan), ["row 5", "nan"]),
    "None": (changed(ONES, 5, None), ["row 5", "nan"]),
    "null of polars": (pl.Series(changed(ONES, 5, None)), ["row 5", "nan"]),
    "NA of pandas": (pd.Series(changed(ONES, 5, pd.NA), dtype="Float64"), ["row 5", "nan"]),
    "infinite": (changed(ONES, 6, np.inf), ["row 6", "inf"]),
    "all zero": (0 * ONES, ["all zero", "positive weight"]),
    "one row": (changed(0 * ONES, 3, 1.0), ["at least 2 rows"]),
    "one dominant row": (changed(ONES, 3, 1e300), ["at least 2", "1e+300"]),
    "integers beyond floats": ([10**400] * N, ["1000", "numbers"]),
    "complex": (1j * ONES, ["complex", "numbers"]),
    "dates": (pd.date_range("2020", periods=N), ["2020", "numbers"]),
    "an object": (object(), ["object", "numbers"]),
    "a dictionary": ({}, ["{}", "numbers"]),
    "ragged": ([[1.0], [1.0, 2.0]], ["[[1.0], [1.0, 2.0]]", "numbers"]),
}
# Name → target of a regressor, and what the error must contain.
TARGETS = {
    "too large": (changed(Y, 3, 1.7e308), ["y", "1.7e+308", "Rescale"]),
    "too large a range": (np.where(Y > 0, 1.7e308, -1.7e308), ["y", "1.7e+308", "Rescale"]),
    "too large in a named column": (Y * 1e307, ["'price'", "1e+300", "Rescale"]),
    "too large in the second column": (
        pd.DataFrame({"first": Y, "second": Y * 1e307}),
        ["'second'", "1e+300", "Rescale"],
    ),
    "integers beyond floats": ([10**400] * N, ["numeric", "Convert"]),
    "text": (LABELS, ["'trend'", "numeric", "classifier"]),
    "missing": (changed(Y, 7, None), ["row 7", "1 of 30", "remove"]),
    "all missing": ([None] * N, ["every target is missing", "Check"]),
    "infinite": (changed(Y, 7, -np.inf), ["row 7", "infinity", "Remove"]),
    "complex": (Y.to_numpy() * 1j, ["complex", "separately"]),
    "dates": (pd.Series(pd.date_range("2020", periods=N), name="day"), ["'day'", "dates", "numbers"]),
    "None": (None, ["y", "requires"]),
    "a single number": (5.0, ["()", "1d"]),
    "three dimensions": (np.ones((N, 1, 1)), ["(30, 1, 1)", "1d"]),
    "too few": (Y[1:], ["30 rows", "29", "one target per row"]),
}
# Name → target of a classifier, and what the error must contain.
LABELLED = {
    "one class": (["up"] * N, ["2 classes", "'up'", "Check"]),
    "missing": (changed(LABELS, 7, None), ["row 7", "1 of 30", "remove"]),
    "NaN": (changed(LABELS, 7, np.nan), ["row 7", "1 of 30", "remove"]),
    "NA of pandas": (changed(LABELS, 7, pd.NA), ["row 7", "1 of 30", "remove"]),
    "NaT": (changed(LABELS, 7, pd.NaT), ["row 7", "1 of 30", "remove"]),
    "null of polars": (pl.Series(changed(LABELS, 7, None)), ["row 7", "1 of 30", "remove"]),
    "missing category": (pd.Series(changed(LABELS, 7, None), dtype="category"), ["row 7", "1 of 30"]),
    "text and a number": (changed(LABELS, 7, 5), ["text (29", "such as 5)", "Convert"]),
    "text and a boolean": (changed(LABELS, 7, True), ["text (29", "such as True)", "Convert"]),
    "text and bytes": (changed(LABELS, 7, b"up"), ["text (29", "b'up'", "Convert"]),
    "bytes": ([b"up", b"down"] * (N // 2), ["b'up'", "astype(str)"]),
    "measurements": (Y, ["continuous", "discrete classes"]),
    "infinite": (changed([0.0, 1.0] * (N // 2), 7, np.inf), ["row 7", "infinity", "Remove"]),
    "several columns": (np.ones((N, 2), int), ["(30, 2)", "one classifier per column"]),
    "integers beyond 64 bits": ([10**30, -(10**30)] * (N // 2), ["1000", "text"]),
    "dates": (pd.Series(pd.date_range("2020", periods=N), name="day"), ["'day'", "2020", "text"]),
    "too few": (LABELS[1:], ["30 rows", "29", "one target per row"]),
    "None": (None, ["y", "requires"]),
}
# Name → table, and what the error must contain.
TABLES = {
    "infinite": (X.assign(age=changed(X["age"], 3, np.inf)), ["'age'", "inf", "eplace"]),
    "one row": (X[:1], ["at least 2 rows", "1 sample", "more rows"]),
    "no rows": (X[:0], ["0 sample(s)", "minimum of 1"]),
    "no columns": (X[[]], ["0 feature(s)", "minimum of 1"]),
    "one dimension": (X["age"].to_numpy(), ["X", "2D"]),
    "ragged": ([[1.0, 2.0], [3.0]], ["X", "length", "entry per column"]),
    "repeated names": (X.set_axis(["age", "age"], axis=1), ["'age'", "unique", "Rename"]),
    "repeated names in Arrow": (
        pa.table([X["age"], X["size"]], names=["age", "age"]),
        ["'age'", "unique", "Rename"],
    ),
    "names of several types": (X.rename(columns={"age": 3}), ["3 (int)", "columns.astype(str)"]),
    "dictionaries": (X.assign(age=[{}] * N), ["'age'", "dict", "drop"]),
    "lists": (X.assign(age=[[1]] * N), ["'age'", "list", "drop"]),
    "complex": (X * 1j, ["'size'", "omplex", "two real columns"]),
    "dates too far away": (
        X.assign(day=np.full(N, "400000-01-01", dtype="datetime64[s]")),
        ["'day'", "year 400000", "9999", "Correct"],
    ),
}
# Name → argument of `fit` that chooses validation rows, and what the error must contain.
ROW_LABELS = {
    "too few groups": ({"groups": range(29)}, ["groups", "30 rows", "(29,)"]),
    "a missing group": ({"groups": changed(range(N), 4, None)}, ["groups", "1 of 30", "row 4"]),
    "two columns of groups": ({"groups": np.ones((N, 2))}, ["groups", "(30, 2)", "one column"]),
    "one group": ({"groups": [7] * N}, ["groups", "at least 2", "have 7.", "Leave groups out"]),
    "a single number as groups": ({"groups": 3}, ["groups", "30 rows", "()"]),
    "too few times": ({"time": range(29)}, ["time", "30 rows", "(29,)"]),
    "a missing time": ({"time": changed(range(N), 4, np.nan)}, ["time", "1 of 30", "row 4"]),
    "a missing date": ({"time": pd.Series([pd.NaT, *[pd.Timestamp("2020")] * 29])}, ["time", "row 0"]),
    "two columns of times": ({"time": np.ones((N, 2))}, ["time", "(30, 2)", "one column"]),
    "one time": ({"time": [7] * N}, ["time", "at least 2", "have 7.", "Leave time out"]),
    "text as time": ({"time": ["soon", "late"] * 15}, ["time", "'late'", "numbers or dates", "2014-10-13"]),
    "groups and time": ({"groups": range(N), "time": range(N)}, ["groups", "time", "not both"]),
}
# Name → `validation_split`, and what the error must contain besides its name.
SPLITS = {
    "a class": (GroupKFold, ["GroupKFold", "splitter such as GroupKFold(5)"]),
    "a list of splits": ([(np.arange(20), np.arange(20, N))], ["fraction", "splitter"]),
    "text": ("half", ["'half'", "fraction"]),
    "without the groups it needs": (GroupKFold(3), ["GroupKFold(n_splits=3", "Pass groups to fit"]),
    "more folds than rows": (GroupKFold(40), ["n_splits=40", "another splitter"]),
    "no split": (LeavePGroupsOut(2), ["LeavePGroupsOut", "another splitter"]),
    "no validation rows": (PredefinedSplit([-1] * N), ["PredefinedSplit", "splitter"]),
    "more rows": (PredefinedSplit([0, 1] * N), ["PredefinedSplit", "splitter"]),
}


def assert_refused(refuses, estimator, table, target, weight, facts):
    before = deepcopy((table, target, weight))
    refuses(lambda: estimator.fit(table, target, sample_weight=weight), *facts)
    if type(weight) is not object:  # a copy of an object has another address
        assert repr((table, target, weight)) == repr(before)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("kind", [MissingRegressor, MissingClassifier])
def test_unusable_weights_are_refused(kind, name, refuses):
    weight, facts = WEIGHTS[name]
    target = Y if kind is MissingRegressor else LABELS
    assert_refused(refuses, kind("constant"), X, target, weight, ["weight", *facts])


@pytest.mark.parametrize("name", TARGETS)
def test_unusable_targets_of_regressors_are_refused(name, refuses):
    target, facts = TARGETS[name]
    for estimator in (MissingRegressor("constant"), AnyMaskRegressor()):
        assert_refused(refuses, estimator, X, target, None, facts)


@pytest.mark.parametrize("name", LABELLED)
def test_unusable_targets_of_classifiers_are_refused(name, refuses):
    target, facts = LABELLED[name]
    for estimator in (MissingClassifier("constant"), AnyMaskClassifier()):
        assert_refused(refuses, estimator, X, target, None, facts)


@pytest.mark.parametrize("name", TABLES)
def test_unusable_tables_are_refused(name, refuses):
    table, facts = TABLES[name]
    for estimator, target in ((MissingRegressor("constant"), Y), (MissingClassifier("constant"), LABELS)):
        refuses(lambda e=estimator, t=target: e.fit(table, t[: len(table)]), *facts)


@pytest.mark.parametrize("name", ROW_LABELS)
def test_unusable_groups_and_times_are_refused(name, refuses):
    arguments, facts = ROW_LABELS[name]
    for estimator, target in ((MissingRegressor("constant"), Y), (AnyMaskClassifier(), LABELS)):
        refuses(lambda e=estimator, t=target: e.fit(X, t, **arguments), *facts)


@pytest.mark.parametrize("name", SPLITS)
def test_unusable_validation_splits_are_refused(name, refuses):
    split, facts = SPLITS[name]
    refuses(
        lambda: MissingRegressor("constant", validation_split=split).fit(X, Y), "validation_split", *facts
    )


def test_dates_and_values_out_of_range_are_refused_if_the_user_wants_it(refuses):
    dated = X.assign(day=pd.date_range("2020", periods=N))
    refuses(
        lambda: MissingRegressor("constant", date_features=False).fit(dated, Y), "'day'", "2020-01-01", "set"
    )
    model = MissingRegressor("constant", on_out_of_range="raise").fit(X, Y)
    refuses(
        lambda: model.predict(X.assign(age=changed(X["age"], 3, 1e6))), "'age'", "1e+06 in 1 row", "Correct"
    )


@pytest.mark.parametrize("kind", [str, "category"])
@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_digits_as_text_are_read_alike_by_all_libraries(library, kind):
    digits = X.assign(age=pd.Series(range(N)).astype(str).astype(kind))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MissingRegressor("constant").fit(library(digits), Y)
    # Categories were declared by the user; text may be a mistake.
    assert [("'age'" in str(warning.message)) for warning in caught] == [True] * (kind is str)
    assert np.isfinite(model.predict(library(digits))).all()
