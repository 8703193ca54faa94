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


def test_hyper_parameters_are_json_or_a_file_of_it(run, houses, tmp_path):
    (tmp_path / "params.json").write_text('{"ridge": 2.5}')
    for params in ('{"ridge": 2.5}', "params.json"):
        result = run("fit", houses, "--target", "price", "--method", "ols", "--params", params)
        assert result.exit_code == 0, result.output
        assert load_model("model.stablemiss").method_.ridge == 2.5


def test_hyper_parameters_that_cannot_be_read_are_told_in_one_sentence(refuse, houses, tmp_path):
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "half.json").write_text('{"ridge": ')
    command = ("fit", houses, "--target", "price", "--method", "ols", "--params")
    assert "or a file; there is no absent.json" in refuse(*command, "absent.json")
    assert "--params list.json should hold names and values" in refuse(*command, "list.json")
    assert "--params half.json cannot be read as JSON" in refuse(*command, "half.json")
    assert "cannot be read as JSON" in refuse(*command, "{ridge: 1}")
    assert "'ols' has no hyper-parameter 'rigde'" in refuse(*command, '{"rigde": 1}')


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ('{"device": "gpu"}', "device='gpu' is not available to torch"),
        ('{"learning_rate": 1e9}', "diverged"),
        ('{"hidden": [-3]}', "hidden=[-3] must hold whole numbers of at least 1"),
        ('{"hidden": 16}', "hidden=16 must be a sequence with the width of each layer"),
        ('{"batch_size": 2.5}', "batch_size=2.5 must be a whole number"),
    ],
)
def test_hyper_parameters_that_cannot_be_are_told_in_one_sentence(refuse, houses, params, sentence):
    command = ("fit", houses, "--target", "price", "--ignore", "dear", "--method", "p_bigan", "--params")
    assert sentence in refuse(*command, params)


def test_help_says_where_the_methods_are_listed(run):
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
    sentence = refuse("fit", "a.csv", "--target", "day")
    assert "should hold numbers, text or true and false, but column 'day' of a.csv holds date32" in sentence
    assert "no columns left" in refuse("fit", "a.csv", "--target", "x", "--ignore", "y", "--ignore", "day")


def test_a_column_of_dates_is_refused_with_advice(refuse, tmp_path):
    for first, second in (("2024-01-01", "2024-01-02"), ("31/12/2023", "1/1/2024"), ("12:30:00", "12:31:00")):
        (tmp_path / "a.csv").write_text(f"x,day\n1,\n1,{first}\n2,{second}\n")
        sentence = refuse("fit", "a.csv", "--target", "x", "--method", "ols")
        assert f"Column 'day' of a.csv holds dates or times, such as {first}" in sentence
        assert "--ignore 'day'" in sentence


def test_an_infinite_target_is_named_with_its_row_in_the_file(refuse, tmp_path):
    (tmp_path / "a.csv").write_text("x,price\n1,\n2,1.5\n3,inf\n")
    assert "Column 'price' of a.csv is infinite in row 3 (the first is row 1)" in refuse(
        "fit", "a.csv", "--target", "price", "--method", "ols"
    )


def test_the_row_index_of_pandas_is_not_learnt_from(run, table):
    shuffled = table.to_pandas().sample(frac=1, random_state=0)
    shuffled.to_csv("a.csv")
    shuffled.to_parquet("a.parquet")
    for name in ("a.csv", "a.parquet"):
        result = run("fit", name, "--target", "price", "--method", "constant")
        assert result.exit_code == 0, result.output
        assert result.stderr.startswith(f"Warning: Left out of {name}, taken for the row index")
        names = load_model("model.stablemiss").feature_names_in_
        assert list(names) == ["id", "size", "kind", "dear"]


def test_a_word_among_numbers_is_refused_unless_the_numbers_are_names(run, refuse, tmp_path):
    """One slip would make each number a category, or the target a class for each number."""
    lines = [f"{i},{i % 7}" for i in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["area,price", *lines, "unknown,3", "3,dear"]))
    command = ("fit", "a.csv", "--method", "constant", "--target")
    for target, entry in (("price", "dear"), ("area", "unknown")):
        sentence = refuse(*command, target)
        assert f"Column {target!r} of a.csv holds numbers but for a few entries such as {entry!r}" in sentence
    assert "Column 'area' of a.csv holds numbers but" in refuse(*command, "price", "--classify")
    allowed = run(*command, "price", "--classify", "--category", "area")
    assert allowed.exit_code == 0, allowed.output
    assert load_model("model.stablemiss").encoder_.kinds == ["categories"]


def test_categories_are_text_in_csv_and_must_be_in_parquet(run, refuse, tmp_path):
    table = pyarrow.table({"code": [1, 2] * 10, "y": np.arange(20.0)})
    write_table(table, tmp_path / "a.csv")
    write_table(table, tmp_path / "a.parquet")
    options = ("--target", "y", "--method", "ols", "--category", "code")
    assert run("fit", "a.csv", *options).exit_code == 0
    assert run("predict", "model.stablemiss", "a.csv").exit_code == 0
    assert "Column 'code' of a.parquet holds int64; write it as text" in refuse("fit", "a.parquet", *options)


def test_a_fit_that_fails_leaves_the_earlier_model(run, refuse, houses, tmp_path):
    run("fit", houses, "--target", "price", "--method", "constant")
    before = (tmp_path / "model.stablemiss").read_bytes()
    refuse("fit", houses, "--target", "price", "--method", "olz")
    assert (tmp_path / "model.stablemiss").read_bytes() == before
