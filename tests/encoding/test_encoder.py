"""Values are standardised where observed, zero where missing, and do not depend on the source library."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stablemiss.encoding import TableEncoder, read_table
from stablemiss.tasks import Classification, Regression, Task

small = settings(max_examples=40, deadline=None)


def make_frame(seed: int, n_rows: int = 60, hidden: float = 0.2) -> pd.DataFrame:
    """Floats, integers, booleans, few, two and many categories, each with missing values."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "number": rng.normal(3.0, 5.0, n_rows),
            "count": pd.array(rng.integers(0, 9, n_rows), dtype="Int64"),
            "flag": pd.array(rng.random(n_rows) < 0.5, dtype="boolean"),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "side": pd.Categorical(rng.choice(["left", "right"], n_rows)),
            "town": rng.choice([f"town {k}" for k in range(20)], n_rows),
        }
    )
    return frame.mask(rng.random(frame.shape) < hidden)


def fit(
    X: Any, rows: Any = None, y: Any = None, task: Task | None = None, **settings: Any
) -> tuple[TableEncoder, np.ndarray, np.ndarray]:
    """Encoder, values and mask of a table; with a random target if none is given."""
    table = read_table(X)
    y = np.random.default_rng(7).normal(size=table.n_rows) if y is None else y
    task = task or Regression.of(y)
    rows = np.arange(table.n_rows) if rows is None else rows
    encoder = TableEncoder(**settings)
    values, mask = encoder.fit_transform(table, rows, task.encode(y), task, np.random.default_rng(0))
    return encoder, values, mask


def assert_equal(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> None:
    np.testing.assert_array_equal(a[0], b[0])
    np.testing.assert_array_equal(a[1], b[1])


@small
@given(seed=st.integers(0, 10**6), n_rows=st.integers(1, 40), hidden=st.floats(0, 1))
def test_the_mask_agrees_with_pandas_and_missing_values_are_zero(
    seed: int, n_rows: int, hidden: float
) -> None:
    frame = make_frame(seed, n_rows, hidden)
    encoder, values, mask = fit(frame)
    np.testing.assert_array_equal(mask, frame.notna().to_numpy()[:, encoder.groups])
    assert (values[~mask] == 0.0).all()
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(encoder.ever_missing, frame.isna().any().to_numpy())


@small
@given(seed=st.integers(0, 10**6), n_rows=st.integers(1, 40))
def test_all_libraries_give_the_same_values(seed: int, n_rows: int) -> None:
    frame = make_frame(seed, n_rows)
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    array = frame.to_numpy(dtype=object)
    _, values, mask = fit(frame)
    frames = (frame.astype(object), frame.convert_dtypes(), pl.from_arrow(arrow), arrow)
    for same_table in (*frames, array, array.tolist()):
        _, same_values, same_mask = fit(same_table)
        assert_equal((values, mask), (same_values, same_mask))


@small
@given(seed=st.integers(0, 10**6), order=st.permutations(range(6)))
def test_named_columns_are_matched_in_any_order(seed: int, order: list[int]) -> None:
    frame = make_frame(seed)
    encoder, *_ = fit(frame)
    assert_equal(encoder.transform(read_table(frame)), encoder.transform(read_table(frame.iloc[:, order])))


@pytest.mark.parametrize("seed", range(5))
def test_observed_training_values_have_mean_zero_and_standard_deviation_one(seed: int) -> None:
    """This includes one-hot columns, and target means as used for new rows."""
    frame = make_frame(seed, n_rows=200)
    rows = np.random.default_rng(seed).permutation(200)[:150]
    encoder, *_ = fit(frame, rows)
    values, mask, *_ = encoder.transform(read_table(frame.iloc[rows]))
    for column, observed in zip(values.T, mask.T, strict=True):
        np.testing.assert_allclose([column[observed].mean(), column[observed].std()], [0, 1], atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_encoder_is_fitted_on_the_training_rows_only(seed: int) -> None:
    """The other rows only influence ever_missing."""
    frame = make_frame(seed, n_rows=80)
    frame["count"] = np.arange(80.0)
    rows = np.arange(50)
    y = np.random.default_rng(seed).normal(size=80)
    encoder, *_ = fit(frame, rows, y, Regression.of(y[rows]))
    changed = frame.copy()
    changed.iloc[50:, 0] = 1e9
    changed.iloc[50:, 3] = "mauve"
    changed.iloc[60, 1] = np.nan
    changed_y = np.where(np.arange(80) < 50, y, 1e9)
    other_encoder, *_ = fit(changed, rows, changed_y, Regression.of(y[rows]))
    assert_equal(encoder.transform(read_table(frame)), other_encoder.transform(read_table(frame)))
    assert (encoder.ever_missing[1], other_encoder.ever_missing[1]) == (False, True)


def test_fit_transform_differs_from_transform_only_in_target_means_of_training_rows() -> None:
    frame, rows = make_frame(0), np.arange(40)
    encoder, values, mask = fit(frame, rows)
    new_values, new_mask, *_ = encoder.transform(read_table(frame))
    np.testing.assert_array_equal(mask, new_mask)
    is_mean = encoder.groups == 5
    np.testing.assert_array_equal(values[:, ~is_mean], new_values[:, ~is_mean])
    np.testing.assert_array_equal(values[40:], new_values[40:])
    assert (values[:40, is_mean] != new_values[:40, is_mean]).any()


@pytest.mark.parametrize("seed", range(3))
def test_an_identifier_does_not_leak_the_target(seed: int) -> None:
    """Its encoding is close to zero in training rows and moderate in new rows, even if one entry recurs."""
    y = np.random.default_rng(seed).normal(size=400)
    frame = pd.DataFrame({"id": [f"row {max(i, 1)}" for i in range(400)]})
    encoder, values, _ = fit(frame, y=y)
    assert abs(np.corrcoef(values[:, 0], y)[0, 1]) < 0.5
    assert np.abs(values).max() < 3
    assert np.abs(encoder.transform(read_table(frame))[0]).max() < 6


@pytest.mark.parametrize(
    ("y", "task", "width"),
    [
        (np.arange(60.0), Regression.of(np.arange(60.0)), 1),
        (np.arange(120.0).reshape(60, 2), Regression.of(np.arange(120.0).reshape(60, 2)), 2),
        (np.arange(60) % 2, Classification(np.arange(2)), 1),
        (np.arange(60) % 4, Classification(np.arange(4)), 4),
        (np.zeros(60, dtype=int), Classification(np.arange(1)), 1),
    ],
    ids=["regression", "two outputs", "two classes", "four classes", "one class"],
)
def test_target_encoding_gives_one_number_per_output_or_class(y: Any, task: Task, width: int) -> None:
    town = pd.DataFrame({"town": [f"town {i % 15}" for i in range(60)]})
    encoder, values, _ = fit(town, y=y, task=task)
    assert values.shape == (60, width)
    assert encoder.groups.tolist() == [0] * width
    assert np.isfinite(values).all()


def test_columns_with_more_than_max_one_hot_categories_are_target_encoded() -> None:
    frame = pd.DataFrame({"c": [f"category {i % 5}" for i in range(40)]})
    assert fit(frame, max_one_hot=5)[1].shape[1] == 5
    assert fit(frame, max_one_hot=4)[1].shape[1] == 1
    with pytest.raises(ValueError, match="max_one_hot must be at least 2; got 1"):
        TableEncoder(max_one_hot=1)


def test_wide_tables_have_fewer_one_hot_columns_by_default() -> None:
    """With 12 categories per one-hot column they would be too wide for AnyMask's mixture."""
    entries = np.random.default_rng(0).choice(list("abcdefghij"), size=(400, 20))
    frame = pd.DataFrame(entries, columns=[f"c{j}" for j in range(20)])
    encoder, values, _ = fit(frame)
    assert values.shape[1] == 20
    assert encoder.max_one_hot == 8
    assert fit(frame.iloc[:, :5])[1].shape[1] == 50
    assert fit(frame, max_one_hot=12)[1].shape[1] == 200


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5])
def test_very_few_rows_work(n_rows: int) -> None:
    frame = pd.DataFrame({"x": np.arange(n_rows), "c": [f"c{i}" for i in range(n_rows)]})
    _, values, mask = fit(frame, max_one_hot=2)
    assert np.isfinite(values).all()
    assert mask.all()


def test_columns_with_one_category_or_none_work() -> None:
    frame = pd.DataFrame({"one": ["a", "a", None], "none": [None, None, None]})
    encoder, values, mask = fit(frame)
    assert mask.tolist() == [[True, False], [True, False], [False, False]]
    assert (values == 0).all()
    assert encoder.transform(read_table([["a", 1.0], [None, 1.0]]))[1].tolist() == [
        [True, False],
        [False, False],
    ]


@pytest.mark.parametrize("later", [[5.0], ["a"], [None]])
def test_a_column_never_observed_in_training_always_counts_as_missing(later: list[Any]) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "empty": [None, None, None]})
    encoder, values, _ = fit(frame)
    assert values.shape == (3, 2)
    new_values, mask, *_ = encoder.transform(read_table(pd.DataFrame({"x": [2.0], "empty": later})))
    assert mask.tolist() == [[True, False]]
    assert (new_values == 0.0).all()


def test_a_category_column_observed_only_in_validation_rows_counts_as_missing() -> None:
    frame = pd.DataFrame({"c": [None, None, "a"]})
    encoder, values, mask = fit(frame, rows=np.arange(2))
    assert not mask.any()
    assert (values == 0).all()
    assert encoder.ever_missing.tolist() == [True]


@pytest.mark.parametrize("empty", [None, np.nan, pd.NaT, pd.NA], ids=repr)
def test_a_column_may_be_all_missing_in_new_rows(empty: Any) -> None:
    """The dtype of an empty column depends on the library."""
    frame = make_frame(0)
    encoder, *_ = fit(frame)
    for name in frame:
        without = frame.assign(**{str(name): pd.Series([empty] * len(frame), dtype=object)})
        _, mask, *_ = encoder.transform(read_table(without))
        assert not mask[:, encoder.groups == frame.columns.get_loc(name)].any()
    all_missing = pl.DataFrame({name: [None, None] for name in frame})
    values, mask, *_ = encoder.transform(read_table(all_missing))
    assert not mask.any()
    assert (values == 0).all()


VERY_LARGE = [[1e300, -1e300, 5e299], [1.7e308, -1.7e308, 0.0], [1e300, 1e300, 1e300]]
VERY_SMALL = [[1e-300, 2e-300, 3e-300], [5e-324, 0.0, 0.0]]


@pytest.mark.parametrize("cells", [*VERY_LARGE, *VERY_SMALL, [0.1, 0.1, 0.1]], ids=str)
def test_values_of_any_magnitude_stay_finite(cells: list[float]) -> None:
    encoder, values, _ = fit(np.array(cells)[:, None])
    assert np.abs(values).max() < 2
    if len(set(cells)) == 1:
        assert (values == 0).all()
    new_values = encoder.transform(read_table([[1.7e308], [-1.7e308], [0.0]]))[0]
    assert np.abs(new_values).max() <= 1e6


def test_a_column_in_tiny_units_is_not_constant() -> None:
    """A column measured in units of 1e-15 is standardised like any other."""
    x = np.arange(10.0)
    np.testing.assert_allclose(fit(x[:, None] * 1e-15)[1], fit(x[:, None])[1])


@small
@given(seed=st.integers(0, 10**6), n_rows=st.integers(1, 40))
def test_an_encoder_restored_from_its_state_gives_identical_values(seed: int, n_rows: int) -> None:
    encoder, *_ = fit(make_frame(seed, n_rows))
    state = encoder.state()

    def round_trip(value: Any) -> Any:
        """Store and load as an archive does: arrays as bytes, the rest as JSON."""
        if isinstance(value, np.ndarray):
            assert value.dtype != object
            return np.frombuffer(value.tobytes(), value.dtype).reshape(value.shape)
        if isinstance(value, dict):
            return {key: round_trip(entry) for key, entry in value.items()}
        return json.loads(json.dumps(value))

    restored = TableEncoder.from_state(round_trip(state))
    new = read_table(make_frame(seed + 1))
    assert_equal(encoder.transform(new), restored.transform(new))
    assert (restored.n_features, restored.names) == (encoder.n_features, encoder.names)
    np.testing.assert_array_equal(restored.groups, encoder.groups)
    np.testing.assert_array_equal(restored.ever_missing, encoder.ever_missing)


def test_unseen_missing_counts_rows_of_columns_that_were_complete_in_training() -> None:
    """Absent columns count as missing, unknown categories do not: they are described separately."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.nan], "c": ["x", "y"], "d": [1, 2]})
    encoder, *_ = fit(frame)
    now = pd.DataFrame({"a": [np.nan, 1.0], "b": [np.nan, 1.0], "c": ["never seen", "x"], "d": [1, 2]})

    def unseen(encoder: TableEncoder, X: Any) -> dict[str, int]:
        return encoder.unseen_missing(encoder.transform(read_table(X), allow_missing_columns=True))

    assert unseen(encoder, frame) == {}
    assert unseen(encoder, now) == {"a": 1}
    assert unseen(encoder, now.assign(c=["never seen", None])) == {"a": 1, "c": 1}
    assert unseen(encoder, now.assign(c=None).drop(columns="d")) == {"a": 1, "c": 2, "d": 2}
    assert unseen(fit(np.array([[1.0, 2.0], [3.0, 4.0]]))[0], [[1.0, None]]) == {"column 1": 1}


def test_unknown_categories_are_described_with_the_number_of_rows() -> None:
    encoder, *_ = fit(pd.DataFrame({"c": ["x", "y", None], "d": ["x", "y", "x"]}))
    new = pd.DataFrame({"c": ["p", "q", "p", "x", None], "d": ["x"] * 5})
    (unknown,) = encoder.transform(read_table(new)).unknown
    assert (unknown.column, unknown.entries, unknown.n_rows) == (0, ("p", "q"), 3)
    assert str(unknown) == "'c' has 'p', 'q' in 3 rows"


@pytest.mark.parametrize("constant", [0.0, 0.1, -1.7e308])
def test_a_column_that_was_constant_in_training_is_always_encoded_as_zero(constant: float) -> None:
    encoder, *_ = fit(np.append(np.full(1000, constant), np.nan)[:, None])
    restored = TableEncoder.from_state(encoder.state())
    for fitted in (encoder, restored):
        values, mask, *_ = fitted.transform(read_table([[constant], [1e4], [1.7e308], [None]]))
        assert values.tolist() == [[0.0]] * 4
        assert mask.tolist() == [[True], [True], [True], [False]]


def test_a_constant_column_that_was_never_missing_never_counts_as_missing() -> None:
    """Other entries in it, even of another type, are not unknown categories."""
    frame = pd.DataFrame({"unit": ["EUR"] * 5, "when": [pd.Timestamp("2014-10-13")] * 5, "x": range(5)})
    encoder, _, mask = fit(frame, rows=np.arange(1, 5))
    assert encoder.kinds == ["constant", "constant", "numbers"]
    assert encoder.encoded_names == ["unit", "when", "x"]
    assert mask.all()
    new = pd.DataFrame({"unit": ["USD", None], "when": ["soon", "later"], "x": [2.0, 3.0]})
    for fitted in (encoder, TableEncoder.from_state(encoder.state())):
        encoded = fitted.transform(read_table(new))
        assert encoded.mask.all()
        assert (encoded.values[:, :2] == 0).all()
        assert encoded.unknown == ()


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.DataFrame])
def test_text_in_which_no_entry_occurs_twice_is_ignored(convert: Any) -> None:
    """It is encoded as zero, and never counts as missing."""
    entries = [f"row {i}" for i in range(30)]
    encoder, values, mask = fit(convert({"id": [*entries, None], "note": [*entries, entries[0]]}))
    assert encoder.kinds == ["ignored", "categories"]
    assert (values[:, 0] == 0).all()
    assert mask.all()
    new = encoder.transform(read_table(convert({"id": ["new", None], "note": entries[:2]})))
    assert new.mask.all()
    assert new.unknown == ()
    assert encoder.unseen_missing(new) == {}
    assert fit(pd.DataFrame({"id": entries[:19]}))[0].kinds == ["categories"]


def test_encoded_columns_have_names() -> None:
    frame = pd.DataFrame(
        {
            "x": np.arange(40.0),
            "side": ["left", "right"] * 20,
            "colour": ["red", "green", "blue", "red"] * 10,
            "town": [f"town {i % 20}" for i in range(40)],
        }
    )
    encoder, values, _ = fit(frame)
    names = ["x", "side = right", "colour = blue", "colour = green", "colour = red", "town (mean target 0)"]
    assert encoder.encoded_names == names
    assert values.shape[1] == len(names)


def test_error_messages_give_the_position_of_columns_without_names() -> None:
    encoder, *_ = fit([[1.0, 2.0], [2.0, 3.0]])
    with pytest.raises(ValueError, match="Numbers were expected in column 1, "):
        encoder.transform(read_table([[1.0, "a"]]))


def test_equal_generators_give_equal_values_and_the_global_random_state_is_unchanged() -> None:
    frame = make_frame(0)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = fit(frame), fit(frame)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert_equal((first[1], first[2]), (second[1], second[2]))


def test_the_input_array_is_not_modified() -> None:
    X = np.array([[1.0], [np.nan], [3.0]])
    before = X.copy()
    encoder, *_ = fit(X)
    encoder.transform(read_table(X))
    np.testing.assert_array_equal(X, before)
