"""Partial VAE: a variational autoencoder whose encoder takes any set of observed cells, the label among them.

Ma, Tschiatschek, Palla, Hernández-Lobato, Nowozin and Zhang, *EDDI: Efficient dynamic discovery of high-value
information with partial VAE*, 2019; the "PNP" encoder.

    code = Σ_d m_d · relu(A (x_d, x_d F_d, b_d) + a),   q(z | x_o) = N(μ(code), σ²(code)),   x̂ = decoder(z)

    loss = KL(q ‖ N(0, I)) + Σ_d m_d (x_d − x̂_d)² / (2 noise)   over columns and label

Prediction: encode the observed cells without the label, average the decoded label over draws of z.

Deviations: d_latent 40 and d_code 100; label_noise a tenth of noise; drop 0; draws common to all rows;
half of the labels hidden; no sigmoid; hidden labels count; cross-entropy of classes; stopped by validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from stablemiss.base.method import Method, Predictor, check_at_least, check_widths
from stablemiss.base.network import NetworkPredictor, judged, train_network
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.data import MaskedData
from stablemiss.networks import PartialVAENet, gaussian_divergence, label_columns, show_half
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import Rows, Step, adamw, to_device

# A variance below this is none: in single precision the divergence is lost beside the misfit.
LEAST_NOISE = 1e-12


class PartialVAEPredictor(NetworkPredictor):
    """A trained `PartialVAENet`."""

    kind = PartialVAENet


class PartialVAE(Method):
    """A variational autoencoder over any set of observed cells, the label being one more column.

    Parameters
    ----------
    d_latent : int
        Hidden numbers that explain a row. As many as the columns have directions of their own; more cost
        little, since those that explain nothing are left at their prior.
    d_code, d_column : int
        Length of the code of the observed set, and of the description of each column in it. All that is
        known about a row passes through the code; cost grows with columns × d_code.
    encoder, decoder : sequence of int
        Hidden layers. More fit more and overfit sooner.
    noise, label_noise : float
        Variance of columns and label around what is decoded, in units of theirs. Less makes z keep more of
        them; a small label_noise makes the label count more beside the columns. A class counts as if it had
        been seen 1 / (2 label_noise) times.
    drop : float
        Largest chance with which each observed cell is hidden in training besides: it is drawn between 0
        and 1 for each cell and cut here. More prepares for heavier missingness, and costs accuracy under
        the masks of training.
    n_draws : int
        Draws of z over which a prediction is averaged. More is steadier and slower.
    learning_rate, weight_decay, batch_size, max_epochs, patience, device
        As in `NeuMiss`.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0].copy()
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=PartialVAE(max_epochs=50), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.0, 0.0], [None, 0.0]]) - [1.0, 0.0]).max() < 0.5)
    True
    """

    name: ClassVar[str] = "partial_vae"
    predictor: ClassVar[type[Predictor]] = PartialVAEPredictor
    space: ClassVar[Space] = {
        "d_latent": Choice(5, 10, 20, 40),
        "d_code": Choice(20, 50, 100, 200),
        "noise": Range(1e-3, 0.5, log=True),
        "label_noise": Range(1e-3, 0.5, log=True),
        "drop": Choice(0.0, 0.3, 0.7),
        "learning_rate": Range(3e-4, 3e-3, log=True),
    }

    # DEVIATION: d_latent=40 and d_code=100, published 10 and 20, because twenty numbers cannot hold fifty
    # columns, and directions of z that explain nothing cost little.
    # DEVIATION: label_noise=0.002, a tenth of noise, where one variance of 0.02 is published for all columns,
    # because the label as one column of many would hardly count.
    # DEVIATION: drop=0, published 0.7, because it costs accuracy under the masks of training.
    brief: ClassVar[Mapping[str, Any]] = {
        "d_latent": 4,
        "d_code": 20,
        "encoder": (32,),
        "decoder": (32,),
        "learning_rate": 1e-2,
        "max_epochs": 8,
    }

    def __init__(
        self,
        d_latent: int = 40,
        d_code: int = 100,
        d_column: int = 10,
        encoder: Sequence[int] = (500, 200),
        decoder: Sequence[int] = (50, 100),
        noise: float = 0.02,
        label_noise: float = 0.002,
        drop: float = 0.0,
        n_draws: int = 50,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-3,
        batch_size: int = 128,
        max_epochs: int = 200,
        patience: int = 6,
        device: str = "auto",
    ):
        self.d_latent = d_latent
        self.d_code = d_code
        self.d_column = d_column
        self.encoder = encoder
        self.decoder = decoder
        self.noise = noise
        self.label_noise = label_noise
        self.drop = drop
        self.n_draws = n_draws
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.device = device

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> PartialVAEPredictor:
        self._check()
        device = to_device(self.device)
        with torch_randomness(rng):
            network = PartialVAENet(
                d=train.n_columns,
                d_output=task.d_output,
                is_classes=isinstance(task, Classification),
                d_column=self.d_column,
                d_code=self.d_code,
                d_latent=self.d_latent,
                encoder=tuple(self.encoder),
                decoder=tuple(self.decoder),
                # DEVIATION: the same draws of z for every row and call, because predictions should repeat.
                n_draws=self.n_draws,
            ).to(device)

        def loss(batch: Rows) -> Tensor:
            keep = self._keep(batch.mask)
            mask = batch.mask * keep
            labels = label_columns(batch.target, task.d_output)
            # DEVIATION: half of the rows hide their label from the encoder, because at the test all do.
            seen = show_half(labels).expand_as(labels)
            mean, log_variance = network.encode(
                torch.cat([batch.values * mask, labels * seen], dim=1), torch.cat([mask, seen], dim=1)
            )
            z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
            # DEVIATION: decoded without a sigmoid, because columns are standardised, not scaled to 0 … 1.
            columns, label = network.decode(z)
            # PAPER: −log N(x; x̂, noise) of what the encoder saw.
            missed = (mask * (batch.values - columns).square()).sum(dim=1) / (2 * self.noise)
            # DEVIATION: the label counts also where it was hidden, because that is what is to be learnt.
            # DEVIATION: for classes −log p(label | z) takes the place of the squared error, because they have
            # no variance. Divided by 2 label_noise, each label counts as if it had been seen 250 times.
            wrong = task.row_loss(label, batch.target) / (2 * self.label_noise)
            return (batch.weight * (gaussian_divergence(mean, log_variance) + missed + wrong)).mean()

        rows, judges = judged(train, valid, device)
        # DEVIATION: stopped by the validation rows' predictions, because the bound goes on rising long after.
        step = Step(loss, list(network.parameters()), adamw(self.learning_rate, self.weight_decay))
        history = train_network(self, network, [step], rows, judges, task, rng, progress)
        return PartialVAEPredictor(network, history)

    def _keep(self, mask: Tensor) -> Tensor:
        """1 where a cell is not dropped besides, of the shape of `mask`."""
        chance = torch.rand_like(mask).clamp_max(self.drop)
        return (torch.rand_like(mask) >= chance).to(mask)

    def _check(self) -> None:
        check_at_least(self, d_latent=1, d_code=1, d_column=1, n_draws=1)
        check_at_least(self, batch_size=1, max_epochs=1, patience=1)
        check_at_least(self, noise=LEAST_NOISE, label_noise=LEAST_NOISE)
        check_widths(self, "encoder", "decoder")
        if not 0 <= self.drop <= 1:
            raise ValueError(f"drop={self.drop!r} is a chance; give a number from 0 to 1.")
