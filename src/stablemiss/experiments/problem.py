"""Training and test rows of a run: drawn or loaded, split and masked, all determined by the run's seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stablemiss.data import Bools, Floats
from stablemiss.datasets import (
    Graph,
    Population,
    load_house_sales,
    make_gaussian,
    make_gaussian_ind,
    make_gaussian_mix,
)
from stablemiss.evaluation import TestSets
from stablemiss.experiments.tables import DATA_TITLES
from stablemiss.missingness import MECHANISMS
from stablemiss.seeding import Rng

if TYPE_CHECKING:
    from stablemiss.experiments.runs import Run

POPULATIONS: dict[str, Callable[..., Population]] = {
    "gaussian": make_gaussian,
    "gaussian_ind": make_gaussian_ind,
    "gaussian_mix": make_gaussian_mix,
}
# PAPER: 90% of a real table to train, 5% to validate, 5% to test.
TEST_FRACTION, VALIDATION_FRACTION = 0.05, 0.05 / 0.95
SYNTHETIC_VALIDATION_FRACTION = 0.15


class Problem(NamedTuple):
    """Training rows, test rows, and what is known about their distribution."""

    X: Floats  # (n, d) training rows, or arrays, NaN where missing
    y: Floats  # (n,), or arrays
    is_validation: Bools  # (n,) rows for early stopping and choices; no method is trained on them
    tests: TestSets
    population: Population | None  # the distribution of the rows, if it is known
    graph: Graph | None = None  # which sensors exchange information, if rows are windows of a sensor network


def draw_problem(run: Run) -> Problem:
    """The rows of a run. Runs that differ only in their label get identical rows.

    Each mechanism is fitted once, on the complete training rows; between training and test only its level
    changes.
    """
    budget = run.budget
    train_seed, test_seed, mask_seed, validation_seed = np.random.SeedSequence(run.seed).spawn(4)
    rng, test_rng = np.random.default_rng(train_seed), np.random.default_rng(test_seed)
    population = None
    n_separate, validation_fraction = 0, VALIDATION_FRACTION
    validation_rng = np.random.default_rng(validation_seed)
    if run.dataset in POPULATIONS:
        population = POPULATIONS[run.dataset](budget.n_features, random_state=run.seed)
        n_separate = budget.n_validation_rows or 0
        X, y = population.draw(budget.n_rows, rng)
        X_test, y_test = population.draw(budget.n_test_rows, test_rng)
        validation_fraction = SYNTHETIC_VALIDATION_FRACTION
    elif run.dataset == "house_sales":
        X, y, X_test, y_test = _split_house_sales(rng, budget.n_real_rows)
    else:
        raise ValueError(f"dataset must be one of {', '.join(DATA_TITLES)}; got {run.dataset!r}.")
    names = list(dict.fromkeys([run.mechanism, *(test.mechanism for test in run.tests)]))
    mechanisms = {
        name: MECHANISMS[name](run.level).fit(
            X, _mechanism_rng(run, name) if budget.separate_mechanism_rng else rng
        )
        for name in names
    }
    masked = mechanisms[run.mechanism].hide(X, rng)
    tests = {}
    for test in run.tests:
        if test.level is None:
            raise ValueError(f"A run needs the level of every test; {test.mechanism!r} has none.")
        # Each level starts from the same random numbers: values missing at 20% are mostly missing at 30% too.
        mask_rng = np.random.default_rng(mask_seed)
        tests[test] = mechanisms[test.mechanism].at(test.level).hide(X_test, mask_rng)
    if n_separate and population is not None:
        # Drawn last, so that the other rows are those of a budget without separate validation rows.
        X_valid, y_valid = population.draw(n_separate, validation_rng)
        masked = np.concatenate([masked, mechanisms[run.mechanism].hide(X_valid, validation_rng)])
        y = np.concatenate([y, y_valid])
        is_validation = np.arange(len(y)) >= budget.n_rows
    else:
        is_validation = np.zeros(len(y), dtype=bool)
        is_validation[validation_rng.permutation(len(y))[: round(validation_fraction * len(y))]] = True
    return Problem(masked, y, is_validation, TestSets(tests, y_test), population)


def _mechanism_rng(run: Run, name: str) -> Rng:
    return np.random.default_rng([run.seed, list(MECHANISMS).index(name)])


def _split_house_sales(rng: Rng, max_rows: int | None) -> Sequence[Floats]:
    table = load_house_sales()
    order = rng.permutation(len(table.y))
    n_test = round(TEST_FRACTION * len(order))
    test, train = order[:n_test], order[n_test:][:max_rows]
    return table.X[train], table.y[train], table.X[test], table.y[test]
