"""Gradient penalty of critics, for methods that train a network against one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def gradient_penalty(
    critic: Callable[..., Tensor], real: tuple[Tensor, ...], generated: tuple[Tensor, ...]
) -> Tensor:
    """Mean of (‖∇D‖ − 1)² at random points between real and generated inputs.

    The gradient ∇ is over all inputs of a row together.

    Parameters
    ----------
    critic : callable
        D, a function from tensors (n, …) to (n,).
    real, generated : tuple of tensors (n, d_i)
        Its inputs, as many in both.

    Examples
    --------
    The penalty of a linear critic of slope one is zero:

    >>> pair = torch.zeros(4, 3), torch.zeros(4, 2)
    >>> gradient_penalty(lambda row, z: row[:, 0], pair, pair).item()
    0.0
    """
    share = torch.rand(len(real[0]), 1, device=real[0].device)
    between = [
        (share * left + (1 - share) * right).requires_grad_()
        for left, right in zip(real, generated, strict=True)
    ]
    slopes = torch.autograd.grad(critic(*between).sum(), between, create_graph=True, allow_unused=True)
    squares = [slope.square().sum(dim=1) for slope in slopes if slope is not None]
    return (torch.stack(squares).sum(dim=0).clamp_min(1e-12).sqrt() - 1).square().mean()
