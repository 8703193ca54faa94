"""Ways to move parameters, as functions from parameters to a torch optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

MakeOptimiser = Callable[[list[Tensor]], torch.optim.Optimizer]


def adamw(learning_rate: float = 1e-3, weight_decay: float = 0.0) -> MakeOptimiser:
    """Adam with decoupled weight decay on matrices; vectors (biases) are left free.

    Parameters
    ----------
    learning_rate : float
        Larger moves faster and ends in a noisier place.
    weight_decay : float
        Each step shrinks matrices by the factor 1 − learning_rate · weight_decay. Larger gives smoother
        functions; too large ones cannot bend at all.

    Examples
    --------
    >>> optimiser = adamw(1e-2, weight_decay=0.1)([torch.zeros(2, 2), torch.zeros(2)])
    >>> [group["weight_decay"] for group in optimiser.param_groups]
    [0.1, 0.0]
    """

    def make(parameters: list[Tensor]) -> torch.optim.Optimizer:
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, fused=True)

    return make


def one_cycle(share: float, warm_up: float = 0.15) -> float:
    """What to multiply learning rates by when `share` of the steps is over: up in a line, down in a cosine.

    Examples
    --------
    >>> [round(one_cycle(share), 2) for share in (0.0, 0.15, 0.575, 1.0)]
    [0.04, 1.0, 0.5, 0.0]
    """
    if share < warm_up:
        return 0.04 + 0.96 * share / warm_up
    return 0.5 * (1 + math.cos(math.pi * (share - warm_up) / (1 - warm_up)))
