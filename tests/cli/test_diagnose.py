"""`stablemiss diagnose`: exit codes, what it prints, forecast for a model, errors."""

import json

import numpy as np
import pyarrow
import pyarrow.compute
import pytest

from stablemiss.cli.writing import write_table


def houses(seed, n=400, missing=0.1, dead=()):
    rng = np.random.default_rng(seed)
    size, age = rng.normal(size=(2, n))
    kind = rng.choice(["flat", "house"], size=n)
    price = 100 + 20 * size - 5 * age + np.where(kind == "house", 30, 0)
    columns = {"size": size, "age": age, "kind": kind}
    table = {
        name: pyarrow.array(column, mask=(rng.random(n) < missing) | (name in dead))
        for name, column in columns.items()
    }
    return pyarrow.table({**table, "price": price})


@pytest.fixture
def files(tmp_path):
    paths = {}
    for name, table in {
        "before": houses(0),
        "same": houses(1),
        "dead": houses(2, dead=("size",)),
        "few": houses(3, n=3).drop_columns("price"),
        "without": houses(4).drop_columns(["price", "age"]),
    }.items():
        paths[name] = tmp_path / f"{name}.csv"
        write_table(table, paths[name])
    return paths


def test_the_exit_code_is_the_verdict(run, files):
    assert run("diagnose", files["before"], files["same"]).exit_code == 0
    assert run("diagnose", files["before"], files["dead"]).exit_code == 1
    few = run("diagnose", files["before"], files["few"], "--target", "price")
    assert few.exit_code == 2
    assert "Too few rows" in few.stdout


def test_json_names_the_dead_column(run, files):
    result = run("diagnose", files["before"], files["dead"], "--json")
    facts = json.loads(result.stdout)
    assert facts["verdict"] == "shift"
    assert facts["findings"][0]["columns"] == ["size"]
    assert facts["values_verdict"] == "no shift"


def test_an_absent_column_is_a_shift_unless_it_is_ignored(run, files):
    facts = json.loads(
        run("diagnose", files["before"], files["without"], "--target", "price", "--json").stdout
    )
    assert facts["absent"] == ["age"]
    ignored = ("--target", "price", "--ignore", "age")
    assert run("diagnose", files["before"], files["without"], *ignored).exit_code == 0


@pytest.mark.parametrize("target", ["price", "kind"])
def test_with_a_model_it_forecasts_its_error(run, files, target):
    run("fit", files["before"], "--target", target, "--method", "boosting")
    result = run("diagnose", files["same"], files["dead"], "--model", "model.stablemiss", "--json")
    forecast = json.loads(result.stdout)["forecast"]
    assert forecast["metric"] == ("RMSE" if target == "price" else "log loss")
    assert forecast["after"] > 1.2 * forecast["before"]
    low, high = forecast["interval"]
    assert low < forecast["after"] < high


def test_the_page_is_written_and_inputs_are_not_overwritten(run, error_of, files, tmp_path):
    result = run("diagnose", files["before"], files["dead"], "--output", tmp_path / "shift.html")
    assert result.exit_code == 1
    assert "shift.html" in result.stdout
    assert "<svg" in (tmp_path / "shift.html").read_text()
    error_of("diagnose", files["before"], files["dead"], "--output", files["dead"])


def test_errors_are_one_sentence(error_of, files, tmp_path):
    assert "absent.stablemiss" in error_of(
        "diagnose", files["before"], files["same"], "--model", "absent.stablemiss"
    )
    assert "nothing" in error_of("diagnose", files["before"], files["same"], "--ignore", "nothing")
    assert "absent.csv" in error_of("diagnose", tmp_path / "absent.csv", files["same"])


def test_rows_without_a_target_are_compared_and_not_used_for_the_forecast(run, files, tmp_path):
    """The target is unknown where another column is missing; only the masks of all rows are alike."""
    table = houses(5)
    known = table.column("size").is_valid()
    price = pyarrow.compute.if_else(known, table.column("price"), None)
    path = tmp_path / "partly.csv"
    write_table(table.set_column(3, "price", price), path)
    run("fit", files["before"], "--target", "price", "--method", "ols")
    result = run("diagnose", path, files["same"], "--model", "model.stablemiss", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["n_reference"] == 400
    assert facts["forecast"]["before"] > 0


def test_options_that_contradict_the_model_are_refused(run, error_of, files):
    run("fit", files["before"], "--target", "price", "--method", "ols")
    arguments = ("diagnose", files["before"], files["same"], "--model", "model.stablemiss")
    assert "--ignore" in error_of(*arguments, "--ignore", "age")
    assert "'price'" in error_of(*arguments, "--target", "age")


def test_booleans_and_digits_have_the_same_type_in_both_files(run, tmp_path):
    paths = [tmp_path / "first.csv", tmp_path / "second.csv"]
    for path, code in zip(paths, ("x1", "2"), strict=True):
        rows = [f"{'True' if i % 3 else 'False'},{code if i % 5 == 0 else i % 4}" for i in range(80)]
        path.write_text("\n".join(["flag,code", *rows]) + "\n")
    for pair in ((paths[0], paths[0]), (paths[0], paths[1])):
        assert json.loads(run("diagnose", *pair, "--json").stdout)["retyped"] == []
