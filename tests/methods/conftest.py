"""Synthetic columns for which the best possible error is known."""

from dataclasses import replace
from functools import partial

import pytest

from stablemiss import MissingRegressor
from stablemiss.evaluation import TestSetting, fit_and_score
from stablemiss.experiments.budgets import demo_budget
from stablemiss.experiments.execute import KnownPredictor
from stablemiss.experiments.problem import draw_problem
from stablemiss.experiments.runs import Run


def errors(dataset, mechanism, methods, seed, train_level=0.5, test_levels=(0.5,), n_rows=4096):
    budget = replace(demo_budget(seed, n_rows), n_test_rows=8192)
    tests = tuple(TestSetting(mechanism, level) for level in test_levels)
    problem = draw_problem(Run(budget, dataset, mechanism, train_level, 0, "ols", tests))
    models = {"optimal": KnownPredictor(problem.population.bayes)}
    for name, method in methods.items():
        models[name] = MissingRegressor(method, random_state=seed, on_unseen_missing="ignore")
    return {
        name: [score.error for score in fit_and_score(model, problem.X, problem.y, problem.tests).scores]
        for name, model in models.items()
    }


@pytest.fixture
def errors_on_gaussian_ind():
    """A function that fits methods to independent columns: name → RMSE at each test level.

    Least squares on mean-imputed columns is optimal.
    """
    return partial(errors, "gaussian_ind", "mcar_independent")


@pytest.fixture
def errors_on_gaussian():
    """The same for correlated columns, of which windows are missing."""
    return partial(errors, "gaussian", "mcar_window")
