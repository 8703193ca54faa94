"""Runs that are killed go on where they were; mistakes are one sentence."""

import json
import os
import signal
import subprocess
import sys
from time import monotonic, sleep

import pytest

from stablemiss.experiments.cells import Cell
from stablemiss.experiments.exhibits import EXHIBITS
from stablemiss.experiments.reproduce import reproduce, to_exhibits
from stablemiss.experiments.run_cell import MEASURED, given
from stablemiss.experiments.store import Store

CELL = Cell("quick", "gaussian_ind", "mcar_independent", 0.5, 0, "ols")
METHODS = ["ols", "boosting", "neumiss", "em_mixture"]
CALL = [
    *(sys.executable, "-m", "stablemiss", "reproduce", "table6", "patterns", "--budget", "quick"),
    *(part for method in METHODS for part in ("--method", method)),
]


def facts(folder):
    found = [json.loads(line) for line in (folder / "quick.jsonl").read_text().splitlines()]
    facts = [{key: value for key, value in row.items() if key not in MEASURED} for row in found]
    return sorted(facts, key=lambda row: row["key"])


def kill_after(folder, n_rows, jobs):
    """Start a run, and kill it and its workers outright once it has stored so many rows."""
    path = folder / "quick.jsonl"
    run = subprocess.Popen(
        [*CALL, "--folder", str(folder), "--jobs", str(jobs)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = monotonic() + 240
    while monotonic() < end and run.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= n_rows:
            break
        sleep(0.01)
    assert run.poll() is None, "the run ended before it could be killed"
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()


def test_killed_and_started_again_it_ends_with_the_rows_of_an_uninterrupted_run(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    subprocess.run([*CALL, "--folder", str(whole)], check=True, capture_output=True)
    kill_after(killed, 1, jobs=1)
    path = killed / "quick.jsonl"
    # As if it had been killed while it wrote.
    path.write_bytes(path.read_bytes() + b'{"key": "quick gauss')
    kill_after(killed, 3, jobs=2)
    subprocess.run([*CALL, "--folder", str(killed)], check=True, capture_output=True)
    assert facts(killed) == facts(whole)
    assert len({row["key"] for row in facts(whole)}) == len(facts(whole)) == 10


def test_what_is_stored_is_not_run_again(tmp_path):
    reproduce(["table6"], budget="quick", folder=tmp_path, methods=["ols"])
    before = (tmp_path / "quick.jsonl").read_bytes()
    rows = reproduce(["table6"], budget="quick", folder=tmp_path, methods=["ols"])
    assert (tmp_path / "quick.jsonl").read_bytes() == before
    assert {row["label"] for row in rows} == {"ols", "constant", "linear", "optimal"}


def test_what_was_made_with_other_settings_is_run_again(tmp_path):
    reproduce(["table6"], budget="quick", folder=tmp_path, methods=["ols"])
    path = tmp_path / "quick.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    old = next(row for row in rows if row["label"] == "ols")
    old["given"]["method"]["ridge"] = 7.0
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = reproduce(["table6"], budget="quick", folder=tmp_path, methods=["ols"])
    assert next(row for row in found if row["label"] == "ols")["given"] == given(CELL)
    assert len(path.read_text().splitlines()) == len(rows) + 1


def test_house_sales_that_are_not_there_are_told_before_the_first_fit(tmp_path, monkeypatch):
    def absent():
        raise FileNotFoundError("There are no house sales.")

    monkeypatch.setattr("stablemiss.experiments.reproduce.load_house_sales", absent)
    with pytest.raises(FileNotFoundError, match="no house sales"):
        reproduce(["table3"], budget="quick", folder=tmp_path, methods=["ols"])
    assert Store(tmp_path / "quick.jsonl").rows() == []


def test_what_failed_is_run_again_only_if_asked(tmp_path):
    store = Store(tmp_path / "quick.jsonl")
    key = CELL.key
    with store.adding() as add:
        add({"key": key, "budget": "quick", "scores": [], "error": "no luck", "given": given(CELL)})

    def error(**more):
        rows = reproduce(["table6"], budget="quick", folder=tmp_path, methods=["ols"], **more)
        return next(row["error"] for row in rows if row["key"] == key)

    assert error() == "no luck"
    assert error(retry_failed=True) is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"names": ["table12"]}, "no 'table12' to reproduce; choose from table1, "),
        ({"names": ["table4"]}, "table4 needs images"),
        ({"names": ["all", "table99"]}, "no 'table99' to reproduce"),
        ({"names": []}, "Name what to reproduce"),
        ({"names": ["table1"], "budget": "cheap"}, "no budget 'cheap'; choose from quick, standard, paper"),
        ({"names": ["table1"], "methods": ["magic"]}, "no method 'magic' in the tables"),
    ],
)
def test_wrong_names_are_one_sentence_and_nothing_is_written(tmp_path, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        reproduce(**arguments, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_left_as_it_is(tmp_path):
    path = tmp_path / "quick.jsonl"
    path.write_text("no row\n")
    with pytest.raises(ValueError, match=r"Line 1 of .* is no result row"):
        reproduce(["table6"], budget="quick", folder=tmp_path, methods=["ols"])
    assert path.read_text() == "no row\n"


def test_all_is_every_table_figure_and_picture():
    assert to_exhibits(["all"]) == [*EXHIBITS, "patterns"]
