import copy

import numpy as np
import pyarrow
import pytest

from stablemiss import MissingClassifier, MissingRegressor
from stablemiss.cli.new_rows import open_new_rows
from stablemiss.cli.reading import ReadOptions


@pytest.fixture(scope="module")
def regressor():
    table = pyarrow.table({"x": np.arange(40.0), "kind": ["a", "b"] * 20, "dead": pyarrow.nulls(40)})
    return MissingRegressor("ols", random_state=0).fit(table, np.arange(40.0))


@pytest.fixture
def read(tmp_path):
    def read(content, estimator, target="y", **options):
        (tmp_path / "a.csv").write_text(content)
        with open_new_rows(tmp_path / "a.csv", ReadOptions(**options), estimator, target) as rows:
            return list(rows.batches()), rows

    return read


def test_features_have_the_types_of_training_and_other_columns_are_left_as_they_are(read, regressor):
    (batch,), rows = read("id,kind,x,y\n007,1,2.5,-\n,NA,?,3\n", regressor)
    assert batch.features.to_pydict() == {"kind": ["1", None], "x": [2.5, None]}
    assert batch.table.to_pydict()["id"] == ["007", ""]
    np.testing.assert_array_equal(batch.target, [np.nan, 3.0])
    np.testing.assert_array_equal(batch.n_missing, [0, 2])
    assert rows.target == "y"


def test_new_rows_are_read_like_the_training_table(read, regressor):
    """The decimal mark is that of training if the file does not show it, and missing values add up."""
    model = copy.copy(regressor)
    model.read_options_ = {"decimal": ",", "missing_values": ["-999"]}
    (batch,), _ = read("kind;x\na;1.234\na;-999\na;-1\n", model, missing_values=("-1",))
    assert batch.features.column("x").to_pylist() == [1234.0, None, None]
    (batch,), _ = read("kind;x\na;1.234\na;1.5\n", model)
    assert batch.features.column("x").to_pylist() == [1.234, 1.5]
    (batch,), _ = read("kind;x\na;1.234\n", model, decimal=".")
    assert batch.features.column("x").to_pylist() == [1.234]


def test_a_file_without_the_target_has_none(read, regressor):
    (batch,), rows = read("kind,x\na,1\n", regressor)
    assert batch.target is None
    assert rows.target is None


def test_a_file_without_any_known_column_raises(read, regressor):
    with pytest.raises(ValueError, match="none of the columns that the model was fitted with: x, kind, dead"):
        read("z\n1\n", regressor)


@pytest.mark.parametrize(
    ("labels", "entries", "codes"),
    [
        (["a", "b"], ["b", "a", "c", ""], [1, 0, np.nan, np.nan]),
        ([0, 1], ["1", "0.0", "2", "?"], [1, 0, np.nan, np.nan]),
        ([1.0, 2.0], ["2", "1.0", "7", ""], [1, 0, np.nan, np.nan]),
        ([False, True], ["True", "false", "maybe", "NA"], [1, 0, np.nan, np.nan]),
    ],
)
def test_labels_become_positions_of_classes(read, labels, entries, codes):
    X = pyarrow.table({"x": np.arange(40.0)})
    model = MissingClassifier("constant", random_state=0).fit(X, np.array(labels * 20))
    content = "x,y\n" + "\n".join(f"1,{entry}" for entry in entries)
    (batch,), rows = read(content, model)
    np.testing.assert_array_equal(batch.target, codes)
    assert rows.n_unknown_classes == 1


def test_columns_of_a_model_without_names_are_matched_by_position(read):
    model = MissingRegressor("ols", random_state=0).fit(np.arange(20.0)[:, None], np.arange(20.0))
    (batch,), _ = read("any name\n3\n", model)
    assert batch.features.to_pydict() == {"any name": [3.0]}
