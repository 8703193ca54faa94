"""`stablemiss fit` and `predict` on folders of Parquet files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from stablemiss import MissingRegressor
from stablemiss.cli.app import app
from stablemiss.estimators import load_model, source_fit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(3):
        X = rng.normal(size=(200, 2))
        y = X.sum(axis=1)
        y[:5] = np.nan
        columns = {"row": np.arange(200) + 200 * number, "a": X[:, 0], "b": X[:, 1], "y": y}
        table = pyarrow.table(columns, schema=None)
        table = table.set_column(3, "y", pyarrow.array(y, from_pandas=True))
        parquet.write_table(table, folder / f"{number}.parquet")
    return folder


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def fails(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 2
    (line,) = result.output.strip().splitlines()
    return line


@pytest.mark.parametrize("is_streamed", [False, True])
def test_fit_and_predict_a_folder(folder: Path, is_streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_streamed:
        monkeypatch.setattr(source_fit, "MAX_SAMPLE_ROWS", 300)
    model, output = folder.parent / "model.stablemiss", folder.parent / "predictions"
    options = ["--target", "y", "--ignore", "row", "--params", '{"budget": "fast", "members": ["mixture"]}']
    facts = json.loads(run("fit", folder, *options, "--model", model, "--json"))
    assert (facts["n_rows"], facts["n_rows_without_target"], facts["task"]) == (585, 15, "regression")
    assert [column["read_as"] for column in facts["columns"]] == ["number", "number", "ignored"]
    run("predict", model, folder, "--output", output, "--interval", "0.8", "--keep", "row")
    written = parquet.read_table(output)
    assert written["row"].to_pylist() == list(range(600))
    assert written.column_names == ["row", "prediction", "lower", "upper"]
    truth = parquet.read_table(folder)
    np.testing.assert_allclose(written["prediction"], np.add(truth["a"], truth["b"]), atol=0.3)
    assert load_model(model).target_name_ == "y"


def test_options_that_folders_do_not_have_are_refused(folder: Path) -> None:
    assert "--groups" in fails("fit", folder, "--target", "y", "--groups", "row")
    assert "--separator" in fails("fit", folder, "--target", "y", "--separator", ";")
    assert "'price'" in fails("fit", folder, "--target", "price")
    address = "tcp://127.0.0.1:9"
    assert address in fails("fit", folder, "--target", "y", "--dask", address, "--method", "anymask")


def test_a_wrong_row_is_counted_among_the_rows_of_all_files(folder: Path) -> None:
    table = parquet.read_table(folder / "2.parquet")
    a = np.asarray(table["a"]).copy()
    a[11] = np.inf
    options = ["--target", "y", "--params", '{"budget": "fast", "members": ["mixture"]}']
    model, damaged = folder.parent / "model.stablemiss", folder.parent / "damaged"
    run("fit", folder, *options, "--ignore", "row", "--model", model)
    shutil.copytree(folder, damaged)
    parquet.write_table(table.set_column(1, "a", pyarrow.array(a)), damaged / "2.parquet")
    assert "inf in row 412 " in fails("fit", damaged, *options, "--model", folder.parent / "other")
    assert not (folder.parent / "other").exists()
    assert "inf in row 412 " in fails("predict", model, damaged, "--output", folder.parent / "predictions")


def test_a_folder_that_changes_during_a_fit_does_not_lose_the_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = source_fit.fit_source

    def fit_and_change(*arguments: object, **options: object) -> object:
        counts = original(*arguments, **options)
        (folder / "3.parquet").write_bytes(b"a file that is still being written")
        return counts

    monkeypatch.setattr(source_fit, "fit_source", fit_and_change)
    options = ["--target", "y", "--params", '{"budget": "fast", "members": ["mixture"]}', "--ignore", "row"]
    facts = json.loads(run("fit", folder, *options, "--model", folder.parent / "model", "--json"))
    assert facts["n_rows"] == 585
    assert load_model(folder.parent / "model").target_name_ == "y"


def test_predictions_of_a_folder_are_not_written_to_standard_output(folder: Path) -> None:
    model = folder.parent / "model"
    table = parquet.read_table(folder).drop_null()
    MissingRegressor("ols", random_state=0).fit(table.select(["a", "b"]), table["y"]).save(model)
    assert "--output" in fails("predict", model, folder, "--output", "-")
