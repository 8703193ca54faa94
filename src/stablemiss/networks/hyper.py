"""g(values; φ(mask)): a network g whose parameters are generated for each row by a network φ of its mask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from stablemiss.networks.mlp import MLP

# Initial weights of the last layer of φ, relative to the default initialisation. A small value gives all
# masks almost the same parameters at the start, so that differences between masks come from training only.
INITIAL_MASK_SCALE = 0.1


class ParameterGenerator(nn.Module):
    """φ: an MLP that maps the mask of each row to the parameters of that row's network.

    Parameters
    ----------
    d_mask : int
        Width of the mask.
    init_parameters : (n_parameters,) tensor
        Initial parameters for every mask: the bias of the last layer of φ.
    hidden : sequence of int
        Widths of the hidden layers of φ; an empty sequence makes the parameters linear in the mask. Wider and
        more layers distinguish more masks and overfit earlier.
    rank : int, default=None
        If given, the parameters vary with the mask only in a subspace of this dimension, and the last layer
        has rank · (hidden + n_parameters) weights instead of hidden · n_parameters. A higher rank is more
        flexible; None is the most flexible.

    Shape
    -----
    mask (n, d_mask) → parameters (n, n_parameters)

    See Also
    --------
    GeneratedMLP : An MLP with generated parameters.

    Examples
    --------
    >>> generator = ParameterGenerator(3, init_parameters=torch.zeros(20), hidden=[8], rank=2)
    >>> generator(torch.ones(5, 3)).shape
    torch.Size([5, 20])
    """

    def __init__(self, d_mask: int, init_parameters: Tensor, hidden: Sequence[int], rank: int | None = None):
        super().__init__()
        n_parameters = len(init_parameters)
        # PAPER: φ reads (1, m); here the constant is the bias of the first layer of φ.
        self.code = MLP([d_mask, *hidden, n_parameters if rank is None else rank])
        # DEVIATION: an optional low rank, because for a large g the last layer of φ has by far the most
        # weights. The paper has no low rank.
        self.expand = None if rank is None else nn.Linear(rank, n_parameters)
        last = self.expand or self.code.last
        with torch.no_grad():
            last.weight.mul_(INITIAL_MASK_SCALE)
            last.bias.copy_(init_parameters)

    def forward(self, mask: Tensor) -> Tensor:
        code = self.code(mask)
        return code if self.expand is None else self.expand(code)


class GeneratedMLP(nn.Module):
    """g(values; φ(mask)), where g is a multi-layer perceptron or, without hidden layers, a linear map.

    There is no batch normalisation: statistics over a batch have no meaning if each row has its own
    parameters. Initial outputs are near zero, the mean of a standardised target.

    Parameters
    ----------
    widths : sequence of int
        Widths of g: input, hidden layers, output. ``[d, d_output]`` is a linear g.
    hidden : sequence of int
        Widths of the hidden layers of φ, see `ParameterGenerator`.
    rank : int, default=None
        Rank of φ, see `ParameterGenerator`.

    Shape
    -----
    values (n, d), zero where missing; mask (n, d), 1 = observed → outputs (n, d_output)

    See Also
    --------
    ParameterGenerator : The network φ.

    Examples
    --------
    >>> network = GeneratedMLP([3, 4, 1], hidden=[8])
    >>> network(torch.zeros(5, 3), torch.ones(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(self, widths: Sequence[int], hidden: Sequence[int], rank: int | None = None):
        super().__init__()
        self.config = {"widths": tuple(widths), "hidden": tuple(hidden), "rank": rank}
        # The first row of each layer's matrix is its bias.
        self.shapes = [(d_in + 1, d_out) for d_in, d_out in pairwise(widths)]
        self.phi = ParameterGenerator(widths[0], self._init_parameters(), hidden, rank)

    def _init_parameters(self) -> Tensor:
        """Initial parameters: He initialisation for ReLU layers, and zero for the last layer."""
        layers = []
        for d_in, d_out in self.shapes[:-1]:
            layer = torch.randn(d_in, d_out) * math.sqrt(2 / max(1, d_in - 1))
            layer[0] = 0.0
            layers.append(layer)
        layers.append(torch.zeros(self.shapes[-1]))
        return torch.cat([layer.flatten() for layer in layers])

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        parameters = self.phi(mask).split([d_in * d_out for d_in, d_out in self.shapes], dim=1)
        # PAPER: g reads x ⊙ m, so that the entries of missing values have no influence.
        output = (values * mask)[:, None, :]
        for number, (flat, shape) in enumerate(zip(parameters, self.shapes, strict=True)):
            matrix = flat.unflatten(1, shape)
            output = torch.baddbmm(matrix[:, :1], output if number == 0 else output.relu(), matrix[:, 1:])
        return output[:, 0]
