"""Interrupted runs continue where they ended; invalid arguments raise before the first fit."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from time import monotonic, sleep

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.comparison import compare
from stablemiss.experiments.reproduce import LOADERS, Reproduction, current_records
from stablemiss.experiments.tables import TABLES
from stablemiss.results import Record, Store

QUICK = BUDGETS["quick"]
METHODS = ["ols", "boosting", "neumiss", "em_mixture"]
CALL = [
    *(sys.executable, "-m", "stablemiss", "reproduce", "table6", "--budget", "quick"),
    *(part for method in METHODS for part in ("--method", method)),
]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "quick.jsonl")


def table6(**options):
    return Reproduction(["table6"], "quick", ["ols"], **options)


def outcomes(folder):
    lines = (folder / "quick.jsonl").read_text().splitlines()
    return sorted((Record.from_json(line).outcome() for line in lines), key=json.dumps)


def kill_after(folder, n_records, jobs):
    """Start a run, and kill it and its workers once it has stored some records."""
    path = folder / "quick.jsonl"
    run = subprocess.Popen(
        [*CALL, "--folder", str(folder), "--jobs", str(jobs)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = monotonic() + 240
    while monotonic() < end and run.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= n_records:
            break
        sleep(0.01)
    assert run.poll() is None, "the run ended before it could be killed"
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()


@pytest.mark.slow
def test_a_killed_run_that_is_started_again_ends_with_the_records_of_an_uninterrupted_one(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    subprocess.run([*CALL, "--folder", str(whole)], check=True, capture_output=True)
    kill_after(killed, 1, jobs=1)
    path = killed / "quick.jsonl"
    # The incomplete line of a process that was killed while writing.
    path.write_bytes(path.read_bytes() + b'{"experiment": "quick", "data')
    kill_after(killed, 3, jobs=2)
    subprocess.run([*CALL, "--folder", str(killed)], check=True, capture_output=True)
    assert outcomes(killed) == outcomes(whole)
    assert len(outcomes(whole)) == 7


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_quick_run_of_one_method_fills_its_line_of_every_table(name, store):
    table = TABLES[name]
    if table.dataset == "house_sales" and "STABLEMISS_DATA" not in os.environ:
        pytest.skip("needs the house sales; set STABLEMISS_DATA to the folder that holds them")
    method = "stablemiss_unweighted" if table.is_figure else "ols"
    records = Reproduction([name], "quick", [method]).run(store)
    assert {record.failure for record in records} == {None}
    comparison = compare(table, records, QUICK)
    cells = [comparison.column(number)[method] for number in range(3)]
    # No method is better than the exact predictor by more than chance; house prices have no exact predictor.
    assert all(cell.relative_gap > (-0.5 if table.dataset == "house_sales" else -0.02) for cell in cells)


def test_stored_records_are_not_computed_again(store):
    table6().run(store)
    before = store.path.read_bytes()
    records = table6().run(store)
    assert store.path.read_bytes() == before
    assert {record.label for record in records} == {"ols", "constant", "linear", "optimal"}


def test_records_with_different_settings_are_computed_again(store):
    table6().run(store)
    records = store.records()
    old = next(record for record in records if record.label == "ols")
    store.path.unlink()
    with store.appending() as append:
        for record in records:
            append(replace(record, settings={"old": True}) if record is old else record)
    assert current_records(store, QUICK)[1] == 1
    assert next(one for one in table6().run(store) if one.label == "ols").settings == old.settings
    assert len(store.path.read_text().splitlines()) == len(records) + 1
    assert current_records(store, QUICK)[1] == 0


def test_missing_house_sales_raise_before_the_first_fit(store, monkeypatch):
    def absent():
        raise FileNotFoundError("There are no house sales.")

    monkeypatch.setitem(LOADERS, "house_sales", absent)
    with pytest.raises(FileNotFoundError, match="no house sales"):
        Reproduction(["table3"], "quick", ["ols"]).run(store)
    assert store.records() == []


def test_failed_runs_are_executed_again_only_on_request(store):
    reproduction = table6()
    run = next(run for run in reproduction.runs if run.label == "ols")
    with store.appending() as append:
        append(run.record(failure="no luck"))

    def failure(**options):
        records = reproduction.run(store, **options)
        return next(record.failure for record in records if record.key == run.key)

    assert failure() == "no luck"
    assert failure(retry_failed=True) is None


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ({"names": ["table12"]}, "table1, .*got 'table12'"),
        ({"names": ["all", "table99"]}, "got 'table99'"),
        ({"names": []}, "at least one table or figure"),
        ({"names": ["table1"], "budget": "cheap"}, "quick, standard, paper, as_published; got 'cheap'"),
        ({"names": ["table1"], "methods": ["magic"]}, "constant, ols, .*got 'magic'"),
    ],
)
def test_invalid_arguments_raise(arguments, facts):
    with pytest.raises(ValueError, match=facts):
        Reproduction(**arguments)


def test_a_damaged_file_raises_and_is_unchanged(store):
    store.path.write_text("not a record\n")
    with pytest.raises(ValueError, match=r"Line 1 of .* is not a result record"):
        table6().run(store)
    assert store.path.read_text() == "not a record\n"


def test_all_means_every_table_and_figure():
    reproduction = Reproduction(["all"])
    assert [table.name for table in reproduction.tables] == list(TABLES)
    assert [table.name for table in reproduction.array_tables] == ["table4", "table5"]


def test_methods_of_other_tables_are_refused_with_those_of_the_chosen_ones():
    with pytest.raises(ValueError, match=r"^Methods of table4 are .*partial_c.*got 'ridge_on_lags'\.$"):
        Reproduction(["table4"], "quick", ["ridge_on_lags"])
    with pytest.raises(ValueError, match=r"Did you mean 'ridge_on_lags'\?"):
        Reproduction(["table5"], "quick", ["ridge_on_lag"])
