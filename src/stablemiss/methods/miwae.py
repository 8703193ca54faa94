"""MIWAE: a deep latent-variable model fitted to observed cells by the importance-weighted bound.

Mattei and Frellsen, *MIWAE: Deep generative modelling and imputation of incomplete data sets*, 2019.

    L_K = E log (1/K) Σ_k p(x_o | z_k) p(z_k) / q(z_k | x_o),   z_k ~ q(z | x_o)

with a Student-t decoder. The target is a further column y, hidden at the test. Training maximises

    log p(x_o) + λ log p(y | x_o),   both from the same draws

of which λ = 1 is the publication's bound of columns and label together; the prediction is

    ŷ = Σ_l w_l E[y | z_l],   w_l ∝ p(x_o | z_l) p(z_l) / q(z_l | x_o),   z_l ~ q(z | x_o)

Deviations: the encoder reads the mask; 200 draws in prediction; half of the labels hidden; the label's
weight; stopped by validation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from stablemiss.base.method import Method, Predictor, check_at_least
from stablemiss.base.network import NetworkPredictor, judged, train_network
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.data import MaskedData
from stablemiss.networks import MIWAENet, label_columns, show_half
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import Rows, Step, adamw, to_device

# Validation rows by which training is stopped: each prediction costs hundreds of draws.
MOST_JUDGED = 1000


class MIWAEPredictor(NetworkPredictor):
    """A trained `MIWAENet`."""

    kind = MIWAENet


class MIWAE(Method):
    """A deep latent-variable model of columns and label together, asked by importance sampling.

    Parameters
    ----------
    d_latent : int
        Hidden numbers that explain a row. Too few cannot; too many make importance weights uneven.
    hidden : int
        Units of the two hidden layers of encoder and decoder.
    k : int
        Draws behind the bound in training. More make it tighter, cost in proportion, and teach the encoder
        less: the noise of its gradient grows beside the gradient.
    n_draws : int
        Draws behind a prediction. More are steadier and cost in proportion.
    label_weight : float
        How often log p(label | columns) counts beside log p(columns). More learns to predict, less to
        describe.
    use_mask : bool
        Whether the encoder reads the mask too, so that it can tell a hidden cell from an average one.
    learning_rate, weight_decay, batch_size, max_epochs, patience, device
        As in `NeuMiss`.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0].copy()
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=MIWAE(max_epochs=50), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.0, 0.0], [None, 0.0]]) - [1.0, 0.0]).max() < 0.5)
    True
    """

    name: ClassVar[str] = "miwae"
    predictor: ClassVar[type[Predictor]] = MIWAEPredictor
    space: ClassVar[Space] = {
        "d_latent": Choice(5, 10, 20, 40),
        "hidden": Choice(64, 128, 256),
        "k": Choice(5, 20, 50),
        "label_weight": Choice(1.0, 5.0, 20.0, 50.0),
        "learning_rate": Range(3e-4, 3e-3, log=True),
    }
    brief: ClassVar[Mapping[str, Any]] = {
        "d_latent": 2,
        "hidden": 32,
        "n_draws": 50,
        "learning_rate": 1e-2,
        "max_epochs": 8,
    }

    def __init__(
        self,
        d_latent: int = 20,
        hidden: int = 128,
        k: int = 5,
        n_draws: int = 200,
        label_weight: float = 20.0,
        use_mask: bool = True,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-3,
        batch_size: int = 128,
        max_epochs: int = 200,
        patience: int = 6,
        device: str = "auto",
    ):
        self.d_latent = d_latent
        self.hidden = hidden
        self.k = k
        self.n_draws = n_draws
        self.label_weight = label_weight
        self.use_mask = use_mask
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.device = device

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> MIWAEPredictor:
        self._check()
        device = to_device(self.device)
        with torch_randomness(rng):
            network = MIWAENet(
                d=train.n_columns,
                d_output=task.d_output,
                is_classes=isinstance(task, Classification),
                d_latent=self.d_latent,
                hidden=self.hidden,
                # DEVIATION: the encoder reads the mask too, because a hidden cell is not an average one.
                use_mask=self.use_mask,
                # DEVIATION: a fifth of the published draws, because more changed nothing.
                n_draws=self.n_draws,
            ).to(device)

        def loss(batch: Rows) -> Tensor:
            labels = label_columns(batch.target, task.d_output)
            # DEVIATION: half of the rows hide their label from the encoder, because at the test all do. The
            # bound holds for any q, so the label counts in it all the same.
            seen = show_half(labels).expand_as(labels)
            mean, scale = network.encode(
                torch.cat([batch.values, labels * seen], dim=1), torch.cat([batch.mask, seen], dim=1)
            )
            noise = torch.randn(len(mean), self.k, mean.shape[1], device=mean.device)
            z = mean[:, None] + scale[:, None] * noise
            columns, label = network.decode(z)
            ratio = network.log_ratio(batch.values, batch.mask, mean, scale, z, columns)
            # DEVIATION: the label counts more than once, because one column among many is hardly learnt.
            bound = label_bound(ratio, network.log_label(label, batch.target), self.label_weight)
            return -(batch.weight * bound).mean()

        rows, valid_rows = judged(train, valid, device)
        few = torch.as_tensor(rng.permutation(len(valid_rows))[:MOST_JUDGED], device=device)
        judges = valid_rows.take(few)
        step = Step(loss, list(network.parameters()), adamw(self.learning_rate, self.weight_decay))
        # DEVIATION: stopped by the validation rows' predictions, because the bound goes on rising long after.
        history = train_network(self, network, [step], rows, judges, task, rng, progress)
        return MIWAEPredictor(network, history)

    def _check(self) -> None:
        check_at_least(self, d_latent=1, hidden=1, k=1, n_draws=1, batch_size=1, max_epochs=1, patience=1)
        if not 0 < self.label_weight < math.inf:
            raise ValueError(f"label_weight={self.label_weight!r} must be above 0.")


def importance_bound(log_ratio: Tensor) -> Tensor:
    """log (1/K) Σ_k exp(log_ratio), (n,), of (n, K): a lower bound of log p on average, tighter for larger K.

    Examples
    --------
    >>> importance_bound(torch.tensor([[-2.0, -2.0]]))
    tensor([-2.])
    """
    return log_ratio.logsumexp(dim=1) - math.log(log_ratio.shape[1])


def label_bound(log_ratio: Tensor, log_label: Tensor, label_weight: float) -> Tensor:
    """log p(x_o) + label_weight · log p(y | x_o), (n,), by importance sampling from the same draws.

    The weight stands outside the sum over draws. Inside, p(y | z) to that power is no density: the model
    would be paid for draws that copy the label's noise, and for a scale of the label that goes to zero.

    Parameters
    ----------
    log_ratio : (n, K)
        log p(x_o | z) p(z) / q(z).
    log_label : (n, K)
        log p(y | z).
    label_weight : float
        1 gives the bound of log p(x_o, y).

    Examples
    --------
    >>> ratio, label = torch.zeros(1, 2), torch.full((1, 2), -3.0)
    >>> label_bound(ratio, label, 1.0), label_bound(ratio, label, 2.0)
    (tensor([-3.]), tensor([-6.]))
    """
    cells = importance_bound(log_ratio)
    return cells + label_weight * (importance_bound(log_ratio + log_label) - cells)
