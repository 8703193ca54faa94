"""Targets, weights and the split into training and validation rows: what is accepted and what raises."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import DataConversionWarning

from stablemiss import MissingRegressor, SuspiciousDataWarning
from stablemiss.estimators.rows import check_size, read_labels, read_numbers, read_weight, split_rows
from stablemiss.seeding import to_rng

NUMBERS = [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "y",
    [
        NUMBERS,
        tuple(NUMBERS),
        np.array(NUMBERS, dtype=np.float32),
        np.array([1, 2, 4]),
        np.array(NUMBERS, dtype=object),
        pd.Series(NUMBERS, index=[5, 6, 7]),
        pd.Series([1, 2, 4], dtype="Int64"),
        pl.Series(NUMBERS),
        pa.array(NUMBERS),
        pa.chunked_array([[1.0], [2.0, 4.0]]),
    ],
    ids=lambda y: f"{type(y).__module__}.{type(y).__name__}",
)
def test_numbers_are_read_from_any_container(y):
    target = read_numbers(y, 3)
    assert target.dtype == np.float64
    np.testing.assert_array_equal(target, NUMBERS)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_several_targets_are_read_from_a_frame(frame):
    target = read_numbers(frame({"a": NUMBERS, "b": NUMBERS}), 3)
    np.testing.assert_array_equal(target, np.column_stack([NUMBERS, NUMBERS]))


LABELS = ["yes", "no", "yes"]


@pytest.mark.parametrize(
    "y",
    [
        LABELS,
        np.array(LABELS),
        np.array(LABELS, dtype=object),
        pd.Series(LABELS),
        pd.Series(LABELS, dtype="category"),
        pd.Series(LABELS, dtype="string"),
        pl.Series(LABELS),
        pl.Series(LABELS, dtype=pl.Categorical),
        pa.array(LABELS),
        pa.array(LABELS).dictionary_encode(),
        np.array(LABELS, dtype=np.dtypes.StringDType()),
    ],
)
def test_labels_are_read_from_any_container(y):
    target = read_labels(y, 3)
    assert target.tolist() == LABELS


@pytest.mark.parametrize(
    "y", [[1, 2, 1], [True, False, True], pd.Series([1, 2, 1], dtype="Int64"), [1.0, 2.0, 1.0]]
)
def test_numeric_labels_stay_numeric(y):
    assert read_labels(y, 3).dtype.kind in "ibf"


@pytest.mark.parametrize("read", [read_numbers, read_labels])
@pytest.mark.parametrize(
    "y",
    [
        [1.0, np.nan, 2.0],
        [1.0, None, 2.0],
        np.array([1, None, 2], dtype=object),
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series([1.0, np.nan, 2.0]),
        pl.Series([1.0, None, 2.0]),
        pa.array([1.0, None, 2.0]),
        np.ma.masked_array([1.0, 7.0, 2.0], [False, True, False]),
    ],
    ids=lambda y: f"{type(y).__module__}.{type(y).__name__}",
)
def test_a_missing_target_of_any_type_raises(read, y):
    message = (
        r"Input y contains NaN: the target is missing in 1 of 3 rows \(first in row 1.*remove them before fit"
    )
    with pytest.raises(ValueError, match=message):
        read(y, 3)


@pytest.mark.parametrize("marker", [None, np.nan, pd.NA, pd.NaT], ids=repr)
@pytest.mark.parametrize("label", ["a", 1, True])
def test_a_missing_label_in_a_list_or_array_raises(label, marker):
    """numpy would turn NaN beside text into the class 'nan'."""
    for y in ([label, marker], (label, marker), np.array([label, marker], dtype=object)):
        with pytest.raises(ValueError, match="the target is missing in 1 of 2 rows"):
            read_labels(y, 2)


@pytest.mark.parametrize(
    "y",
    [
        np.array(["a", np.nan]),
        pd.Series(["a", None], dtype="category"),
        pd.Categorical(["a", None]),
        pl.Series(["a", None], dtype=pl.Categorical),
        pl.Series(["a", None], dtype=pl.Enum(["a"])),
        pa.array(["a", None]).dictionary_encode(),
        pa.chunked_array([["a"], [None]]),
    ],
    ids=lambda y: f"{type(y).__module__}.{type(y).__name__}",
)
def test_a_missing_label_of_any_text_or_categorical_type_raises(y):
    with pytest.raises(ValueError, match="the target is missing in 1 of 2 rows"):
        read_labels(y, 2)


@pytest.mark.parametrize("y", [["nan", "b"], pl.Series(["nan", "b"]), pd.Series(["nan", "b"])])
def test_the_text_nan_is_a_label_where_numpy_cannot_have_created_it(y):
    assert read_labels(y, 2).tolist() == ["nan", "b"]


@pytest.mark.parametrize(
    ("y", "parts"),
    [
        ([1, "a", "b"], ["text (2, such as 'a')", "numbers (1, such as 1)"]),
        ([True, "a", "b"], ["text (2, such as 'a')", "booleans (1, such as True)"]),
        ([True, 2, 3], ["numbers (2, such as 2)", "booleans (1, such as True)"]),
        (np.array(["a", 1, 2.5], dtype=object), ["numbers (2, such as 1)", "text (1, such as 'a')"]),
        ([b"a", "b", "c"], ["text (2, such as 'b')", "bytes (1, such as b'a')"]),
    ],
)
def test_labels_of_mixed_types_raise_with_counts_and_examples(y, parts):
    with pytest.raises(ValueError, match="mix types") as caught:
        read_labels(y, 3)
    assert all(part in str(caught.value) for part in parts)


@pytest.mark.parametrize("y", [[b"a", b"b"], np.array([b"a", b"b"])])
def test_labels_that_are_bytes_raise(y):
    with pytest.raises(ValueError, match=r"are bytes, such as b'a'.*astype"):
        read_labels(y, 2)


def test_a_missing_label_raises():
    with pytest.raises(ValueError, match=r"missing in 2 of 3 rows .first in row 0 of column 'answer'"):
        read_labels(pd.Series([None, "yes", None], name="answer"), 3)


@pytest.mark.parametrize("read", [read_numbers, read_labels])
def test_an_all_missing_target_asks_to_check_the_column(read):
    with pytest.raises(
        ValueError, match=r"contains NaN and nothing else of column 'price'.*which column holds"
    ):
        read(pd.Series([np.nan, np.nan], name="price"), 2)
    with pytest.raises(ValueError, match="contains NaN and nothing else"):
        read([None, None], 2)


@pytest.mark.parametrize("read", [read_numbers, read_labels])
def test_an_infinite_target_raises(read):
    with pytest.raises(
        ValueError, match=r"contains infinity .first in row 2 of column 'price'.*Remove such rows"
    ):
        read(pd.Series([1.0, 2.0, np.inf], name="price"), 3)


@pytest.mark.parametrize(
    "y", [["low", "high"], np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"), [{}, {}]]
)
def test_the_target_of_a_regressor_must_be_numeric(y):
    with pytest.raises(
        ValueError, match=r"must be numeric, but the entries cannot be read.*use a classifier"
    ):
        read_numbers(y, 2)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_column_of_an_invalid_target_is_named(frame):
    with pytest.raises(ValueError, match=r"missing in 1 of 2 rows \(first in row 1 of column 'q'\)"):
        read_numbers(frame({"p": [1.0, 2.0], "q": [1.0, None]}), 2)
    with pytest.raises(ValueError, match=r"infinity \(first in row 0 of column 'q'\)"):
        read_numbers(frame({"p": [1.0, 2.0], "q": [np.inf, 1.0]}), 2)
    with pytest.raises(ValueError, match=r"the entries of column 'q' cannot be read as numbers"):
        read_numbers(frame({"p": [1.0, 2.0], "q": ["low", "high"]}), 2)


@pytest.mark.parametrize("series", [pd.Series, pl.Series])
@pytest.mark.parametrize("values", [["low", "high"], [date(2020, 1, 1), date(2021, 1, 1)]])
def test_the_name_of_a_series_without_numbers_is_in_the_message(series, values):
    with pytest.raises(ValueError, match=r"the entries of column 'price' cannot be read as numbers"):
        read_numbers(series(name="price", **{"data" if series is pd.Series else "values": values}), 2)


@pytest.mark.parametrize(
    "y",
    [
        [date(2020, 1, 1), date(2020, 1, 2)],
        np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"),
        pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])),
        pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("UTC")),
        pd.Series(pd.to_timedelta([1, 2], unit="h")),
        pl.Series([date(2020, 1, 1), date(2020, 1, 2)]),
    ],
)
def test_labels_that_are_times_raise(y):
    with pytest.raises(
        ValueError, match=r"labels must be classes, but are dates, times or durations.*Convert them to text"
    ):
        read_labels(y, 2)


def test_the_target_of_a_classifier_must_be_labels():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        read_labels([0.5, 1.5, 2.5], 3)
    with pytest.raises(ValueError, match=r"should be a 1d array of labels.*Fit one classifier per column"):
        read_labels(np.zeros((3, 2), dtype=int), 3)


@pytest.mark.parametrize("read", [read_numbers, read_labels])
def test_targets_of_the_wrong_shape_raise(read):
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        read(None, 3)
    with pytest.raises(ValueError, match="X has 3 rows but y has 2"):
        read([1, 2], 3)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        read(np.zeros((3, 2, 2)), 3)
    with pytest.raises(ValueError, match="Complex data not supported"):
        read(np.array([1j, 2j, 3j]), 3)


@pytest.mark.parametrize("read", [read_numbers, read_labels])
def test_a_target_of_one_column_is_flattened_with_a_warning(read):
    with pytest.warns(
        DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"
    ):
        assert read(np.array([[1], [2], [3]]), 3).shape == (3,)


def test_weights_are_checked():
    np.testing.assert_array_equal(read_weight(None, 3), np.ones(3))
    np.testing.assert_array_equal(read_weight(pd.Series([1, 0, 2]), 3), [0.25, 0.0, 0.5])
    with pytest.raises(ValueError, match=r"one number for each of the 3 rows of X, but has shape \(2,\)"):
        read_weight([1.0, 2.0], 3)
    with pytest.raises(ValueError, match=r"finite and non-negative, but that of row 1 is -1.0"):
        read_weight([1.0, -1.0, 1.0], 3)
    with pytest.raises(ValueError, match="row 2 is nan"):
        read_weight([1.0, 1.0, np.nan], 3)
    with pytest.raises(ValueError, match="sample_weight must not be all zero"):
        read_weight([0.0, 0.0, 0.0], 3)


def test_weights_are_scaled_and_negligible_ones_become_zero():
    np.testing.assert_array_equal(read_weight([1e300, 1e300 * 0.75, 1.0], 3) > 0, [True, True, False])
    np.testing.assert_allclose(read_weight([5e-324, 5e-324], 2), [0.5, 0.5])
    np.testing.assert_array_equal(read_weight([1.0, 1e-11], 2), [0.5, 0.5e-11])
    with pytest.raises(ValueError, match=r"sample_weight must have at least 2 .* largest, 1e\+300"):
        read_weight([1e300, 1.0, 1.0], 3)


def test_targets_up_to_the_limit_are_accepted_and_larger_ones_raise():
    check_size(np.array([1e300, -1e300, 0.0]), None)
    with pytest.raises(ValueError, match=r"must lie between .* but has the value -2e\+300\. Rescale"):
        check_size(np.array([[0.0, 1.0], [1.0, -2e300]]), None)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [2, 3, 10, 101])
@pytest.mark.parametrize("fraction", [0.01, 0.15, 0.5, 0.99])
def test_the_split_uses_each_row_once_and_leaves_no_side_empty(seed, n, fraction):
    train, valid = split_rows(np.zeros(n), fraction, to_rng(seed))
    np.testing.assert_array_equal(np.sort(np.concatenate([train, valid])), np.arange(n))
    assert len(valid) == min(max(1, round(fraction * n)), n - 1)


@pytest.mark.parametrize("seed", range(5))
def test_the_split_is_stratified_and_every_class_has_a_training_row(seed):
    rng = to_rng(seed)
    classes = rng.permutation(np.repeat(["large", "medium", "small", "single"], [600, 300, 40, 1]))
    train, valid = split_rows(classes, 0.15, rng)
    for label, n_valid in (("large", 90), ("medium", 45), ("small", 6), ("single", 0)):
        assert abs(np.sum(classes[valid] == label) - n_valid) <= 2
    assert set(classes[train]) == set(classes)


def test_if_every_class_has_one_row_all_rows_are_used_for_training_and_validation():
    train, valid = split_rows(np.array(["a", "b", "c"]), 0.15, to_rng(0))
    np.testing.assert_array_equal(train, [0, 1, 2])
    np.testing.assert_array_equal(valid, [0, 1, 2])


@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_a_validation_row_with_the_same_probability(seed):
    rng = to_rng(seed)
    classes = np.repeat([0, 1], [12, 8])
    chosen = np.zeros(20)
    for _ in range(2000):
        chosen[split_rows(classes, 0.25, rng)[1]] += 1
    np.testing.assert_allclose(chosen / 2000, 0.25, atol=0.06)


def test_a_constant_target_gives_a_warning_that_names_it_and_points_at_the_caller():
    X, y = np.arange(20.0)[:, None], pd.DataFrame({"price": np.arange(20.0), "size": 3.5})
    with pytest.warns(SuspiciousDataWarning, match=r"column 'size' is constant: it is 3\.5") as caught:
        model = MissingRegressor(method="ols").fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]
    np.testing.assert_allclose(model.predict(X)[:, 1], 3.5)
