"""Unusable tables, targets and weights: one sentence, and the caller's data stay as they were."""

from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pytest

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
