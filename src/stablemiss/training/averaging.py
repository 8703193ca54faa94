"""A running average of the parameters during training, which replaces lowering the learning rate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


class ParameterAverage:
    """Average of a module's parameters over its most recent steps, the older the less weight they have.

    Steps at a constant learning rate scatter around an optimum; their average is close to it. Unlike a
    schedule that lowers the learning rate, an average is good after any number of steps, so that training
    can stop at any time (polynomial-decay averaging, Shamir & Zhang 2013).

    Parameters
    ----------
    module : nn.Module
    recency : float
        After t steps the newest parameters have weight (recency + 1) / (recency + t). About the last
        t / (recency + 1) steps count: a larger value forgets sooner and averages less.

    Examples
    --------
    >>> line = nn.Linear(1, 1, bias=False)
    >>> average = ParameterAverage(line, recency=0)
    >>> for weight in (1.0, 2.0, 6.0):
    ...     _ = nn.init.constant_(line.weight, weight)
    ...     average.update()
    >>> with average.applied():
    ...     round(line.weight.item(), 4)
    3.0
    >>> line.weight.item()
    6.0
    """

    def __init__(self, module: nn.Module, recency: float):
        self._parameters: list[torch.Tensor] = [
            parameter for parameter in module.parameters() if parameter.requires_grad
        ]
        self._average = [parameter.detach().clone() for parameter in self._parameters]
        self._recency, self._n_steps = recency, 0

    @torch.no_grad()
    def update(self) -> None:
        """Take the present parameters into the average, after a step."""
        self._n_steps += 1
        weight = (self._recency + 1) / (self._recency + self._n_steps)
        if self._average:
            torch._foreach_lerp_(self._average, self._parameters, weight)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the context the module has the averaged parameters."""
        with torch.no_grad():
            trained = [parameter.clone() for parameter in self._parameters]
            self._copy_to_module(self._average)
            try:
                yield
            finally:
                self._copy_to_module(trained)

    def _copy_to_module(self, tensors: list[torch.Tensor]) -> None:
        for parameter, tensor in zip(self._parameters, tensors, strict=True):
            parameter.copy_(tensor)
