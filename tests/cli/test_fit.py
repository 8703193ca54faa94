import json
import shlex
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow
import pytest

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingClassifier, MissingRegressor, load_model
from stablemiss.cli.writing import write_table


def test_rows_without_the_target_are_dropped(run, data, table):
    result = run(
        "fit", data, "--target", "price", "--method", "ols", "--ignore", "id", "--ignore", "expensive"
    )
    assert result.exit_code == 0, result.output
    n_missing = table.column("price").null_count
    assert f"from 2 columns and {300 - n_missing} rows" in result.stdout
    assert f"{n_missing} rows without 'price'" in result.stdout
    assert "model.stablemiss" in result.stdout.splitlines()[-1]
    model = load_model("model.stablemiss")
    assert isinstance(model, MissingRegressor)
    assert list(model.feature_names_in_) == ["size", "kind"]
    assert model.target_name_ == "price"


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
    words = run("fit", "--help").stdout.replace("│", " ").split()
    assert "stablemiss methods" in " ".join(words)


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


def test_the_missing_rate_excludes_ignored_and_empty_columns(run, tmp_path):
    write_table(
        pyarrow.table({"x": [1.0, None, 3.0, None] * 10, "empty": [None] * 40, "y": np.arange(40.0)}),
        tmp_path / "a.csv",
    )
    for options in (["--ignore", "empty"], []):
        result = run("fit", "a.csv", "--target", "y", "--method", "ols", *options)
        assert "1 column and 40 rows, 50.0% of the values missing" in result.stdout


@pytest.mark.parametrize(("target", "kind"), [("price", AnyMaskRegressor), ("expensive", AnyMaskClassifier)])
def test_by_default_the_model_is_anymask(run, houses, target, kind):
    result = run("fit", houses, "--target", target, "--budget", "fast", "--ignore", "id")
    assert result.exit_code == 0, result.output
    model = load_model("model.stablemiss")
    assert isinstance(model, kind)
    assert (model.budget, model.random_state) == ("fast", 0)
    assert "held out" in result.stdout


def test_json_contains_all_facts_and_nothing_else_is_printed(run, table):
    with_marker = ["?" if i == 3 else str(i / 2) for i in range(300)]
    write_table(table.append_column("area", pyarrow.array(with_marker)), Path("a.csv"))
    result = run("fit", "a.csv", "--target", "price", "--method", "boosting", "--ignore", "id", "--json")
    facts = json.loads(result.stdout)
    assert facts["target"] == "price"
    assert facts["task"] == "regression"
    assert facts["method"] == "boosting"
    assert facts["n_rows"] + facts["n_rows_without_target"] == 300
    columns = {column["name"]: column for column in facts["columns"]}
    assert list(columns) == ["size", "kind", "expensive", "area", "id"]
    assert [column["read_as"] for column in columns.values()] == [
        "number",
        "category",
        "category",
        "number",
        "ignored",
    ]
    assert columns["kind"]["n_levels"] == 2
    assert "1 entry of '?' read as missing" in columns["area"]["remarks"]
    assert facts["validation"]["rmse"] < facts["validation"]["rmse_constant"]
    assert facts["warnings"] == []
    assert facts["model"] == "model.stablemiss"
    assert facts["seconds"] >= 0


def test_warnings_are_in_the_json_object_too(run, table):
    table.to_pandas().sample(frac=1, random_state=0).to_csv("a.csv")
    result = run("fit", "a.csv", "--target", "price", "--method", "constant", "--json")
    assert len(json.loads(result.stdout)["warnings"]) == result.stderr.count("Warning: ") == 1


def test_groups_and_time_choose_the_validation_rows(run, error_of, tmp_path):
    (tmp_path / "a.csv").write_text("x,g,y\n" + "\n".join(f"{i},{i // 10},{i}" for i in range(100)))
    command = ("fit", "a.csv", "--target", "y", "--method", "boosting", "--json")
    by_group = json.loads(run(*command, "--groups", "g").stdout)
    assert by_group["validation"]["n_rows"] == 20
    assert [column["name"] for column in by_group["columns"]] == ["x", "g"]
    assert by_group["columns"][1]["read_as"] == "ignored"
    assert "not both" in error_of(*command, "--groups", "g", "--time", "x")
    assert json.loads(run(*command, "--time", "x").stdout)["validation"]["n_rows"] == 15
    assert list(load_model("model.stablemiss").feature_names_in_) == ["x", "g"]


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_report_says_how_validation_rows_were_chosen(run, tmp_path, name, seed):
    days = [date(2024, 1, 1) + timedelta(i) for i in range(63)]
    # Groups of 1, 2, 4, … rows, so that the number of rows shows how many groups were held out.
    groups = [(i + 1).bit_length() for i in range(63)]
    write_table(pyarrow.table({"day": days, "g": groups, "y": np.arange(63.0)}), tmp_path / name)
    command = ("fit", name, "--target", "y", "--method", "boosting", "--seed", seed)
    assert "held out (at random)" in run(*command).stdout
    assert "on 9 rows held out ('day' from 2024-02-24)" in run(*command, "--time", "day").stdout
    facts = json.loads(run(*command, "--groups", "g", "--json").stdout)
    n_held_out = facts["validation"]["n_rows"].bit_count()
    choice = {"chosen_by": "groups", "column": "g", "n_groups": 6, "n_held_out": n_held_out}
    assert facts["validation_rows"] == choice
    assert f"held out ({n_held_out} of 6 groups of 'g')" in run(*command, "--groups", "g").stdout


def test_date_features_can_be_switched_off(run, houses):
    for options, expected in ((["--no-date-features"], False), ([], True)):
        run("fit", houses, "--target", "price", "--method", "constant", *options)
        assert load_model("model.stablemiss").date_features is expected


def test_a_column_of_dates_is_a_feature(run, tmp_path):
    for day in ("2024-01-{:02}", "{:02}.01.2024", "2024-01-{:02} 12:30"):
        lines = [f"{i},{day.format(i % 28 + 1)}" for i in range(60)]
        (tmp_path / "a.csv").write_text("\n".join(["x,day", *lines]))
        result = run("fit", "a.csv", "--target", "x", "--method", "ols")
        assert result.exit_code == 0, result.output
        assert list(load_model("model.stablemiss").feature_names_in_) == ["day"]


@pytest.mark.parametrize("model", ["houses.csv", "./houses.csv", "link", "params.json"])
def test_an_input_is_never_overwritten(error_of, houses, tmp_path, model):
    (tmp_path / "link").symlink_to(houses)
    (tmp_path / "params.json").write_text("{}")
    before = houses.read_bytes()
    error = error_of("fit", houses, "--target", "price", "--params", "params.json", "--model", model)
    assert "would be overwritten" in error
    assert houses.read_bytes() == before
    assert (tmp_path / "params.json").read_text() == "{}"


def test_standard_input_and_other_dialects_are_read(run, tmp_path):
    (tmp_path / "a.csv").write_text(
        "größe;preis\n" + "\n".join(f"{i},5;{2 * i},25" for i in range(50)), encoding="cp1252"
    )
    command = ("--target", "preis", "--method", "boosting", "--json")
    facts = json.loads(run("fit", "a.csv", *command).stdout)
    assert facts["dialect"] == {"separator": ";", "decimal": ",", "encoding": "cp1252"}
    assert [column["read_as"] for column in facts["columns"]] == ["number"]
    again = run("fit", "-", *command, stdin=(tmp_path / "a.csv").read_bytes())
    assert json.loads(again.stdout)["validation"] == facts["validation"]


def test_predict_reads_new_rows_like_fit(run, tmp_path):
    """The decimal mark and --missing-value of `fit` are stored in the model."""
    rows = [f"{i}.000,5;{2 * i}" for i in range(1, 51)] + ["-999;50"] * 5
    (tmp_path / "train.csv").write_text("\n".join(["x;y", *rows]))
    (tmp_path / "new.csv").write_text("x;kind\n-999;a\n20.000;b\n")
    run("fit", "train.csv", "--target", "y", "--method", "ols", "--missing-value", "-999")
    assert load_model("model.stablemiss").read_options_ == {"decimal": ",", "missing_values": ["-999"]}
    result = run("predict", "model.stablemiss", "new.csv")
    assert "1 entry of '-999' read as missing" in result.output
    assert "Warning" not in result.stderr
    # With a decimal comma, 20.000 is twenty thousand.
    predicted = (tmp_path / "predictions.csv").read_text().splitlines()[2]
    assert float(predicted.replace(",", ".")) == pytest.approx(40, abs=1)


def test_the_decimal_mark_of_a_file_with_types_is_not_stored(run, table, tmp_path):
    write_table(table, tmp_path / "houses.parquet")
    run("fit", "houses.parquet", "--target", "price", "--method", "ols")
    assert load_model("model.stablemiss").read_options_ == {"decimal": None, "missing_values": []}


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx", "a.parquet"])
def test_the_suggested_missing_values_are_found_in_the_file(run, tmp_path, name):
    n = 60
    days = [date(2024, 1, 1) + timedelta(i % 50) for i in range(n)]
    days[7] = days[9] = date(1900, 1, 1)
    sizes = [i % 7 + 0.5 for i in range(n)]
    sizes[3] = 9999999
    table = pyarrow.table({"day": days, "size": sizes, "y": [i % 11 for i in range(n)]})
    if name == "a.csv":
        texts = [day.strftime("%d.%m.%Y 00:00") for day in days]
        table = table.set_column(0, "day", pyarrow.array(texts))
    write_table(table, tmp_path / name)
    command = ["fit", name, "--target", "y", "--method", "ols", "--regress"]
    (advice,) = [line for line in run(*command).stdout.splitlines() if line.startswith("Consider")]
    options = shlex.split(advice)[1:]
    assert options.count("--missing-value") == 2
    facts = json.loads(run(*command, *options, "--json").stdout)
    assert [column["n_missing"] for column in facts["columns"]] == [2, 1]
    assert not any(
        "may mean missing" in remark for column in facts["columns"] for remark in column["remarks"]
    )


def test_invalid_arguments_give_an_error(error_of, houses, tmp_path):
    assert "no file absent.csv" in error_of("fit", "absent.csv", "--target", "price")
    assert "its columns are: id, size, kind, price, expensive" in error_of("fit", houses, "--target", "prize")
    assert "no column 'idd'" in error_of("fit", houses, "--target", "price", "--ignore", "idd")
    assert "method must be one of" in error_of("fit", houses, "--target", "price", "--method", "olz")
    assert "use --classify" in error_of("fit", houses, "--target", "expensive", "--regress")
    assert "not both" in error_of("fit", houses, "--target", "price", "--classify", "--regress")
    (tmp_path / "notes.txt").write_text("important")
    assert "not a model" in error_of("fit", houses, "--target", "price", "--model", "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "important"
    assert "does not exist; create it" in error_of("fit", houses, "--target", "price", "--model", "no/model")
    assert not list(tmp_path.glob("*.stablemiss"))


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


def test_a_numeric_column_with_one_word_gives_an_error_unless_it_is_categorical_or_missing(
    run, error_of, tmp_path
):
    """Otherwise each number would become a category, or a class of the target."""
    lines = [f"{i},{i % 7}" for i in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["area,price", *lines, "vast,3", "3,expensive"]))
    command = ("fit", "a.csv", "--method", "constant", "--target")
    assert "Column 'area' in a.csv is numeric except for entries such as 'vast'" in error_of(
        *command, "price"
    )
    assert "'expensive'" in error_of(*command, "price", "--category", "area")
    allowed = run(*command, "price", "--classify", "--category", "area")
    assert allowed.exit_code == 0, allowed.output
    assert load_model("model.stablemiss").encoder_.kinds == ["categories"]
    missing = run(*command, "price", "--missing-value", "vast", "--missing-value", "expensive")
    assert missing.exit_code == 0, missing.output
    assert "1 entry of 'vast' read as missing" in missing.stdout
    assert "1 row without 'price'" in missing.stdout


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl"])
def test_columns_of_codes_can_be_categorical_in_every_format(run, tmp_path, name):
    write_table(pyarrow.table({"code": [1, 2] * 10, "y": np.arange(20.0)}), tmp_path / name)
    assert run("fit", name, "--target", "y", "--method", "ols", "--category", "code").exit_code == 0
    assert load_model("model.stablemiss").encoder_.kinds == ["categories"]
    assert run("predict", "model.stablemiss", name).exit_code == 0


def test_a_constant_target_gives_a_warning(run, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},3\n" for i in range(40)))
    result = run("fit", "a.csv", "--target", "y", "--method", "ols")
    assert result.exit_code == 0
    assert "constant: it is 3 in all 40 rows" in result.stderr


def test_postcodes_with_leading_zeros_are_categories_with_a_remark(run, tmp_path):
    lines = [f"{postcode},{i}" for i, postcode in enumerate(["01067", "80331", "-"] * 10)]
    (tmp_path / "a.csv").write_text("\n".join(["postcode,y", *lines]))
    result = run("fit", "a.csv", "--target", "y", "--method", "ols")
    assert "category, 3 levels" in result.stdout
    assert "leading zeros" in result.stdout
    assert run("predict", "model.stablemiss", "a.csv").stderr == ""


def test_a_fit_that_fails_does_not_change_an_existing_model(run, error_of, houses, tmp_path):
    run("fit", houses, "--target", "price", "--method", "constant")
    before = (tmp_path / "model.stablemiss").read_bytes()
    error_of("fit", houses, "--target", "price", "--method", "olz")
    assert (tmp_path / "model.stablemiss").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "row"),
    [
        (("fit", "--method", "ols"), 34),
        (("fit", "--method", "ols", "--ignore", "x", "--groups", "g"), 35),
        (("tune", "--method", "em_mixture"), 34),
    ],
)
def test_errors_name_the_row_of_the_file(error_of, tmp_path, arguments, row):
    """Even if rows without a target are dropped."""
    rows = ["1,a,0,"] * 3 + ["2,b,0,1"] * 30 + ["inf,c,0,1", "5,,0,1"]
    (tmp_path / "a.csv").write_text("\n".join(["x,g,z,y", *rows]))
    error = error_of(*arguments, "a.csv", "--target", "y")
    assert f"row {row} (the first row is row 1)" in error


def test_many_classes_cause_a_remark_and_no_warning_of_scikit_learn(run, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n" + "\n".join(f"{i},name {i % 30}" for i in range(40)))
    result = run("fit", "a.csv", "--target", "y", "--method", "constant")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "30 classes in 40 rows" in result.stdout
