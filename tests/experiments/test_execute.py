"""Executing a run gives its record."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from stablemiss.evaluation import TestSetting
from stablemiss.experiments.budgets import BUDGETS, LABELS, PAPER_GAMMAS, demo_budget
from stablemiss.experiments.execute import execute, searched_space
from stablemiss.experiments.reproduce import run_demo
from stablemiss.experiments.runs import Run
from stablemiss.experiments.tables import demo_table
from stablemiss.methods import METHODS, StableMiss
from stablemiss.missingness import LEVELS
from stablemiss.results import Record
from stablemiss.tuning import tune

QUICK = BUDGETS["quick"]
TESTS = tuple(TestSetting("mcar_independent", level) for level in (0.1, 0.5, 0.9))
RUN = Run(QUICK, "gaussian_ind", "mcar_independent", 0.5, 0, "ols", TESTS)


TINY = replace(QUICK, n_features=4, n_rows=200, n_test_rows=100)
# A mixture without choices and early stopping.
WITHOUT_CHOICES = replace(TINY, settings={"em_mixture": {"n_components": 1, "ridge": 1.0, "max_steps": 1}})
# As in the paper, without early stopping.
PUBLISHED = replace(
    BUDGETS["as_published"],
    n_features=4,
    n_rows=200,
    n_test_rows=100,
    n_validation_rows=150,
    settings={
        name: {**settings, "max_epochs": 2} for name, settings in BUDGETS["as_published"].settings.items()
    },
)


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
    monkeypatch.setattr(Run, "problem", lambda *_: 1 / 0)
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


def test_a_search_gets_the_training_rows_alone(monkeypatch):
    searching = replace(QUICK, n_rows=300, n_test_rows=300, n_trials=1, is_brief=False)
    run = replace(RUN, budget=searching, label="boosting")
    problem = run.problem()
    searched = []

    def spy(model, X, y, **options):
        searched.append(np.sort(y))
        return tune(model, X, y, **options)

    monkeypatch.setattr("stablemiss.tuning.tune", spy)
    assert execute(run).failure is None
    np.testing.assert_array_equal(searched[0], np.sort(problem.y[~problem.is_validation]))


@pytest.mark.parametrize(
    ("label", "has_strength"),
    [("stablemiss", False), ("stablemiss_unweighted", False), ("stablemiss_weighted", True)],
)
def test_a_strength_that_has_no_effect_is_not_searched(label, has_strength):
    space = searched_space(label, StableMiss.space, is_real=False)
    assert ("strength" in space) == has_strength
    assert "learning_rate" in space


def sorted_targets(task, *parts):
    return np.sort(np.concatenate([task.decode(part.target) for part in parts]))


@pytest.fixture
def fits(monkeypatch):
    """A function that lists the (training, validation) targets of every fit within a run."""

    def spied(run):
        method, rows = METHODS[LABELS[run.label][0]], []
        original = method.fit

        def fit(self, train, valid, task, rng, progress):
            parts = ((train, valid), ()) if self.trains_on_validation else ((train,), (valid,))
            rows.append([sorted_targets(task, *part) if part else None for part in parts])
            return original(self, train, valid, task, rng, progress)

        monkeypatch.setattr(method, "fit", fit)
        assert execute(run).failure is None
        return rows

    return spied


def assert_rows(fit, problem):
    trained, validated = fit
    np.testing.assert_allclose(trained, np.sort(problem.y[~problem.is_validation]), rtol=1e-9, atol=1e-9)
    if validated is not None:
        np.testing.assert_allclose(validated, np.sort(problem.y[problem.is_validation]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("label", [label for label in LABELS if not label.startswith("stablemiss_")])
def test_all_methods_get_the_same_validation_rows_and_are_not_trained_on_them(label, fits):
    settings = (
        {LABELS[label][0]: {"max_epochs": 1}} if "max_epochs" in METHODS[LABELS[label][0]].brief else {}
    )
    run = replace(RUN, budget=replace(TINY, settings=settings), label=label)
    problem = run.problem()
    [fit] = fits(run)
    assert_rows(fit, problem)
    assert (fit[1] is None) == run.method().trains_on_validation


def test_after_a_search_the_validation_rows_are_the_same_as_without(fits):
    run = replace(RUN, budget=replace(TINY, n_trials=2), label="boosting")
    assert_rows(fits(run)[-1], run.problem())


@pytest.mark.parametrize(
    ("budget", "label"),
    [
        *((WITHOUT_CHOICES, label) for label in ("constant", "ols", "dwr", "srdo", "em_mixture")),
        *((PUBLISHED, label) for label in ("neumiss", "stablenet", "stablemiss")),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_targets_of_validation_rows_have_no_influence_without_choices_and_early_stopping(
    budget, label, monkeypatch
):
    run = replace(RUN, budget=budget, label=label)
    original = execute(run)
    problem = run.problem()
    assert problem.is_validation.sum() == (150 if budget is PUBLISHED else 30)
    poisoned = problem._replace(y=np.where(problem.is_validation, 1e6, problem.y))
    monkeypatch.setattr(Run, "problem", lambda *_: poisoned)
    assert original.failure is None
    assert execute(run).outcome()["scores"] == original.outcome()["scores"]


@pytest.mark.parametrize(
    ("label", "names"),
    [
        ("optimal", set()),
        ("ols", set()),
        ("dwr", {"effective_share"}),
        ("neumiss", {"n_epochs", "best_epoch"}),
        ("stablenet", {"effective_share", "n_epochs", "best_epoch"}),
        ("stablemiss", {"effective_share", "gamma", "critical_gamma", "n_epochs", "best_epoch"}),
        ("stablemiss_unweighted", {"n_epochs", "best_epoch"}),
    ],
)
def test_a_record_tells_how_a_model_was_trained(label, names):
    settings = {name: {"max_epochs": 2} for name in ("neumiss", "stablenet", "stablemiss")}
    record = execute(replace(RUN, budget=replace(TINY, settings=settings), label=label))
    assert record.failure is None
    assert Record.from_json(record.to_json()) == record
    assert set(record.extra) == names
    assert 0 < record.extra.get("effective_share", 1.0) <= 1
    assert record.extra.get("gamma", 1.0) in PAPER_GAMMAS
    assert 0 <= record.extra.get("best_epoch", 0) <= record.extra.get("n_epochs", 2) <= 2


def test_without_early_stopping_the_record_counts_all_epochs():
    record = execute(replace(RUN, budget=PUBLISHED, label="neumiss"))
    assert (record.extra["n_epochs"], record.extra["best_epoch"]) == (2, 2)


@pytest.mark.parametrize("label", ["optimal", "linear"])
def test_the_best_predictor_of_a_real_table_is_not_known(label, monkeypatch):
    problem = RUN.problem()._replace(population=None)
    monkeypatch.setattr(Run, "problem", lambda *_: problem)
    assert "is not known" in execute(replace(RUN, label=label)).failure


@pytest.mark.slow
def test_the_demo_scores_every_method_at_all_levels():
    table = demo_table("mcar_window", 0.3)
    budget, records = run_demo(table, seed=7, rows=200)
    assert budget == demo_budget(7, 200)
    assert [record.label for record in records] == ["optimal", *table.methods]
    for record in records:
        assert record.failure is None
        assert [score.level for score in record.scores] == list(LEVELS)
        assert (record.level, record.seed, record.n_rows, record.n_test_rows) == (0.3, 7, 200, 100)
