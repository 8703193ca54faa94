"""One cell, one row."""

import json

import numpy as np
import pytest
import torch

from stablemiss.experiments import run_cell as module
from stablemiss.experiments.budgets import BUDGETS, Budget
from stablemiss.experiments.cells import Cell, exams_of
from stablemiss.experiments.run_cell import MEASURED, run_cell
from stablemiss.tuning import tune

CELL = Cell("quick", "gaussian_ind", "mcar_independent", 0.5, 0, "ols")


def facts(row):
    return {key: value for key, value in row.items() if key not in MEASURED}


def test_a_row_says_all_it_takes_to_get_it_again():
    row = run_cell(CELL)
    assert json.loads(json.dumps(row)) == row
    assert [(score["mechanism"], score["level"]) for score in row["scores"]] == [
        (exam.mechanism, exam.level) for exam in exams_of(CELL)
    ]
    assert all(0 < score["rmse"] < 100 for score in row["scores"])
    assert row["error"] is None
    assert row["config"]["class"] == "OLS"
    assert (row["n_rows"], row["n_features"], row["seed"]) == (1000, 12, CELL.seed)
    assert row["versions"]["torch"]
    assert row["peak_memory"] > 1e7
    assert row["fit_seconds"] > 0


def test_the_same_cell_gives_the_same_row():
    assert facts(run_cell(CELL)) == facts(run_cell(CELL))


def test_the_truth_beats_what_was_learnt():
    rmse = {
        label: [score["rmse"] for score in run_cell(Cell(*CELL.key.split()[:3], 0.5, 0, label))["scores"]]
        for label in ("optimal", "ols", "constant")
    }
    assert np.all(np.array(rmse["optimal"]) < rmse["ols"])
    assert np.all(np.array(rmse["ols"]) < rmse["constant"])


def test_what_goes_wrong_becomes_the_row(monkeypatch):
    monkeypatch.setattr(module, "draw_problem", lambda *_: 1 / 0)
    row = run_cell(CELL)
    assert row["error"] == "ZeroDivisionError: division by zero"
    assert row["scores"] == []
    assert row["key"] == CELL.key


def test_threads_are_put_back():
    before = torch.get_num_threads()
    run_cell(CELL)
    assert torch.get_num_threads() == before


def test_a_budget_with_trials_searches_first(monkeypatch):
    quick = BUDGETS["quick"]
    searching = Budget(
        "quick", quick.n_features, 300, 300, 10, levels=quick.levels, n_instances=1, n_trials=2
    )
    monkeypatch.setitem(module.BUDGETS, "quick", searching)
    asked = []

    def spy(*arguments, **options):
        asked.append(options["n_trials"])
        return tune(*arguments, **options)

    monkeypatch.setattr("stablemiss.tuning.tune", spy)
    row = run_cell(Cell(*CELL.key.split()[:3], 0.5, 0, "boosting"))
    assert row["error"] is None
    assert row["config"]["class"] == "Boosting"
    assert asked == [2]
    # What has nothing to search is fitted as it is.
    assert run_cell(CELL)["error"] is None
    assert asked == [2]


@pytest.mark.parametrize("label", ["optimal", "linear"])
def test_a_real_table_has_no_known_truth(label, monkeypatch):
    found = module.draw_problem(CELL, module.BUDGETS["quick"])._replace(population=None)
    monkeypatch.setattr(module, "draw_problem", lambda *_: found)
    row = run_cell(Cell(*CELL.key.split()[:3], 0.5, 0, label))
    assert "is not known" in row["error"]
