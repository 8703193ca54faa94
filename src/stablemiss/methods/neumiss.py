"""NeuMiss: the best linear prediction for every mask, by a Neumann series with learnt weights.

Le Morvan, Josse, Moreau, Scornet and Varoquaux, *NeuMiss networks: differentiable programming for supervised
learning with missing values*, 2020; shared weights and a deep head as in Le Morvan, Josse, Scornet and
Varoquaux, *What's a good imputation to predict with missing values?*, 2021.

    h₀ = m ⊙ (x − μ),   h_{t+1} = m ⊙ (W h_t) + h₀   for t = 0 … depth − 1,   output = head(h_depth)

For Gaussian columns and a linear target, W = I − ηΣ makes this tend to the Bayes predictor of every mask.

Deviations: Σ divided by its norm at the start; clipped gradients; stopped by validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from stablemiss.base.method import Method, Predictor, check_at_least, check_widths
from stablemiss.base.network import NetworkPredictor, judged, train_network
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.data import Floats, MaskedData
from stablemiss.networks import NeuMissNet
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import Rows, Step, adamw, to_device


class NeuMissPredictor(NetworkPredictor):
    """A trained `NeuMissNet`."""

    kind = NeuMissNet


class NeuMiss(Method):
    """A series of masked linear maps that unrolls each mask's best linear prediction.

    Parameters
    ----------
    depth : int
        Terms of the series. More can follow stronger correlations, train less easily and cost in proportion.
    hidden : sequence of int
        Hidden layers of the head. None predicts linearly; one or two let it bend, and overfit sooner.
    start : "data" or "random"
        "data" begins with the series of the observed cells' covariance, "random" with small weights.
    learning_rate : float
        Larger learns faster and less surely.
    weight_decay : float
        Pull of W and of the head's matrices towards zero. More is smoother.
    batch_size : int
        More rows in a step: quicker epochs of fewer, steadier steps.
    max_epochs, patience : int
        Most passes over the rows, and passes without a better validation loss before the learning rate is
        lowered and, the fourth time, training ends.
    device : str
        "cpu", "cuda" or "auto", for training.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0].copy()
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=NeuMiss(depth=3), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.0, 0.0], [None, 0.0]]) - [1.0, 0.0]).max() < 0.3)
    True
    """

    name: ClassVar[str] = "neumiss"
    predictor: ClassVar[type[Predictor]] = NeuMissPredictor
    space: ClassVar[Space] = {
        "depth": Choice(3, 5, 10, 20),
        "hidden": Choice((), (128,), (256,), (128, 128)),
        "learning_rate": Range(3e-4, 1e-2, log=True),
        "weight_decay": Range(1e-6, 1.0, log=True),
    }
    brief: ClassVar[Mapping[str, Any]] = {"depth": 4, "learning_rate": 1e-2, "max_epochs": 8}

    def __init__(
        self,
        depth: int = 10,
        hidden: Sequence[int] = (),
        start: Literal["data", "random"] = "data",
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-3,
        batch_size: int = 128,
        max_epochs: int = 200,
        patience: int = 6,
        device: str = "auto",
    ):
        self.depth = depth
        self.hidden = hidden
        self.start = start
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.device = device

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> NeuMissPredictor:
        if self.start not in ("data", "random"):
            raise ValueError(f'start={self.start!r} is unknown; choose "data" or "random".')
        check_at_least(self, depth=0, batch_size=1, max_epochs=1, patience=1)
        check_widths(self, "hidden")
        device = to_device(self.device)
        with torch_randomness(rng):
            network = NeuMissNet(train.n_columns, task.d_output, self.depth, tuple(self.hidden))
        if self.start == "data":
            # DEVIATION: divided by ‖Σ‖, not by half of it as in the 2021 code, because that series swings for
            # ever along the largest direction.
            network.start_from(torch.from_numpy(pairwise_covariance(train)).float())
        network.to(device)

        def loss(batch: Rows) -> Tensor:
            return (batch.weight * task.row_loss(network(batch.values, batch.mask), batch.target)).mean()

        rows, judges = judged(train, valid, device)
        step = Step(
            loss,
            list(network.parameters()),
            adamw(self.learning_rate, self.weight_decay),
            # DEVIATION: clipped, because a W of large norm grows with every term of the series, and so does
            # its gradient.
            clip=1.0,
        )
        # DEVIATION: stopped on validation rows, with three cuts of the learning rate, because it overfits.
        history = train_network(self, network, [step], rows, judges, task, rng, progress)
        return NeuMissPredictor(network, history)


def pairwise_covariance(data: MaskedData) -> Floats:
    """Covariances (d, d), each over the rows that have both columns; zero where none has."""
    centred = np.where(data.mask, data.values - data.column_means(), 0.0)
    weight = data.weight[:, None]
    both = data.mask.T.astype(np.float64) @ (weight * data.mask)
    return (centred.T @ (weight * centred)) / np.maximum(both, 1e-12)
