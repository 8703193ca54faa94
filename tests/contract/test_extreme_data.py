"""Values near the limits of floats: finite predictions without warnings, for every method."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from stablemiss import AnyMaskRegressor, MissingClassifier, MissingRegressor
from stablemiss.estimators.rows import split_rows
from stablemiss.methods import METHODS
from stablemiss.seeding import to_rng

N = 40
# Extremes do not depend on how long a network is trained.
QUICK = {"max_epochs": 1, "max_steps": 2, "steps": 10, "n_trees": 5}


def quick(kind, name):
    parameters = METHODS[name]().get_params(deep=False)
    params = {**METHODS[name].brief, **{key: value for key, value in QUICK.items() if key in parameters}}
    if name == "anymask":
        params["members"] = ("mixture", "boosting")
    return kind(name, params=params, random_state=0, on_unseen_missing="ignore")


def draw(seed=0):
    rng = to_rng(seed)
    x = rng.normal(size=N)
    return x, x + 0.1 * rng.normal(size=N), rng


def extreme_table(x):
    """Huge, tiny and constant columns, an outlier, and missing values."""
    table = np.column_stack([np.sign(x) * 1.7e308, x * 1e-310, np.full(N, -1e308), x, x])
    table[3, 3] = 1e308
    table[::5, 4] = np.nan
    return table


@pytest.mark.parametrize("name", METHODS)
def test_extreme_columns_targets_and_weights_give_finite_predictions(name):
    x, y, rng = draw()
    table, weight = extreme_table(x), 1e308 * rng.uniform(0.1, 1.0, size=N)
    regressor = quick(MissingRegressor, name).fit(table, y * 1e299, sample_weight=weight)
    assert np.isfinite(regressor.predict(table)).all()
    classifier = quick(MissingClassifier, name).fit(table, y > 0, sample_weight=weight * 1e-300 * 1e-300)
    assert np.isfinite(classifier.predict_proba(table)).all()


@pytest.mark.parametrize("name", METHODS)
def test_an_outlying_target_gives_finite_predictions(name):
    """In a validation row it is far from the mean of the training rows, in units of their deviation."""
    x, y, _ = draw()
    _, valid = split_rows(np.zeros(N), 0.15, to_rng(0))
    y[valid[0]] = 1e200
    model = quick(MissingRegressor, name).fit(x[:, None], y)
    assert np.isfinite(model.predict(x[:, None])).all()


TARGETS = {
    "tiny": lambda y: y * 1e-310,
    "smallest": lambda y: np.where(y > 0, 5e-324, 0.0),
    "huge": lambda y: y * 1e299,
    "huge constant": lambda y: np.full(N, 1e300),
    "tiny constant": lambda y: np.full(N, 1e-310),
    "int64": lambda y: np.where(y > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min),
    "booleans": lambda y: y > 0,
    "decimals": lambda y: [Decimal(str(round(value, 3))) for value in y],
    "large integers": lambda y: [int(value * 10) * 10**30 for value in y],
    "two scales": lambda y: np.column_stack([y * 1e299, y * 1e-310]),
}


@pytest.mark.filterwarnings("ignore:The target y is constant:UserWarning")
@pytest.mark.parametrize("name", TARGETS)
def test_extreme_targets_are_predicted_on_their_scale(name):
    x, y, _ = draw()
    target = TARGETS[name](y)
    numbers = np.asarray(target, dtype=np.float64)
    prediction = MissingRegressor("ols", random_state=0).fit(x[:, None], target).predict(x[:, None])
    size = np.abs(numbers).max(axis=0)
    assert (np.abs(prediction).max(axis=0) <= 3 * size).all()
    if name not in ("smallest", "huge constant", "tiny constant"):
        # Divided before squares are taken, because they overflow.
        assert np.square((prediction - numbers) / size).mean() < 0.5 * np.square(numbers / size).mean()


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 1e299])
def test_intervals_and_expected_errors_follow_the_scale_of_the_target(scale):
    x, y, _ = draw()
    table = np.column_stack([x, -x])
    one, other = (
        AnyMaskRegressor(budget="fast", members=["mixture"], random_state=0).fit(table, y * unit)
        for unit in (1.0, scale)
    )
    rows = [[1.0, None], [None, None]]
    # Numbers below 1e-308 have fewer digits.
    tolerance = {"rtol": 1e-4 if scale < 1e-300 else 1e-9}
    np.testing.assert_allclose(other.predict_interval(rows) / scale, one.predict_interval(rows), **tolerance)
    errors = [model.explain_missing(rows)["error"] for model in (one, other)]
    np.testing.assert_allclose(errors[1] / scale, errors[0], **tolerance)


@pytest.mark.parametrize("name", ["constant", "ols", "em_mixture", "boosting", "srdo"])
def test_the_scale_of_the_weights_does_not_matter(name):
    """Exactly for powers of two, and up to rounding for others, even where sums would overflow."""
    x, y, rng = draw()
    weight = rng.uniform(0.5, 2.0, size=N)

    def predict(weight):
        return quick(MissingRegressor, name).fit(x[:, None], y, sample_weight=weight).predict(x[:, None])

    expected = predict(weight)
    for power in (-1000, 1, 1020):
        np.testing.assert_array_equal(predict(np.ldexp(weight, power)), expected)
    np.testing.assert_allclose(predict(0.8e308 * weight), expected, rtol=1e-4, atol=1e-6)
    for container in (list, pd.Series, pl.Series, lambda w: pd.Series(w, index=np.arange(N)[::-1])):
        np.testing.assert_array_equal(predict(container(weight)), expected)


def test_rows_of_negligible_weight_are_ignored():
    x, y, _ = draw()
    keep = np.arange(N) % 2 == 0
    weight = np.where(keep, 1e300, 1e-300)
    negligible = MissingRegressor("ols", random_state=0).fit(x[:, None], y, sample_weight=weight)
    removed = MissingRegressor("ols", random_state=0).fit(x[keep, None], y[keep])
    np.testing.assert_allclose(negligible.predict(x[:, None]), removed.predict(x[:, None]), rtol=1e-9)


@pytest.mark.parametrize("name", ["constant", "ols", "em_mixture", "boosting", "srdo", "stablemiss"])
@pytest.mark.parametrize("n_classes", [2, 20])
def test_every_row_may_be_the_only_one_of_its_class(name, n_classes):
    x = np.arange(n_classes, dtype=float)[:, None]
    model = quick(MissingClassifier, name).fit(x, [f"class {k}" for k in range(n_classes)])
    probabilities = model.predict_proba(x)
    assert probabilities.shape == (n_classes, n_classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
