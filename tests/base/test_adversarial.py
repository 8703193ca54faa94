"""The gradient penalty of a critic."""

import pytest
import torch

from stablemiss.base.adversarial import gradient_penalty


@pytest.fixture(autouse=True)
def isolated_random_state():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def inputs(*widths):
    """Real and generated inputs of a critic."""
    return tuple(tuple(torch.randn(16, width) for width in widths) for _ in range(2))


@pytest.mark.parametrize("widths", [(5,), (3, 2)], ids=["row", "row and code"])
@pytest.mark.parametrize("length", [1.0, 3.0])
def test_the_penalty_of_a_linear_critic_is_the_squared_deviation_of_its_slope_from_one(length, widths):
    slope = torch.randn(5)
    slope *= length / slope.norm()
    penalty = gradient_penalty(lambda *parts: torch.cat(parts, dim=1) @ slope, *inputs(*widths))
    assert float(penalty) == pytest.approx((length - 1) ** 2, abs=1e-5)


def test_the_penalty_has_a_gradient():
    slope = torch.full((5,), 2.0, requires_grad=True)
    gradient_penalty(lambda row, z: torch.cat([row, z], dim=1) @ slope, *inputs(3, 2)).backward()
    assert (slope.grad > 0).all()
