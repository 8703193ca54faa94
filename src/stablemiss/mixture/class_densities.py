"""Densities of incomplete rows under the mixtures of several classes."""

from __future__ import annotations

import numpy as np
import torch

from stablemiss.data import Bools, Floats
from stablemiss.mixture.conditional import GaussianMixture, Posterior


class ClassDensities:
    """Densities of the values under the tied and the separate mixtures of the classes.

    All components are evaluated in one pass, because a pass over a single row costs far more than a
    component.

    Parameters
    ----------
    mixtures : list of GaussianMixture
        The tied mixture with one component per class, then the separate mixture of each class.
    """

    def __init__(self, mixtures: list[GaussianMixture]):
        separate = mixtures[1:]
        # The weights of the tied mixture are class frequencies, which do not belong to the densities.
        weights = [np.ones(len(separate)), *(mixture.weights for mixture in separate)]
        self._all = GaussianMixture(
            np.concatenate(weights),
            np.concatenate([mixture.means for mixture in mixtures]),
            np.concatenate([mixture.covariances for mixture in mixtures]),
        )
        self._n_components = [1] * len(separate) + [mixture.n_components for mixture in separate]

    def log_densities(self, values: Floats, mask: Bools) -> Floats:
        """Tied and separate log densities of the rows, (2, n, n_classes)."""

        def of_classes(posterior: Posterior) -> torch.Tensor:
            return torch.stack(
                [part.logsumexp(dim=0) for part in posterior.log_joint.split(self._n_components)], dim=1
            )

        densities = self._all.evaluate(values, mask, len(self._n_components), of_classes)
        return densities.reshape(len(densities), 2, len(self._n_components) // 2).swapaxes(0, 1)
