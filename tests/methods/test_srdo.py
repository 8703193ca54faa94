"""SRDO: linear regression with weights that make columns independent."""

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.methods.constant import Constant
from stablemiss.methods.ols import OLS
from stablemiss.methods.srdo import SRDO
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression


def fit(method, values, mask, y, **settings):
    """Fit with the last fifth of the rows as validation rows."""
    task = Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y), **settings)
    n = len(data)
    train, valid = data.rows(np.arange(n - n // 5)), data.rows(np.arange(n - n // 5, n))
    return method.fit(train, valid, task, to_rng(0), NullProgress())


def effective_share(weight):
    return weight.sum() ** 2 / (weight**2).sum() / len(weight)


def draw(seed, n=4000, rho=0.4, observed=0.7):
    rng = to_rng(seed)
    values = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=n)
    return rng, values, rng.uniform(size=(n, 2)) < observed


@pytest.mark.parametrize("seed", range(2))
def test_weights_make_columns_uncorrelated_and_keep_most_rows(seed):
    _, values, mask = draw(seed, observed=1.1)
    predictor = fit(SRDO("logistic", clip=0.01), values, mask, values[:, 0])
    covariance = np.cov(values.T, aweights=predictor.weight)[0, 1]
    assert abs(covariance) < 0.05
    # In theory √(1 − 4ρ²) / (1 − ρ²) = 0.714 for many rows.
    assert effective_share(predictor.weight) == pytest.approx(0.714, abs=0.12)


@pytest.mark.parametrize("seed", range(2))
def test_the_network_lowers_the_correlation_of_mean_imputed_columns(seed):
    _, values, mask = draw(seed, n=3000, rho=0.7, observed=0.8)
    imputed = np.where(mask, values, 0.0)
    predictor = fit(SRDO(learning_rate=0.01, n_permutations=1), values, mask, values[:, 0])
    before, after = (np.cov(imputed.T, aweights=weight)[0, 1] for weight in (None, predictor.weight))
    assert after < 0.6 * before


@pytest.mark.parametrize("seed", range(2))
def test_with_clip_near_one_half_it_equals_ols(seed):
    rng, values, mask = draw(seed, n=300)
    y = values @ rng.normal(size=2) + rng.normal(size=300)
    srdo, ols = (fit(method, values, mask, y) for method in (SRDO("logistic", clip=0.4999), OLS()))
    np.testing.assert_allclose(srdo.predict(values, mask), ols.predict(values, mask), atol=1e-2)


def test_columns_of_one_group_are_permuted_together():
    """A column and its copy as one group: there is no dependence to remove."""
    rng = to_rng(0)
    values = np.repeat(rng.normal(size=(1000, 1)), 2, axis=1)
    complete = np.ones_like(values, dtype=bool)
    grouped, separate = (
        effective_share(fit(SRDO("logistic", clip=0.1), values, complete, values[:, 0], groups=groups).weight)
        for groups in ([0, 0], [0, 1])
    )
    assert grouped > 0.98
    assert separate < 0.9


@pytest.mark.parametrize("seed", range(2))
def test_on_independent_columns_it_is_as_good_as_ols(seed, errors_on_gaussian_ind):
    """Gaussian-Ind with half of the values missing in training and test: within 2% of OLS."""
    methods = {"ols": OLS(), "srdo": SRDO(n_permutations=1), "constant": Constant()}
    rmse = {label: errors[0] for label, errors in errors_on_gaussian_ind(methods, seed).items()}
    assert rmse["srdo"] < 1.02 * rmse["ols"]
    assert rmse["srdo"] < 0.9 * rmse["constant"]
