"""NeuMiss: a series that tends to the Bayes predictor of every mask."""

import numpy as np
import pytest
import torch

from stablemiss.networks import NeuMissNet


def gaussian(seed, d=10, condition=4.0):
    """A covariance of this condition number, a mean, and a linear target."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    covariance = basis @ np.diag(np.linspace(1.0, condition, d)) @ basis.T
    return covariance, rng.normal(size=d), rng.normal(size=d), rng


def bayes(values, mask, covariance, mean, slope):
    """E[1 + slopeᵀ x | observed cells], row by row."""
    found = []
    for x, seen in zip(values, mask, strict=True):
        filled = mean.copy()
        if seen.any():
            filled += covariance[:, seen] @ np.linalg.solve(covariance[np.ix_(seen, seen)], (x - mean)[seen])
        found.append(1 + slope @ filled)
    return np.array(found)


def exact_net(covariance, mean, slope, depth):
    """W = I − ηΣ, head ηΣα, bias α₀ + αᵀμ, as in theory."""
    ends = np.linalg.eigvalsh(covariance)[[0, -1]]
    eta = 2 / ends.sum()
    net = NeuMissNet(len(mean), 1, depth).double()
    with torch.no_grad():
        net.mean.copy_(torch.from_numpy(mean))
        net.weight.copy_(torch.from_numpy(np.eye(len(mean)) - eta * covariance))
        net.head.last.weight.copy_(torch.from_numpy(eta * covariance @ slope)[None])
        net.head.last.bias.fill_(1 + slope @ mean)
    return net


def errors(seed, depths):
    covariance, mean, slope, rng = gaussian(seed)
    values = rng.multivariate_normal(mean, covariance, size=200)
    mask = rng.uniform(size=values.shape) < 0.6
    truth = bayes(values, mask, covariance, mean, slope)
    found = []
    for depth in depths:
        net = exact_net(covariance, mean, slope, depth)
        with torch.no_grad():
            output = net(torch.from_numpy(values * mask), torch.from_numpy(mask * 1.0))[:, 0].numpy()
        found.append(np.sqrt(np.mean((output - truth) ** 2)))
    return np.array(found)


@pytest.mark.parametrize("seed", range(3))
def test_with_the_true_covariance_the_series_tends_to_the_bayes_predictor(seed):
    assert errors(seed, [20])[0] <= 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_it_does_so_at_the_rate_of_the_condition_number(seed):
    """Each term takes off a factor of at least (κ − 1) / (κ + 1) = 0.6 in the worst direction."""
    depths = np.array([2, 6, 10, 14])
    found = errors(seed, depths)
    assert np.all(found[1:] / found[:-1] <= 0.6 ** np.diff(depths) * 1.5)
    assert found[0] > 1e-3  # or there would be nothing to see


def test_hidden_cells_stay_zero_in_every_term():
    net = NeuMissNet(4, 1, depth=3)
    mask = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    assert torch.equal(net.series(torch.ones(1, 4) * mask, mask)[0, [1, 3]], torch.zeros(2))


def test_the_start_from_data_grows_for_no_mask_even_where_holes_make_covariances_of_pairs_indefinite():
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(60, 20)), rng.uniform(size=(60, 20)) < 0.3
    pairs = (values * mask).T @ (values * mask) / np.maximum(mask.T @ (mask * 1.0), 1.0)
    assert np.linalg.eigvalsh(pairs).min() < -0.1  # or there would be nothing to see
    net = NeuMissNet(20, 1, depth=5)
    net.start_from(torch.from_numpy(pairs).float())
    assert torch.linalg.matrix_norm(net.weight, ord=2) < 1 + 1e-5


def test_the_start_from_data_converges_for_a_true_covariance():
    covariance, *_ = gaussian(0, condition=1000.0)
    net = NeuMissNet(10, 1, depth=5)
    net.start_from(torch.from_numpy(covariance).float())
    assert torch.linalg.matrix_norm(net.weight, ord=2) < 1
