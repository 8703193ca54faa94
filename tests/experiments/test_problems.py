"""The rows behind a cell."""

import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from stablemiss.datasets import load_house_sales
from stablemiss.datasets.house import DOLLARS_PER_UNIT
from stablemiss.experiments import problems
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.cells import Cell, Exam
from stablemiss.experiments.exhibits import EXHIBITS
from stablemiss.experiments.problems import draw_problem

QUICK = BUDGETS["quick"]


def problem(level=0.5, mechanism="mar", label="ols", dataset="gaussian_mix"):
    return draw_problem(Cell("quick", dataset, mechanism, level, 0, label), QUICK)


def test_labels_get_the_very_same_rows():
    one, other = problem(label="ols"), problem(label="anymask")
    assert np.array_equal(one.X, other.X, equal_nan=True)
    assert all(np.array_equal(one.tests[test], other.tests[test], equal_nan=True) for test in one.tests)


def test_under_a_mechanism_of_its_own_the_level_alone_moves():
    """What is hidden at test does not depend on where one trains: the mechanism is the same."""
    light, heavy = problem(level=0.1), problem(level=0.9)
    shared = Exam("mar", 0.5)
    assert np.array_equal(light.tests[shared], heavy.tests[shared], equal_nan=True)
    assert np.isnan(light.X).mean() < np.isnan(heavy.X).mean() - 0.5


def test_a_mechanism_has_the_same_mechanism_wherever_it_is_used():
    """Table 10 trains under windows and tests under MAR: the MAR of table 1."""
    shared = Exam("mar", 0.5)
    one, other = problem(mechanism="mar").tests[shared], problem(mechanism="mcar_window").tests[shared]
    assert np.array_equal(one, other, equal_nan=True)


def house(instance=0, level=0.5, label="ols", budget="standard"):
    return draw_problem(Cell(budget, "house_sales", "mar", level, instance, label), BUDGETS[budget])


def test_house_sales_are_split_once_for_each_instance(monkeypatch):
    """90% to train, 5% to validate, 5% to test, whatever is fitted; here each row's target is its number."""
    n = 1000
    X = np.random.default_rng(0).normal(size=(n, 12))
    table = SimpleNamespace(X=X, y=np.arange(float(n)))
    monkeypatch.setattr(problems, "load_house_sales", lambda: table)
    one = house()
    assert not set(one.y) & set(one.y_test)
    assert len(one.y_test) == 50
    assert round(one.validation_fraction * len(one.y)) == 50
    assert len(one.y) + len(one.y_test) == n
    # StableMiss-ID is trained at another level on the same rows.
    assert np.array_equal(house(level=0.9, label="stablemiss").y_test, one.y_test)
    assert set(house(instance=1).y_test) != set(one.y_test)
    few = replace(QUICK, n_real_rows=100)
    assert len(draw_problem(Cell("quick", "house_sales", "mar", 0.5, 0, "ols"), few).y) == 100


@pytest.mark.skipif("STABLEMISS_DATA" not in os.environ, reason="needs the house sales; set STABLEMISS_DATA")
def test_prices_are_in_the_unit_and_have_the_spread_that_the_table_says():
    assert f"in {DOLLARS_PER_UNIT:,.0f} dollars" in EXHIBITS["table3"].title
    assert np.std(load_house_sales().y) == pytest.approx(EXHIBITS["table3"].target_sd, abs=0.005)


@pytest.mark.parametrize("mechanism", ["mar", "mcar_window"])
def test_the_optimal_answer_errs_least(mechanism):
    found = problem(mechanism=mechanism)
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
