"""Multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


class MLP(nn.Module):
    """Multi-layer perceptron with ReLU activations.

    Parameters
    ----------
    widths : sequence of int
        Widths of input, hidden layers and output; two widths give a single linear map. Wider and more layers
        fit more complex functions, cost more and overfit earlier.

    Shape
    -----
    (*, widths[0]) → (*, widths[-1])

    Examples
    --------
    >>> import torch
    >>> MLP([3, 8, 8, 2])(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.layers = nn.Sequential()
        for d_in, d_out in pairwise(widths[:-1]):
            self.layers.append(nn.Linear(d_in, d_out))
            self.layers.append(nn.ReLU())
        self.last = nn.Linear(widths[-2], widths[-1])

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.layers(inputs))
