"""DWR: linear regression with weights that make columns uncorrelated."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from stablemiss.data import MaskedData
from stablemiss.methods.constant import Constant
from stablemiss.methods.dwr import DWR
from stablemiss.methods.ols import OLS
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression


def fit(method, values, mask, y, **settings):
    """Fit with the last fifth of the rows as validation rows."""
    task = Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y), **settings)
    n = len(data)
    train, valid = data.rows(np.arange(n - n // 5)), data.rows(np.arange(n - n // 5, n))
    return method.fit(train, valid, task, to_rng(0), NullProgress()), task


def correlations(columns, weight=None):
    """Σ of squared correlations over all ordered pairs."""
    matrix = np.cov(columns.T, aweights=weight)
    scale = np.sqrt(np.diag(matrix))
    matrix = matrix / np.outer(scale, scale)
    return (matrix**2).sum() - np.trace(matrix**2)


def draw(seed, n=1500, d=4, rho=0.5, observed=0.7):
    rng = to_rng(seed)
    values = np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, d))
    return rng, values, rng.uniform(size=(n, d)) < observed


def test_weights_make_mean_imputed_columns_uncorrelated():
    _, values, mask = draw(0)
    imputed = np.where(mask, values - values[mask].mean(), 0.0)
    predictor, _ = fit(DWR(penalty=0.01, max_steps=400), values, mask, values[:, 0])
    assert predictor.weight.shape == (1500,)
    assert correlations(imputed) > 0.5
    assert correlations(imputed, predictor.weight) < 0.01


@pytest.mark.parametrize("seed", range(2))
def test_it_is_least_squares_with_the_fitted_weights(seed):
    rng, values, mask = draw(seed, n=300)
    y = values @ rng.normal(size=4) + values[:, 0] ** 2
    predictor, task = fit(DWR(), values, mask, y)
    means = np.nanmean(np.where(mask, values, np.nan), axis=0)
    imputed = np.where(mask, values, means)
    expected = LinearRegression().fit(imputed, y, sample_weight=predictor.weight)
    np.testing.assert_allclose(
        task.decode(predictor.predict(values, mask)), expected.predict(imputed), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("seed", range(2))
def test_with_a_large_penalty_it_equals_ols(seed):
    rng, values, mask = draw(seed, n=300)
    y = values @ rng.normal(size=4)
    (dwr, _), (ols, _) = (fit(method, values, mask, y) for method in (DWR(penalty=1e6), OLS()))
    np.testing.assert_allclose(dwr.predict(values, mask), ols.predict(values, mask), atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_coefficient_does_not_absorb_the_non_linear_effect_of_another_column(seed):
    """The claim of the paper: y is non-linear in x₀ alone, and x₁ is only correlated with it."""
    rng = to_rng(seed)
    x, noise = rng.normal(size=(2, 2000))
    values = np.column_stack([x, x**3 / 3 + noise])
    complete = np.ones_like(values, dtype=bool)
    spurious = [
        abs(fit(method, values, complete, x + x**3 / 3)[0].coefficients[1, 0])
        for method in (OLS(), DWR(penalty=0.01, max_steps=400))
    ]
    assert spurious[0] > 0.15
    assert spurious[1] < 0.2 * spurious[0]


def test_powers_become_uncorrelated_with_a_higher_order():
    """Columns with correlated squares: order 2 removes the correlation, order 1 does not."""
    rng = to_rng(0)
    size = rng.uniform(0.3, 2.0, size=(2000, 1))
    values = size * rng.choice([-1.0, 1.0], size=(2000, 2)) + 0.3 * rng.normal(size=(2000, 2))
    complete = np.ones_like(values, dtype=bool)
    squares = [
        correlations(values**2, fit(DWR(penalty=0.01, order=order), values, complete, values[:, 0])[0].weight)
        for order in (1, 2)
    ]
    assert squares[0] > 0.3
    assert squares[1] < 0.05


@pytest.mark.parametrize("seed", range(2))
def test_on_independent_columns_it_is_as_good_as_ols(seed, errors_on_gaussian_ind):
    """Gaussian-Ind with half of the values missing in training and test: within 2% of OLS."""
    methods = {"ols": OLS(), "dwr": DWR(), "constant": Constant()}
    rmse = {label: errors[0] for label, errors in errors_on_gaussian_ind(methods, seed).items()}
    assert rmse["dwr"] < 1.02 * rmse["ols"]
    assert rmse["dwr"] < 0.9 * rmse["constant"]
