"""Optimisers as functions from parameters to a torch optimiser, and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

MakeOptimiser = Callable[[list[Tensor]], torch.optim.Optimizer]


def minimise(
    loss: Callable[[], Tensor],
    parameter: Tensor,
    max_steps: int = 100,
    tolerance: float = 1e-4,
    report: Callable[[int], None] = lambda step: None,
) -> int:
    """Minimise a deterministic loss by L-BFGS with a line search; returns the number of steps.

    For a loss without mini-batches and random draws, for which it needs far fewer evaluations than Adam.

    Parameters
    ----------
    loss : callable
        Function without arguments that returns a scalar tensor.
    parameter : tensor
        Updated in place.
    max_steps : int, default=100
        A larger value gets closer to the minimum; each step costs one or two evaluations.
    tolerance : float, default=1e-4
        Ends when a step lowers the loss by less than this fraction. A smaller value is more exact and slower.
    report : callable, default: does nothing
        Called with the number of each step; it may raise an exception in order to stop.

    Examples
    --------
    >>> position = torch.tensor([4.0], requires_grad=True)
    >>> _ = minimise(lambda: (position - 1.0).square().sum(), position)
    >>> round(position.item(), 4)
    1.0
    """
    # A step may take as many evaluations as the line search needs (25 by default) and one more.
    optimiser = torch.optim.LBFGS([parameter], max_iter=1, max_eval=26, line_search_fn="strong_wolfe")

    def evaluate() -> Tensor:
        value = loss()
        (parameter.grad,) = torch.autograd.grad(value, [parameter])
        return value.detach()

    previous = math.inf
    with torch.enable_grad():
        for step in range(1, max_steps + 1):
            current = float(optimiser.step(evaluate))
            report(step)
            if previous - current <= tolerance * abs(current):
                break
            previous = current
    return step


def adamw(learning_rate: float = 1e-3, weight_decay: float = 0.0) -> MakeOptimiser:
    """Adam with decoupled weight decay on matrices; vectors such as biases are not decayed.

    Parameters
    ----------
    learning_rate : float, default=1e-3
        A larger value trains faster and converges to a noisier solution.
    weight_decay : float, default=0.0
        Each step multiplies matrices by 1 − learning_rate · weight_decay. A larger value gives smoother
        functions; a value that is too large underfits.

    Returns
    -------
    callable
        Function from a list of parameters to a `torch.optim.AdamW`.

    See Also
    --------
    one_cycle : Learning-rate schedule for `Stage`.

    Examples
    --------
    >>> optimiser = adamw(1e-2, weight_decay=0.1)([torch.zeros(2, 2), torch.zeros(2)])
    >>> [group["weight_decay"] for group in optimiser.param_groups]
    [0.1, 0.0]
    """
    if learning_rate * weight_decay > 1:
        raise ValueError(
            f"weight_decay must be at most 1 / learning_rate = {1 / learning_rate:g}, because each step "
            f"multiplies matrices by 1 − learning_rate · weight_decay; got {weight_decay!r}. Lower either."
        )

    def make(parameters: list[Tensor]) -> torch.optim.Optimizer:
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, fused=True)

    return make


def one_cycle(fraction: float, warm_up: float = 0.15) -> float:
    """Learning-rate schedule: the factor rises linearly to one, then decays to zero along a cosine.

    Parameters
    ----------
    fraction : float
        Fraction of the training steps completed, 0 to 1.
    warm_up : float, default=0.15
        Fraction of the steps spent on the warm-up. A larger value starts more gently and leaves fewer steps
        for the decay.

    Examples
    --------
    >>> [round(one_cycle(fraction), 2) for fraction in (0.0, 0.15, 0.575, 1.0)]
    [0.04, 1.0, 0.5, 0.0]
    """
    if fraction < warm_up:
        return 0.04 + 0.96 * fraction / warm_up
    return 0.5 * (1 + math.cos(math.pi * (fraction - warm_up) / (1 - warm_up)))
