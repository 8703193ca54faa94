"""Random Fourier features: random cosines of each column. Dependent columns have correlated cosines."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from stablemiss.checks import check_integer
from stablemiss.seeding import Rng, check_rng


@dataclass(frozen=True, eq=False)
class RandomFeatures:
    """Random cosines u(z) = √2 cos(ω z + β), q for each column and q for each mask indicator.

    They are drawn once and kept, so that losses under different weights can be compared.

    Attributes
    ----------
    frequency, phase : (d, q)
        ω ~ N(0, 1) and β ~ U[0, 2π) for the values of each column.
    mask_frequency, mask_phase : (d, q)
        The same for the mask indicator of each column.

    See Also
    --------
    dependence : Measures dependence by such features.

    Examples
    --------
    >>> import numpy as np
    >>> features = RandomFeatures.draw(3, q=5, rng=np.random.default_rng(0))
    >>> features.of_values(torch.zeros(7, 3)).shape
    torch.Size([7, 3, 5])
    """

    frequency: torch.Tensor
    phase: torch.Tensor
    mask_frequency: torch.Tensor
    mask_phase: torch.Tensor

    @classmethod
    def draw(cls, d: int, q: int, rng: Rng) -> RandomFeatures:
        """Draw q features for each of d columns and for each of their mask indicators.

        Parameters
        ----------
        d : int
            Number of columns.
        q : int
            A larger value detects more kinds of dependence; the cost grows with the square of q.
        rng : numpy Generator
        """
        check_integer({"d": d, "q": q}, d=1, q=(1, 1000))
        check_rng(rng)
        # PAPER: appendix "Random Fourier Feature": ω ~ N(0, 1), β ~ U[0, 2π); q = 5.
        frequency, mask_frequency = rng.normal(size=(2, d, q))
        phase, mask_phase = rng.uniform(0.0, 2 * math.pi, size=(2, d, q))
        return cls(*map(torch.from_numpy, (frequency, phase, mask_frequency, mask_phase)))

    def of_values(self, values: torch.Tensor, columns: slice = slice(None)) -> torch.Tensor:
        """Features (n, d, q) of `values`, in the precision of `values`.

        Parameters
        ----------
        values : (n, d) tensor
        columns : slice, default=slice(None)
            Which of the d columns `values` holds; all by default.
        """
        frequency, phase = self.frequency[columns].to(values), self.phase[columns].to(values)
        return math.sqrt(2) * torch.cos(values[:, :, None] * frequency + phase)

    def of_mask(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Features of mask indicators: u(0) of a missing value, and u(1) − u(0); each (d, q).

        Any function of an indicator is affine in the indicator, so these two determine all of its features.
        """
        missing = math.sqrt(2) * torch.cos(self.mask_phase)
        return missing, math.sqrt(2) * torch.cos(self.mask_frequency + self.mask_phase) - missing
