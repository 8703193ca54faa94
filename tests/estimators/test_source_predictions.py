"""Predictions for rows that need not fit into memory are those of the same rows in memory."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pyarrow
import pytest
from pyarrow import dataset as arrow_dataset
from pyarrow import parquet

from stablemiss import AnyMaskRegressor, MissingClassifier, MissingRegressor
from stablemiss.estimators import source_predictions
from stablemiss.estimators.prediction_table import Wanted
from stablemiss.estimators.source_predictions import WritePart
from stablemiss.sources import SourceError, files
from stablemiss.sources.cluster import FramePart
from stablemiss.writing import PREFIX


def make_table(n: int, seed: int = 0) -> pyarrow.Table:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, 2.0, -1.0]
    X[rng.random(X.shape) < 0.2] = np.nan
    columns = {name: pyarrow.array(column, from_pandas=True) for name, column in zip("abc", X.T, strict=True)}
    town = rng.choice(["Ulm", "Bonn"], size=n)
    return pyarrow.table(columns | {"town": town, "row": np.arange(n), "y": y})


FEATURES = ["a", "b", "c", "town"]


@pytest.fixture(scope="module")
def rows() -> pyarrow.Table:
    return make_table(300)


@pytest.fixture(scope="module")
def model(rows: pyarrow.Table) -> AnyMaskRegressor:
    model = AnyMaskRegressor(budget="fast", members=["mixture"], random_state=0)
    return model.fit(rows.select(FEATURES), rows["y"])


@pytest.fixture
def folder(rows: pyarrow.Table, tmp_path: Path) -> Path:
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(3):
        path = folder / f"rows-{number}.parquet"
        parquet.write_table(rows.slice(100 * number, 100), path, row_group_size=60)
    return folder


def test_every_kind_of_source_gives_the_predictions_of_the_table(
    rows: pyarrow.Table, model: AnyMaskRegressor, folder: Path
) -> None:
    expected = model.predict(rows.select(FEATURES))
    for source in (folder, str(folder), arrow_dataset.dataset(str(folder)), polars.scan_parquet(folder)):
        np.testing.assert_allclose(model.predict(source), expected, rtol=1e-9)
    interval = model.predict_interval(rows.select(FEATURES), 0.8)
    np.testing.assert_allclose(model.predict_interval(folder, 0.8), interval, rtol=1e-9)


def test_a_written_folder_has_the_rows_in_order_with_intervals_and_kept_columns(
    rows: pyarrow.Table, model: AnyMaskRegressor, folder: Path, tmp_path: Path
) -> None:
    output = tmp_path / "predictions"
    assert model.write_predictions(folder, output, coverage=0.8, explain=True, keep=["row"]) == 300
    written = parquet.read_table(output)
    assert written["row"].to_pylist() == list(range(300))
    np.testing.assert_allclose(written["prediction"], model.predict(rows.select(FEATURES)), rtol=1e-9)
    interval = model.predict_interval(rows.select(FEATURES), 0.8)
    np.testing.assert_allclose(written["lower"], interval[:, 0], rtol=1e-9)
    np.testing.assert_allclose(written["upper"], interval[:, 1], rtol=1e-9)
    assert "error" in written.column_names
    assert len(list(output.glob("*.parquet"))) == 6


def test_classes_have_probabilities(rows: pyarrow.Table, folder: Path, tmp_path: Path) -> None:
    labels = np.where(np.asarray(rows["y"]) > 0, "up", "down")
    model = MissingClassifier("boosting", random_state=0).fit(rows.select(FEATURES), labels)
    model.write_predictions(folder, tmp_path / "predictions", probabilities=True)
    written = parquet.read_table(tmp_path / "predictions")
    probability = model.predict_proba(rows.select(FEATURES))
    np.testing.assert_allclose(written["probability of up"], probability[:, 1])
    assert written["prediction"].to_pylist() == model.predict(rows.select(FEATURES)).tolist()
    np.testing.assert_allclose(model.predict_proba(folder), probability)


def test_finished_files_are_kept_and_not_predicted_again(
    model: AnyMaskRegressor, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "predictions"
    predicted = []
    original = source_predictions.Predictions.of

    def fail_after_three(*arguments: object) -> object:
        if len(predicted) == 3:
            raise KeyboardInterrupt
        predicted.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(source_predictions.Predictions, "of", fail_after_three)
    with pytest.raises(KeyboardInterrupt):
        model.write_predictions(folder, output, keep=["row"])
    finished = {path.name: path.stat().st_mtime_ns for path in output.glob("*.parquet")}
    assert sorted(finished) == [f"part-{number:05d}.parquet" for number in range(3)]
    assert not list(output.glob(".unfinished*"))
    monkeypatch.setattr(source_predictions.Predictions, "of", original)
    assert model.write_predictions(folder, output, keep=["row"]) == 300
    assert {path: (output / path).stat().st_mtime_ns for path in finished} == finished
    assert parquet.read_table(output)["row"].to_pylist() == list(range(300))


def test_predictions_of_other_rows_models_or_options_are_never_mixed(
    rows: pyarrow.Table, model: AnyMaskRegressor, folder: Path, tmp_path: Path
) -> None:
    output = tmp_path / "predictions"
    model.write_predictions(folder, output)
    with pytest.raises(ValueError, match="other options"):
        model.write_predictions(folder, output, coverage=0.5)
    other = MissingRegressor("ols", random_state=0).fit(rows.select(FEATURES), rows["y"])
    with pytest.raises(ValueError, match="other model"):
        other.write_predictions(folder, output)
    parquet.write_table(rows.slice(0, 10), folder / "rows-3.parquet")
    with pytest.raises(ValueError, match="other rows"):
        model.write_predictions(folder, output)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="other files"):
        model.write_predictions(folder, tmp_path / "mine")


def test_a_damaged_file_leaves_nothing_half_written(
    model: AnyMaskRegressor, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = source_predictions.prepare_folder

    def vanish(*arguments: object) -> None:
        original(*arguments)
        (folder / "rows-2.parquet").unlink()

    monkeypatch.setattr(source_predictions, "prepare_folder", vanish)
    with pytest.raises(SourceError, match=r"rows-2\.parquet has vanished"):
        model.write_predictions(folder, tmp_path / "predictions")
    written = parquet.read_table(tmp_path / "predictions")
    assert written.num_rows == 200
    assert not list((tmp_path / "predictions").glob(".unfinished*"))


def test_a_full_disk_is_one_sentence_and_nothing_is_half_written(
    model: AnyMaskRegressor, folder: Path, tmp_path: Path
) -> None:
    # Files cannot grow beyond the limit, as on a disk that has no more space.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    output = tmp_path / "predictions"
    model.write_predictions(folder, tmp_path / "complete")
    size = (tmp_path / "complete" / "part-00000.parquet").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, limits[1]))
    try:
        with pytest.raises(OSError, match="no space left") as raised:
            model.write_predictions(folder, output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(raised.value)
    assert not list(output.glob("*.parquet"))
    assert not list(output.glob(".unfinished*"))
    assert model.write_predictions(folder, output) == 300


def test_warnings_of_all_batches_are_shown_once(
    rows: pyarrow.Table, model: AnyMaskRegressor, tmp_path: Path
) -> None:
    town = pyarrow.array(["Atlantis"] * 300)
    table = rows.set_column(rows.schema.get_field_index("town"), "town", town)
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    with pytest.warns(UserWarning, match=r"Atlantis.*2 later parts") as caught:
        model.predict(tmp_path / "rows.parquet")
    assert len(caught) == 1
    # Intervals and explanations repeat the warning of a batch.
    with pytest.warns(UserWarning, match=r"Atlantis.*2 later parts") as caught:
        model.write_predictions(tmp_path / "rows.parquet", tmp_path / "out", coverage=0.9, explain=True)
    assert len(caught) == 1


@pytest.mark.parametrize("interrupted", ["before the notes", "before the first file"])
def test_a_folder_without_a_finished_file_can_be_used_again(
    model: AnyMaskRegressor, folder: Path, tmp_path: Path, interrupted: str
) -> None:
    output = tmp_path / "predictions"
    if interrupted == "before the notes":
        # As after a kill of the process.
        output.mkdir()
        (output / f"{PREFIX}abc.json").write_text("{")
    else:
        with pytest.raises(ValueError, match="cannot be kept"):
            model.write_predictions(add_column(folder, "prediction"), output, keep=["prediction"])
    assert model.write_predictions(folder, output, keep=["row"]) == 300


def add_column(folder: Path, name: str) -> Path:
    """A file with the rows of the folder and one more column."""
    table = parquet.read_table(folder)
    path = folder.parent / "more.parquet"
    parquet.write_table(table.append_column(name, table["row"]), path)
    return path


def test_predictions_among_the_rows_are_refused(model: AnyMaskRegressor, folder: Path) -> None:
    # They would be read as rows when the call is repeated.
    with pytest.raises(ValueError, match="inside"):
        model.write_predictions(folder, folder / "predictions")
    assert not (folder / "predictions").exists()


def test_names_of_very_many_files_are_in_the_order_of_the_rows(model: AnyMaskRegressor) -> None:
    task = WritePart(model, Wanted(), (), (), Path("folder"), n_parts=200_000)
    numbers = [9, 99_999, 100_000, 199_999]
    paths = [task.path(FramePart(number, 0, 1, "part", None)).name for number in numbers]
    assert paths == sorted(paths)
    assert paths[0] == "part-000009.parquet"


def test_an_error_in_a_row_names_its_position_among_all_rows(
    rows: pyarrow.Table, model: AnyMaskRegressor, tmp_path: Path
) -> None:
    a = np.asarray(rows["a"]).copy()
    a[217] = np.inf
    table = rows.set_column(rows.schema.get_field_index("a"), "a", pyarrow.array(a))
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    with pytest.raises(ValueError, match="inf in row 217"):
        model.predict(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="inf in row 217"):
        model.write_predictions(tmp_path / "rows.parquet", tmp_path / "predictions")


def test_rows_of_a_lazy_frame_in_another_order_are_other_rows(
    model: AnyMaskRegressor, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "GROUP_ROWS", 100)
    lazy, output = polars.scan_parquet(folder), tmp_path / "predictions"
    model.write_predictions(lazy, output, keep=["row"])
    (output / "part-00000.parquet").unlink()
    with pytest.raises(ValueError, match="other rows"):
        model.write_predictions(lazy.reverse(), output, keep=["row"])
    assert model.write_predictions(lazy, output, keep=["row"]) == 300


def test_wrong_arguments_are_refused(model: AnyMaskRegressor, folder: Path, tmp_path: Path) -> None:
    for options, message in [
        ({"coverage": 2.0}, "coverage"),
        ({"probabilities": True}, "probabilities"),
        ({"keep": ["nowhere"]}, "nowhere"),
        ({"keep": 3}, "keep"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.write_predictions(folder, tmp_path / "predictions", **options)
    assert not (tmp_path / "predictions").exists()


@pytest.mark.slow
def test_after_a_kill_the_same_command_continues(
    rows: pyarrow.Table, model: AnyMaskRegressor, tmp_path: Path
) -> None:
    folder, output = tmp_path / "rows", tmp_path / "predictions"
    folder.mkdir()
    for number in range(20):
        parquet.write_table(make_table(2000, number), folder / f"rows-{number:02d}.parquet")
    model.save(tmp_path / "model.stablemiss")
    command = [sys.executable, "-m", "stablemiss", "predict", str(tmp_path / "model.stablemiss"), str(folder)]
    command += ["--output", str(output), "--keep", "row"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while len(list(output.glob("*.parquet"))) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    n_finished = len(list(output.glob("*.parquet")))
    assert 3 <= n_finished < 20
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    written = parquet.read_table(output)
    assert written["row"].to_pylist() == list(range(2000)) * 20
    np.testing.assert_allclose(written["prediction"], model.predict(folder), rtol=1e-9)
    assert json.loads((output / source_predictions.NOTES).read_text())["n_parts"] == 20
