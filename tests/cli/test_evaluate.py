import json

import numpy as np
import pyarrow
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, r2_score, root_mean_squared_error

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingRegressor, load_model
from stablemiss.cli import reading
from stablemiss.cli.writing import write_table

IGNORED = ("--ignore", "id", "--method", "ols")
FEATURES = ["size", "kind"]


@pytest.fixture
def evaluate(run):
    """Run `evaluate --json` and return the facts."""

    def evaluate(*arguments):
        result = run("evaluate", *arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return evaluate


def test_errors_of_a_regression_equal_those_computed_in_python(run, evaluate, data, table):
    run("fit", data, "--target", "price", *IGNORED, "--ignore", "expensive")
    facts = evaluate("model.stablemiss", data)
    price = table.column("price").to_numpy()
    known = np.isfinite(price)
    predicted = load_model("model.stablemiss").predict(table.select(FEATURES))
    overall = facts["overall"]
    assert overall["n_rows"] == known.sum()
    assert facts["n_rows_without_target"] == (~known).sum()
    assert overall["rmse"] == pytest.approx(root_mean_squared_error(price[known], predicted[known]))
    assert overall["mae"] == pytest.approx(mean_absolute_error(price[known], predicted[known]))
    assert overall["r2"] == pytest.approx(r2_score(price[known], predicted[known]))
    assert overall["coverage"] is None


def test_errors_are_given_by_number_of_missing_columns(run, evaluate, houses, table):
    run("fit", houses, "--target", "expensive", *IGNORED, "--ignore", "price")
    facts = evaluate("model.stablemiss", houses)
    n_missing = sum(table.column(name).is_null().to_numpy().astype(int) for name in FEATURES)
    rows = facts["by_missing_columns"]
    assert [row["missing_columns"] for row in rows] == [{"from": k, "to": k} for k in range(3)]
    assert [row["n_rows"] for row in rows] == np.bincount(n_missing).tolist()
    complete = table.filter(n_missing == 0)
    probability = load_model("model.stablemiss").predict_proba(complete.select(FEATURES))
    expected = log_loss(complete.column("expensive").to_pylist(), probability)
    assert rows[0]["log_loss"] == pytest.approx(expected)


def test_the_text_compares_with_a_constant(run, houses):
    run("fit", houses, "--target", "price", *IGNORED)
    text = run("evaluate", "model.stablemiss", houses).stdout
    for fact in ("RMSE", "MAE", "R²", "mean of these rows", "Missing columns"):
        assert fact in text
    run("fit", houses, "--target", "expensive", *IGNORED)
    text = run("evaluate", "model.stablemiss", houses).stdout
    for fact in ("Log loss", "Accuracy", "Brier", "most frequent class of these rows"):
        assert fact in text


@pytest.mark.parametrize("kind", [AnyMaskRegressor, AnyMaskClassifier])
def test_the_coverage_of_anymask_is_evaluated(run, evaluate, houses, table, tmp_path, kind):
    y = table.column("expensive").to_numpy() if kind is AnyMaskClassifier else np.arange(300.0)
    model = kind(budget="fast", members=["mixture"], random_state=0).fit(table.select(FEATURES), y)
    model.save(tmp_path / "model")
    target = "expensive" if kind is AnyMaskClassifier else "id"
    narrow = evaluate("model", houses, "--target", target, "--coverage", "0.5")
    wide = evaluate("model", houses, "--target", target)
    assert (narrow["nominal_coverage"], wide["nominal_coverage"]) == (0.5, 0.9)
    size = "mean_size" if kind is AnyMaskClassifier else "mean_width"
    assert narrow["overall"][size] <= wide["overall"][size]
    assert wide["overall"]["coverage"] > 0.8
    assert "90% prediction" in run("evaluate", "model", houses, "--target", target).stdout


def test_columns_that_are_absent_count_as_missing_and_dead_columns_do_not(evaluate, tmp_path):
    n = 60
    table = pyarrow.table({"x": np.arange(n) + 0.5, "z": np.arange(n) * 2.0, "dead": pyarrow.nulls(n)})
    model = MissingRegressor("ols", allow_missing_columns=True, on_unseen_missing="ignore", random_state=0)
    model.fit(table, np.arange(float(n)))
    model.target_name_ = "y"
    model.save(tmp_path / "model")
    write_table(pyarrow.table({"x": np.arange(n) + 0.5, "y": np.arange(n)}), tmp_path / "a.csv")
    (row,) = evaluate("model", "a.csv")["by_missing_columns"]
    assert (row["missing_columns"], row["n_rows"]) == ({"from": 1, "to": 1}, n)


@pytest.mark.parametrize("classes", [["a", "b"], [0, 1], [True, False], ["1.5", "x"]])
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_classes_of_every_type_are_recognised(run, evaluate, tmp_path, classes, name):
    table = pyarrow.table({"x": np.repeat([0.0, 1.0], 30), "y": np.repeat(classes, 30)})
    write_table(table, tmp_path / name)
    assert run("fit", name, "--target", "y", "--classify", "--method", "ols").exit_code == 0
    facts = evaluate("model.stablemiss", name)
    assert facts["overall"]["accuracy"] == 1.0
    assert facts["overall"]["n_rows"] == 60


def test_unknown_classes_are_left_out_and_counted(run, evaluate, houses, tmp_path):
    run("fit", houses, "--target", "expensive", *IGNORED, "--ignore", "price")
    (tmp_path / "new.csv").write_text("size,kind,expensive\n1,flat,yes\n1,flat,perhaps\n1,flat,\n")
    facts = evaluate("model.stablemiss", "new.csv")
    assert facts["overall"]["n_rows"] == 1
    assert facts["n_rows_without_target"] == 2
    assert facts["n_rows_of_unknown_classes"] == 1
    text = run("evaluate", "model.stablemiss", "new.csv").stdout
    assert "1 of them with a class that the model does not know" in text


def test_batches_give_the_same_result(run, evaluate, houses, monkeypatch):
    run("fit", houses, "--target", "price", *IGNORED)
    whole = evaluate("model.stablemiss", houses)
    monkeypatch.setattr(reading, "BATCH_ROWS", 17)
    assert evaluate("model.stablemiss", houses)["overall"] == pytest.approx(whole["overall"])


def test_remarks_and_warnings_are_part_of_the_result(run, evaluate, houses, tmp_path):
    run("fit", houses, "--target", "price", *IGNORED, "--ignore", "expensive")
    (tmp_path / "new.csv").write_text("size,kind,price\n-,flat,100\n1,castle,100\n1,flat,90\n")
    facts = evaluate("model.stablemiss", "new.csv")
    assert facts["remarks"] == ["Column 'size': 1 entry of '-' read as missing."]
    assert "castle" in facts["warnings"][0]


def test_invalid_arguments_give_an_error(run, error_of, houses, tmp_path, table):
    run("fit", houses, "--target", "price", *IGNORED)
    (tmp_path / "new.csv").write_text("size,kind,expensive,price\n1,flat,no,?\n")
    assert "no model file absent" in error_of("evaluate", "absent", houses)
    for command in ("predict", "evaluate"):
        assert "the model comes first" in error_of(command, houses, "model.stablemiss")
    assert "no column 'prize'" in error_of("evaluate", "model.stablemiss", houses, "--target", "prize")
    assert "no known values" in error_of("evaluate", "model.stablemiss", "new.csv")
    MissingRegressor("constant").fit(table.select(["id"]), np.arange(300.0)).save(tmp_path / "nameless")
    assert "give it with --target" in error_of("evaluate", "nameless", houses)
    model = AnyMaskRegressor(budget="fast", members=["mixture"]).fit(table.select(["id"]), np.arange(300.0))
    model.save(tmp_path / "anymask")
    error = error_of("evaluate", "anymask", houses, "--target", "id", "--coverage", "90")
    assert "between 0 and 1" in error
