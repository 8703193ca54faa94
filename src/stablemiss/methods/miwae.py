"""MIWAE: a deep latent-variable model fitted to observed values by the importance-weighted bound.

Mattei and Frellsen, *MIWAE: Deep generative modelling and imputation of incomplete data sets*, 2019.

    L_K = E log (1/K) Σ_k p(x_o | z_k) p(z_k) / q(z_k | x_o),   z_k ~ q(z | x_o)

with a Student-t decoder (for arrays a Gaussian one). The target is one more column y, which is hidden in
prediction. Training maximises

    log p(x_o) + λ log p(y | x_o),   both from the same draws

where λ = 1 gives the published bound for columns and target together. The prediction is

    ŷ = Σ_l w_l E[y | z_l],   w_l ∝ p(x_o | z_l) p(z_l) / q(z_l | x_o),   z_l ~ q(z | x_o)

Deviations: the encoder also reads the mask; 5 draws in training instead of 20, and 200 in prediction instead
of 1,000; the target is hidden from the encoder in half of the rows; the target has a larger weight than a
column; early stopping on validation rows; Gaussian cells of arrays. Each is explained at its DEVIATION
comment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
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
from stablemiss.checks import MAX_DRAWS, MAX_WIDTH, check_bool, check_integer, check_number
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

# Minimum scale and degrees of freedom of a decoded column; below these, the density at a single value can
# become extremely large.
MIN_SCALE, MIN_DEGREES = 1e-3, 3.0
# Minimum scale of a decoded cell of an array, whose cells share one unit: cells that never vary, such as the
# border of images, would otherwise dominate the likelihood.
MIN_CELL_SCALE = 0.1
# Number of draws in predictions of validation rows after each epoch, which take most of the time.
N_VALIDATION_DRAWS = 50


@dataclass(frozen=True)
class StudentT:
    """Student's t distributions, given by three tensors of the same shape.

    Attributes
    ----------
    location, scale, degrees : tensor
        Location, scale and degrees of freedom of each distribution.

    Examples
    --------
    >>> from scipy.stats import t
    >>> student = StudentT(*torch.tensor([0.0, 2.0, 4.0], dtype=torch.float64))
    >>> bool(abs(student.log_density(torch.tensor(0.5)) - t.logpdf(0.5, 4, 0, 2)) < 1e-12)
    True
    """

    location: Tensor
    scale: Tensor
    degrees: Tensor

    def log_density(self, x: Tensor) -> Tensor:
        """Log density of each distribution at x."""
        half = (self.degrees + 1) / 2
        return (
            torch.lgamma(half)
            - torch.lgamma(self.degrees / 2)
            - 0.5 * (math.log(math.pi) + self.degrees.log())
            - self.scale.log()
            - half * torch.log1p(((x - self.location) / self.scale).square() / self.degrees)
        )


@dataclass(frozen=True)
class Gaussian:
    """Gaussian distributions, given by two tensors of the same shape.

    Attributes
    ----------
    location, scale : tensor
        Mean and standard deviation of each distribution.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> gaussian = Gaussian(*torch.tensor([1.0, 2.0], dtype=torch.float64))
    >>> bool(abs(gaussian.log_density(torch.tensor(0.5)) - norm.logpdf(0.5, 1, 2)) < 1e-12)
    True
    """

    location: Tensor
    scale: Tensor

    def log_density(self, x: Tensor) -> Tensor:
        """Log density of each distribution at x."""
        square = ((x - self.location) / self.scale).square()
        return -0.5 * (square + math.log(2 * math.pi)) - self.scale.log()


Decoded = StudentT | Gaussian


def to_distributions(outputs: Tensor, is_array: bool) -> Decoded:
    """Distributions (…, k) from decoder outputs: locations, then scales, then degrees of freedom (tables).

    Outputs are (…, 3 k) for tables and (…, 2 k) for arrays.
    """
    softplus = nn.functional.softplus
    if is_array:
        # DEVIATION: Gaussian cells, because the location of a Student's t tends to the most frequent value,
        # such as black in images, while the mean is to be predicted.
        location, scale = outputs.chunk(2, dim=-1)
        return Gaussian(location, softplus(scale) + MIN_CELL_SCALE)
    location, scale, degrees = outputs.chunk(3, dim=-1)
    return StudentT(location, softplus(scale) + MIN_SCALE, softplus(degrees) + MIN_DEGREES)


class MIWAENet(nn.Module):
    """Gaussian q(z | observed values), and p(x | z) of each column, one of which is the target.

    p(x | z) is a Student's t for tables, and a Gaussian for arrays.

    Parameters
    ----------
    d, d_output : int
        Number of feature and target columns.
    is_classes : bool
        Whether targets are classes, decoded to log-odds.
    d_latent, hidden : int
        Length of z, and width of the two hidden layers of encoder and decoder.
    use_mask : bool
        Whether the encoder reads the mask in addition to the zero-filled values.
    n_draws : int
        Number of draws of z used for a prediction.
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
        d_latent: int,
        hidden: int,
        use_mask: bool,
        n_draws: int,
        is_array: bool = False,
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
            "is_array": is_array,
        }
        self.d, self.d_output, self.is_classes, self.use_mask = d, d_output, is_classes, use_mask
        self.is_array = is_array
        width = d + d_output
        self.encoder = MLP([width * (1 + use_mask), hidden, hidden, 2 * d_latent])
        # Parameters of the distribution of each column.
        self.n_parameters = 2 if is_array else 3
        self.decoder = MLP([d_latent, hidden, hidden, self.n_parameters * width])
        init_target_outputs_to_zero(self.decoder, slice(d, width))
        self.register_buffer("draws", fixed_draws(n_draws, d_latent))
        # Number of draws in the next predictions; None for all.
        self.n_used_draws: int | None = None

    def encode(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale of q(z | …), each (n, d_latent), from columns and targets (n, d + d_output)."""
        inputs = torch.cat([values * mask, mask], dim=1) if self.use_mask else values * mask
        mean, scale = self.encoder(inputs).chunk(2, dim=1)
        return mean, nn.functional.softplus(scale) + MIN_SCALE

    def decode(self, z: Tensor) -> tuple[Decoded, Decoded]:
        """Distributions of columns (…, d) and targets (…, d_output); locations of classes are log-odds."""
        # The parameters of all columns and targets: first all locations, and so on.
        outputs = self.decoder(z).unflatten(-1, (self.n_parameters, self.d + self.d_output))
        columns, targets = outputs.split([self.d, self.d_output], dim=-1)
        return (
            to_distributions(columns.flatten(-2), self.is_array),
            to_distributions(targets.flatten(-2), self.is_array),
        )

    def log_ratio(
        self, values: Tensor, mask: Tensor, mean: Tensor, scale: Tensor, z: Tensor, columns: Decoded
    ) -> Tensor:
        """log p(x_o | z) p(z) / q(z | x_o) of the columns without the target, (n, K).

        Parameters
        ----------
        values, mask : (n, d)
        mean, scale : (n, d_latent)
            Mean and scale of q.
        z : (n, K, d_latent)
        columns : StudentT or Gaussian
            Decoded from z.
        """
        log_likelihood = (mask[:, None] * columns.log_density(values[:, None])).sum(dim=2)
        standard = (z - mean[:, None]) / scale[:, None]
        # log p(z) − log q(z): the constants of the two Gaussians cancel.
        prior = (0.5 * (standard.square() - z.square())).sum(dim=2) + scale.log().sum(dim=1)[:, None]
        return log_likelihood + prior

    def log_target(self, decoded: Decoded, target: Tensor, seen: Tensor | None = None) -> Tensor:
        """log p(observed target | z), (n, K).

        Parameters
        ----------
        decoded : StudentT or Gaussian
        target : (n, d_output) or (n,)
            Numbers or class codes.
        seen : (n, d_output), default=None
            1 = observed number. None means that all are observed.
        """
        if self.is_classes:
            chosen = target[:, None, None].expand(-1, decoded.location.shape[1], 1)
            return decoded.location.log_softmax(dim=2).gather(2, chosen)[..., 0]
        log_density = decoded.log_density(target[:, None])
        return (log_density if seen is None else seen[:, None] * log_density).sum(dim=2)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        n_decoded = self.d if self.is_array else self.d + self.d_output
        per_row = len(self.draws[: self.n_used_draws]) * self.n_parameters * n_decoded
        return predict_in_chunks(self._predict, values, mask, per_row)

    def _predict(self, values: Tensor, mask: Tensor) -> Tensor:
        no_target = values.new_zeros(len(values), self.d_output)
        mean, scale = self.encode(*(torch.cat([table, no_target], dim=1) for table in (values, mask)))
        z = mean[:, None] + scale[:, None] * self.draws[: self.n_used_draws]
        if self.is_array:
            return self._mean_target(values, mask, mean, scale, z)
        columns, targets = self.decode(z)
        ratio = self.log_ratio(values, mask, mean, scale, z, columns)
        return mean_over_draws(targets.location, ratio.softmax(dim=1), self.is_classes)

    def _mean_target(self, values: Tensor, mask: Tensor, mean: Tensor, scale: Tensor, z: Tensor) -> Tensor:
        """Outputs (n, d_output) from draws z, decoding only columns that one of the rows observes.

        The chunks of long rows are single rows, so that missing columns cost nothing.
        """
        hidden, last, width = self.decoder.layers(z), self.decoder.last, self.d + self.d_output
        observed = mask.any(dim=0).nonzero()[:, 0]
        outputs = torch.cat([i * width + observed for i in range(self.n_parameters)])
        decoded = nn.functional.linear(hidden, last.weight[outputs], last.bias[outputs])
        columns = to_distributions(decoded, self.is_array)
        ratio = self.log_ratio(values[:, observed], mask[:, observed], mean, scale, z, columns)
        return mean_target(self.decoder, hidden, ratio.softmax(dim=1), slice(self.d, width), self.is_classes)


class MIWAEPredictor(NetworkPredictor):
    """A trained `MIWAENet`."""

    network_class = MIWAENet


class MIWAE(Method):
    """A deep latent-variable model of columns and target, with predictions by importance sampling.

    Parameters
    ----------
    d_latent : int, default=40
        Length of the latent vector z of a row. If it is too small, z cannot describe the row; if it is too
        large, the importance weights become uneven.
    hidden : int, default=128
        Width of the two hidden layers of encoder and decoder. Wider layers fit more and overfit sooner.
    k : int, default=5
        Number of draws in the training bound. A larger value makes the bound tighter, costs proportionally
        more, and trains the encoder less well, because its gradient has more noise relative to its size.
    n_draws : int, default=200
        Number of draws in prediction, at most 10,000. A larger value is less noisy; the cost is proportional.
    label_weight : float, default=20.0
        Weight of the target's term, log p(target | columns), relative to log p(columns). A larger value
        favours the prediction of the target over the description of the columns.
    use_mask : bool, default=True
        Whether the encoder also reads the mask, so that it can distinguish missing from average values.
    learning_rate : float, default=3e-3
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
    PartialVAE : Variational autoencoder with a set encoder.
    PBiGAN : Adversarially trained encoder and decoder.
    NeuMiss : A network without latent variables.

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
    predictor_class: ClassVar[type[Predictor]] = MIWAEPredictor
    reads_arrays: ClassVar[bool] = True
    space: ClassVar[Space] = {
        "d_latent": Choice(5, 10, 20, 40, 60),
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

    # DEVIATION: k=5, published 20, because on Gaussian under MCAR 20 draws were less accurate and take four
    # times as long.
    def __init__(
        self,
        d_latent: int = 40,
        hidden: int = 128,
        k: int = 5,
        n_draws: int = 200,
        label_weight: float = 20.0,
        use_mask: bool = True,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-3,
        batch_size: int = 128,
        max_epochs: int = 200,
        patience: int | None = 8,
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
                # DEVIATION: the encoder also reads the mask, because a missing value is not an average value.
                use_mask=self.use_mask,
                # DEVIATION: a fifth of the published number of draws, because more made no difference.
                n_draws=self.n_draws,
                is_array=train.row_shape is not None,
            ).to(device)
        rows, validation = train_and_validation_rows(train, valid, device)
        n_cells = cells_per_row(rows, train, task)

        def loss(batch: Rows) -> Tensor:
            targets = target_columns(batch.target, task.d_output)
            # DEVIATION: half of the targets are hidden from the encoder, because in prediction all are. The
            # bound is valid for any q, so the loss still includes these targets.
            shown = draw_target_mask(targets, batch.target_mask)
            mean, scale = network.encode(
                torch.cat([batch.values, targets * shown], dim=1), torch.cat([batch.mask, shown], dim=1)
            )
            noise = torch.randn(len(mean), self.k, mean.shape[1], device=mean.device)
            z = mean[:, None] + scale[:, None] * noise
            columns, decoded_target = network.decode(z)
            ratio = network.log_ratio(batch.values, batch.mask, mean, scale, z, columns)
            log_target = network.log_target(decoded_target, batch.target, batch.target_mask)
            # DEVIATION: the target has a larger weight, because as one column of many it is hardly fitted.
            bound = target_bound(ratio, log_target, self.label_weight)
            return -(batch.weight * bound).mean() / n_cells

        step = Step(loss, list(network.parameters()), adamw(self.learning_rate, self.weight_decay))
        # DEVIATION: early stopping on predictions of validation rows, because the bound keeps improving long
        # after the predictions stop doing so.
        network.n_used_draws = N_VALIDATION_DRAWS
        history = train_network(self, network, [step], rows, validation, task, rng, progress)
        network.n_used_draws = None
        return MIWAEPredictor(network, history)

    def _check(self) -> None:
        check_integer(self, d_latent=(1, MAX_WIDTH), hidden=(1, MAX_WIDTH), k=(1, MAX_DRAWS))
        check_integer(self, n_draws=(1, MAX_DRAWS), batch_size=1, max_epochs=1)
        check_integer(self, patience=1, unless=None)
        check_number(self, label_weight="(0, 1e6]", learning_rate="(0, 1]", weight_decay="[0, inf)")
        check_bool(self, "use_mask")


def importance_bound(log_ratio: Tensor) -> Tensor:
    """log (1/K) Σ_k exp(log_ratio), (n,), for log_ratio (n, K).

    Its expectation is a lower bound of log p, which is tighter for larger K.

    See Also
    --------
    target_bound : The bound with a weighted target.

    Examples
    --------
    >>> importance_bound(torch.tensor([[-2.0, -2.0]]))
    tensor([-2.])
    """
    return log_ratio.logsumexp(dim=1) - math.log(log_ratio.shape[1])


def target_bound(log_ratio: Tensor, log_target: Tensor, label_weight: float) -> Tensor:
    """log p(x_o) + label_weight · log p(y | x_o), (n,), by importance sampling from the same draws.

    The weight is applied outside the sum over draws. Inside the sum, p(y | z) to the power of the weight
    would not be a density: the model could increase it by reproducing the noise of the target, or by
    shrinking the scale of the target to zero.

    Parameters
    ----------
    log_ratio : (n, K)
        log p(x_o | z) p(z) / q(z).
    log_target : (n, K)
        log p(y | z).
    label_weight : float
        1 gives the bound of log p(x_o, y).

    See Also
    --------
    importance_bound : The bound without the target.

    Examples
    --------
    >>> ratio, log_target = torch.zeros(1, 2), torch.full((1, 2), -3.0)
    >>> target_bound(ratio, log_target, 1.0), target_bound(ratio, log_target, 2.0)
    (tensor([-3.]), tensor([-6.]))
    """
    columns = importance_bound(log_ratio)
    return columns + label_weight * (importance_bound(log_ratio + log_target) - columns)
