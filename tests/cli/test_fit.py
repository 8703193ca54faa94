import numpy as np
import pyarrow
import pytest

from stablemiss import MissingClassifier, MissingRegressor, load_model
from stablemiss.cli.files import write_table


def test_a_number_is_regressed_on_the_rows_that_have_it(run, data, table):
    result = run("fit", data, "--target", "price", "--method", "ols", "--ignore", "id", "--ignore", "dear")
    assert result.exit_code == 0, result.output
    n_missing = table.column("price").null_count
    assert f"{300 - n_missing} rows ({n_missing} without 'price' left out) and 2 columns" in result.stdout
    assert "Model: model.stablemiss" in result.stdout
    model = load_model("model.stablemiss")
    assert isinstance(model, MissingRegressor)
    assert list(model.feature_names_in_) == ["size", "kind"]


def test_the_model_is_the_one_that_python_fits(run, houses, table):
    run("fit", houses, "--target", "dear", "--method", "boosting", "--ignore", "price", "--seed", 3)
    features = table.select(["id", "size", "kind"])
    expected = MissingClassifier(method="boosting", random_state=3).fit(
        features, table.column("dear").to_numpy()
    )
    got = load_model("model.stablemiss").predict_proba(features)
    np.testing.assert_array_equal(got, expected.predict_proba(features))


@pytest.mark.parametrize(
    ("values", "option", "kind"),
    [
        (["a", "b"] * 20, None, MissingClassifier),
        ([True, False] * 20, None, MissingClassifier),
        ([0, 1] * 20, None, MissingRegressor),
        ([0, 1] * 20, "--classify", MissingClassifier),
        ([0.5, 1.5] * 20, None, MissingRegressor),
        ([0.5, 1.5] * 20, "--regress", MissingRegressor),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_text_and_truth_are_classified_and_numbers_regressed_unless_told_otherwise(
    run, tmp_path, name, values, option, kind
):
    write_table(pyarrow.table({"x": np.arange(40.0), "y": values}), tmp_path / name)
    result = run("fit", name, "--target", "y", "--method", "constant", *([option] if option else []))
    assert result.exit_code == 0, result.output
    model = load_model("model.stablemiss")
    assert isinstance(model, kind)
    if kind is MissingClassifier:
        assert model.classes_.tolist() == sorted(set(values))


def test_the_share_missing_counts_only_what_is_learnt_from(run, tmp_path):
    write_table(
        pyarrow.table({"x": [1.0, None, 3.0, None], "empty": [None] * 4, "y": [1.0, 2.0, 3.0, 4.0]}),
        tmp_path / "a.csv",
    )
    assert (
        "1 columns with 50.0%"
        in run("fit", "a.csv", "--target", "y", "--ignore", "empty", "--method", "ols").stdout
    )


def test_mistakes_are_told_in_one_sentence(refuse, houses, tmp_path):
    assert "no file absent.csv" in refuse("fit", "absent.csv", "--target", "price")
    assert "its columns are: id, size, kind, price, dear" in refuse("fit", houses, "--target", "prize")
    assert "no column 'idd'" in refuse("fit", houses, "--target", "price", "--ignore", "idd")
    assert "method must be one of 'constant', 'ols'" in refuse(
        "fit", houses, "--target", "price", "--method", "olz"
    )
    assert "use --classify" in refuse("fit", houses, "--target", "dear", "--regress")
    assert "does not exist; create it" in refuse("fit", houses, "--target", "price", "--model", "no/model")
    assert not list(tmp_path.glob("*.stablemiss"))


def test_a_target_without_any_value_or_of_dates_is_refused(refuse, tmp_path):
    (tmp_path / "a.csv").write_text("x,y,day\n1,,2024-01-01\n2,NA,2024-01-02\n")
    assert "Column 'y' of a.csv has no value in any row" in refuse("fit", "a.csv", "--target", "y")
    assert "The target should hold numbers, text" in refuse("fit", "a.csv", "--target", "day")
    assert "no columns left" in refuse("fit", "a.csv", "--target", "x", "--ignore", "y", "--ignore", "day")


def test_a_column_of_dates_is_refused_with_advice(refuse, tmp_path):
    (tmp_path / "a.csv").write_text("x,day\n1,2024-01-01\n2,2024-01-02\n")
    assert "'day'" in refuse("fit", "a.csv", "--target", "x", "--method", "ols")


def test_a_fit_that_fails_leaves_the_earlier_model(run, refuse, houses, tmp_path):
    run("fit", houses, "--target", "price", "--method", "constant")
    before = (tmp_path / "model.stablemiss").read_bytes()
    refuse("fit", houses, "--target", "price", "--method", "olz")
    assert (tmp_path / "model.stablemiss").read_bytes() == before
