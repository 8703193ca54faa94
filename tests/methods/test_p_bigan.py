"""P-BiGAN: the parameters that each step updates, and what the critic reads."""

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.methods import PBiGAN, p_bigan
from stablemiss.methods.p_bigan import PBiGANNet
from stablemiss.progress import NullProgress
from stablemiss.tasks import Regression


@pytest.fixture(autouse=True)
def isolated_random_state():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def recorded_training(monkeypatch, data, task):
    """Network, steps and rows that `fit` passes to `train_network`, which is replaced."""
    calls = []

    def record(method, network, steps, rows, *rest):
        calls.append((network, steps, rows))
        return []

    monkeypatch.setattr(p_bigan, "train_network", record)
    PBiGAN(hidden=(16,), d_latent=2).fit(data, data, task, np.random.default_rng(1), NullProgress())
    network, steps, rows = calls[0]
    # Single precision as in training; the predictor has converted the network to double precision.
    return network.float().train(), steps, rows


@pytest.fixture
def training(monkeypatch):
    """The same for a table."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(100, 3))
    task = Regression.of(values[:, 0])
    data = MaskedData.of(values, rng.uniform(size=values.shape) < 0.8, task.encode(values[:, 0]))
    return recorded_training(monkeypatch, data, task)


def updated_by(step, network, rows):
    """Which of encoder, decoder and critic a single step updates."""
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    optimiser = step.optimiser(step.parameters)
    for parameter, gradient in zip(
        step.parameters, torch.autograd.grad(step.loss(rows), step.parameters), strict=True
    ):
        parameter.grad = gradient
    optimiser.step()
    return {
        name.split(".")[0]
        for name, parameter in network.named_parameters()
        if not torch.equal(parameter, before[name])
    }


def test_a_critic_step_updates_only_the_critic(training):
    network, (critic, _), rows = training
    assert updated_by(critic, network, rows) == {"critic"}


def test_a_generator_step_updates_only_encoder_and_decoder(training):
    network, (_, generator), rows = training
    assert updated_by(generator, network, rows) == {"encoder", "decoder"}


def test_the_critic_steps_on_every_batch_and_the_generator_on_every_fifth(training):
    _, steps, _ = training
    assert [step.every for step in steps] == [1, 5]


def test_the_critic_reads_no_target_cell_that_is_not_observed(monkeypatch):
    rng = np.random.default_rng(0)
    values, target = rng.normal(size=(100, 6)), rng.normal(size=(100, 4))
    seen = rng.uniform(size=target.shape) < 0.7
    task = Regression.of(target, common_scale=True, shape=(2, 2))
    data = MaskedData.of(values, values == values, task.encode(target), None, None, seen, (2, 3))
    network, (critic, _), rows = recorded_training(monkeypatch, data, task)
    inputs = []
    network.critic.register_forward_pre_hook(lambda module, pair: inputs.append(pair[0].detach()))
    critic.loss(rows)
    _, real, _ = inputs  # generated rows, real rows, and points between them
    shown_values, shown_mask = real[:, 6:10], real[:, 16:20]
    is_shown = shown_mask.numpy() > 0
    assert not is_shown[~seen].any()
    assert not shown_values.numpy()[~seen].any()
    # About half of the rows show the targets that they have.
    assert 0.3 < is_shown[seen].mean() < 0.7


@pytest.mark.parametrize("is_classes", [False, True])
def test_arrays_and_tables_have_the_same_predictions_up_to_rounding(is_classes):
    nets = []
    for is_array in (False, True):
        torch.manual_seed(0)
        net = PBiGANNet(5, 3, is_classes, 2, (8,), 8, use_mask=True, n_draws=7, is_array=is_array).double()
        torch.nn.init.normal_(net.decoder.last.weight)  # predictions of an untrained network are zero
        nets.append(net)
    mask = (torch.rand(30, 5) < 0.5).double()
    values = torch.randn(30, 5).double() * mask
    table, array = (net(values, mask) for net in nets)
    assert table.std() > 0.1
    torch.testing.assert_close(array, table)
