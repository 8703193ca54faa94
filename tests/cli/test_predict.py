import json
import os
import subprocess
import sys

import numpy as np
import pyarrow
import pytest

from stablemiss import AnyMaskRegressor, MissingRegressor, load_model
from stablemiss.cli import reading
from stablemiss.cli.predict import check_names
from stablemiss.cli.reading import read_table as read_rows
from stablemiss.cli.writing import write_table

IGNORED = ("--ignore", "id", "--ignore", "price")


def read_table(path):
    return read_rows(path)[0]


def read_numbers(path, column="prediction"):
    return np.array([float(entry) for entry in read_table(path).column(column).to_pylist()])


@pytest.fixture
def model(run, houses):
    """File of a classifier that predicts `expensive` from `size` and `kind`."""
    assert run("fit", houses, "--target", "expensive", "--method", "ols", *IGNORED).exit_code == 0
    return "model.stablemiss"


def test_predictions_equal_those_of_the_model_in_python(run, data, table):
    """In every file format, with one prediction per row, in the order of the rows."""
    run("fit", data, "--target", "price", "--method", "ols", "--ignore", "id", "--ignore", "expensive")
    result = run("predict", "model.stablemiss", data)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Wrote 300 predictions to predictions.csv.\n")
    written = read_numbers(data.parent / "predictions.csv")
    expected = load_model("model.stablemiss").predict(table.select(["size", "kind"]))
    # Excel stores 16 digits.
    np.testing.assert_allclose(written, expected, rtol=1e-14)
    price = table.column("price").to_numpy()
    rmse = np.sqrt(np.nanmean((written - price) ** 2))
    assert rmse < 0.6 * np.nanstd(price)
    assert f"RMSE {rmse:.3f}" in result.stdout
    assert f"on {np.isfinite(price).sum()} rows with 'price'" in result.stdout


@pytest.mark.parametrize(
    "output", ["out.csv", "out.csv.gz", "out.parquet", "out.feather", "out.jsonl", "out.xlsx"]
)
def test_class_probabilities_are_written_on_request(run, model, houses, tmp_path, output):
    result = run("predict", model, houses, "--output", output, "--probabilities")
    assert "accuracy" in result.stdout
    written = read_table(tmp_path / output)
    assert written.column_names == ["prediction", "probability of no", "probability of yes"]
    yes = read_numbers(tmp_path / output, "probability of yes")
    np.testing.assert_allclose(yes + read_numbers(tmp_path / output, "probability of no"), 1.0)
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
    np.testing.assert_allclose(read_numbers(tmp_path / "predictions.csv"), [1, 5], atol=0.5)


def test_a_non_numeric_entry_in_a_numeric_column_gives_an_error(error_of, model, tmp_path):
    (tmp_path / "new.csv").write_text("size,kind\n1.5,flat\nhuge,flat\n")
    error = error_of("predict", model, "new.csv")
    assert "Column 'size' in new.csv must be numeric, as in training; got 'huge'" in error


def test_the_error_about_a_date_has_no_advice_for_python(run, error_of, tmp_path):
    days = [f"2014-10-{i % 28 + 1:02}" for i in range(60)]
    (tmp_path / "a.csv").write_text("day,y\n" + "\n".join(f"{day},{i}" for i, day in enumerate(days)))
    (tmp_path / "b.csv").write_text("day\n03/04/2014\n")
    run("fit", "a.csv", "--target", "y", "--method", "ols")
    error = error_of("predict", "model.stablemiss", "b.csv")
    assert "'03/04/2014', in which day and month cannot be told apart" in error
    assert "2014-10-13" in error
    assert "pandas" not in error


def test_markers_of_missing_values_in_a_numeric_column_are_counted(run, model, tmp_path):
    (tmp_path / "new.csv").write_text("size,kind\n" + "-,flat\ngone,flat\n1,flat\n" * 2)
    result = run("predict", model, "new.csv", "--missing-value", "gone")
    assert (
        "Column 'size': 2 entries of 'gone' read as missing; 2 entries of '-' read as missing."
        in result.stdout
    )


def test_the_error_without_pyarrow_says_how_to_install_it(error_of, model, houses, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for command in (("predict", model, houses), ("fit", houses, "--target", "price")):
        assert 'needs pyarrow; install with: pip install "stablemiss[files]"' in error_of(*command)


def test_a_model_fitted_on_an_array_matches_columns_by_position(run, tmp_path):
    X = np.arange(20.0)[:, None]
    MissingRegressor(method="ols", random_state=0).fit(X, X[:, 0]).save(tmp_path / "array.stablemiss")
    (tmp_path / "new.csv").write_text("any name\n3\n")
    assert run("predict", "array.stablemiss", "new.csv").exit_code == 0
    np.testing.assert_allclose(read_numbers(tmp_path / "predictions.csv"), [3.0], atol=0.1)


def test_invalid_arguments_give_an_error_and_nothing_is_written(error_of, run, model, houses, tmp_path):
    (tmp_path / "broken").write_bytes((tmp_path / model).read_bytes()[:-20])
    (tmp_path / "words.csv").write_text("size,kind\nlarge,flat\n")
    assert "no model file absent" in error_of("predict", "absent", houses)
    assert "no file absent.csv" in error_of("predict", model, "absent.csv")
    assert "broken" in error_of("predict", "broken", houses)
    assert "houses.csv" in error_of("predict", "houses.csv", houses)
    assert "does not exist; create it" in error_of("predict", model, houses, "--output", "no/out.csv")
    assert "must end in .csv" in error_of("predict", model, houses, "--output", "out.doc")
    assert "no column 'idd'" in error_of("predict", model, houses, "--keep", "idd")
    assert "no column 'prize'" in error_of("predict", model, houses, "--target", "prize")
    assert "--interval needs" in error_of("predict", model, houses, "--interval", "0.9")
    assert "--explain needs" in error_of("predict", model, houses, "--explain")
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


def test_output_can_be_joined_with_the_input(run, model, houses, table, tmp_path):
    result = run("predict", model, houses, "--keep", "kind", "--keep", "id", "--keep", "id")
    assert result.exit_code == 0, result.output
    written = read_table(tmp_path / "predictions.csv")
    assert written.column_names == ["kind", "id", "prediction"]
    assert written.column("id").to_pylist() == [str(i) for i in range(300)]
    run("predict", model, houses, "--keep-all", "--output", "all.parquet")
    assert read_table(tmp_path / "all.parquet").column_names == [*table.column_names, "prediction"]


def test_kept_columns_are_copied_exactly(run, model, tmp_path):
    (tmp_path / "new.csv").write_text('id,size,kind\n007,1,flat\nNA,2,flat\n"1,50",3,flat\n')
    run("predict", model, "new.csv", "--keep", "id")
    assert read_table(tmp_path / "predictions.csv").column("id").to_pylist() == ["007", "NA", "1,50"]


def test_a_kept_column_must_not_have_the_name_of_a_prediction(error_of, run, model, houses):
    run("predict", model, houses, "--keep-all")
    assert "Column 'prediction' cannot be kept" in error_of(
        "predict", model, "predictions.csv", "--keep-all", "--output", "b.csv"
    )
    check_names(["id"], ["prediction"])


def test_a_semicolon_separated_file_gives_a_semicolon_separated_file(run, model, tmp_path):
    (tmp_path / "new.csv").write_text("id;size;kind\na;0,5;flat\nb;1,5;house\n")
    result = run("predict", model, "new.csv", "--keep", "size", "--probabilities")
    assert result.exit_code == 0, result.output
    header, first, _ = (tmp_path / "predictions.csv").read_text().splitlines()
    assert header == "size;prediction;probability of no;probability of yes"
    assert first.split(";")[0] == "0,5"
    assert 0 <= float(first.split(";")[2].replace(",", ".")) <= 1


@pytest.fixture(scope="module")
def anymask(tmp_path_factory):
    """File of an AnyMask model that predicts `price` from `size` and `kind`."""
    rng = np.random.default_rng(0)
    size, kind = rng.normal(size=200), rng.choice(["flat", "house"], size=200)
    size[::7] = np.nan
    features = pyarrow.table({"size": pyarrow.array(size, from_pandas=True), "kind": kind})
    model = AnyMaskRegressor(budget="fast", members=["mixture"], random_state=0)
    model.fit(features, np.nan_to_num(size) * 10 + 100)
    model.target_name_ = "price"
    path = tmp_path_factory.mktemp("model") / "anymask.stablemiss"
    model.save(path)
    return path


def test_intervals_and_explanations_are_written(run, anymask, houses, table, tmp_path):
    result = run("predict", anymask, houses, "--interval", "0.8", "--explain", "--keep", "id")
    assert result.exit_code == 0, result.output
    assert "coverage" in result.stdout
    written = read_table(tmp_path / "predictions.csv")
    assert written.column_names[:5] == ["id", "prediction", "lower", "upper", "error"]
    bounds = load_model(anymask).predict_interval(table.select(["size", "kind"]), 0.8)
    np.testing.assert_array_equal(read_numbers(tmp_path / "predictions.csv", "lower"), bounds[:, 0])
    informative = written.column("most_informative_missing").to_pylist()
    assert set(informative) <= {"", "size", "kind"}
    assert "size" in informative


def test_by_default_the_settings_of_the_model_hold(run, tmp_path):
    """A model that ignores unseen missing values does not warn on the command line either."""
    X = pyarrow.table({"x": np.arange(40.0), "z": np.arange(40.0)[::-1]})
    for setting, n_warnings in (("ignore", 0), ("warn", 1)):
        model = MissingRegressor("ols", on_unseen_missing=setting, allow_missing_columns=True, random_state=0)
        model.fit(X, np.arange(40.0)).save(tmp_path / "own.stablemiss")
        (tmp_path / "new.csv").write_text("x\n1\n")
        result = run("predict", "own.stablemiss", "new.csv")
        assert (result.exit_code, result.stderr.count("Warning")) == (0, n_warnings), result.output


def test_out_of_range_numbers_are_an_error_on_request(run, model, tmp_path):
    (tmp_path / "new.csv").write_text("size,kind\n1,flat\n-999,flat\n")
    assert run("predict", model, "new.csv", "--on-out-of-range", "raise").exit_code == 2
    clipped = run("predict", model, "new.csv", "--on-out-of-range", "clip")
    assert clipped.exit_code == 0
    assert "'size'" in clipped.stderr


def test_batches_give_the_same_predictions_and_their_warnings_are_counted(run, model, tmp_path, monkeypatch):
    sizes = [str(i / 10 if i % 2 else -1000 - i) for i in range(40)]
    (tmp_path / "new.csv").write_text("\n".join(["size,kind", *(f"{size},flat" for size in sizes)]))
    run("predict", model, "new.csv", "--output", "whole.csv")
    monkeypatch.setattr(reading, "BATCH_ROWS", 10)
    result = run("predict", model, "new.csv", "--output", "batches.csv")
    assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "batches.csv").read_bytes()
    assert result.stderr.count("Warning: ") == 2
    assert "3 later parts" in result.stderr


def test_a_pipe_from_standard_input_to_standard_output(run, model, houses):
    result = run("predict", model, "-", "--output", "-", "--keep", "id", stdin=houses.read_bytes())
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "id,prediction"
    assert len(lines) == 301
    assert "Wrote 300 predictions to standard output." in result.stderr
    as_json = run(
        "predict", model, "-", "--output", "-", "--format", "jsonl", stdin=b'{"size": 1, "kind": "flat"}'
    )
    assert json.loads(as_json.stdout)["prediction"] in ("yes", "no")


def test_the_end_of_the_reader_of_standard_output_is_no_error(run, model, houses, tmp_path):
    """As with `| head -1`."""
    program = "from stablemiss.cli import main; main()"
    arguments = ["predict", model, str(houses), "--output", "-"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.parametrize("output", ["houses.csv", "model.stablemiss", "hard link"])
def test_inputs_are_never_overwritten(error_of, model, houses, tmp_path, output):
    os.link(houses, tmp_path / "hard link")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    error = error_of("predict", model, houses, "--output", output, "--format", "csv")
    assert "would be overwritten" in error
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_error_in_a_late_batch_leaves_no_output(error_of, model, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_ROWS", 10)
    (tmp_path / "new.csv").write_text("size,kind\n" + "1,flat\n" * 25 + "huge,flat\n")
    error_of("predict", model, "new.csv", "--output", "out.csv")
    assert not [path for path in tmp_path.iterdir() if "out" in path.name or "unfinished" in path.name]


def peak_memory(tmp_path, *arguments):
    """Peak memory of a command, in MiB."""
    program = (
        "from stablemiss.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    from stablemiss.results.provenance import peak_memory\n"
        "    print(peak_memory())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    return int(done.stdout.splitlines()[-1]) / 2**20


@pytest.mark.parametrize(("entry", "day"), [("inf", "01.01.2024"), ("1", "45.01.2024")])
def test_errors_name_the_row_of_the_file(run, error_of, tmp_path, monkeypatch, entry, day):
    rows = [f"{i},{i % 28 + 1:02}.01.2024,{i}" for i in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["x,day,y", *rows]))
    assert run("fit", "a.csv", "--target", "y", "--method", "ols").exit_code == 0
    (tmp_path / "bad.csv").write_text("\n".join(["x,day,y", *rows[:25], f"{entry},{day},1", *rows]))
    monkeypatch.setattr(reading, "BATCH_ROWS", 10)
    assert "row 26 (the first row is row 1)" in error_of("predict", "model.stablemiss", "bad.csv")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
def test_memory_does_not_grow_with_the_number_of_rows(model, tmp_path, name):
    peaks = []
    for n_rows in (100_000, 1_000_000):
        sizes = np.random.default_rng(0).normal(size=n_rows)
        text = np.full(n_rows, "flat " + "x" * 40)
        write_table(pyarrow.table({"size": sizes, "kind": text, "note": text}), tmp_path / name)
        arguments = ["predict", model, name, "--keep", "note", "--output", f"out-{name}"]
        peaks.append(peak_memory(tmp_path, *arguments))
    # The larger table needs 100 MiB more than the smaller one.
    assert peaks[1] < peaks[0] + 50


@pytest.mark.slow
def test_records_of_wide_tables_do_not_fill_the_memory(model, tmp_path):
    """Records of a batch of JSON lines take more than 100 bytes per cell."""
    peaks = []
    for n_rows in (1_000, 30_000):
        columns = {f"x{j}": np.arange(n_rows) for j in range(198)}
        table = pyarrow.table({"size": np.zeros(n_rows), "kind": ["flat"] * n_rows} | columns)
        write_table(table, tmp_path / "new.jsonl")
        peaks.append(peak_memory(tmp_path, "predict", model, "new.jsonl"))
    assert peaks[1] < peaks[0] + 500


def test_the_help_says_what_the_expected_error_is(run):
    words = " ".join(run("predict", "--help").stdout.replace("│", " ").split())
    assert "root mean square for rows like it, not a bound" in words
    assert "Brier score" in words
