"""g(values; φ(mask)): a network g whose parameters another network φ generates for each row from its mask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from stablemiss.networks.mlp import MLP

# The mask's share in the generated parameters, as a part of an ordinary initialisation. Near zero, all rows
# start with almost the same parameters, so that differences between masks are learnt and not drawn.
MASK_SHARE = 0.1


class ParameterGenerator(nn.Module):
    """φ: an MLP that turns the mask of each row into the parameters of that row's network.

    Parameters
    ----------
    d_mask : int
        Width of the mask.
    start : (n_parameters,) tensor
        The parameters that every mask begins with: the bias of φ's last layer.
    hidden : sequence of int
        Widths of φ's hidden layers; none makes the parameters linear in the mask. Wider and more layers
        tell more masks apart and overfit earlier.
    rank : int, optional
        If given, the parameters vary with the mask in only so many directions, and the last layer has
        rank · (hidden + n_parameters) weights instead of hidden · n_parameters. Higher is more flexible.

    Shape
    -----
    mask (n, d_mask) → parameters (n, n_parameters)

    Examples
    --------
    >>> ParameterGenerator(3, start=torch.zeros(20), hidden=[8], rank=2)(torch.ones(5, 3)).shape
    torch.Size([5, 20])
    """

    def __init__(self, d_mask: int, start: Tensor, hidden: Sequence[int], rank: int | None = None):
        super().__init__()
        n_parameters = len(start)
        # PAPER: φ reads (1, m); the constant is the bias of φ's first layer here.
        self.code = MLP([d_mask, *hidden, n_parameters if rank is None else rank])
        # DEVIATION: the paper has no low rank; without it φ's last layer dwarfs all else for a large g.
        self.expand = None if rank is None else nn.Linear(rank, n_parameters)
        last = self.expand or self.code.last
        with torch.no_grad():
            last.weight.mul_(MASK_SHARE)
            last.bias.copy_(start)

    def forward(self, mask: Tensor) -> Tensor:
        code = self.code(mask)
        return code if self.expand is None else self.expand(code)


class GeneratedMLP(nn.Module):
    """g(values; φ(mask)) with g a multi-layer perceptron, or with no hidden layer a linear map.

    There is no batch normalisation: statistics over a batch have no meaning where each row has its own
    parameters. At the start outputs are near zero, the prediction of the mean of a standardised target.

    Parameters
    ----------
    widths : sequence of int
        Widths of g: input, hidden layers, output. ``[d, d_output]`` is a linear g.
    hidden, rank
        Of φ, see `ParameterGenerator`.

    Shape
    -----
    values (n, d), zero where hidden; mask (n, d), 1 = observed → outputs (n, d_output)

    Examples
    --------
    >>> network = GeneratedMLP([3, 4, 1], hidden=[8])
    >>> network(torch.zeros(5, 3), torch.ones(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(self, widths: Sequence[int], hidden: Sequence[int], rank: int | None = None):
        super().__init__()
        self.config = {"widths": tuple(widths), "hidden": tuple(hidden), "rank": rank}
        # The first row of each layer's matrix is its bias: g reads (1, x).
        self.shapes = [(d_in + 1, d_out) for d_in, d_out in pairwise(widths)]
        self.phi = ParameterGenerator(widths[0], self._start(), hidden, rank)

    def _start(self) -> Tensor:
        """An ordinary start for ReLU layers, and zero for the last one."""
        layers = []
        for d_in, d_out in self.shapes[:-1]:
            layer = torch.randn(d_in, d_out) * math.sqrt(2 / max(1, d_in - 1))
            layer[0] = 0.0
            layers.append(layer)
        layers.append(torch.zeros(self.shapes[-1]))
        return torch.cat([layer.flatten() for layer in layers])

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        parameters = self.phi(mask).split([d_in * d_out for d_in, d_out in self.shapes], dim=1)
        # PAPER: g sees x ⊙ m, so that what stands in a hidden cell has no influence.
        output = (values * mask)[:, None, :]
        for number, (flat, shape) in enumerate(zip(parameters, self.shapes, strict=True)):
            matrix = flat.unflatten(1, shape)
            output = torch.baddbmm(matrix[:, :1], output if number == 0 else output.relu(), matrix[:, 1:])
        return output[:, 0]
