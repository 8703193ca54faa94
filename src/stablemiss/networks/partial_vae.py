"""The network of the partial VAE: a set encoder, a few hidden numbers, a decoder of all columns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from stablemiss.networks.latent import PointNet, averaged, in_parts, start_at_mean
from stablemiss.networks.mlp import MLP


class PartialVAENet(nn.Module):
    """q(z | observed cells) from a sum over them, and a decoder z → every column and the label.

    Parameters
    ----------
    d, d_output : int
        Columns of features and of labels.
    is_classes : bool
        Labels are log-odds of classes.
    d_column, d_code, d_latent : int
        Lengths of a column's description, of the set's code and of z.
    encoder, decoder : sequence of int
        Hidden layers between code and z, and between z and columns.
    n_draws : int
        Draws of z over which a prediction is averaged, the same for all rows.

    Shape
    -----
    values (n, d), mask (n, d) → outputs (n, d_output)
    """

    draws: Tensor

    def __init__(
        self,
        d: int,
        d_output: int,
        is_classes: bool,
        d_column: int,
        d_code: int,
        d_latent: int,
        encoder: Sequence[int],
        decoder: Sequence[int],
        n_draws: int,
    ):
        super().__init__()
        self.config = {
            "d": d,
            "d_output": d_output,
            "is_classes": is_classes,
            "d_column": d_column,
            "d_code": d_code,
            "d_latent": d_latent,
            "encoder": tuple(encoder),
            "decoder": tuple(decoder),
            "n_draws": n_draws,
        }
        self.d, self.d_output, self.is_classes, self.d_code = d, d_output, is_classes, d_code
        self.widest = max(d + d_output, *decoder, d_latent)
        self.cells = PointNet(d + d_output, d_column, d_code)
        self.to_latent = MLP([d_code, *encoder, 2 * d_latent])
        self.decoder = MLP([d_latent, *decoder, d + d_output])
        start_at_mean(self.decoder, slice(d, None))
        self.register_buffer("draws", torch.randn(n_draws, d_latent))

    def encode(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of z, each (n, d_latent), from columns and labels (n, d + d_output)."""
        # PAPER: the sum over the set passes through g = relu before the layers. That leaves it as it is,
        # since none of its terms is negative.
        mean, log_variance = self.to_latent(self.cells(values, mask)).chunk(2, dim=1)
        return mean, log_variance.clamp(-12, 6)

    def decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Columns (…, d) and labels (…, d_output) for z (…, d_latent)."""
        columns = self.decoder(z)
        return columns[..., : self.d], columns[..., self.d :]

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        # A row's cells in the encoder, and its draws in the decoder.
        of_row = max((self.d + self.d_output) * self.d_code, len(self.draws) * self.widest)
        return in_parts(self._predict, values, mask, of_row)

    def _predict(self, values: Tensor, mask: Tensor) -> Tensor:
        no_label = values.new_zeros(len(values), self.d_output)
        mean, log_variance = self.encode(*(torch.cat([part, no_label], dim=1) for part in (values, mask)))
        z = mean[:, None] + (0.5 * log_variance).exp()[:, None] * self.draws
        weight = values.new_full((len(values), len(self.draws)), 1 / len(self.draws))
        return averaged(self.decode(z)[1], weight, self.is_classes)
