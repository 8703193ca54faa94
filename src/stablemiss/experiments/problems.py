"""The rows of a cell: drawn or loaded, split and hidden, all from the cell's seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stablemiss.data import Floats
from stablemiss.datasets import (
    Population,
    load_house_sales,
    make_gaussian,
    make_gaussian_ind,
    make_gaussian_mix,
)
from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.cells import Cell, Exam, exams_of
from stablemiss.missingness import MECHANISMS

POPULATIONS: dict[str, Callable[..., Population]] = {
    "gaussian": make_gaussian,
    "gaussian_ind": make_gaussian_ind,
    "gaussian_mix": make_gaussian_mix,
}
# PAPER: 90% of a real table to train, 5% to validate, 5% to test.
TEST_SHARE, VALIDATION_FRACTION = 0.05, 0.05 / 0.95
# Rows of synthetic data that estimators set aside to stop by.
SYNTHETIC_VALIDATION_FRACTION = 0.15


class Problem(NamedTuple):
    """Rows to learn from and rows to be tested on.

    Attributes
    ----------
    X, y : (n, d), (n,)
        Training rows, NaN where hidden.
    tests : dict
        Exam → the same test rows (n_test, d), hidden in its way.
    y_test : (n_test,)
    validation_fraction : float
    population : Population or None
        Where the rows come from, if that is known.
    """

    X: Floats
    y: Floats
    tests: dict[Exam, Floats]
    y_test: Floats
    validation_fraction: float
    population: Population | None


def draw_problem(cell: Cell, budget: Budget) -> Problem:
    """The problem behind a cell; cells that differ in their label alone get the very same one.

    The mechanism of each mechanism is fixed once, on the complete training rows; only its level moves.
    """
    train_seed, test_seed, mask_seed = np.random.SeedSequence(cell.seed).spawn(3)
    rng, test_rng = np.random.default_rng(train_seed), np.random.default_rng(test_seed)
    population = None
    if cell.dataset in POPULATIONS:
        population = POPULATIONS[cell.dataset](budget.n_features, random_state=cell.seed)
        X, y = population.draw(budget.n_rows, rng)
        X_test, y_test = population.draw(budget.n_test_rows, test_rng)
        validation_fraction = SYNTHETIC_VALIDATION_FRACTION
    else:
        X, y, X_test, y_test = _split_house_sales(rng, budget)
        validation_fraction = VALIDATION_FRACTION
    exams = exams_of(cell)
    # A generator for each mechanism, so that its mechanism is the same in every cell of the instance.
    mechanisms = {
        name: MECHANISMS[name](cell.level).fit(
            X, np.random.default_rng([cell.seed, list(MECHANISMS).index(name)])
        )
        for name in {cell.mechanism, *(exam.mechanism for exam in exams)}
    }
    hidden = mechanisms[cell.mechanism].hide(X, rng)
    # Every level starts from the same random numbers: what is hidden at 20% is, nearly, also hidden at 30%.
    tests = {
        exam: mechanisms[exam.mechanism].at(exam.level).hide(X_test, np.random.default_rng(mask_seed))
        for exam in exams
    }
    return Problem(hidden, y, tests, y_test, validation_fraction, population)


def _split_house_sales(rng: np.random.Generator, budget: Budget) -> tuple[Floats, Floats, Floats, Floats]:
    table = load_house_sales()
    order = rng.permutation(len(table.y))
    n_test = round(TEST_SHARE * len(order))
    test, train = order[:n_test], order[n_test:][: budget.n_real_rows]
    return table.X[train], table.y[train], table.X[test], table.y[test]
