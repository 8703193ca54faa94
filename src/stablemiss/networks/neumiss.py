"""The NeuMiss network: a Neumann series that unrolls the inverse of each mask's covariance."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from stablemiss.networks.mlp import MLP


class NeuMissNet(nn.Module):
    """h₀ = m ⊙ (x − μ), h ← m ⊙ (W h) + h₀ over and over, then a linear or deep head.

    The mask is the non-linearity: it multiplies after every linear map. With W = I − ηΣ the series tends to
    Σ_oo⁻¹ (x_o − μ_o) / η, which is all that the best prediction of Gaussian columns needs, for every mask.

    Parameters
    ----------
    d, d_output : int
        Columns and outputs.
    depth : int
        Terms of the series. More come nearer to the inverse, and with W's norm above one further away.
    hidden : sequence of int
        Hidden layers of the head; none make it linear.

    Shape
    -----
    values (n, d), mask (n, d) → outputs (n, d_output)

    Examples
    --------
    >>> NeuMissNet(3, 1, depth=5)(torch.zeros(4, 3), torch.ones(4, 3)).shape
    torch.Size([4, 1])
    """

    def __init__(self, d: int, d_output: int, depth: int, hidden: Sequence[int] = ()):
        super().__init__()
        self.config = {"d": d, "d_output": d_output, "depth": depth, "hidden": tuple(hidden)}
        self.depth = depth
        self.mean = nn.Parameter(torch.zeros(d))
        self.weight = nn.Parameter(torch.empty(d, d))
        nn.init.xavier_uniform_(self.weight, gain=0.5)
        self.head = MLP([d, *hidden, d_output])

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.series(values, mask))

    def series(self, values: Tensor, mask: Tensor) -> Tensor:
        """The last h, (n, d), zero where hidden."""
        first = mask * (values - self.mean)
        h = first
        for _ in range(self.depth):
            h = torch.addcmul(first, mask, h @ self.weight.T)
        return h

    def start_from(self, covariance: Tensor) -> None:
        """Begin with W = I − Σ / ‖Σ‖, whose series grows for no mask.

        Parameters
        ----------
        covariance : (d, d)
            Symmetric. Negative eigenvalues, which covariances of pairs with holes may have, count as zero:
            along them each term of the series would grow.
        """
        size, direction = torch.linalg.eigh(covariance)
        size = size.clamp_min(0.0) / size.max().clamp_min(1e-12)
        with torch.no_grad():
            self.weight.copy_(torch.eye(len(covariance)) - (direction * size) @ direction.T)
