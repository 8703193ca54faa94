"""NeuMiss: a series that converges to the Bayes predictor of every mask, and the method that trains it."""

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.methods import NeuMiss
from stablemiss.methods.neumiss import NeuMissNet, pairwise_covariance
from stablemiss.progress import NullProgress
from stablemiss.tasks import Regression


def gaussian(seed, d=10, condition=4.0):
    """Covariance with this condition number, mean, and slope of a linear target."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    covariance = basis @ np.diag(np.linspace(1.0, condition, d)) @ basis.T
    return covariance, rng.normal(size=d), rng.normal(size=d), rng


def bayes(values, mask, covariance, mean, slope):
    """E[1 + slopeᵀ x | observed values], row by row."""
    predictions = []
    for x, observed in zip(values, mask, strict=True):
        filled = mean.copy()
        if observed.any():
            block = covariance[np.ix_(observed, observed)]
            filled += covariance[:, observed] @ np.linalg.solve(block, (x - mean)[observed])
        predictions.append(1 + slope @ filled)
    return np.array(predictions)


def exact_net(covariance, mean, slope, depth):
    """W = I − ηΣ, head ηΣα and bias α₀ + αᵀμ, as in the theory."""
    smallest_and_largest = np.linalg.eigvalsh(covariance)[[0, -1]]
    eta = 2 / smallest_and_largest.sum()
    net = NeuMissNet(len(mean), 1, depth).double()
    with torch.no_grad():
        net.mean.copy_(torch.from_numpy(mean))
        net.weight.copy_(torch.from_numpy(np.eye(len(mean)) - eta * covariance))
        net.head.last.weight.copy_(torch.from_numpy(eta * covariance @ slope)[None])
        net.head.last.bias.fill_(1 + slope @ mean)
    return net


def errors(seed, depths):
    """RMSE of the exact network to the Bayes predictor, for each depth."""
    covariance, mean, slope, rng = gaussian(seed)
    values = rng.multivariate_normal(mean, covariance, size=200)
    mask = rng.uniform(size=values.shape) < 0.6
    truth = bayes(values, mask, covariance, mean, slope)
    rmse = []
    for depth in depths:
        net = exact_net(covariance, mean, slope, depth)
        with torch.no_grad():
            output = net(torch.from_numpy(values * mask), torch.from_numpy(mask * 1.0))[:, 0].numpy()
        rmse.append(np.sqrt(np.mean((output - truth) ** 2)))
    return np.array(rmse)


@pytest.mark.parametrize("seed", range(3))
def test_with_the_true_covariance_the_series_converges_to_the_bayes_predictor(seed):
    assert errors(seed, [20])[0] <= 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_it_converges_at_the_rate_given_by_the_condition_number(seed):
    """Each term reduces the error at least by the factor (κ − 1) / (κ + 1) = 0.6."""
    depths = np.array([2, 6, 10, 14])
    rmse = errors(seed, depths)
    assert np.all(rmse[1:] / rmse[:-1] <= 0.6 ** np.diff(depths) * 1.5)
    assert rmse[0] > 1e-3  # otherwise the test would be vacuous


def test_missing_values_stay_zero_in_every_term():
    net = NeuMissNet(4, 1, depth=3)
    mask = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    assert torch.equal(net.series(torch.ones(1, 4) * mask, mask)[0, [1, 3]], torch.zeros(2))


def test_the_initial_series_does_not_diverge_even_if_pairwise_covariances_are_indefinite():
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(60, 20)), rng.uniform(size=(60, 20)) < 0.3
    pairs = (values * mask).T @ (values * mask) / np.maximum(mask.T @ (mask * 1.0), 1.0)
    assert np.linalg.eigvalsh(pairs).min() < -0.1  # otherwise the test would be vacuous
    net = NeuMissNet(20, 1, depth=5)
    net.init_from_covariance(torch.from_numpy(pairs).float())
    assert torch.linalg.matrix_norm(net.weight, ord=2) < 1 + 1e-5


def test_the_initial_series_converges_for_a_true_covariance():
    covariance, *_ = gaussian(0, condition=1000.0)
    net = NeuMissNet(10, 1, depth=5)
    net.init_from_covariance(torch.from_numpy(covariance).float())
    assert torch.linalg.matrix_norm(net.weight, ord=2) < 1


def test_each_covariance_is_over_the_rows_where_both_columns_are_observed():
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(60, 3)), rng.uniform(size=(60, 3)) < 0.7
    weight = rng.uniform(0.5, 2.0, size=60)
    data = MaskedData.of(values, mask, np.zeros(60), weight=weight)
    result = pairwise_covariance(data)
    mean = [np.average(values[rows, k], weights=weight[rows]) for k, rows in enumerate(mask.T)]
    for k in range(3):
        for l in range(3):  # noqa: E741
            both = mask[:, k] & mask[:, l]
            product = (values[both, k] - mean[k]) * (values[both, l] - mean[l])
            assert result[k, l] == pytest.approx(np.average(product, weights=weight[both]))


@pytest.mark.parametrize("seed", range(3))
def test_a_missing_column_is_predicted_from_a_correlated_one(seed):
    """y = x₁ and x₂ is nearly a copy: if x₁ is missing, the best prediction is x₂, not half of it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(600, 1))
    values = np.hstack([x, x + 0.1 * rng.normal(size=(600, 1))])
    mask = rng.uniform(size=values.shape) < 0.5
    task = Regression.of(x[:, 0])
    data = MaskedData.of(values, mask, task.encode(x[:, 0]))
    rows = np.arange(600)
    fitted = NeuMiss().fit(data.rows(rows[:450]), data.rows(rows[450:]), task, rng, NullProgress())
    only_second = fitted.predict(np.array([[0.0, 1.0]]), np.array([[False, True]]))
    both = fitted.predict(np.ones((1, 2)), np.ones((1, 2), dtype=bool))
    expected = task.encode(np.array([1.0]))[0, 0]
    assert only_second[0, 0] == pytest.approx(expected, abs=0.15)
    assert both[0, 0] == pytest.approx(expected, abs=0.15)


def test_an_unknown_start_raises():
    data = MaskedData.of(np.zeros((4, 1)), np.ones((4, 1)), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="start must be 'data' or 'random'; got 'warm'"):
        NeuMiss(start="warm").fit(
            data, data, Regression.of(np.zeros(4)), np.random.default_rng(0), NullProgress()
        )


def test_it_has_no_row_weights_and_so_no_effective_share():
    data = MaskedData.of(np.eye(8), np.ones((8, 8)), np.zeros((8, 1)))
    task = Regression.of(np.zeros(8))
    fitted = NeuMiss(max_epochs=1).fit(data, data, task, np.random.default_rng(0), NullProgress())
    assert fitted.effective_share is None
