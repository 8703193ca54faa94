"""CRLR: linear and logistic regression with weights that balance the columns."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from stablemiss.data import MaskedData
from stablemiss.decorrelation import GlobalBalance
from stablemiss.methods.constant import Constant
from stablemiss.methods.crlr import CRLR
from stablemiss.methods.ols import OLS
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression

# Balance counts far more than the spread of the weights, and both more than the loss of a row.
THOROUGH = {"balance": 1000.0, "penalty": 10.0, "max_steps": 300}


def fit(method, values, y, mask=None, task=None):
    """Fit with the last fifth of the rows as validation rows."""
    task = task or Regression.of(y)
    data = MaskedData.of(values, values == values if mask is None else mask, task.encode(y))
    n_train = len(data) - len(data) // 5
    train, valid = data.rows(np.arange(n_train)), data.rows(np.arange(n_train, len(data)))
    return method.fit(train, valid, task, to_rng(0), NullProgress()), train


def imbalance(table, weight=None):
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    weight = np.ones(len(table)) if weight is None else weight
    balance = GlobalBalance(table, np.arange(table.shape[1]), torch.device("cpu"))
    return float(balance.imbalance(torch.as_tensor(weight, dtype=torch.float32)))


@pytest.mark.parametrize("seed", range(3))
def test_on_independent_columns_the_imbalance_falls_to_its_floor_at_little_cost(seed):
    """Equal weights leave the chance imbalance, about 4 d (d − 1) / n. Weights can remove all of it."""
    rng = to_rng(seed)
    n, d = 2000, 5
    values = rng.normal(size=(n, d))
    predictor, train = fit(CRLR(**THOROUGH), values, values @ rng.normal(size=d) + rng.normal(size=n))
    before, after = imbalance(train.values), imbalance(train.values, predictor.weight)
    assert 0.3 < before / (4 * d * (d - 1) / len(train)) < 3
    assert after < 0.01 * before
    assert predictor.effective_share > 0.98


@pytest.mark.parametrize("seed", range(3))
def test_the_weights_recover_a_known_imbalance(seed):
    """Two fair coins, kept with probabilities that depend on whether they agree: rows in which they agree
    become more frequent by the factor 1 + ρ, the others by 1 − ρ, and balancing weights are the inverses."""
    rng = to_rng(seed)
    rho = 0.5
    coins = rng.choice([-1.0, 1.0], size=(8000, 2))
    agree = coins[:, 0] == coins[:, 1]
    kept = rng.uniform(size=8000) < np.where(agree, 1.0, (1 - rho) / (1 + rho))
    predictor, train = fit(CRLR(**THOROUGH), coins[kept], coins[kept, 0] + rng.normal(size=kept.sum()))
    agree = train.values[:, 0] == train.values[:, 1]
    for sign in (-1, 1):
        rows = train.values[:, 0] == sign
        assert predictor.weight[agree & rows].mean() == pytest.approx(1 / (1 + rho), rel=0.06)
        assert predictor.weight[~agree & rows].mean() == pytest.approx(1 / (1 - rho), rel=0.06)
    assert imbalance(train.values, predictor.weight) < 1e-3 * imbalance(train.values)


@pytest.mark.parametrize("seed", range(2))
def test_it_is_least_squares_with_the_fitted_weights(seed):
    rng = to_rng(seed)
    values = rng.normal(size=(400, 1)) + rng.normal(size=(400, 4))
    mask = rng.uniform(size=values.shape) < 0.7
    predictor, train = fit(CRLR(), values, values[:, 0] + values[:, 1] ** 2, mask)
    imputed = np.where(train.mask, train.values, train.column_means())
    expected = LinearRegression().fit(imputed, train.target, sample_weight=predictor.weight)
    np.testing.assert_allclose(
        predictor.predict(train.values, train.mask), expected.predict(imputed), atol=1e-4
    )


@pytest.mark.parametrize("seed", range(2))
def test_with_a_large_penalty_it_is_least_squares_of_the_training_rows(seed):
    rng = to_rng(seed)
    values = rng.normal(size=(400, 1)) + rng.normal(size=(400, 4))
    predictor, train = fit(CRLR(penalty=1e6), values, values[:, 0] + values[:, 1] ** 2)
    expected = LinearRegression().fit(train.values, train.target).predict(values)
    np.testing.assert_allclose(predictor.predict(values, values == values), expected, atol=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_coefficient_does_not_absorb_the_non_linear_effect_of_another_column(seed):
    """The claim of the paper: y depends on x₀ alone, and x₁ only goes with it. Balance at the median removes
    about half of the spurious coefficient."""
    rng = to_rng(seed)
    x, noise = rng.normal(size=(2, 2500))
    values = np.column_stack([x, x**3 / 3 + noise])
    ols, _ = fit(OLS(), values, x + x**3 / 3)
    crlr, _ = fit(CRLR(**THOROUGH), values, x + x**3 / 3)
    spurious = [abs(predictor.coefficients[1, 0]) for predictor in (ols, crlr)]
    assert spurious[0] > 0.15
    assert spurious[1] < 0.6 * spurious[0]


@pytest.mark.parametrize("seed", range(3))
def test_the_weights_of_a_classifier_balance_its_columns(seed):
    rng = to_rng(seed)
    values = rng.normal(size=(1000, 1)) + rng.normal(size=(1000, 3))
    y = (values[:, 0] + rng.logistic(size=1000) > 0).astype(int) + (values[:, 1] > 1)
    task = Classification.of(y)
    predictor, train = fit(CRLR(**THOROUGH), values, y, task=task)
    assert imbalance(train.values, predictor.weight) < 0.05 * imbalance(train.values)
    outputs = predictor.predict(values, values == values)
    constant, _ = fit(Constant(), values, y, task=task)
    losses = [
        task.loss(output, y, np.ones(len(y)))
        for output in (outputs, constant.predict(values, values == values))
    ]
    assert losses[0] < 0.85 * losses[1]


def test_weights_and_coefficients_are_learned_jointly():
    """With a small penalty, rows that are predicted badly lose weight; with a large one they do not."""
    rng = to_rng(0)
    values = rng.normal(size=(1000, 3))
    y = values @ [1.0, 1.0, 1.0] + rng.standard_t(2, size=1000)
    shares = {}
    for penalty in (0.3, 1000.0):
        predictor, train = fit(CRLR(penalty=penalty), values, y)
        errors = np.abs(predictor.predict(train.values, train.mask) - train.target)[:, 0]
        shares[penalty] = predictor.weight[errors > np.quantile(errors, 0.95)].mean()
    assert shares[0.3] < 0.5
    assert shares[1000.0] > 0.95


@pytest.mark.parametrize("seed", range(3))
def test_on_independent_columns_it_is_nearly_as_good_as_ols(seed, errors_on_gaussian_ind):
    """Gaussian-Ind with half of the values missing in training and test: within 3% of OLS."""
    methods = {"ols": OLS(), "crlr": CRLR(), "constant": Constant()}
    rmse = {label: errors[0] for label, errors in errors_on_gaussian_ind(methods, seed, n_rows=2048).items()}
    assert rmse["crlr"] < 1.03 * rmse["ols"]
    assert rmse["crlr"] < 0.9 * rmse["constant"]
