"""StableNet: rows of each batch are weighted so that the inputs of the last layer are less dependent.

Zhang, Cui, Xu, Zhou, He and Shen, "Deep Stable Learning for Out-Of-Distribution Generalization", CVPR 2021,
applied to mean-imputed tables, and to images and sensor networks by the network of StableMiss without φ, as
in the comparison of Zhu et al., IJCAI 2023. For each batch with features f
and a memory (f_mem, v_mem) of earlier rows,

    min over v   L_dec([f; f_mem], softmax([v; v_mem])) / λ_p  +  Σᵢ softmax(v)ᵢ²
    then one step on   Σᵢ softmax(v)ᵢ · loss(ŷᵢ, yᵢ)

where L_dec is the sum of the squared weighted covariances between the random Fourier features of different
columns of f.

Deviations: λ_p is scaled by the number of pairs of features; dependence within a column is ignored; the
memory is a queue of earlier rows; sample weights multiply the loss; AdamW and early stopping instead of SGD
with a fixed schedule. More are in `decorrelation/channels.py`. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stablemiss.architectures import Architecture, check_architecture
from stablemiss.base.method import Method, Predictor
from stablemiss.base.network import (
    SCHEDULES,
    NetworkPredictor,
    Schedule,
    cells_per_row,
    train_and_validation_rows,
    train_network,
)
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import check_bool, check_choice, check_integer, check_number, check_widths, shown
from stablemiss.data import MaskedData
from stablemiss.decorrelation import BatchDecorrelator, Memory
from stablemiss.networks import MLP, PartialCNN, SharedCNN, SharedGraphTemporal
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import History, Rows, Step, adamw, to_device

# Networks without φ, values of `generate`.
WITHOUT_PHI = ("none", "input", "partial")
# The published λ_p, and the number of features of the network for which it was chosen.
PUBLISHED_LAMBDA_P, PUBLISHED_FEATURES = 70.0, 512
# With a smaller λ_p the inner steps of the published size overshoot.
SMALLEST_LAMBDA_P = 2.0


class ImputedMLP(nn.Module):
    """Mean imputation followed by an MLP, which may also read the mask.

    Parameters
    ----------
    d : int
        Number of columns.
    hidden : sequence of int
        Widths of the hidden layers; an empty sequence makes the network linear.
    d_output : int
        Number of outputs.
    use_mask : bool
        Whether the mask is an additional input.

    Shape
    -----
    values (n, d), mask (n, d) → outputs (n, d_output)

    Examples
    --------
    >>> net = ImputedMLP(3, hidden=[8], d_output=2, use_mask=False)
    >>> net(torch.zeros(5, 3), torch.ones(5, 3)).shape
    torch.Size([5, 2])
    """

    center: Tensor

    def __init__(self, d: int, hidden: Sequence[int], d_output: int, use_mask: bool):
        super().__init__()
        self.config = {"d": d, "hidden": list(hidden), "d_output": d_output, "use_mask": use_mask}
        self.use_mask = use_mask
        self.register_buffer("center", torch.zeros(d))
        self.mlp = MLP([d * (1 + use_mask), *hidden, d_output])
        # Initially predicts the mean, which is kept if training does not improve the validation score.
        nn.init.zeros_(self.mlp.last.weight)
        nn.init.zeros_(self.mlp.last.bias)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return self.output_and_features(values, mask)[0]

    def output_and_features(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs, and the inputs of the last layer: the last hidden layer, or else the imputed columns."""
        inputs = (values - self.center) * mask
        features = self.mlp.layers(torch.cat([inputs, mask], dim=1) if self.use_mask else inputs)
        return self.mlp.last(features), features


class StableNetPredictor(NetworkPredictor):
    """The trained network; the row weights and the memory are used in training only.

    Parameters
    ----------
    network : nn.Module
    history : sequence of History, default=()
        Training history; empty for a loaded predictor.
    effective_share : float, default=None
        Effective sample size divided by the number of rows, mean over the batches; None for a loaded
        predictor.
    """

    network_class = ImputedMLP
    network_classes: ClassVar[Mapping[str, type[nn.Module]]] = {
        network.__name__: network for network in (ImputedMLP, SharedCNN, PartialCNN, SharedGraphTemporal)
    }

    def __init__(
        self, network: nn.Module, history: Sequence[History] = (), effective_share: float | None = None
    ):
        super().__init__(network, history)
        self._effective_share = effective_share

    @property
    def effective_share(self) -> float | None:
        return self._effective_share


class StableNet(Method):
    """A network trained with row weights that make the features of its last layer less dependent.

    A predictor that relies on features which are dependent only in the training data fails when this
    dependence changes. Under weights that make features independent, the coefficient of each feature depends
    only on that feature. Missing values are replaced by the column mean, so the features of a linear
    predictor are the imputed columns.

    Parameters
    ----------
    hidden : sequence of int, default=()
        Widths of the hidden layers. An empty sequence gives a linear predictor and decorrelates its inputs;
        with hidden layers the network is non-linear and its last hidden layer is decorrelated.
    use_mask : bool, default=False
        Whether the network also reads the mask. This helps if the missingness is informative about the
        target, and ties the fit to the training missingness. Not in the paper.
    architecture : Architecture, default=None
        Network for rows that are arrays, without φ: ``CNN(generate="none")`` or
        ``GraphTemporal(graph, generate="none")``, or "input" or "partial" instead of "none". What its last
        layer reads is averaged over the image or over the sensors, and then decorrelated. None: tables.
    lambda_p : float or None, default=None
        λ_p, which divides the dependence in the objective of the weights. A larger value makes the weights
        more equal. None scales the published value, 70 for 512 features, by the number of pairs of features:
        70 · (d / 512)² for d features, but at least 2. With a smaller value the inner steps can overshoot, so
        that a single row gets all the weight of its batch.
    q : int, default=2
        Number of random features per column in an inner step. A larger value detects more kinds of dependence
        and gives dependence more weight in the objective; the cost is proportional.
    inner_steps : int, default=20
        Number of steps on the weights of each batch. A larger value decorrelates more; the cost is
        proportional. 0 gives the unweighted regression.
    inner_learning_rate : float, default=1.0
        Step size of the first half of the inner steps; the second half uses a tenth of it. A larger value
        decorrelates more and is less stable.
    memory : {"queue", "blend"}, default="queue"
        How earlier rows are kept: "queue" keeps the latest rows, "blend" keeps a running average of the
        batches, as in the paper.
    n_memory : int, default=128
        Number of earlier rows used together with each batch. A larger value makes the weights less noisy and
        more equal, and an inner step slower; 0 uses the batch alone.
    alpha : float, default=0.9
        For "blend", the fraction of the old memory that is kept; closer to one it forgets more slowly.
    max_columns : int, default=128
        Maximum number of features per batch. If there are more, a random subset is drawn for each batch. A
        larger value covers more pairs at once; the cost grows with its square.
    learning_rate : float, default=1e-2
        Initial learning rate of the network, lowered up to three times. A larger value trains faster and less
        reliably.
    weight_decay : float, default=1e-4
        Weight decay of the matrices. A larger value gives a smoother function.
    batch_size : int, default=128
        Maximum number of rows in a step. A larger value estimates dependence more precisely and makes fewer
        steps. If this gives fewer than sixteen batches per pass, batches are made smaller, down to 32 rows.
    max_epochs : int, default=100
        Maximum number of epochs. On small tables an epoch consists of several passes (at least sixteen
        batches).
    patience : int or None, default=8
        Epochs without a better validation loss after which the learning rate is lowered, at most three times;
        then training ends. A larger value finds late improvements and takes longer. None turns early stopping
        off: all epochs are run, and the network of the last one is kept.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.
    schedule : {"adaptive", "one_cycle"}, default="adaptive"
        As in `StableMiss`: "one_cycle" raises the learning rate and lowers it to zero over all `max_epochs`,
        without early stopping.

    See Also
    --------
    DWR : Weights of all rows that make columns uncorrelated.
    SRDO : Weights of all rows from a density ratio.
    StableMiss : Weights of all rows that decorrelate columns and mask indicators.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0] - X[:, 1]
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=StableNet(max_epochs=15), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.0, 0.0], [None, 1.0]]) - [1.0, -1.0]).max() < 0.3)
    True
    """

    name: ClassVar[str] = "stablenet"
    predictor_class: ClassVar[type[Predictor]] = StableNetPredictor
    array_advice: ClassVar[str] = (
        "Use StableNet(architecture=CNN(generate='none')) for images, or GraphTemporal(graph, "
        "generate='none') for windows of a sensor network, both from stablemiss.architectures; or reshape X, "
        "and y if it is an array, to one column per cell, X.reshape(len(X), -1)."
    )
    space: ClassVar[Space] = {
        "hidden": Choice((), (128,), (512,), (128, 128), (512, 512), (128, 128, 128)),
        "lambda_p": Choice(None, 0.1, 0.5, 2.0, 5.0, 10.0, 30.0, 70.0, 300.0),
        "learning_rate": Range(3e-4, 3e-2, log=True),
        "weight_decay": Range(1e-4, 1.0, log=True),
    }
    brief: ClassVar[Mapping[str, Any]] = {"inner_steps": 2, "max_epochs": 15}

    def __init__(
        self,
        hidden: Sequence[int] = (),
        use_mask: bool = False,
        architecture: Architecture | None = None,
        lambda_p: float | None = None,
        q: int = 2,
        inner_steps: int = 20,
        inner_learning_rate: float = 1.0,
        memory: Literal["queue", "blend"] = "queue",
        n_memory: int = 128,
        alpha: float = 0.9,
        max_columns: int = 128,
        learning_rate: float = 1e-2,
        weight_decay: float = 1e-4,
        batch_size: int = 128,
        max_epochs: int = 100,
        patience: int | None = 8,
        device: str = "auto",
        schedule: Schedule = "adaptive",
    ):
        self.hidden = hidden
        self.use_mask = use_mask
        self.architecture = architecture
        self.lambda_p = lambda_p
        self.q = q
        self.inner_steps = inner_steps
        self.inner_learning_rate = inner_learning_rate
        self.memory = memory
        self.n_memory = n_memory
        self.alpha = alpha
        self.max_columns = max_columns
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.device = device
        self.schedule = schedule

    def check_shapes(self, shape: tuple[int, ...], output_shape: tuple[int, ...]) -> None:
        self._check()
        if self.architecture is None:
            super().check_shapes(shape, output_shape)
        else:
            self.architecture.check(shape, output_shape)

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> StableNetPredictor:
        self._check()
        # A separate generator, so that the weights do not change the order of the rows.
        weight_rng = np.random.default_rng(draw_seed(rng))
        device = to_device(self.device)
        with torch_randomness(rng):
            network = self._build(train, task).to(device)
        groups = self._groups(network, train)
        # DEVIATION: the memory is a queue by default, because the paper's blend averages different rows until
        # all rows of the memory are near the mean, which makes even independent columns look dependent.
        decorrelator = BatchDecorrelator(
            Memory(self.memory, self.n_memory, self.alpha),
            weight_rng,
            groups,
            self.inner_steps,
            self.inner_learning_rate,
            self._lambda_p(len(groups)),
            self.q,
            self.max_columns,
        )

        rows, validation = train_and_validation_rows(train, valid, device)
        n_cells = cells_per_row(rows, train, task)

        def loss(batch: Rows) -> Tensor:
            output, features = network.output_and_features(batch.values, batch.mask)
            share = decorrelator(features.detach(), batch.weight)
            # PAPER: Σ softmax(v)_i loss_i.
            # DEVIATION: times the sample weight of the row, whose mean over all rows is one, because users
            # can give sample weights.
            losses = task.row_loss(output, batch.target, batch.target_mask)
            return (share * batch.weight * losses).sum() / n_cells

        # DEVIATION: AdamW and early stopping on validation rows, because SGD with a fixed schedule of 30
        # epochs is tuned to images, and the authors' code chooses its epoch on the test set.
        step = Step(loss, list(network.parameters()), adamw(self.learning_rate, self.weight_decay))
        history = train_network(self, network, [step], rows, validation, task, rng, progress)
        return StableNetPredictor(network, history, decorrelator.effective_share)

    def _build(self, train: MaskedData, task: Task) -> Any:
        """Create the network for rows and targets of these shapes; it has `output_and_features`."""
        if self.architecture is not None:
            return self.architecture.build(train.row_shape or (train.n_columns,), task.output_shape)
        network = ImputedMLP(train.n_columns, self.hidden, task.d_output, self.use_mask)
        network.center.copy_(torch.from_numpy(train.column_means()))
        return network

    def _groups(self, network: Any, train: MaskedData) -> NDArray[np.int64]:
        """Group number of each feature that is decorrelated."""
        # PAPER: weights are fitted for the features that the last layer reads.
        # DEVIATION: dependence within a column (between the codes of a category, or a column and its own mask
        # indicator) is ignored, because no weights can remove it.
        if self.architecture is not None:
            return np.arange(network.d_features)
        return np.arange(self.hidden[-1]) if self.hidden else np.tile(train.groups, 1 + self.use_mask)

    def _lambda_p(self, d: int) -> float:
        """λ_p for d features."""
        # AUTHORS' CODE: 70 for 512 features.
        # DEVIATION: scaled by the number of pairs, because the dependence is a sum over pairs; with 50
        # columns and λ_p = 70 the weights stay equal. At least 2, because with a smaller value the inner
        # steps overshoot.
        if self.lambda_p is not None:
            return self.lambda_p
        share_of_features = min(d, self.max_columns) / PUBLISHED_FEATURES
        return max(SMALLEST_LAMBDA_P, PUBLISHED_LAMBDA_P * share_of_features**2)

    def _check(self) -> None:
        check_widths(self, "hidden")
        check_bool(self, "use_mask")
        if self.architecture is not None:
            check_architecture(self.architecture)
            if getattr(self.architecture, "generate", None) not in WITHOUT_PHI:
                raise ValueError(
                    "StableNet's network has no φ: architecture must be None, or an object of "
                    'stablemiss.architectures with generate="none" or "input", such as '
                    f'CNN(generate="none"); got {shown(self.architecture)}.'
                )
        check_choice(self, memory=("queue", "blend"), schedule=SCHEDULES)
        check_integer(self, q=(1, 1000), inner_steps=0, n_memory=0, max_columns=2)
        check_integer(self, batch_size=1, max_epochs=1)
        check_integer(self, patience=1, unless=None)
        check_number(self, lambda_p="[1e-30, 1e30]", unless=None)
        check_number(self, inner_learning_rate="[0, 1e6]", alpha="[0, 1)")
        check_number(self, learning_rate="(0, 1]", weight_decay="[0, inf)")
