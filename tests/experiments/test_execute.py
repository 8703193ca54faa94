"""Executing a run gives its record."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stablemiss.evaluation import TestSetting
from stablemiss.experiments import execute as module
from stablemiss.experiments.budgets import BUDGETS, demo_budget
from stablemiss.experiments.execute import execute
from stablemiss.experiments.reproduce import run_demo
from stablemiss.experiments.runs import Run
from stablemiss.experiments.tables import demo_table
from stablemiss.missingness import LEVELS
from stablemiss.results import Record
from stablemiss.tuning import tune

QUICK = BUDGETS["quick"]
TESTS = tuple(TestSetting("mcar_independent", level) for level in (0.1, 0.5, 0.9))
RUN = Run(QUICK, "gaussian_ind", "mcar_independent", 0.5, 0, "ols", TESTS)


def test_a_record_holds_everything_needed_to_repeat_the_run():
    record = execute(RUN)
    assert Record.from_json(record.to_json()) == record
    assert [TestSetting(score.mechanism, score.level) for score in record.scores] == list(TESTS)
    assert all(0 < score.error < 100 for score in record.scores)
    assert record.failure is None
    assert record.config["class"] == "OLS"
    assert (record.n_rows, record.n_features, record.seed) == (1000, 12, RUN.seed)
    assert record.versions["torch"]
    assert record.peak_memory > 1e7
    assert record.fit_seconds > 0
    assert RUN.is_done_by(record)


def test_the_same_run_gives_the_same_outcome():
    assert execute(RUN).outcome() == execute(RUN).outcome()


def test_the_exact_predictor_is_better_than_a_fitted_one():
    error = {
        label: np.array([score.error for score in execute(replace(RUN, label=label)).scores])
        for label in ("optimal", "ols", "constant")
    }
    assert np.all(error["optimal"] < error["ols"])
    assert np.all(error["ols"] < error["constant"])


def test_an_exception_becomes_the_failure_of_the_record(monkeypatch):
    monkeypatch.setattr(module, "draw_problem", lambda *_: 1 / 0)
    record = execute(RUN)
    assert record.failure == "ZeroDivisionError: division by zero"
    assert record.scores == ()
    assert record.key == RUN.key


def test_the_number_of_threads_is_restored():
    before = torch.get_num_threads()
    execute(RUN)
    assert torch.get_num_threads() == before


def test_a_budget_with_trials_searches_first(monkeypatch):
    searching = replace(QUICK, n_rows=300, n_test_rows=300, n_trials=2, is_brief=False)
    calls = []

    def spy(*arguments, **options):
        calls.append(options["n_trials"])
        return tune(*arguments, **options)

    monkeypatch.setattr("stablemiss.tuning.tune", spy)
    record = execute(replace(RUN, budget=searching, label="boosting"))
    assert record.failure is None
    assert record.config["class"] == "Boosting"
    assert calls == [2]
    # The search is part of the time to fit.
    assert record.fit_seconds + record.predict_seconds > 0.5 * record.seconds
    # A method without a search space is fitted without a search.
    assert execute(replace(RUN, budget=searching)).failure is None
    assert calls == [2]


@pytest.mark.parametrize("label", ["optimal", "linear"])
def test_the_best_predictor_of_a_real_table_is_not_known(label, monkeypatch):
    problem = module.draw_problem(RUN)._replace(population=None)
    monkeypatch.setattr(module, "draw_problem", lambda *_: problem)
    assert "is not known" in execute(replace(RUN, label=label)).failure


def test_the_demo_scores_every_method_at_all_levels():
    table = demo_table("mcar_window", 0.3)
    budget, records = run_demo(table, seed=7, rows=200)
    assert budget == demo_budget(7, 200)
    assert [record.label for record in records] == ["optimal", *table.methods]
    for record in records:
        assert record.failure is None
        assert [score.level for score in record.scores] == list(LEVELS)
        assert (record.level, record.seed, record.n_rows, record.n_test_rows) == (0.3, 7, 200, 100)
