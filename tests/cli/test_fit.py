import json

import numpy as np
import pyarrow
import pytest

from stablemiss import MissingClassifier, MissingRegressor, load_model
from stablemiss.cli.files import write_table


def test_rows_without_the_target_are_dropped(run, data, table):
    result = run(
        "fit", data, "--target", "price", "--method", "ols", "--ignore", "id", "--ignore", "expensive"
    )
    assert result.exit_code == 0, result.output
    n_missing = table.column("price").null_count
    assert f"{300 - n_missing} rows ({n_missing} without 'price' dropped)" in result.stdout
    assert "2 columns" in result.stdout
    assert "Model: model.stablemiss" in result.stdout
    model = load_model("model.stablemiss")
    assert isinstance(model, MissingRegressor)
    assert list(model.feature_names_in_) == ["size", "kind"]


def test_the_model_equals_one_fitted_in_python(run, houses, table):
    run("fit", houses, "--target", "expensive", "--method", "boosting", "--ignore", "price", "--seed", 3)
    features = table.select(["id", "size", "kind"])
    expected = MissingClassifier(method="boosting", random_state=3).fit(
        features, table.column("expensive").to_numpy()
    )
    loaded = load_model("model.stablemiss")
    np.testing.assert_array_equal(loaded.predict_proba(features), expected.predict_proba(features))


def test_hyper_parameters_can_be_json_or_a_json_file(run, houses, tmp_path):
    (tmp_path / "params.json").write_text('{"ridge": 2.5}')
    for params in ('{"ridge": 2.5}', "params.json"):
        result = run("fit", houses, "--target", "price", "--method", "ols", "--params", params)
        assert result.exit_code == 0, result.output
        assert load_model("model.stablemiss").method_.ridge == 2.5


def test_invalid_json_for_hyper_parameters_gives_an_error(error_of, houses, tmp_path):
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "half.json").write_text('{"ridge": ')
    command = ("fit", houses, "--target", "price", "--method", "ols", "--params")
    assert "there is no file absent.json" in error_of(*command, "absent.json")
    assert "--params list.json must be a JSON object" in error_of(*command, "list.json")
    assert "--params half.json is not valid JSON" in error_of(*command, "half.json")
    assert "is not valid JSON" in error_of(*command, "{ridge: 1}")
    assert "'rigde'" in error_of(*command, '{"rigde": 1}')


@pytest.mark.parametrize(
    ("params", "fact"),
    [
        ('{"device": "gpu"}', "gpu"),
        ('{"learning_rate": 1e9}', "at most 1"),
        ('{"hidden": [-3]}', "[-3]"),
        ('{"hidden": 16}', "16"),
        ('{"batch_size": 2.5}', "2.5"),
    ],
)
def test_invalid_hyper_parameters_give_an_error(error_of, houses, params, fact):
    command = ("fit", houses, "--target", "price", "--ignore", "expensive", "--method", "p_bigan", "--params")
    error = error_of(*command, params)
    assert fact in error
    assert next(iter(json.loads(params))) in error


def test_help_mentions_the_list_of_methods(run):
    assert "stablemiss methods" in run("fit", "--help").stdout


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
def test_text_and_booleans_are_classes_and_numbers_are_for_regression_by_default(
    run, tmp_path, name, values, option, kind
):
    write_table(pyarrow.table({"x": np.arange(40.0), "y": values}), tmp_path / name)
    result = run("fit", name, "--target", "y", "--method", "constant", *([option] if option else []))
    assert result.exit_code == 0, result.output
    model = load_model("model.stablemiss")
    assert isinstance(model, kind)
    if kind is MissingClassifier:
        assert model.classes_.tolist() == sorted(set(values))


def test_the_missing_rate_excludes_ignored_columns(run, tmp_path):
    write_table(
        pyarrow.table({"x": [1.0, None, 3.0, None], "empty": [None] * 4, "y": [1.0, 2.0, 3.0, 4.0]}),
        tmp_path / "a.csv",
    )
    assert (
        "1 columns with 50.0%"
        in run("fit", "a.csv", "--target", "y", "--ignore", "empty", "--method", "ols").stdout
    )


def test_invalid_arguments_give_an_error(error_of, houses, tmp_path):
    assert "no file absent.csv" in error_of("fit", "absent.csv", "--target", "price")
    assert "its columns are: id, size, kind, price, expensive" in error_of("fit", houses, "--target", "prize")
    assert "no column 'idd'" in error_of("fit", houses, "--target", "price", "--ignore", "idd")
    assert "method must be one of" in error_of("fit", houses, "--target", "price", "--method", "olz")
    assert "use --classify" in error_of("fit", houses, "--target", "expensive", "--regress")
    assert "does not exist; create it" in error_of("fit", houses, "--target", "price", "--model", "no/model")
    assert not list(tmp_path.glob("*.stablemiss"))


def test_a_target_without_values_or_with_dates_gives_an_error(error_of, tmp_path):
    (tmp_path / "a.csv").write_text("x,y,day\n1,,2024-01-01\n2,NA,2024-01-02\n")
    assert "Column 'y' in a.csv has no values" in error_of("fit", "a.csv", "--target", "y")
    error = error_of("fit", "a.csv", "--target", "day")
    assert "must be numeric, text or boolean; column 'day' in a.csv has type date32" in error
    assert "no columns left" in error_of("fit", "a.csv", "--target", "x", "--ignore", "y", "--ignore", "day")


def test_the_error_for_a_column_of_dates_gives_a_remedy(error_of, tmp_path):
    for first, second in (("2024-01-01", "2024-01-02"), ("31/12/2023", "1/1/2024"), ("12:30:00", "12:31:00")):
        (tmp_path / "a.csv").write_text(f"x,day\n1,\n1,{first}\n2,{second}\n")
        error = error_of("fit", "a.csv", "--target", "x", "--method", "ols")
        assert f"Column 'day' in a.csv contains dates or times, such as {first}" in error
        assert "--ignore 'day'" in error


def test_the_error_for_an_infinite_target_contains_its_row(error_of, tmp_path):
    (tmp_path / "a.csv").write_text("x,price\n1,\n2,1.5\n3,inf\n")
    assert "Column 'price' in a.csv is infinite in row 3" in error_of(
        "fit", "a.csv", "--target", "price", "--method", "ols"
    )


def test_the_row_index_of_pandas_is_not_a_feature(run, table):
    shuffled = table.to_pandas().sample(frac=1, random_state=0)
    shuffled.to_csv("a.csv")
    shuffled.to_parquet("a.parquet")
    for name in ("a.csv", "a.parquet"):
        result = run("fit", name, "--target", "price", "--method", "constant")
        assert result.exit_code == 0, result.output
        assert result.stderr.startswith(f"Warning: Dropped from {name}")
        names = load_model("model.stablemiss").feature_names_in_
        assert list(names) == ["id", "size", "kind", "expensive"]


def test_a_numeric_column_with_one_word_gives_an_error_unless_it_is_categorical(run, error_of, tmp_path):
    """Otherwise each number would become a category, or a class of the target."""
    lines = [f"{i},{i % 7}" for i in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["area,price", *lines, "unknown,3", "3,expensive"]))
    command = ("fit", "a.csv", "--method", "constant", "--target")
    for target, entry in (("price", "expensive"), ("area", "unknown")):
        error = error_of(*command, target)
        assert f"Column {target!r} in a.csv is numeric except for entries such as {entry!r}" in error
    assert "Column 'area' in a.csv is numeric except" in error_of(*command, "price", "--classify")
    allowed = run(*command, "price", "--classify", "--category", "area")
    assert allowed.exit_code == 0, allowed.output
    assert load_model("model.stablemiss").encoder_.kinds == ["categories"]


def test_category_columns_must_be_text_in_parquet_but_not_in_csv(run, error_of, tmp_path):
    table = pyarrow.table({"code": [1, 2] * 10, "y": np.arange(20.0)})
    write_table(table, tmp_path / "a.csv")
    write_table(table, tmp_path / "a.parquet")
    options = ("--target", "y", "--method", "ols", "--category", "code")
    assert run("fit", "a.csv", *options).exit_code == 0
    assert run("predict", "model.stablemiss", "a.csv").exit_code == 0
    assert "Column 'code' in a.parquet has type int64; --category needs text" in error_of(
        "fit", "a.parquet", *options
    )


def test_a_fit_that_fails_does_not_change_an_existing_model(run, error_of, houses, tmp_path):
    run("fit", houses, "--target", "price", "--method", "constant")
    before = (tmp_path / "model.stablemiss").read_bytes()
    error_of("fit", houses, "--target", "price", "--method", "olz")
    assert (tmp_path / "model.stablemiss").read_bytes() == before
