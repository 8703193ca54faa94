"""P-BiGAN: the critic's penalty, and who moves what."""

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.methods import PBiGAN
from stablemiss.methods.p_bigan import gradient_penalty
from stablemiss.progress import Silence
from stablemiss.tasks import Regression


@pytest.fixture(autouse=True)
def own_randomness():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def pairs():
    return tuple((torch.randn(16, 3), torch.randn(16, 2)) for _ in range(2))


@pytest.mark.parametrize("length", [1.0, 3.0])
def test_the_penalty_of_a_linear_critic_is_what_its_slope_is_off_one(length):
    slope = torch.randn(5)
    slope *= length / slope.norm()
    critic = lambda row, z: torch.cat([row, z], dim=1) @ slope  # noqa: E731
    found = gradient_penalty(critic, *pairs())
    assert float(found) == pytest.approx((length - 1) ** 2, abs=1e-5)


def test_the_penalty_can_be_descended():
    slope = torch.full((5,), 2.0, requires_grad=True)
    gradient_penalty(lambda row, z: torch.cat([row, z], dim=1) @ slope, *pairs()).backward()
    assert (slope.grad > 0).all()


def fitted(**params):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 3))
    task = Regression.of(values[:, 0])
    data = MaskedData.of(values, rng.uniform(size=values.shape) < 0.8, task.encode(values[:, 0]))
    rows = np.arange(200)
    method = PBiGAN(hidden=(16,), d_latent=2, max_epochs=3, **params)
    found = method.fit(
        data.rows(rows[:150]), data.rows(rows[150:]), task, np.random.default_rng(1), Silence()
    )
    return found.network.state_dict(), found.history[0]


def test_steps_of_the_critic_move_neither_encoder_nor_decoder():
    """Whatever the critic's learning rate, if only the critic steps the others stay where they began."""
    (slow, slow_history), (fast, fast_history) = (
        fitted(critic_steps=10**9, learning_rate=rate) for rate in (1e-3, 1e-2)
    )
    assert slow_history.losses[-1][0] != fast_history.losses[-1][0]
    assert slow_history.losses[-1][1] is None
    assert len(set(slow_history.scores)) == 1
    for name in slow:
        if name.startswith(("encoder", "decoder")):
            assert torch.equal(slow[name], fast[name]), name


def test_steps_of_the_generator_do():
    _, history = fitted(critic_steps=2)
    assert len(set(history.scores)) > 1
