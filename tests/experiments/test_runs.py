"""The runs that tables need, and the tests of each run."""

from dataclasses import replace

import pytest

from stablemiss.evaluation import TestSetting
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.runs import plan_runs
from stablemiss.experiments.tables import TABLES
from stablemiss.missingness import LEVELS
from stablemiss.results import Score

STANDARD = BUDGETS["standard"]


def find(name, label, level, instance=0):
    [run] = [
        run
        for run in plan_runs([name], STANDARD)
        if (run.label, run.level, run.instance) == (label, level, instance)
    ]
    return run


def test_one_run_serves_all_tables_that_need_it():
    """Gaussian-Mix trained under MAR at 50% is part of tables 1, 2 and 11."""
    runs = [find(name, "ols", 0.5) for name in ("table1", "table2", "table11")]
    assert len(set(runs)) == 1
    at_50 = [*(TestSetting("mar", level) for level in LEVELS), TestSetting("mcar_window", 0.5)]
    assert list(runs[0].tests) == at_50
    # Only table 1 has later instances.
    assert list(find("table1", "ols", 0.5, instance=2).tests) == at_50[:-1]


def test_the_reference_of_house_prices_is_trained_where_it_is_tested():
    runs = plan_runs(["table3"], STANDARD)
    assert {run.level for run in runs if run.label == "stablemiss"} == set(LEVELS)
    assert {run.level for run in runs if run.label == "ols"} == {0.5}


def test_no_run_is_planned_twice_and_the_standard_budget_has_624():
    keys = [run.key for run in plan_runs(TABLES, STANDARD)]
    assert len(set(keys)) == len(keys) == 624


def test_references_of_chosen_labels_are_run_too():
    labels = {run.label for run in plan_runs(["table1"], STANDARD, ["ols"])}
    assert labels == {"ols", "constant", "linear", "optimal"}


def test_a_run_is_done_by_a_failure_or_a_complete_record_with_the_same_settings():
    run = find("table2", "ols", 0.1)
    record = run.record(scores=tuple(Score(test.mechanism, test.level, 1.0) for test in run.tests))
    assert run.is_done_by(record)
    assert not run.is_done_by(replace(record, scores=record.scores[1:]))
    assert run.is_done_by(replace(record, scores=(), failure="no luck"))
    assert not run.is_done_by(replace(record, label="dwr"))
    assert not run.is_done_by(replace(record, settings={**record.settings, "seed": 7}))


@pytest.mark.parametrize("label", ["optimal", "linear"])
def test_exact_predictors_have_no_method(label):
    assert find("table1", label, 0.5).method() is None
