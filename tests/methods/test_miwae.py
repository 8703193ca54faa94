"""MIWAE: its bound for a linear decoder with known likelihood, and the method."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, t
from torch import nn

from stablemiss import MissingRegressor
from stablemiss.data import MaskedData
from stablemiss.methods.miwae import MIWAE, Gaussian, MIWAENet, StudentT, importance_bound, target_bound
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression

SLOPE, NOISE = np.array([1.0, -0.5, 2.0]), 0.5


class LinearDecoder(nn.Module):
    """x = SLOPE z + noise, nearly Gaussian through many degrees of freedom, and a constant target."""

    def forward(self, z):
        location = torch.cat([z * torch.from_numpy(SLOPE), torch.zeros_like(z)], dim=-1)
        scale = torch.full_like(location, math.log(math.expm1(NOISE - 1e-3)))
        return torch.cat([location, scale, torch.full_like(location, 1e7)], dim=-1)


@pytest.fixture
def net():
    with torch.random.fork_rng():
        network = MIWAENet(3, 1, False, d_latent=1, hidden=4, use_mask=True, n_draws=5).double()
    network.decoder = LinearDecoder()
    return network


@pytest.fixture
def rows():
    """Values, mask, log p(x_o) of each row, and mean and scale of the exact posterior."""
    rng = np.random.default_rng(0)
    values = SLOPE * rng.normal(size=(40, 1)) + NOISE * rng.normal(size=(40, 3))
    mask = rng.uniform(size=values.shape) < 0.7
    mask[:, 0] = True
    values, mask = (torch.tensor(np.array(part, dtype=float)) for part in (values, mask))
    return values, mask, *exact(values, mask)


def exact(values, mask):
    """log p(x_o) of each row, and mean and scale of the exact posterior."""
    log_p, mean, scale = [], [], []
    for x, observed in zip(values.numpy(), mask.numpy() > 0, strict=True):
        covariance = np.outer(SLOPE[observed], SLOPE[observed]) + NOISE**2 * np.eye(observed.sum())
        log_p.append(multivariate_normal(np.zeros(observed.sum()), covariance).logpdf(x[observed]))
        precision = 1 + SLOPE[observed] @ SLOPE[observed] / NOISE**2
        mean.append(SLOPE[observed] @ x[observed] / NOISE**2 / precision)
        scale.append(precision**-0.5)
    return [torch.tensor(np.array(part)) for part in (log_p, mean, scale)]


def bound(net, rows, mean, scale, k, seed=0):
    values, mask = rows[:2]
    noise = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(values), k, 1)))
    z = mean[:, None, None] + scale[:, None, None] * noise
    columns, _ = net.decode(z)
    return importance_bound(net.log_ratio(values, mask, mean[:, None], scale[:, None], z, columns))


@pytest.mark.parametrize("k", [1, 5, 50])
def test_with_the_exact_posterior_the_bound_is_tight_for_every_k(net, rows, k):
    log_p, mean, scale = rows[2:]
    assert torch.allclose(bound(net, rows, mean, scale, k), log_p, atol=1e-5)


def test_with_another_posterior_the_bound_rises_with_k_towards_the_likelihood(net, rows):
    log_p, mean, scale = rows[2:]
    wrong = mean + 0.3, 2 * scale
    means = [np.mean([bound(net, rows, *wrong, k, s).mean() for s in range(20)]) for k in (1, 5, 50, 2000)]
    truth = float(log_p.mean())
    assert means[0] < means[1] < means[2] < means[3] <= truth + 1e-3
    assert truth - means[3] < 0.01 < truth - means[0]


@pytest.mark.parametrize("k", [1, 5, 50])
def test_with_a_target_the_bound_is_tight_for_the_joint_likelihood(net, rows, k):
    """The last column serves as target: the bound equals log p(x_o, y) for any number of draws."""
    values, mask, *_ = rows
    mask[:, 2], without_target = 1.0, mask.clone()
    without_target[:, 2] = 0.0
    truth, mean, scale = exact(values, mask)
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(len(values), k, 1)))
    z = mean[:, None, None] + scale[:, None, None] * noise
    columns, _ = net.decode(z)
    ratio = net.log_ratio(values, without_target, mean[:, None], scale[:, None], z, columns)
    log_target = columns.log_density(values[:, None])[:, :, 2]
    assert torch.allclose(target_bound(ratio, log_target, 1.0), truth, atol=1e-5)


def test_the_density_equals_scipys_student_t():
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)
    student = StudentT(*(torch.tensor(number, dtype=torch.float64) for number in (0.3, 1.7, 5.0)))
    assert np.allclose(student.log_density(x), t.logpdf(x.numpy(), 5.0, 0.3, 1.7))


def test_a_prediction_weights_the_draws_by_importance(net):
    """With an uninformative encoder, the importance weights alone give E[z | x]."""

    class UninformativeEncoder(nn.Module):
        def forward(self, inputs):
            n = len(inputs)
            return torch.cat([torch.zeros(n, 1), torch.full((n, 1), 0.5413)], dim=1).double()

    class TargetDecoder(LinearDecoder):
        def forward(self, z):
            parts = super().forward(z)
            return torch.cat([parts[..., :3], z, parts[..., 4:]], dim=-1)

    net.encoder, net.decoder = UninformativeEncoder(), TargetDecoder()
    net.draws = torch.from_numpy(np.random.default_rng(0).normal(size=(20_000, 1)))
    values = torch.tensor([[1.0, -0.5, 2.0]], dtype=torch.float64)
    precision = 1 + SLOPE @ SLOPE / NOISE**2
    expected = SLOPE @ np.array([1.0, -0.5, 2.0]) / NOISE**2 / precision
    prediction = net(values, torch.ones_like(values))
    assert float(prediction) == pytest.approx(expected, abs=0.02)
    # If all values are missing, the prediction is the mean of the prior.
    assert float(net(values * 0, values * 0)) == pytest.approx(0.0, abs=0.03)


def test_the_bound_is_the_logarithm_of_the_mean_ratio():
    ratio = torch.tensor([[0.0, 1.0, 2.0], [-800.0, -801.0, -802.0]], dtype=torch.float64)
    expected = [np.log(np.mean(np.exp([0.0, 1.0, 2.0]))), np.log(np.mean(np.exp([2.0, 1.0, 0.0]))) - 802.0]
    assert np.allclose(importance_bound(ratio), expected)


def test_a_target_of_weight_one_is_treated_like_a_column():
    ratio, log_target = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 5, 7)))
    assert torch.allclose(target_bound(ratio, log_target, 1.0), importance_bound(ratio + log_target))


def test_draws_that_copy_the_target_do_not_increase_the_bound():
    """All draws explain the columns equally well, one of four hits the target: the bound uses the mean."""
    ratio, log_target = torch.zeros(1, 4), torch.tensor([[5.0, -50.0, -50.0, -50.0]])
    likelihood = 5.0 - np.log(4)
    for weight in (1.0, 20.0):
        assert float(target_bound(ratio, log_target, weight)) == pytest.approx(weight * likelihood, rel=1e-5)


def test_targets_that_are_not_observed_are_left_out_of_the_likelihood(net):
    rng = np.random.default_rng(0)
    location, target = torch.from_numpy(rng.normal(size=(6, 4, 3))), torch.from_numpy(rng.normal(size=(6, 3)))
    decoded = StudentT(location, torch.ones_like(location), torch.full_like(location, 5.0))
    seen = torch.ones_like(target)
    assert torch.equal(net.log_target(decoded, target, seen), net.log_target(decoded, target))
    seen[:, 1] = 0.0
    first_and_last = t.logpdf(target.numpy()[:, None], 5.0, location.numpy())[:, :, [0, 2]].sum(axis=2)
    assert np.allclose(net.log_target(decoded, target, seen), first_and_last)


def test_predictions_of_arrays_decode_only_what_they_need():
    """The same as decoding all columns and all targets of all draws."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = MIWAENet(5, 3, False, 2, 8, use_mask=True, n_draws=20, is_array=True).double()
        nn.init.normal_(net.decoder.last.weight)  # predictions of an untrained network are zero
    rng = np.random.default_rng(0)
    mask = torch.from_numpy((rng.uniform(size=(30, 5)) < 0.5) * 1.0)
    mask[0], mask[:, 1] = 0.0, 0.0  # a row without values, and a column that no row observes
    values = torch.from_numpy(rng.normal(size=(30, 5))) * mask
    mean, scale = net.encode(*(torch.cat([table, torch.zeros(30, 3)], dim=1) for table in (values, mask)))
    z = mean[:, None] + scale[:, None] * net.draws
    columns, targets = net.decode(z)
    assert isinstance(columns, Gaussian)
    weight = net.log_ratio(values, mask, mean, scale, z, columns).softmax(dim=1)
    expected = (weight[..., None] * targets.location).sum(dim=1)
    assert expected.std() > 0.1
    torch.testing.assert_close(net(values, mask), expected)


@pytest.mark.slow
def test_mostly_black_images_are_predicted_by_their_mean_not_by_black():
    """One of five cells is bright. Without early stopping, a Student's t predicts the most frequent value."""
    rng = np.random.default_rng(0)
    images = 10.0 * (rng.random((600, 3, 3)) < 0.2)
    model = MissingRegressor(MIWAE(max_epochs=40, learning_rate=1e-2, patience=None), random_state=0)
    model.fit(np.where(rng.random(images.shape) < 0.5, np.nan, images), images)
    assert abs(model.predict(np.full((1, 3, 3), np.nan)).mean() - 2.0) < 0.7


def test_early_stopping_uses_all_validation_rows_with_fewer_draws_than_predictions(monkeypatch):
    """Training itself does not predict, so every prediction within the fit is one of validation rows."""
    n_valid, calls = 1500, []
    original = MIWAENet.forward

    def forward(self, values, mask):
        calls.append((len(values), len(self.draws[: self.n_used_draws])))
        return original(self, values, mask)

    monkeypatch.setattr(MIWAENet, "forward", forward)
    rng = to_rng(0)
    values = rng.normal(size=(n_valid + 100, 2))
    task = Regression.of(values[:, 0])
    data = MaskedData.of(values, rng.uniform(size=values.shape) < 0.7, task.encode(values[:, 0]))
    rows = np.arange(len(data))
    method = MIWAE(d_latent=2, hidden=8, n_draws=80, learning_rate=1e-3, max_epochs=2)
    predictor = method.fit(data.rows(rows[n_valid:]), data.rows(rows[:n_valid]), task, rng, NullProgress())
    n_scores = 1 + 2
    assert sum(n_rows for n_rows, _ in calls) == n_scores * n_valid
    assert {n_draws for _, n_draws in calls} == {50}
    calls.clear()
    network = predictor.network
    assert network.n_used_draws is None
    outputs = predictor.predict(data.values, data.mask)
    assert {n_draws for _, n_draws in calls} == {80}
    network.n_used_draws = 50
    assert (predictor.predict(data.values, data.mask) != outputs).any()


@pytest.mark.parametrize("n_draws", [1, 50])
def test_predictions_with_fewer_draws_use_the_first_ones(net, rows, n_draws):
    values, mask = rows[:2]
    net.draws = torch.from_numpy(np.random.default_rng(0).normal(size=(80, 1)))
    net.n_used_draws = n_draws
    used = net(values, mask)
    net.draws, net.n_used_draws = net.draws[:n_draws], None
    assert torch.equal(used, net(values, mask))
