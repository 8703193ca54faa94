"""The runs that tables need, and the tests of each run."""

from dataclasses import replace

import pytest

from stablemiss.evaluation import TestSetting
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.runs import plan_runs
from stablemiss.experiments.tables import TABLES
from stablemiss.missingness import LEVELS
from stablemiss.results import Record, Score

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
    # Only table 1 has a fifth instance.
    assert list(find("table1", "ols", 0.5, instance=4).tests) == at_50[:-1]


def test_the_reference_of_house_prices_is_trained_where_it_is_tested():
    runs = plan_runs(["table3"], STANDARD)
    assert {run.level for run in runs if run.label == "stablemiss"} == set(LEVELS)
    assert {run.level for run in runs if run.label == "ols"} == {0.5}


def test_no_run_is_planned_twice():
    keys = [run.key for run in plan_runs(TABLES, STANDARD)]
    assert len(set(keys)) == len(keys)
    # Gaussian-Mix under MAR and under windows at five levels for three instances, at 50% for two more.
    assert sum(key.endswith(" dwr") and "gaussian_mix" in key for key in keys) == 2 * (5 * 3 + 2)


def test_tables_that_are_trained_for_each_column_may_have_fewer_columns():
    few = replace(STANDARD, levels_if_trained_per_column=(0.1, 0.5))
    for name, table in TABLES.items():
        n_columns = 2 if name in ("table2", "table10", "table11") else 9
        assert len(few.columns(table)) == n_columns
        assert len(replace(few, levels_if_trained_per_column=None).columns(table)) == 9


def test_a_budget_may_run_some_methods_only():
    published = BUDGETS["as_published"]
    runs = plan_runs(["table1", "figure2"], published)
    fitted = {run.method().name for run in runs if run.method() is not None}
    assert fitted == {"neumiss", "stablenet", "stablemiss", "constant"}
    assert {run.instance for run in runs} == {0}


def test_a_budget_may_train_at_some_levels_only_and_test_at_all():
    budget = replace(STANDARD, train_levels=(0.1, 0.5))
    runs = [run for run in plan_runs(TABLES, budget) if run.label == "neumiss"]
    assert {run.level for run in runs} == {0.1, 0.5}
    [run] = [
        run
        for run in plan_runs(["table1"], budget, ["neumiss"])
        if (run.label, run.instance) == ("neumiss", 0)
    ]
    assert {test.level for test in run.tests if test.mechanism == "mar"} == set(LEVELS)
    # The reference of house prices would have to be trained at the other levels.
    assert [column.test_level for column in budget.columns(TABLES["table3"])] == [0.1, 0.5]


@pytest.mark.parametrize("label", ["ols", "gain"])
def test_references_of_chosen_labels_are_run_too(label):
    labels = {run.label for run in plan_runs(["table1"], STANDARD, [label])}
    assert labels == {label, "constant", "linear", "optimal"}


def test_a_run_is_done_by_a_failure_or_a_complete_record_with_the_same_settings():
    run = find("table2", "ols", 0.1)
    record = run.record(scores=tuple(Score(test.mechanism, test.level, 1.0) for test in run.tests))
    assert run.is_done_by(record)
    assert not run.is_done_by(replace(record, scores=record.scores[1:]))
    assert run.is_done_by(replace(record, scores=(), failure="no luck"))
    assert not run.is_done_by(replace(record, label="dwr"))
    assert not run.is_done_by(replace(record, settings={**record.settings, "seed": 7}))


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_record_read_from_a_file_has_the_settings_of_its_run(budget):
    """Also those with sequences, which become lists."""
    for run in plan_runs(["table1"], BUDGETS[budget], ["stablemiss", "neumiss"]):
        record = run.record(failure="no luck")
        assert run.is_done_by(Record.from_json(record.to_json()))


def test_a_run_with_other_validation_rows_is_not_done():
    run = find("table2", "ols", 0.1)
    other = replace(run, budget=replace(run.budget, n_validation_rows=100))
    assert run.key == other.key
    assert not run.is_done_by(other.record(failure="no luck"))


@pytest.mark.parametrize("label", ["neumiss", "stablenet", "stablemiss"])
def test_networks_as_published_are_trained_for_a_thousand_epochs_without_early_stopping(label):
    runs = plan_runs(["table1"], BUDGETS["as_published"], [label])
    method = next(run.method() for run in runs if run.label == label)
    assert (method.max_epochs, method.patience) == (1000, None)
    assert (method.batch_size, method.learning_rate, method.weight_decay) == (64, 1e-3, 0.0)


@pytest.mark.parametrize("label", ["optimal", "linear"])
def test_exact_predictors_have_no_method(label):
    assert find("table1", label, 0.5).method() is None


def test_a_record_without_a_parameter_that_was_added_later_counts_as_done():
    """The default of a new parameter keeps the behaviour that the record was made with."""
    [run] = [
        one for one in plan_runs(["table1"], BUDGETS["quick"], ["stablenet"]) if one.label == "stablenet"
    ]
    scores = tuple(Score(test.mechanism, test.level, 1.0) for test in run.tests)
    record = run.record(scores=scores)
    assert run.is_done_by(record)
    method = record.settings["method"]
    earlier = {key: value for key, value in method.items() if key != "architecture"}
    assert run.is_done_by(replace(record, settings={**record.settings, "method": earlier}))
    for changed in ({**earlier, "lambda_p": 70.0}, {**earlier, "class": "OLS"}, None):
        assert not run.is_done_by(replace(record, settings={**record.settings, "method": changed}))
    assert not run.is_done_by(replace(record, settings={**record.settings, "n_rows": 1}))
