"""The rows of a run."""

import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from stablemiss.datasets import load_house_sales, make_gaussian_mix
from stablemiss.datasets.house import DOLLARS_PER_UNIT
from stablemiss.evaluation import TestSetting
from stablemiss.experiments import problem as module
from stablemiss.experiments.budgets import BUDGETS, demo_budget
from stablemiss.experiments.problem import draw_problem
from stablemiss.experiments.runs import Run
from stablemiss.experiments.tables import TABLES
from stablemiss.missingness import LEVELS, MAR

QUICK = BUDGETS["quick"]
TESTS = tuple(TestSetting(name, level) for name in ("mar", "mcar_window") for level in LEVELS)


def problem(level=0.5, mechanism="mar", label="ols", dataset="gaussian_mix"):
    return draw_problem(Run(QUICK, dataset, mechanism, level, 0, label, TESTS))


def test_all_labels_get_identical_rows():
    first, second = problem(label="ols"), problem(label="anymask")
    assert np.array_equal(first.X, second.X, equal_nan=True)
    for test, rows in first.tests.X.items():
        assert np.array_equal(rows, second.tests.X[test], equal_nan=True)


@pytest.mark.parametrize("dataset", ["gaussian_mix", "gaussian_ind"])
def test_validation_rows_are_a_fixed_share_and_the_same_for_all_labels_levels_and_mechanisms(dataset):
    first = problem(dataset=dataset)
    assert first.is_validation.dtype == bool
    assert first.is_validation.shape == first.y.shape
    assert first.is_validation.mean() == pytest.approx(0.15)
    others = (
        problem(dataset=dataset, label="stablemiss"),
        problem(dataset=dataset, level=0.9),
        problem(dataset=dataset, mechanism="mcar_window"),
    )
    for other in others:
        np.testing.assert_array_equal(other.is_validation, first.is_validation)
    run = Run(QUICK, dataset, "mar", 0.5, 1, "ols")
    assert (draw_problem(run).is_validation != first.is_validation).any()


def test_validation_rows_are_drawn_at_random_from_all_rows():
    is_validation = problem().is_validation
    for half in np.array_split(is_validation, 2):
        assert half.mean() == pytest.approx(0.15, abs=0.04)


def test_a_budget_may_draw_validation_rows_in_addition_to_the_training_rows():
    """As published: as many as training rows. Training rows keep their number, test rows do not change."""
    assert BUDGETS["as_published"].n_validation_rows == BUDGETS["as_published"].n_rows == 16384
    usual = replace(QUICK, n_rows=200)
    separate = replace(usual, n_validation_rows=150)
    one, two = (
        draw_problem(Run(budget, "gaussian_mix", "mar", 0.5, 0, "neumiss", TESTS[:1]))
        for budget in (usual, separate)
    )
    assert (len(one.y), one.is_validation.sum()) == (200, 30)
    assert (len(two.y), two.is_validation.sum()) == (350, 150)
    assert len(two.X) == 350
    np.testing.assert_array_equal(one.tests.y, two.tests.y)


def test_only_the_level_differs_between_training_and_test():
    """The masks of the test rows do not depend on the training level."""
    light, heavy = problem(level=0.1), problem(level=0.9)
    shared = TestSetting("mar", 0.5)
    assert np.array_equal(light.tests.X[shared], heavy.tests.X[shared], equal_nan=True)
    assert np.isnan(light.X).mean() < np.isnan(heavy.X).mean() - 0.5


def test_a_mechanism_is_the_same_in_all_tables():
    """Table 10 trains under MCAR and tests under the MAR of table 1."""
    shared = TestSetting("mar", 0.5)
    first, second = (problem(mechanism=name).tests.X[shared] for name in ("mar", "mcar_window"))
    assert np.array_equal(first, second, equal_nan=True)


def house(instance=0, level=0.5, label="ols", budget="standard"):
    return draw_problem(Run(BUDGETS[budget], "house_sales", "mar", level, instance, label, TESTS[:9]))


def test_house_sales_are_split_once_for_each_instance(monkeypatch):
    """90% of the rows are for training, 5% for validation, 5% for tests. Targets identify the rows."""
    n = 1000
    X = np.random.default_rng(0).normal(size=(n, 12))
    table = SimpleNamespace(X=X, y=np.arange(float(n)))
    monkeypatch.setattr(module, "load_house_sales", lambda: table)
    one = house()
    assert not set(one.y) & set(one.tests.y)
    assert len(one.tests.y) == 50
    assert one.is_validation.sum() == 50
    assert len(one.y) + len(one.tests.y) == n
    # StableMiss-ID is trained at another level on the same rows.
    assert np.array_equal(house(level=0.9, label="stablemiss").tests.y, one.tests.y)
    assert set(house(instance=1).tests.y) != set(one.tests.y)
    small = replace(QUICK, n_real_rows=100)
    assert len(draw_problem(Run(small, "house_sales", "mar", 0.5, 0, "ols")).y) == 100


@pytest.mark.skipif("STABLEMISS_DATA" not in os.environ, reason="needs the house sales; set STABLEMISS_DATA")
def test_prices_have_the_unit_and_the_standard_deviation_given_in_table_3():
    assert f"in {DOLLARS_PER_UNIT:,.0f} dollars" in TABLES["table3"].title
    assert np.std(load_house_sales().y) == pytest.approx(TABLES["table3"].target_sd, abs=0.005)


@pytest.mark.parametrize("mechanism", ["mar", "mcar_window"])
def test_the_optimal_predictor_has_the_smallest_error(mechanism):
    drawn = problem(mechanism=mechanism)
    for rows in drawn.tests.X.values():
        errors = [
            np.mean((prediction - drawn.tests.y) ** 2)
            for prediction in (
                drawn.population.bayes(rows),
                drawn.population.linear_bayes(rows),
                np.full_like(drawn.tests.y, drawn.y.mean()),
            )
        ]
        assert errors == sorted(errors)


def test_an_unknown_dataset_raises():
    with pytest.raises(ValueError, match="gaussian_mix, house_sales; got 'mnist'"):
        problem(dataset="mnist")


def test_one_generator_draws_rows_mechanism_and_masks_of_the_demo():
    """The numbers in the README depend on this order of draws."""
    drawn = draw_problem(Run(demo_budget(seed=3, rows=200), "gaussian_mix", "mar", 0.1, 0, "ols", TESTS[:1]))
    train_seed, test_seed, mask_seed = np.random.SeedSequence(3).spawn(3)
    rng, population = np.random.default_rng(train_seed), make_gaussian_mix(50, random_state=3)
    X, y = population.draw(200, rng)
    mechanism = MAR(0.1).fit(X, rng)
    np.testing.assert_array_equal(drawn.X, mechanism.hide(X, rng))
    np.testing.assert_array_equal(drawn.y, y)
    X_test, _ = population.draw(100, np.random.default_rng(test_seed))
    masked = mechanism.hide(X_test, np.random.default_rng(mask_seed))
    np.testing.assert_array_equal(drawn.tests.X[TESTS[0]], masked)
