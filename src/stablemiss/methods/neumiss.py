"""NeuMiss: approximates the best linear prediction for every mask by a Neumann series with trained weights.

Le Morvan, Josse, Moreau, Scornet and Varoquaux, *NeuMiss networks: differentiable programming for supervised
learning with missing values*, 2020; shared weights and a deep head as in Le Morvan, Josse, Scornet and
Varoquaux, *What's a good imputation to predict with missing values?*, 2021.

    h₀ = m ⊙ (x − μ),   h_{t+1} = m ⊙ (W h_t) + h₀   for t = 0 … depth − 1,   output = head(h_depth)

For Gaussian columns and a linear target, the output with W = I − ηΣ converges to the Bayes predictor for
every mask.

Deviations: Σ is divided by its norm, not by half of it, to initialise W; gradients are clipped; early
stopping on validation rows. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
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
from stablemiss.checks import MAX_LAYERS, check_choice, check_integer, check_number, check_widths
from stablemiss.data import Floats, MaskedData
from stablemiss.networks import MLP
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import Rows, Step, adamw, to_device


class NeuMissNet(nn.Module):
    """h₀ = m ⊙ (x − μ), repeated h ← m ⊙ (W h) + h₀, then a linear or deep head.

    The multiplication by the mask after each linear map is the non-linearity. With W = I − ηΣ the series
    converges to Σ_oo⁻¹ (x_o − μ_o) / η, from which a linear head computes the best prediction for Gaussian
    columns under every mask.

    Parameters
    ----------
    d, d_output : int
        Number of columns and outputs.
    depth : int
        Number of terms of the series. More terms approximate the inverse better, but diverge if the norm of W
        exceeds one.
    hidden : sequence of int, default=()
        Widths of the hidden layers of the head; an empty sequence makes it linear.

    Shape
    -----
    values (n, d), mask (n, d) → outputs (n, d_output)

    Examples
    --------
    >>> NeuMissNet(3, 1, depth=5)(torch.zeros(4, 3), torch.ones(4, 3)).shape
    torch.Size([4, 1])
    """

    def __init__(self, d: int, d_output: int, depth: int, hidden: Sequence[int] = ()):
        super().__init__()
        # The only size of the network that its parameters do not imply: without a limit, a manipulated model
        # file could make a prediction endless.
        if not 0 <= depth <= MAX_LAYERS:
            raise ValueError(f"depth must be an integer between 0 and {MAX_LAYERS}; got {depth!r}.")
        self.config = {"d": d, "d_output": d_output, "depth": depth, "hidden": tuple(hidden)}
        self.depth = depth
        self.mean = nn.Parameter(torch.zeros(d))
        self.weight = nn.Parameter(torch.empty(d, d))
        nn.init.xavier_uniform_(self.weight, gain=0.5)
        self.head = MLP([d, *hidden, d_output])

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.series(values, mask))

    def series(self, values: Tensor, mask: Tensor) -> Tensor:
        """The last term h, (n, d), zero where missing."""
        first = mask * (values - self.mean)
        h = first
        for _ in range(self.depth):
            h = torch.addcmul(first, mask, h @ self.weight.T)
        return h

    def init_from_covariance(self, covariance: Tensor) -> None:
        """Initialise W = I − Σ / ‖Σ‖, for which the series converges under every mask.

        Parameters
        ----------
        covariance : (d, d)
            Symmetric. Covariances estimated pair by pair from incomplete columns can have negative
            eigenvalues. These are set to zero, because the series would diverge along them.
        """
        eigenvalues, eigenvectors = torch.linalg.eigh(covariance)
        eigenvalues = eigenvalues.clamp_min(0.0) / eigenvalues.max().clamp_min(1e-12)
        with torch.no_grad():
            self.weight.copy_(torch.eye(len(covariance)) - (eigenvectors * eigenvalues) @ eigenvectors.T)


class NeuMissPredictor(NetworkPredictor):
    """A trained `NeuMissNet`."""

    network_class = NeuMissNet


class NeuMiss(Method):
    """A network of masked linear maps that approximates the best linear prediction for each mask.

    Parameters
    ----------
    depth : int, default=10
        Number of terms of the series, at most 1000. More terms can represent stronger correlations; training
        is less stable and the cost is proportional.
    hidden : sequence of int, default=()
        Widths of the hidden layers of the head. An empty sequence gives a linear head; one or two layers make
        it non-linear, and it overfits sooner.
    start : {"data", "random"}, default="data"
        Initial W: "data" uses the covariance of the observed values, "random" small random weights.
    learning_rate : float, default=2e-3
        A larger value trains faster and less reliably.
    weight_decay : float, default=1e-3
        Weight decay of W and of the matrices of the head. A larger value gives a smoother function.
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
    PartialVAE, MIWAE, PBiGAN : Latent-variable models of columns and label.
    StableMiss : Generates the parameters of the predictor from the mask.

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
    predictor_class: ClassVar[type[Predictor]] = NeuMissPredictor
    reads_arrays: ClassVar[bool] = True
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
        patience: int | None = 8,
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
        check_choice(self, start=("data", "random"))
        check_integer(self, depth=(0, MAX_LAYERS), batch_size=1, max_epochs=1)
        check_integer(self, patience=1, unless=None)
        check_number(self, learning_rate="(0, 1]", weight_decay="[0, inf)")
        check_widths(self, "hidden")
        device = to_device(self.device)
        with torch_randomness(rng):
            network = NeuMissNet(train.n_columns, task.d_output, self.depth, tuple(self.hidden))
        if self.start == "data":
            # DEVIATION: divided by ‖Σ‖, not by half of it as in the 2021 code, because that series oscillates
            # without converging along the largest eigenvector.
            network.init_from_covariance(torch.from_numpy(pairwise_covariance(train)).float())
        network.to(device)

        rows, validation = train_and_validation_rows(train, valid, device)
        n_cells = cells_per_row(rows, train, task)

        def loss(batch: Rows) -> Tensor:
            output = network(batch.values, batch.mask)
            return (batch.weight * task.row_loss(output, batch.target, batch.target_mask)).mean() / n_cells

        step = Step(
            loss,
            list(network.parameters()),
            adamw(self.learning_rate, self.weight_decay),
            # DEVIATION: clipped, because if the norm of W is large, every term of the series and its gradient
            # grow.
            clip=1.0,
        )
        # DEVIATION: early stopping on validation rows, with three reductions of the learning rate, because
        # the network overfits.
        history = train_network(self, network, [step], rows, validation, task, rng, progress)
        return NeuMissPredictor(network, history)


def pairwise_covariance(data: MaskedData) -> Floats:
    """Covariances (d, d), each over the rows where both columns are observed; zero if there are none."""
    centred = np.where(data.mask, data.values - data.column_means(), 0.0)
    weight = data.weight[:, None]
    both = data.mask.T.astype(np.float64) @ (weight * data.mask)
    return (centred.T @ (weight * centred)) / np.maximum(both, 1e-12)
