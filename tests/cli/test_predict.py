import sys

import numpy as np
import pyarrow
import pytest

from stablemiss import MissingRegressor, load_model
from stablemiss.cli.files import read_table, write_table

IGNORED = ("--ignore", "id", "--ignore", "price")


@pytest.fixture
def model(run, houses):
    """File of a classifier that predicts `expensive` from `size` and `kind`."""
    assert run("fit", houses, "--target", "expensive", "--method", "ols", *IGNORED).exit_code == 0
    return "model.stablemiss"


def test_predictions_equal_those_of_the_model_in_python(run, data, table):
    """For CSV and Parquet, with one prediction per row, in the order of the rows."""
    run("fit", data, "--target", "price", "--method", "ols", "--ignore", "id", "--ignore", "expensive")
    result = run("predict", "model.stablemiss", data)
    assert result.exit_code == 0, result.output
    assert result.stdout == "Wrote 300 predictions to predictions.csv.\n"
    written = read_table(data.parent / "predictions.csv").column("prediction").to_numpy()
    expected = load_model("model.stablemiss").predict(table.select(["size", "kind"]))
    np.testing.assert_array_equal(written, expected)
    price = table.column("price").to_numpy()
    assert np.nanmean((written - price) ** 2) < 0.4 * np.nanvar(price)


@pytest.mark.parametrize("output", ["out.csv", "out.csv.gz", "out.parquet"])
def test_class_probabilities_are_written_on_request(run, model, houses, tmp_path, output):
    run("predict", model, houses, "--output", output, "--probabilities")
    written = read_table(tmp_path / output)
    assert written.column_names == ["prediction", "probability of no", "probability of yes"]
    yes = written.column("probability of yes").to_numpy()
    np.testing.assert_allclose(yes + written.column("probability of no").to_numpy(), 1.0)
    assert [label == "yes" for label in written.column("prediction").to_pylist()] == (yes > 0.5).tolist()


def test_columns_may_be_in_any_order(run, model, table, tmp_path):
    write_table(table, tmp_path / "a.csv")
    write_table(table.select(["kind", "expensive", "size"]), tmp_path / "b.csv")
    run("predict", model, "a.csv", "--output", "a_out.csv")
    run("predict", model, "b.csv", "--output", "b_out.csv")
    assert (tmp_path / "a_out.csv").read_bytes() == (tmp_path / "b_out.csv").read_bytes()


def test_absent_columns_give_an_error_unless_allowed(run, error_of, model, tmp_path):
    (tmp_path / "new.csv").write_text("size\n1.0\n")
    error = error_of("predict", model, "new.csv")
    assert "'kind'" in error
    assert "--allow-missing-columns" in error
    assert run("predict", model, "new.csv", "--allow-missing-columns").exit_code == 0


def test_a_table_without_any_known_column_gives_an_error(error_of, model, tmp_path):
    (tmp_path / "new.csv").write_text("height\n1.0\n")
    error = error_of("predict", model, "new.csv", "--allow-missing-columns")
    assert "none of the columns that the model was fitted with: size, kind." in error


def test_missing_values_unseen_in_training_give_one_warning_an_error_or_nothing(run, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n" + "\n".join(f"{i},{'ab'[i % 2]}" for i in range(40)))
    (tmp_path / "new.csv").write_text("x,z\n,1\n2,1\n")
    run("fit", "a.csv", "--target", "y", "--method", "ols")
    command = ("predict", "model.stablemiss", "new.csv", "--probabilities")

    warned = run(*command)
    assert warned.exit_code == 0
    assert warned.stderr.startswith("Warning: ")
    assert "'x'" in warned.stderr
    assert "--on-unseen-missing ignore" in warned.stderr
    assert warned.stderr.count("\n") == 1
    raised = run(*command, "--on-unseen-missing", "raise")
    assert raised.exit_code == 2
    assert "'x'" in raised.stderr
    ignored = run(*command, "--on-unseen-missing", "ignore")
    assert (ignored.exit_code, ignored.stderr) == (0, "")


def test_a_categorical_column_stays_categorical_if_its_new_entries_look_like_numbers(run, tmp_path):
    (tmp_path / "a.csv").write_text("code,y\n" + "01,1\n02,5\nX,9\n" * 20)
    run("fit", "a.csv", "--target", "y", "--method", "ols")
    (tmp_path / "new.csv").write_text("code\n01\n02\n")
    result = run("predict", "model.stablemiss", "new.csv")
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(
        read_table(tmp_path / "predictions.csv").column("prediction"), [1, 5], atol=0.5
    )


def test_a_non_numeric_entry_in_a_numeric_column_gives_an_error(error_of, model, tmp_path):
    (tmp_path / "new.csv").write_text("size,kind\n1.5,flat\nunknown,flat\n")
    error = error_of("predict", model, "new.csv")
    assert "Column 'size' in new.csv must be numeric, as in training; got 'unknown'" in error


def test_the_error_without_pyarrow_says_how_to_install_it(error_of, model, houses, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for command in (("predict", model, houses), ("fit", houses, "--target", "price")):
        assert 'needs pyarrow; install with: pip install "stablemiss[files]"' in error_of(*command)


def test_a_model_fitted_on_an_array_matches_columns_by_position(run, tmp_path):
    X = np.arange(20.0)[:, None]
    MissingRegressor(method="ols", random_state=0).fit(X, X[:, 0]).save(tmp_path / "array.stablemiss")
    (tmp_path / "new.csv").write_text("any name\n3\n")
    assert run("predict", "array.stablemiss", "new.csv").exit_code == 0
    written = read_table(tmp_path / "predictions.csv").column("prediction")
    np.testing.assert_allclose(written, [3.0], atol=0.1)


def test_invalid_arguments_give_an_error_and_nothing_is_written(error_of, run, model, houses, tmp_path):
    (tmp_path / "broken").write_bytes((tmp_path / model).read_bytes()[:-20])
    (tmp_path / "words.csv").write_text("size,kind\nlarge,flat\n")
    assert "no model file absent" in error_of("predict", "absent", houses)
    assert "no file absent.csv" in error_of("predict", model, "absent.csv")
    assert "broken" in error_of("predict", "broken", houses)
    assert "houses.csv" in error_of("predict", "houses.csv", houses)
    assert "does not exist; create it" in error_of("predict", model, houses, "--output", "no/out.csv")
    assert "must end in .csv" in error_of("predict", model, houses, "--output", "out.xlsx")
    assert "'size'" in error_of("predict", model, "words.csv")
    assert not list(tmp_path.glob("*predictions*"))
    assert not list(tmp_path.glob("*out*"))


def test_a_regression_model_has_no_class_probabilities(run, error_of, houses):
    run("fit", houses, "--target", "price", "--method", "constant")
    assert "no class probabilities" in error_of("predict", "model.stablemiss", houses, "--probabilities")


def test_an_existing_output_is_replaced_only_if_the_command_succeeds(run, error_of, model, houses, tmp_path):
    run("predict", model, houses)
    before = (tmp_path / "predictions.csv").read_bytes()
    (tmp_path / "words.csv").write_text("size,kind\nlarge,flat\n")
    error_of("predict", model, "words.csv")
    assert (tmp_path / "predictions.csv").read_bytes() == before
    write_table(pyarrow.table({"size": [1.0], "kind": ["flat"]}), tmp_path / "one.csv")
    run("predict", model, "one.csv")
    assert len(read_table(tmp_path / "predictions.csv")) == 1
