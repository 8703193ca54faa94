"""The rows behind a cell."""

import numpy as np
import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.cells import Cell, Exam
from stablemiss.experiments.problems import draw_problem

QUICK = BUDGETS["quick"]


def problem(level=0.5, law="mar", label="ols", dataset="gaussian_mix"):
    return draw_problem(Cell("quick", dataset, law, level, 0, label), QUICK)


def test_labels_get_the_very_same_rows():
    one, other = problem(label="ols"), problem(label="anymask")
    assert np.array_equal(one.X, other.X, equal_nan=True)
    assert all(np.array_equal(one.tests[test], other.tests[test], equal_nan=True) for test in one.tests)


def test_under_a_law_of_its_own_the_level_alone_moves():
    """What is hidden at test does not depend on where one trains: the mechanism is the same."""
    light, heavy = problem(level=0.1), problem(level=0.9)
    shared = Exam("mar", 0.5)
    assert np.array_equal(light.tests[shared], heavy.tests[shared], equal_nan=True)
    assert np.isnan(light.X).mean() < np.isnan(heavy.X).mean() - 0.5


def test_a_law_has_the_same_mechanism_wherever_it_is_used():
    """Table 10 trains under windows and tests under MAR: the MAR of table 1."""
    shared = Exam("mar", 0.5)
    one, other = problem(law="mar").tests[shared], problem(law="mcar_window").tests[shared]
    assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("law", ["mar", "mcar_window"])
def test_the_optimal_answer_errs_least(law):
    found = problem(law=law)
    for hidden in found.tests.values():
        errors = [
            np.mean((answer - found.y_test) ** 2)
            for answer in (
                found.population.bayes(hidden),
                found.population.linear_bayes(hidden),
                np.full_like(found.y_test, found.y.mean()),
            )
        ]
        assert errors == sorted(errors)
