"""The networks of P-BiGAN: an encoder, a decoder, and a critic of pairs (what is observed, its code)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from stablemiss.networks.latent import averaged, start_at_mean
from stablemiss.networks.mlp import MLP

D_EMBEDDING = 64


class PairCritic(nn.Module):
    """A number for each pair of a row with holes and a code; both are embedded, then judged together.

    Parameters
    ----------
    d, d_latent : int
        Columns of the row (with its mask) and of the code.
    hidden : int
        Units of the layer that sees both.

    Shape
    -----
    row (n, d), z (n, d_latent) → (n,)
    """

    def __init__(self, d: int, d_latent: int, hidden: int):
        super().__init__()
        self.row, self.code = (
            nn.Sequential(nn.Linear(width, D_EMBEDDING), nn.LayerNorm(D_EMBEDDING), nn.LeakyReLU(0.2))
            for width in (d, d_latent)
        )
        self.both = nn.Sequential(nn.Linear(2 * D_EMBEDDING, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, 1))

    def forward(self, row: Tensor, z: Tensor) -> Tensor:
        return self.both(torch.cat([self.row(row), self.code(z)], dim=1))[:, 0]


class PBiGANNet(nn.Module):
    """Encoder, decoder and critic; predictions need the first two.

    Parameters
    ----------
    d, d_output : int
        Columns of features and of labels.
    is_classes : bool
        Labels are classes, decoded to log-odds.
    d_latent : int
        Length of the code.
    hidden : sequence of int
        Hidden layers of encoder and, in reverse, decoder.
    d_critic : int
        Units of the critic.
    use_mask : bool
        Encoder and critic read the mask beside the zero-filled cells.
    n_draws : int
        Draws of the code behind a prediction, the same for all rows.

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
        d_latent: int,
        hidden: Sequence[int],
        d_critic: int,
        use_mask: bool,
        n_draws: int,
    ):
        super().__init__()
        self.config = {
            "d": d,
            "d_output": d_output,
            "is_classes": is_classes,
            "d_latent": d_latent,
            "hidden": tuple(hidden),
            "d_critic": d_critic,
            "use_mask": use_mask,
            "n_draws": n_draws,
        }
        self.d, self.d_output, self.is_classes, self.use_mask = d, d_output, is_classes, use_mask
        width = d + d_output
        d_row = width * (1 + use_mask)
        self.encoder = MLP([d_row, *hidden, 2 * d_latent])
        self.decoder = MLP([d_latent, *reversed(hidden), width])
        self.critic = PairCritic(d_row, d_latent, d_critic)
        start_at_mean(self.decoder, slice(d, width))
        self.register_buffer("draws", torch.randn(n_draws, d_latent))

    def row(self, columns: Tensor, mask: Tensor) -> Tensor:
        """What encoder and critic see of columns and labels (n, d + d_output): nothing of hidden cells."""
        return torch.cat([columns * mask, mask], dim=1) if self.use_mask else columns * mask

    def encode(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale of the code, each (n, d_latent)."""
        mean, scale = self.encoder(row).chunk(2, dim=1)
        return mean, nn.functional.softplus(scale)

    def columns(self, z: Tensor) -> Tensor:
        """Columns and labels as the critic sees them, (n, d + d_output): classes as their probabilities."""
        decoded = self.decoder(z)
        if not self.is_classes:
            return decoded
        return torch.cat([decoded[:, : self.d], decoded[:, self.d :].softmax(dim=1)], dim=1)

    def generators(self) -> list[nn.Parameter]:
        """What the critic's steps do not move."""
        return [*self.encoder.parameters(), *self.decoder.parameters()]

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        no_label = values.new_zeros(len(values), self.d_output)
        mean, scale = self.encode(
            self.row(torch.cat([values, no_label], dim=1), torch.cat([mask, no_label], dim=1))
        )
        labels = self.decoder(mean[:, None] + scale[:, None] * self.draws)[..., self.d :]
        weight = values.new_full((len(values), len(self.draws)), 1 / len(self.draws))
        return averaged(labels, weight, self.is_classes)
