"""Optimisers as functions from parameters to an optimiser, and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor


class Optimiser(Protocol):
    """What training needs of an optimiser; those of `torch.optim` have it."""

    param_groups: list[dict[str, Any]]

    def step(self) -> Any: ...
    def zero_grad(self) -> None: ...


MakeOptimiser = Callable[[list[Tensor]], Optimiser]


class FusedAdamW:
    """Adam with decoupled weight decay, by torch's fused kernel (Loshchilov & Hutter 2019).

    The steps are those of ``torch.optim.AdamW(…, fused=True)``, whose construction loads torch's compiler:
    more than a second in each new process, as long as the fit of a small table takes.

    Parameters
    ----------
    param_groups : list of dict
        Each has "params", a list of contiguous tensors, "lr" and "weight_decay"; the latter two may be
        changed between steps.
    betas : pair of float, default=(0.9, 0.999)
        Decay of the running means of gradients and of their squares. Closer to one averages longer.
    eps : float, default=1e-8
        Added to the root of the mean square, so that tiny gradients do not give large steps.

    See Also
    --------
    adamw : Function from parameters to this optimiser.
    """

    def __init__(
        self, param_groups: list[dict[str, Any]], betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ):
        self.param_groups = param_groups
        self._betas, self._eps = betas, eps
        # For each parameter: mean gradient, mean squared gradient, number of steps.
        self._state = {
            parameter: (
                torch.zeros_like(parameter, requires_grad=False),
                torch.zeros_like(parameter, requires_grad=False),
                torch.zeros((), dtype=torch.float32, device=parameter.device),
            )
            for group in param_groups
            for parameter in group["params"]
        }

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient."""
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            means, squares, steps = zip(*(self._state[parameter] for parameter in parameters), strict=True)
            torch._foreach_add_(steps, 1.0)
            torch._fused_adamw_(
                parameters,
                # The kernel reads gradients in the order of the memory, whatever their strides are.
                [parameter.grad.contiguous() for parameter in parameters],
                list(means),
                list(squares),
                [],
                list(steps),
                lr=float(group["lr"]),
                beta1=self._betas[0],
                beta2=self._betas[1],
                weight_decay=float(group["weight_decay"]),
                eps=self._eps,
                amsgrad=False,
                maximize=False,
            )

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._state:
            parameter.grad = None


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
        Function from a list of parameters to a `FusedAdamW`.

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

    def make(parameters: list[Tensor]) -> Optimiser:
        matrices, vectors = ([p for p in parameters if (p.ndim > 1) == wanted] for wanted in (True, False))
        return FusedAdamW(
            [
                {"params": matrices, "lr": learning_rate, "weight_decay": weight_decay},
                {"params": vectors, "lr": learning_rate, "weight_decay": 0.0},
            ]
        )

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
