"""The network of MIWAE: a Gaussian encoder, a Student-t decoder, and predictions by importance weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from stablemiss.networks.latent import averaged, in_parts, start_at_mean
from stablemiss.networks.mlp import MLP

# Least scale and least degrees of freedom of a decoded column: below, densities of single cells explode.
LEAST_SCALE, LEAST_DEGREES = 1e-3, 3.0


@dataclass(frozen=True)
class Student:
    """Student's t, one for each number: three tensors of one shape.

    Examples
    --------
    >>> from scipy.stats import t
    >>> mechanism = Student(*torch.tensor([0.0, 2.0, 4.0], dtype=torch.float64))
    >>> bool(abs(mechanism.log_density(torch.tensor(0.5)) - t.logpdf(0.5, 4, 0, 2)) < 1e-12)
    True
    """

    location: Tensor
    scale: Tensor
    degrees: Tensor

    def log_density(self, x: Tensor) -> Tensor:
        half = (self.degrees + 1) / 2
        return (
            torch.lgamma(half)
            - torch.lgamma(self.degrees / 2)
            - 0.5 * (math.log(math.pi) + self.degrees.log())
            - self.scale.log()
            - half * torch.log1p(((x - self.location) / self.scale).square() / self.degrees)
        )


class MIWAENet(nn.Module):
    """q(z | observed cells) Gaussian, p(x | z) Student's t for each column; the label is one more column.

    Parameters
    ----------
    d, d_output : int
        Columns of features and of labels.
    is_classes : bool
        Labels are classes, decoded to log-odds.
    d_latent, hidden : int
        Length of z, and units of the two hidden layers of encoder and decoder.
    use_mask : bool
        The encoder reads the mask beside the zero-filled cells.
    n_draws : int
        Draws of z behind a prediction.

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
        hidden: int,
        use_mask: bool,
        n_draws: int,
    ):
        super().__init__()
        self.config = {
            "d": d,
            "d_output": d_output,
            "is_classes": is_classes,
            "d_latent": d_latent,
            "hidden": hidden,
            "use_mask": use_mask,
            "n_draws": n_draws,
        }
        self.d, self.d_output, self.is_classes, self.use_mask = d, d_output, is_classes, use_mask
        width = d + d_output
        self.encoder = MLP([width * (1 + use_mask), hidden, hidden, 2 * d_latent])
        self.decoder = MLP([d_latent, hidden, hidden, 3 * width])
        start_at_mean(self.decoder, slice(d, width))
        self.register_buffer("draws", torch.randn(n_draws, d_latent))

    def encode(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale of q(z | …), each (n, d_latent), from columns and labels (n, d + d_output)."""
        seen = torch.cat([values * mask, mask], dim=1) if self.use_mask else values * mask
        mean, scale = self.encoder(seen).chunk(2, dim=1)
        return mean, nn.functional.softplus(scale) + LEAST_SCALE

    def decode(self, z: Tensor) -> tuple[Student, Student]:
        """The mechanisms of all columns (…, d) and labels (…, d_output); classes have log-odds for locations."""
        location, scale, degrees = self.decoder(z).chunk(3, dim=-1)
        scale = nn.functional.softplus(scale) + LEAST_SCALE
        degrees = nn.functional.softplus(degrees) + LEAST_DEGREES
        both = zip(
            *(part.split([self.d, self.d_output], -1) for part in (location, scale, degrees)), strict=True
        )
        columns, labels = (Student(*parts) for parts in both)
        return columns, labels

    def log_ratio(
        self, values: Tensor, mask: Tensor, mean: Tensor, scale: Tensor, z: Tensor, columns: Student
    ) -> Tensor:
        """log p(x_o | z) p(z) / q(z | x_o) over the columns, without the label, (n, K).

        Parameters
        ----------
        values, mask : (n, d)
        mean, scale : (n, d_latent)
            Of q.
        z : (n, K, d_latent)
        columns : Student
            Decoded from z.
        """
        inside = (mask[:, None] * columns.log_density(values[:, None])).sum(dim=2)
        standard = (z - mean[:, None]) / scale[:, None]
        # log p(z) − log q(z): the constants of both Gaussians cancel.
        prior = (0.5 * (standard.square() - z.square())).sum(dim=2) + scale.log().sum(dim=1)[:, None]
        return inside + prior

    def log_label(self, labels: Student, target: Tensor) -> Tensor:
        """log p(label | z), (n, K), of numbers (n, d_output) or class codes (n,)."""
        if self.is_classes:
            chosen = target[:, None, None].expand(-1, labels.location.shape[1], 1)
            return labels.location.log_softmax(dim=2).gather(2, chosen)[..., 0]
        return labels.log_density(target[:, None]).sum(dim=2)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return in_parts(self._predict, values, mask, len(self.draws) * 3 * (self.d + self.d_output))

    def _predict(self, values: Tensor, mask: Tensor) -> Tensor:
        no_label = values.new_zeros(len(values), self.d_output)
        mean, scale = self.encode(*(torch.cat([part, no_label], dim=1) for part in (values, mask)))
        z = mean[:, None] + scale[:, None] * self.draws
        columns, labels = self.decode(z)
        ratio = self.log_ratio(values, mask, mean, scale, z, columns)
        return averaged(labels.location, ratio.softmax(dim=1), self.is_classes)
