"""Columns are matched by label in any order, or by position; new and absent columns raise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stablemiss.encoding import Encoded, TableEncoder, read_table
from stablemiss.tasks import Regression

FRAME = pd.DataFrame(
    {"age": [30.0, None, 50.0, 40.0], "town": ["a", "b", None, "a"], "n": [1, 5, 2, 8]}, index=range(4)
)


def fit(X: Any) -> TableEncoder:
    table = read_table(X)
    y = np.arange(float(table.n_rows))
    encoder = TableEncoder()
    encoder.fit_transform(
        table, np.arange(table.n_rows), y[:, None], Regression.of(y), np.random.default_rng(0)
    )
    return encoder


def assert_equal(a: Encoded, b: Encoded) -> None:
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.mask, b.mask)


LABELS = {
    "integers": [30, 10, 20],
    "counted": [0, 1, 2],
    "pairs": pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]),
    "strings": ["x", "y", "z"],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2]])
def test_labels_of_any_type_are_matched_in_any_order(labels: Any, order: list[int]) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    frame = pd.DataFrame(X, columns=labels)
    expected = fit(X).transform(read_table(X))
    encoder = fit(frame)
    assert_equal(encoder.transform(read_table(frame.iloc[:, order])), expected)
    assert_equal(encoder.transform(read_table(X)), expected)
    # Labels 0, 1, … of a new frame are only positions.
    assert_equal(encoder.transform(read_table(pd.DataFrame(X))), expected)


def test_integer_labels_that_differ_from_training_raise() -> None:
    encoder = fit(pd.DataFrame(np.eye(2), columns=[10, 20]))
    with pytest.raises(ValueError, match="not in the training table: '30'"):
        encoder.transform(read_table(pd.DataFrame(np.eye(2), columns=[10, 30])))


def test_allow_missing_columns_treats_absent_columns_as_missing() -> None:
    frame = FRAME
    encoder = fit(frame)
    without = encoder.transform(read_table(frame.drop(columns="town")), allow_missing_columns=True)
    assert_equal(without, encoder.transform(read_table(frame.assign(town=None))))


def test_tables_without_names_are_matched_by_position() -> None:
    frame = FRAME
    for fitted, new in [(frame, frame.to_numpy(dtype=object)), (frame.to_numpy(dtype=object), frame)]:
        encoder = fit(fitted)
        assert_equal(encoder.transform(read_table(new)), encoder.transform(read_table(fitted)))


TRAINED = pd.DataFrame({"age": [30.0, 40.0, 50.0], "town": ["a", "b", "c"]})
INVALID = {
    "renamed": (
        TRAINED.rename(columns={"age": "Age"}),
        r"not those that Model was fitted with \(not in the training table: 'Age'; "
        r"in the training table but absent now: 'age'\)\. .*give renamed ones the names they had",
    ),
    "absent": (TRAINED[["age"]], r"absent now: 'town'\)\..*allow_missing_columns=True"),
    "extra": (TRAINED.assign(id=1), r"\(not in the training table: 'id'\)\. Drop columns that are new"),
    "many extra": (
        TRAINED.assign(**{f"x{k}": 0 for k in range(20)}),
        r"not in the training table: 'x0', .*'x7' and 12 more\)",
    ),
    "too few": (np.zeros((1, 1)), r"X has 1 features, but Model is expecting 2 features as input\. "),
    "strings for numbers": (
        TRAINED.assign(age=[None, "old", "young"]),
        r"Numbers were expected in column 'age', as in training, but .* strings such as 'old'\. Convert",
    ),
    "numbers for strings": (
        TRAINED.assign(town=[None, 3, 4]),
        r"Categories \(strings\) were expected in column 'town', .* numbers such as 3\.0\. Convert",
    ),
    "strings for numbers, array": ([["old", "a"]], r"in column 'age'"),
}


@pytest.mark.parametrize(("X", "message"), INVALID.values(), ids=INVALID)
def test_tables_with_columns_that_differ_from_training_raise(X: Any, message: str) -> None:
    encoder = fit(TRAINED)
    with pytest.raises(ValueError, match=message):
        encoder.transform(read_table(X), estimator_name="Model")


def test_the_error_about_an_extra_column_does_not_recommend_to_allow_missing_columns() -> None:
    encoder = fit(TRAINED)
    with pytest.raises(ValueError) as caught:
        encoder.transform(read_table(TRAINED.assign(id=1)))
    assert "allow_missing_columns" not in str(caught.value)


def test_a_renamed_column_raises_even_if_columns_may_be_absent() -> None:
    """Otherwise a typo would silently hide a column."""
    encoder = fit(TRAINED)
    with pytest.raises(ValueError, match="not in the training table: 'Age'"):
        encoder.transform(read_table(TRAINED.rename(columns={"age": "Age"})), allow_missing_columns=True)


def test_a_column_that_is_ignored_may_be_absent() -> None:
    frame = pd.DataFrame({"id": [f"row {i}" for i in range(30)], "x": np.arange(30.0) ** 2})
    encoder = fit(frame)
    assert encoder.kinds == ["ignored", "numbers"]
    encoded = encoder.transform(read_table(frame[["x"]]))
    assert_equal(encoded, encoder.transform(read_table(frame)))
    assert encoded.mask.all()
    assert encoder.unseen_missing(encoded) == {}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("entry", ["EUR", 1.0, pd.Timestamp("2014-10-13"), None])
def test_a_column_without_information_may_be_absent(entry: Any, missing: bool) -> None:
    frame = pd.DataFrame({"unused": [entry] * 29 + [None if missing else entry], "x": np.arange(30.0) ** 2})
    encoder = fit(frame)
    encoded = encoder.transform(read_table(frame[["x"]]))
    np.testing.assert_array_equal(encoded.values, encoder.transform(read_table(frame)).values)
    assert encoder.unseen_missing(encoded) == {}
    with pytest.raises(ValueError, match=r"absent now: 'x'\)"):
        encoder.transform(read_table(frame[["unused"]]))
