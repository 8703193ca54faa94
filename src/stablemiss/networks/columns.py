"""A network for tables with holes: every column gets a code of its own, and a hole has one too."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# Length of each column's code.
D_CODE = 8


class ColumnNetwork(nn.Module):
    """Columns as piecewise-linear codes, then layers over all codes; one head predicts, one fills in.

    A single number per column lets a network bend only slowly along it. Here each column is cut at its
    quantiles, and a number becomes how far it has come through each piece (Gorishniy et al. 2022). A hidden
    cell becomes a learnt code, and the mask is read as well.

    Parameters
    ----------
    edges : (d, n_pieces + 1) tensor
        Ascending cuts of each column; equal ones make empty pieces.
    scores : (d, n_pieces + 1) tensor
        The number that stands for each cut, such as its place among normal quantiles. Between cuts numbers
        are interpolated, so that a column's scale and its outliers do not matter.
    d_output : int
        Outputs of the predicting head.
    width : int
        Units of each hidden layer. More fit more and cost more, by their square.
    depth : int
        Hidden layers.

    Shape
    -----
    values (n, d), mask (n, d) → outputs (n, d_output)

    Examples
    --------
    >>> edges = torch.linspace(-2, 2, 5).expand(3, 5)
    >>> net = ColumnNetwork(edges, edges, d_output=2, width=16, depth=2)
    >>> net(torch.zeros(4, 3), torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """

    cuts: Tensor
    start: Tensor
    per_length: Tensor
    first_score: Tensor
    score_step: Tensor

    def __init__(self, edges: Tensor, scores: Tensor, d_output: int, width: int, depth: int):
        super().__init__()
        d, n_edges = edges.shape
        self.config = {"d_output": d_output, "width": width, "depth": depth}
        length = edges[:, 1:] - edges[:, :-1]
        self.register_buffer("cuts", edges[:, 1:-1].clone())
        self.register_buffer("start", edges[:, :-1].clone())
        self.register_buffer("per_length", torch.where(length > 0, 1 / length.clamp_min(1e-12), 0.0))
        self.register_buffer("first_score", scores[:, :-1].clone())
        self.register_buffer("score_step", scores[:, 1:] - scores[:, :-1])
        self.code = nn.Parameter(torch.randn(d, n_edges - 1, D_CODE) / math.sqrt(n_edges))
        self.score_code = nn.Parameter(torch.randn(d, D_CODE) / math.sqrt(n_edges))
        self.shift = nn.Parameter(torch.zeros(d, D_CODE))
        self.hole = nn.Parameter(0.1 * torch.randn(d, D_CODE))
        self.layers = nn.Sequential()
        d_in = d * D_CODE + d
        for _ in range(depth):
            self.layers.append(nn.Linear(d_in, width))
            self.layers.append(nn.SiLU())
            d_in = width
        self.predict = nn.Linear(d_in, d_output)
        self.fill = nn.Linear(d_in, d)
        with torch.no_grad():
            self.predict.weight.mul_(0.1)
            self.predict.bias.zero_()

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return self.predict(self._hidden(*self._place(values), mask))

    def all(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs (n, d_output), a guess at the score of every cell (n, d), and the scores themselves (n, d).

        Neither outputs nor guesses depend on the values of hidden cells.
        """
        piece, share = self._place(values)
        hidden = self._hidden(piece, share, mask)
        return self.predict(hidden), self.fill(hidden), self._scores(piece, share)

    def _hidden(self, piece: Tensor, share: Tensor, mask: Tensor) -> Tensor:
        """What both heads read, (n, width)."""
        # A cell's code is a line along its piece, from the sum of those behind it: one look-up instead of a
        # product with all pieces. The score is a line along the piece as well, so its code joins the table.
        own = self.code * (self.per_length > 0)[:, :, None]
        begin = own.cumsum(dim=1) - own + self.first_score[:, :, None] * self.score_code[:, None]
        along = own + self.score_step[:, :, None] * self.score_code[:, None]
        table = torch.cat([begin + self.shift[:, None], along], dim=2).flatten(0, 1)
        found = nn.functional.embedding(piece, table)
        codes = torch.addcmul(found[..., :D_CODE], share[..., None], found[..., D_CODE:])
        codes = torch.where(mask[:, :, None] > 0, codes.relu(), self.hole)
        return self.layers(torch.cat([codes.flatten(1), mask], dim=1))

    def _place(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The piece in which each cell lies, numbered through all columns, and how far through it, 0 to 1."""
        d, n_pieces = self.start.shape
        piece = torch.searchsorted(self.cuts, values.T.contiguous(), right=True).T
        piece = piece + n_pieces * torch.arange(d, device=values.device)
        share = (values - self.start.flatten()[piece]) * self.per_length.flatten()[piece]
        return piece, share.clamp(0.0, 1.0)

    def _scores(self, piece: Tensor, share: Tensor) -> Tensor:
        return self.first_score.flatten()[piece] + share * self.score_step.flatten()[piece]
