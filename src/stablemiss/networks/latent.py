"""Parts of networks that explain a row by a few hidden numbers z, the label being one more missing column."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from stablemiss.networks.mlp import MLP

# Most numbers in a tensor that predicting makes: so few that they stay near the processor.
MOST_HELD = 2**19


def label_columns(target: Tensor, d_output: int) -> Tensor:
    """Targets as columns beside the features, (n, d_output): numbers as they are, classes as indicators.

    Examples
    --------
    >>> label_columns(torch.tensor([1, 0]), 2)
    tensor([[0., 1.],
            [1., 0.]])
    """
    if target.ndim == 2:
        return target
    return nn.functional.one_hot(target, d_output).to(torch.get_default_dtype())


def show_half(like: Tensor) -> Tensor:
    """1 = shown or 0 for each row of `like`, by a fair coin, (n, 1): whose label an encoder may see.

    In training labels are always there, at the test never. An encoder that always saw them would lean on
    them, and fall over without.
    """
    return (torch.rand(len(like), 1, device=like.device) < 0.5).to(like)


def in_parts(
    predict: Callable[[Tensor, Tensor], Tensor], values: Tensor, mask: Tensor, of_row: int
) -> Tensor:
    """`predict(values, mask)`, so few rows at a time that no more than `MOST_HELD` numbers are held at once.

    Parameters
    ----------
    predict : callable
        values (n, d), mask (n, d) → (n, k), each row by itself.
    values, mask : (n, d)
    of_row : int
        Numbers in the largest tensor that a single row makes.
    """
    size = max(1, MOST_HELD // of_row)
    parts = zip(values.split(size), mask.split(size), strict=True)
    return torch.cat([predict(*part) for part in parts])


def averaged(labels: Tensor, weight: Tensor, is_classes: bool) -> Tensor:
    """Outputs (n, k) from the labels (n, L, k) of several draws, weighted by (n, L), which add up to one.

    Of classes the probabilities are averaged, and their logarithm is the output.
    """
    if is_classes:
        labels = labels.softmax(dim=2)
    mean = (weight[:, :, None] * labels).sum(dim=1)
    return mean.clamp_min(1e-30).log() if is_classes else mean


def start_at_mean(decoder: MLP, labels: slice) -> None:
    """Let a decoder begin with zero for the labels, which is their mean, whatever the code."""
    with torch.no_grad():
        decoder.last.weight[labels] = 0.0
        decoder.last.bias[labels] = 0.0


def gaussian_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL divergence of N(mean, variance) from the standard normal, (n,); both (n, d_latent).

    Examples
    --------
    >>> gaussian_divergence(torch.zeros(1, 3), torch.zeros(1, 3)).tolist()
    [0.0]
    """
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)


class PointNet(nn.Module):
    """A code for the set of observed cells: the sum of a common map of each, whatever their number and order.

    Cell d is described by s_d = (x_d, x_d F_d, b_d) with learnt F_d and b_d of its column. The code is
    Σ_d m_d h(s_d), h(s) = relu(A s + a).

    Parameters
    ----------
    d : int
        Columns.
    d_column : int
        Length of F_d. More tell columns apart better.
    d_code : int
        Length of the code, through which all that is known about a row must pass.

    Shape
    -----
    values (n, d), mask (n, d) → (n, d_code)

    Examples
    --------
    >>> PointNet(3, d_column=4, d_code=8)(torch.zeros(5, 3), torch.ones(5, 3)).shape
    torch.Size([5, 8])
    """

    def __init__(self, d: int, d_column: int, d_code: int):
        super().__init__()
        self.column = nn.Parameter(torch.randn(d, d_column))
        self.shift = nn.Parameter(torch.randn(d, 1))
        self.map = nn.Linear(d_column + 2, d_code)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        # A s_d + a = x_d (A₀ + A_F F_d) + (A_b b_d + a): two vectors for each column, the same for all rows.
        own, along, still = self.map.weight.split([1, self.column.shape[1], 1], dim=1)
        slope = own.T + self.column @ along.T
        start = self.shift @ still.T + self.map.bias
        cells = torch.addcmul(start, values[:, :, None], slope).relu()
        return torch.einsum("nd,ndc->nc", mask, cells)
