"""OLS: exactly least squares, and optimal for independent columns."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from stablemiss.data import MaskedData
from stablemiss.methods import OLS
from stablemiss.missingness import LEVELS
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression


def fit(method, values, mask, y, task=None, weight=None):
    """Fit with the last fifth of the rows as validation rows."""
    task = task or Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y), weight)
    n = len(data)
    train, valid = data.rows(np.arange(n - n // 5)), data.rows(np.arange(n - n // 5, n))
    return method.fit(train, valid, task, to_rng(0), NullProgress()), task


def draw(seed, n=400, d=4, observed=0.7):
    rng = to_rng(seed)
    values = rng.normal(1.0, 2.0, size=(n, d))
    mask = rng.uniform(size=(n, d)) < observed
    return rng, values, mask


@pytest.mark.parametrize("seed", range(3))
def test_mean_inputs_equal_least_squares_after_mean_imputation(seed):
    rng, values, mask = draw(seed)
    y = np.column_stack([values @ rng.normal(size=4), values[:, 0] ** 2])
    predictor, task = fit(OLS(), values, mask, y)
    imputed = np.where(mask, values, np.nan)
    imputed = np.where(mask, values, np.nanmean(imputed, axis=0))
    expected = LinearRegression().fit(imputed, y).predict(imputed)
    np.testing.assert_allclose(task.decode(predictor.predict(values, mask)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_mask_inputs_equal_least_squares_on_values_and_mask(seed):
    rng, values, mask = draw(seed)
    y = np.where(mask, values, 0) @ rng.normal(size=4) + mask @ rng.normal(size=4)
    predictor, task = fit(OLS(inputs="mask"), values, mask, y)
    np.testing.assert_allclose(task.decode(predictor.predict(values, mask)), y, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_repeating_a_row_equals_doubling_its_weight(seed):
    rng, values, mask = draw(seed, n=50)
    y = rng.normal(size=50)
    task = Regression.of(y)
    rows = np.repeat(np.arange(50), 2)[: 50 + 20]
    repeated = MaskedData.of(values[rows], mask[rows], task.encode(y[rows]))
    weight = np.bincount(rows, minlength=50).astype(float)
    weighted = MaskedData.of(values, mask, task.encode(y), weight)
    a = OLS().fit(repeated, repeated, task, rng, NullProgress()).predict(values, mask)
    b = OLS().fit(weighted, weighted, task, rng, NullProgress()).predict(values, mask)
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_on_independent_columns_it_is_near_optimal_under_any_missingness(seed):
    """E[y | observed] = intercept + Σ_observed a_i x_i + Σ_missing a_i E[x_i]."""
    rng, values, mask = draw(seed, n=4000, d=6, observed=0.5)
    coefficients = rng.normal(size=6)
    y = values @ coefficients + rng.normal(size=4000)
    predictor, task = fit(OLS(), values, mask, y)
    for observed in (0.9, 0.5, 0.1):
        _, new, new_mask = draw(seed + 100, n=4000, d=6, observed=observed)
        best = np.where(new_mask, new, 1.0) @ coefficients
        error = task.decode(predictor.predict(new, new_mask)) - best
        assert np.sqrt(np.mean(error**2)) < 0.06 * y.std()


@pytest.mark.parametrize("inputs", ["mean", "mask"])
def test_collinear_and_constant_columns_and_more_columns_than_rows_work(inputs):
    """Equal columns, a constant one, one without observed values, and more columns than rows."""
    rng = to_rng(0)
    base = rng.normal(size=(12, 5))
    values = np.hstack([base, base, np.ones((12, 1)), rng.normal(size=(12, 9))])
    mask = np.ones_like(values, dtype=bool)
    mask[:, -1] = False
    y = base[:, 0]
    predictor, task = fit(OLS(inputs=inputs), values, mask, y)
    np.testing.assert_allclose(task.decode(predictor.predict(values, mask)), y, atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classification_is_logistic_regression(n_classes):
    rng, values, mask = draw(1)
    labels = np.digitize(values[:, 0] + rng.normal(size=400), [1.0, 3.0][: n_classes - 1])
    mask[:] = True
    predictor, task = fit(OLS(), values, mask, labels, Classification(np.arange(n_classes)))
    expected = LogisticRegression(max_iter=2000).fit(values - values.mean(axis=0), labels)
    np.testing.assert_allclose(
        task.probabilities(predictor.predict(values, mask)),
        expected.predict_proba(values - values.mean(axis=0)),
        atol=1e-4,
    )


def test_a_class_without_rows_gets_a_probability_near_zero():
    _, values, mask = draw(2, n=40)
    labels = np.where(values[:, 0] > 0, 2, 0)
    predictor, task = fit(OLS(), values, mask, labels, Classification(np.arange(3)))
    probabilities = task.probabilities(predictor.predict(values, mask))
    assert np.isfinite(probabilities).all()
    assert probabilities[:, 1].max() < 1e-3


def test_unknown_inputs_raise():
    _, values, mask = draw(0, n=20)
    with pytest.raises(ValueError, match="inputs must be 'mean' or 'mask'; got 'median'"):
        fit(OLS(inputs="median"), values, mask, values[:, 0])


@pytest.mark.parametrize("ridge", [-1.0, np.inf, np.nan, "small"])
def test_an_invalid_ridge_raises(ridge):
    _, values, mask = draw(0, n=20)
    with pytest.raises(ValueError, match=r"ridge must be .*at least 0"):
        fit(OLS(ridge=ridge), values, mask, values[:, 0])


@pytest.mark.parametrize("train_level", [0.1, 0.5])
@pytest.mark.parametrize("seed", [11, *(pytest.param(s, marks=pytest.mark.accuracy) for s in (12, 13))])
def test_it_is_within_1_5_percent_of_the_optimum_on_gaussian_ind(seed, train_level, errors_on_gaussian_ind):
    """With 50 independent columns, E[y | x_o] is linear in the mean-imputed columns."""
    errors = errors_on_gaussian_ind({"ols": OLS()}, seed, train_level, LEVELS, n_rows=16384)
    gaps = [ols / optimal - 1 for ols, optimal in zip(errors["ols"], errors["optimal"], strict=True)]
    assert max(gaps) <= 0.015
