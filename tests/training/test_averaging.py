"""Averaged parameters are what a stage scores and keeps."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from stablemiss.progress import NullProgress
from stablemiss.training import Stage, Step, run_stages
from stablemiss.training.averaging import ParameterAverage


class Position(nn.Module):
    """A point that should move to 3."""

    def __init__(self):
        super().__init__()
        self.x = nn.Parameter(torch.zeros(50))

    def distance(self) -> float:
        return float((self.x.detach() - 3).square().mean())


def train(averaging: float | None, patience: int = 20) -> tuple[Position, float]:
    """Follow noisy gradients at a constant learning rate; also the last score."""
    position = Position()
    noise = torch.Generator().manual_seed(0)

    def loss() -> torch.Tensor:
        target = 3 + torch.randn(50, generator=noise)
        return (position.x - target).square().sum()

    step = Step(loss, [position.x], partial(torch.optim.SGD, lr=0.2), clip=torch.inf)
    stage = Stage(
        "position",
        position,
        [step],
        position.distance,
        max_epochs=20,
        patience=patience,
        min_batches=20,
        averaging=averaging,
    )
    [history] = run_stages([stage], np.random.default_rng(0), NullProgress())
    return position, history.best_score


def test_the_average_is_closer_to_the_optimum_than_any_of_its_steps():
    averaged, score = train(averaging=3)
    newest, _ = train(averaging=None)
    assert averaged.distance() < 0.25 * newest.distance()
    # What was scored is what is kept.
    assert averaged.distance() == pytest.approx(score)


def test_training_continues_from_the_newest_parameters_after_a_score():
    module = nn.Linear(1, 1, bias=False)
    average = ParameterAverage(module, recency=1)
    nn.init.constant_(module.weight, 4.0)
    average.update()
    nn.init.constant_(module.weight, 1.0)
    average.update()
    with average.applied():
        # Weights 1/3 and 2/3: after two steps the newest has weight (1 + 1) / (1 + 2).
        assert module.weight.item() == pytest.approx(2.0)
    assert module.weight.item() == 1.0


def test_the_parameters_are_restored_after_an_error_in_a_score():
    module = nn.Linear(1, 1, bias=False)
    average = ParameterAverage(module, recency=1)
    nn.init.constant_(module.weight, 5.0)
    with pytest.raises(ZeroDivisionError), average.applied():
        1 / 0  # noqa: B018
    assert module.weight.item() == 5.0
