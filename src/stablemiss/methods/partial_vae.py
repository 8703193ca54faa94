"""Partial VAE: a variational autoencoder whose encoder reads any set of observed values.

Ma, Tschiatschek, Palla, Hernández-Lobato, Nowozin and Zhang, *EDDI: Efficient dynamic discovery of high-value
information with partial VAE*, 2019; the "PNP" encoder.

    c = Σ_d m_d · relu(A (x_d, x_d F_d, b_d) + a),   q(z | x_o) = N(μ(c), σ²(c)),   x̂ = decoder(z)

    loss = KL(q ‖ N(0, I)) + Σ_d m_d (x_d − x̂_d)² / (2 noise)   over columns and target

Here c is the set embedding of the observed values and z the latent vector. The target is one more column.
A prediction encodes the observed values without the target and averages the
decoded target over draws of z.

Deviations: a longer latent vector and set embedding (`d_latent`, `d_code`); `label_noise` is a tenth of
`noise`; no values are dropped by default; predictions use the same draws of z for all rows; the target is
hidden from the encoder in half of the rows, but always part of the loss; no sigmoid after the decoder;
cross-entropy for classes; early stopping on validation rows. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from stablemiss.base.method import Method, Predictor
from stablemiss.base.network import (
    NetworkPredictor,
    cells_per_row,
    train_and_validation_rows,
    train_network,
)
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import MAX_DRAWS, MAX_WIDTH, check_integer, check_number, check_widths
from stablemiss.data import MaskedData
from stablemiss.networks import (
    MLP,
    draw_target_mask,
    fixed_draws,
    init_target_outputs_to_zero,
    mean_over_draws,
    predict_in_chunks,
    target_columns,
)
from stablemiss.networks.latent import mean_target
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import Rows, Step, adamw, to_device

# Minimum of `noise` and `label_noise`. Below it, the KL divergence would be smaller than the rounding error
# of the reconstruction loss.
MIN_NOISE = 1e-12


class PointNet(nn.Module):
    """Set embedding of observed values: a shared map is applied to each value, and the results are summed.

    The value of column d is described by s_d = (x_d, x_d F_d, b_d), where F_d and b_d are trained for each
    column. The set embedding is Σ_d m_d h(s_d) with h(s) = relu(A s + a).

    Parameters
    ----------
    d : int
        Number of columns.
    d_column : int
        Length of F_d. A larger value distinguishes columns better.
    d_code : int
        Length of the set embedding, which carries all information about a row.
    in_chunks : bool, default=False
        Whether rows are embedded a few at a time, so that the d embeddings of each fit into the processor's
        cache. Several times faster for hundreds of columns.

    Shape
    -----
    values (n, d), mask (n, d) → (n, d_code); with fewer columns, the last ones are missing

    Examples
    --------
    >>> PointNet(3, d_column=4, d_code=8)(torch.zeros(5, 3), torch.ones(5, 3)).shape
    torch.Size([5, 8])
    """

    def __init__(self, d: int, d_column: int, d_code: int, in_chunks: bool = False):
        super().__init__()
        self.in_chunks = in_chunks
        self.column = nn.Parameter(torch.randn(d, d_column))
        self.shift = nn.Parameter(torch.randn(d, 1))
        self.map = nn.Linear(d_column + 2, d_code)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        # A s_d + a = x_d (A₀ + A_F F_d) + (A_b b_d + a): two vectors per column, the same for all rows.
        value_weight, column_weight, shift_weight = self.map.weight.split([1, self.column.shape[1], 1], dim=1)
        d = values.shape[1]
        slope = value_weight.T + self.column[:d] @ column_weight.T
        offset = self.shift[:d] @ shift_weight.T + self.map.bias

        def embed(values: Tensor, mask: Tensor) -> Tensor:
            embeddings = torch.addcmul(offset, values[:, :, None], slope).relu()
            return torch.einsum("nd,ndc->nc", mask, embeddings)

        if not self.in_chunks:
            return embed(values, mask)
        return predict_in_chunks(embed, values, mask, elements_per_row=slope.numel())


class PartialVAENet(nn.Module):
    """q(z | observed values) from a `PointNet`, and a decoder from z to all columns and the target.

    Parameters
    ----------
    d, d_output : int
        Number of feature and target columns.
    is_classes : bool
        Whether decoded targets are log-odds of classes.
    d_column, d_code, d_latent : int
        Lengths of the description of a column, of the set embedding, and of the latent vector z.
    encoder, decoder : sequence of int
        Widths of the hidden layers between set embedding and z, and between z and columns.
    n_draws : int
        Number of draws of z over which a prediction is averaged; the same draws for all rows.
    is_array : bool, default=False
        Whether rows are arrays, which have many columns and targets. Predictions are then computed in another
        order, which is much faster for these and differs by rounding.

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
        is_array: bool = False,
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
            "is_array": is_array,
        }
        self.d, self.d_output, self.is_classes, self.d_code = d, d_output, is_classes, d_code
        self.is_array = is_array
        self.max_width = max(d + d_output, *decoder, d_latent)
        self.cells = PointNet(d + d_output, d_column, d_code, in_chunks=is_array)
        self.to_latent = MLP([d_code, *encoder, 2 * d_latent])
        self.decoder = MLP([d_latent, *decoder, d + d_output])
        init_target_outputs_to_zero(self.decoder, slice(d, None))
        self.register_buffer("draws", fixed_draws(n_draws, d_latent))

    def encode(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of z, each (n, d_latent), from columns and targets (n, d + d_output).

        Without targets, (n, d), these are missing.
        """
        # PAPER: the sum over the set passes through g = relu before the layers. It is omitted here, because
        # all terms of the sum are non-negative.
        mean, log_variance = self.to_latent(self.cells(values, mask)).chunk(2, dim=1)
        return mean, log_variance.clamp(-12, 6)

    def decode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Columns (…, d) and targets (…, d_output) for z (…, d_latent)."""
        columns = self.decoder(z)
        return columns[..., : self.d], columns[..., self.d :]

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        # The largest tensors per row: embeddings of the values in the encoder, and hidden units of the draws
        # in the decoder.
        per_row = max((self.d + self.d_output) * self.d_code, len(self.draws) * self.max_width)
        return predict_in_chunks(self._predict, values, mask, per_row)

    def _predict(self, values: Tensor, mask: Tensor) -> Tensor:
        if not self.is_array:
            no_target = values.new_zeros(values.shape[0], self.d_output)
            values, mask = (torch.cat([table, no_target], dim=1) for table in (values, mask))
        mean, log_variance = self.encode(values, mask)
        z = mean[:, None] + (0.5 * log_variance).exp()[:, None] * self.draws
        weight = values.new_full((values.shape[0], len(self.draws)), 1 / len(self.draws))
        if self.is_array:
            hidden = self.decoder.layers(z)
            return mean_target(self.decoder, hidden, weight, slice(self.d, None), self.is_classes)
        return mean_over_draws(self.decode(z)[1], weight, self.is_classes)


class PartialVAEPredictor(NetworkPredictor):
    """A trained `PartialVAENet`."""

    network_class = PartialVAENet


class PartialVAE(Method):
    """A variational autoencoder of any set of observed values, with the target as one more column.

    Parameters
    ----------
    d_latent : int, default=40
        Length of the latent vector z of a row. It should be at least the intrinsic dimension of the columns;
        a larger value costs little, because dimensions that explain nothing stay at their prior.
    d_code : int, default=100
        Length of the set embedding, which carries all information about a row. The cost grows with
        columns × d_code.
    d_column : int, default=10
        Length of the description of each column. A larger value distinguishes columns better.
    encoder : sequence of int, default=(500, 200)
        Widths of the hidden layers between set embedding and z. More layers fit more and overfit sooner.
    decoder : sequence of int, default=(50, 100)
        Widths of the hidden layers between z and columns. More layers fit more and overfit sooner.
    noise : float, default=0.02
        Variance of the columns around their decoded values, in units of their variance. With a smaller value
        z keeps more information about the columns.
    label_noise : float, default=0.002
        The same for the target. A smaller value gives the target more weight relative to the columns. The
        loss of a class is multiplied by 1 / (2 label_noise).
    drop : float, default=0.0
        Mask augmentation in training: each observed value is hidden with a probability drawn between 0 and 1
        and capped at `drop`. A larger value prepares for more missing values and costs accuracy under the
        training masks.
    n_draws : int, default=50
        Number of draws of z over which a prediction is averaged, at most 10,000. A larger value is less noisy
        and slower.
    learning_rate : float, default=1e-3
        A larger value trains faster and less reliably.
    weight_decay : float, default=1e-3
        Weight decay of the matrices. A larger value gives a smoother function.
    batch_size : int, default=128
        Maximum number of rows in a step. A larger value gives faster epochs with fewer, less noisy steps.
    max_epochs : int, default=200
        Maximum number of epochs.
    patience : int or None, default=8
        Epochs without a better validation loss after which the learning rate is lowered, at most three times;
        then training ends. A larger value finds late improvements and takes longer. None turns early stopping
        off: all epochs are run, and the network of the last one is kept.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.

    See Also
    --------
    MIWAE : Importance-weighted bound with a Student-t decoder.
    PBiGAN : Adversarially trained encoder and decoder.
    NeuMiss : A network without latent variables.

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
    predictor_class: ClassVar[type[Predictor]] = PartialVAEPredictor
    reads_arrays: ClassVar[bool] = True
    space: ClassVar[Space] = {
        "d_latent": Choice(5, 10, 20, 40, 60),
        "d_code": Choice(20, 50, 100, 200),
        "noise": Range(1e-3, 0.5, log=True),
        "label_noise": Range(1e-3, 0.5, log=True),
        "drop": Choice(0.0, 0.3, 0.7),
        "learning_rate": Range(3e-4, 3e-3, log=True),
    }

    brief: ClassVar[Mapping[str, Any]] = {
        "d_latent": 4,
        "d_code": 20,
        "encoder": (32,),
        "decoder": (32,),
        "learning_rate": 1e-2,
        "max_epochs": 8,
    }

    # DEVIATION: d_latent=40 and d_code=100, published 10 and 20, because an embedding of length 20 cannot
    # represent fifty columns, and dimensions of z that explain nothing cost little.
    # DEVIATION: label_noise=0.002, a tenth of noise, published 0.02 for all columns, because the target as
    # one column of many would have almost no weight.
    # DEVIATION: drop=0, published 0.7, because dropping values costs accuracy under the training masks.
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
        patience: int | None = 8,
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
                # DEVIATION: the same draws of z for every row and call, because predictions should be
                # reproducible.
                n_draws=self.n_draws,
                is_array=train.row_shape is not None,
            ).to(device)
        rows, validation = train_and_validation_rows(train, valid, device)
        n_cells = cells_per_row(rows, train, task)

        def loss(batch: Rows) -> Tensor:
            keep = self._keep(batch.mask)
            mask = batch.mask * keep
            targets = target_columns(batch.target, task.d_output)
            # DEVIATION: half of the targets are hidden from the encoder, because in prediction all are.
            shown = draw_target_mask(targets, batch.target_mask)
            mean, log_variance = network.encode(
                torch.cat([batch.values * mask, targets * shown], dim=1), torch.cat([mask, shown], dim=1)
            )
            z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
            # DEVIATION: decoded without a sigmoid, because columns are standardised, not scaled to 0 … 1.
            columns, decoded_target = network.decode(z)
            # PAPER: −log N(x; x̂, noise) of the values that the encoder read.
            column_loss = (mask * (batch.values - columns).square()).sum(dim=1) / (2 * self.noise)
            # DEVIATION: the loss includes targets hidden from the encoder, because predicting these is the
            # task.
            # DEVIATION: for classes −log p(target | z) replaces the squared error, because classes have no
            # variance. By default it is multiplied by 1 / (2 label_noise) = 250.
            target_loss = task.row_loss(decoded_target, batch.target, batch.target_mask)
            divergence = gaussian_divergence(mean, log_variance)
            row_loss = divergence + column_loss + target_loss / (2 * self.label_noise)
            return (batch.weight * row_loss).mean() / n_cells

        # DEVIATION: early stopping on predictions of validation rows, because the bound keeps improving long
        # after the predictions stop doing so.
        step = Step(loss, list(network.parameters()), adamw(self.learning_rate, self.weight_decay))
        history = train_network(self, network, [step], rows, validation, task, rng, progress)
        return PartialVAEPredictor(network, history)

    def _keep(self, mask: Tensor) -> Tensor:
        """Random mask of the shape of `mask`, 0 where mask augmentation hides a value."""
        probability = torch.rand_like(mask).clamp_max(self.drop)
        return (torch.rand_like(mask) >= probability).to(mask)

    def _check(self) -> None:
        check_integer(self, d_latent=(1, MAX_WIDTH), d_code=(1, MAX_WIDTH), d_column=(1, MAX_WIDTH))
        check_integer(self, n_draws=(1, MAX_DRAWS), batch_size=1, max_epochs=1)
        check_integer(self, patience=1, unless=None)
        check_number(self, noise=f"[{MIN_NOISE}, inf)", label_noise=f"[{MIN_NOISE}, inf)", drop="[0, 1]")
        check_number(self, learning_rate="(0, 1]", weight_decay="[0, inf)")
        check_widths(self, "encoder", "decoder")


def gaussian_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL divergence (n,) of N(mean, variance) from the standard normal; both arguments (n, d_latent).

    Examples
    --------
    >>> gaussian_divergence(torch.zeros(1, 3), torch.zeros(1, 3)).tolist()
    [0.0]
    """
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)
