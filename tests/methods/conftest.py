"""Independent Gaussian columns, for which least squares on mean-imputed columns is optimal."""

from dataclasses import replace

import pytest

from stablemiss import MissingRegressor
from stablemiss.evaluation import TestSetting, fit_and_score
from stablemiss.experiments.budgets import demo_budget
from stablemiss.experiments.execute import KnownPredictor
from stablemiss.experiments.problem import draw_problem
from stablemiss.experiments.runs import Run

MECHANISM = "mcar_independent"


@pytest.fixture
def errors_on_gaussian_ind():
    """A function that fits methods to Gaussian-Ind: name → RMSE at each test level."""

    def errors(methods, seed, train_level=0.5, test_levels=(0.5,), n_rows=4096):
        budget = replace(demo_budget(seed, n_rows), n_test_rows=8192)
        tests = tuple(TestSetting(MECHANISM, level) for level in test_levels)
        problem = draw_problem(Run(budget, "gaussian_ind", MECHANISM, train_level, 0, "ols", tests))
        models = {"optimal": KnownPredictor(problem.population.bayes)}
        for name, method in methods.items():
            models[name] = MissingRegressor(method, random_state=seed, on_unseen_missing="ignore")
        return {
            name: [score.error for score in fit_and_score(model, problem.X, problem.y, problem.tests).scores]
            for name, model in models.items()
        }

    return errors
