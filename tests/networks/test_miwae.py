"""MIWAE's bound, where the likelihood is known: a linear decoder with one hidden number."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, t
from torch import nn

from stablemiss.methods.miwae import importance_bound, label_bound
from stablemiss.networks import MIWAENet
from stablemiss.networks.miwae import Student

SLOPE, NOISE = np.array([1.0, -0.5, 2.0]), 0.5


class LinearDecoder(nn.Module):
    """x = SLOPE z + noise; so many degrees of freedom that Student's t is a Gaussian. One idle label."""

    def forward(self, z):
        location = torch.cat([z * torch.from_numpy(SLOPE), torch.zeros_like(z)], dim=-1)
        scale = torch.full_like(location, math.log(math.expm1(NOISE - 1e-3)))
        return torch.cat([location, scale, torch.full_like(location, 1e7)], dim=-1)


@pytest.fixture
def net():
    with torch.random.fork_rng():
        made = MIWAENet(3, 1, False, d_latent=1, hidden=4, use_mask=True, n_draws=5).double()
    made.decoder = LinearDecoder()
    return made


@pytest.fixture
def rows():
    """Values and mask, log p(x_o) of each row, and mean and scale of the exact posterior."""
    rng = np.random.default_rng(0)
    values = SLOPE * rng.normal(size=(40, 1)) + NOISE * rng.normal(size=(40, 3))
    mask = rng.uniform(size=values.shape) < 0.7
    mask[:, 0] = True
    values, mask = (torch.tensor(np.array(part, dtype=float)) for part in (values, mask))
    return values, mask, *exact(values, mask)


def exact(values, mask):
    """log p(x_o) of each row, and mean and scale of the exact posterior."""
    log_p, mean, scale = [], [], []
    for x, seen in zip(values.numpy(), mask.numpy() > 0, strict=True):
        covariance = np.outer(SLOPE[seen], SLOPE[seen]) + NOISE**2 * np.eye(seen.sum())
        log_p.append(multivariate_normal(np.zeros(seen.sum()), covariance).logpdf(x[seen]))
        precision = 1 + SLOPE[seen] @ SLOPE[seen] / NOISE**2
        mean.append(SLOPE[seen] @ x[seen] / NOISE**2 / precision)
        scale.append(precision**-0.5)
    return [torch.tensor(np.array(part)) for part in (log_p, mean, scale)]


def bound(net, rows, mean, scale, k, seed=0):
    values, mask = rows[:2]
    noise = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(values), k, 1)))
    z = mean[:, None, None] + scale[:, None, None] * noise
    columns, _ = net.decode(z)
    return importance_bound(net.log_ratio(values, mask, mean[:, None], scale[:, None], z, columns))


@pytest.mark.parametrize("k", [1, 5, 50])
def test_under_the_exact_posterior_the_bound_is_tight_for_every_k(net, rows, k):
    log_p, mean, scale = rows[2:]
    assert torch.allclose(bound(net, rows, mean, scale, k), log_p, atol=1e-5)


def test_under_another_posterior_it_rises_with_k_towards_the_likelihood(net, rows):
    log_p, mean, scale = rows[2:]
    wrong = mean + 0.3, 2 * scale
    means = [np.mean([bound(net, rows, *wrong, k, s).mean() for s in range(20)]) for k in (1, 5, 50, 2000)]
    truth = float(log_p.mean())
    assert means[0] < means[1] < means[2] < means[3] <= truth + 1e-3
    assert truth - means[3] < 0.01 < truth - means[0]


@pytest.mark.parametrize("k", [1, 5, 50])
def test_with_a_label_it_is_tight_for_the_likelihood_of_both(net, rows, k):
    """The last column plays the label: log p(x_o, y) must come out, whatever the number of draws."""
    values, mask, *_ = rows
    mask[:, 2], other = 1.0, mask.clone()
    other[:, 2] = 0.0
    truth, mean, scale = exact(values, mask)
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(len(values), k, 1)))
    z = mean[:, None, None] + scale[:, None, None] * noise
    columns, _ = net.decode(z)
    ratio = net.log_ratio(values, other, mean[:, None], scale[:, None], z, columns)
    label = columns.log_density(values[:, None])[:, :, 2]
    assert torch.allclose(label_bound(ratio, label, 1.0), truth, atol=1e-5)


def test_the_density_is_that_of_students_t():
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)
    mechanism = Student(*(torch.tensor(number, dtype=torch.float64) for number in (0.3, 1.7, 5.0)))
    assert np.allclose(mechanism.log_density(x), t.logpdf(x.numpy(), 5.0, 0.3, 1.7))


def test_a_prediction_weighs_the_draws_by_importance(net):
    """With an encoder that knows nothing, weights must do all the work: E[z | x] comes out."""

    class Blind(nn.Module):
        def forward(self, seen):
            return torch.cat([torch.zeros(len(seen), 1), torch.full((len(seen), 1), 0.5413)], dim=1).double()

    class Reads(LinearDecoder):
        def forward(self, z):
            parts = super().forward(z)
            return torch.cat([parts[..., :3], z, parts[..., 4:]], dim=-1)

    net.encoder, net.decoder = Blind(), Reads()
    net.draws = torch.from_numpy(np.random.default_rng(0).normal(size=(20_000, 1)))
    values = torch.tensor([[1.0, -0.5, 2.0]], dtype=torch.float64)
    precision = 1 + SLOPE @ SLOPE / NOISE**2
    expected = SLOPE @ np.array([1.0, -0.5, 2.0]) / NOISE**2 / precision
    found = net(values, torch.ones_like(values))
    assert float(found) == pytest.approx(expected, abs=0.02)
    # With nothing observed, the mean of the prior.
    assert float(net(values * 0, values * 0)) == pytest.approx(0.0, abs=0.03)
