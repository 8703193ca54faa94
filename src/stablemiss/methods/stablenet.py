"""StableNet: in each batch, rows are weighted so that the features of the last layer look independent.

Zhang, Cui, Xu, Zhou, He and Shen, "Deep Stable Learning for Out-Of-Distribution Generalization", CVPR 2021,
applied to mean-imputed tables as in the comparison of Zhu et al., IJCAI 2023. For each batch with features f,
beside a memory (f_mem, v_mem) of earlier rows,

    min over v   L_dec([f; f_mem], softmax([v; v_mem])) / λ_p  +  Σᵢ softmax(v)ᵢ²
    then one step on   Σᵢ softmax(v)ᵢ · loss(ŷᵢ, yᵢ)

where L_dec is the sum of the squared weighted covariances between the random Fourier features of different
columns of f.

Deviations: parts of one column stay together; a queue for memory; rows' own weights; AdamW and early
stopping. More in `decorrelation/channels.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from stablemiss.base.method import Method, Predictor, check_at_least, check_widths
from stablemiss.base.network import NetworkPredictor, judged, train_network
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.data import MaskedData
from stablemiss.decorrelation import BatchWeights, Memory
from stablemiss.networks import MLP
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import Rows, Step, adamw, to_device


class ImputedMLP(nn.Module):
    """Hidden cells become their column's mean; then an MLP, which may read the mask as well.

    Parameters
    ----------
    d : int
        Columns.
    hidden : sequence of int
        Widths of the hidden layers; none makes the network linear.
    d_output : int
    use_mask : bool
        Whether the mask is read beside the columns.

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
        # Predicts the mean at first: where there is nothing to learn, that start is what is kept.
        nn.init.zeros_(self.mlp.last.weight)
        nn.init.zeros_(self.mlp.last.bias)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return self.mlp.last(self.features(values, mask))

    def features(self, values: Tensor, mask: Tensor) -> Tensor:
        """What the last layer reads: its last hidden layer, or the inputs themselves if there is none."""
        inputs = (values - self.center) * mask
        return self.mlp.layers(torch.cat([inputs, mask], dim=1) if self.use_mask else inputs)


class StableNetPredictor(NetworkPredictor):
    """The trained network; the weights and the memory of training are not part of it."""

    kind = ImputedMLP


class StableNet(Method):
    """Weigh the rows of each batch so that the features of the last layer look independent, then step.

    A predictor that leans on features which only go together in the training rows fails where they part.
    Under weights that make features independent, each has to earn its own coefficient. Hidden cells are
    filled with their column's mean, so that the features of a linear predictor are the filled columns.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the hidden layers. None, the default, is a linear predictor whose own inputs are made
        independent; with layers the network bends, and what its last hidden layer says is made independent.
    use_mask : bool
        Let the network read the mask beside the columns. It helps where being hidden says something about
        the target, and ties the fit to the training missingness. Not in the paper.
    lambda_p : float
        Divides the dependence, against the price of uneven weights. Raising it makes weights more equal;
        far below the default, and the more so the more columns there are, the inner steps go astray.
    q : int
        Random features of each column in an inner step. More see more kinds of dependence, and count for
        more beside the price of uneven weights; time grows in proportion.
    inner_steps : int
        Steps on the weights of each batch. More let weights go further and cost time in proportion; 0 is
        the plain regression.
    inner_learning_rate : float
        Size of the first half of these steps; the others are a tenth of it. Larger goes further and less
        surely.
    memory : "queue" or "blend"
        How earlier rows are kept: "queue", the latest as they were; "blend", the paper's running average
        of one batch with the next.
    n_memory : int
        Earlier rows looked at together with each batch. More make weights steadier and more equal, and an
        inner step slower; 0 looks at the batch alone.
    alpha : float
        For "blend", the share of the old memory that stays; nearer to one it forgets more slowly.
    max_columns : int
        Where there are more features than this, so many of them are drawn for each batch. More see more
        pairs at once; time grows with their square.
    learning_rate : float
        First step size of the network. Larger learns faster and less surely; it is lowered three times
        before the end.
    weight_decay : float
        Pull of the network's matrices towards zero. More is smoother.
    batch_size : int
        Largest number of rows in a step. Larger sees dependence more clearly and makes fewer steps. Tables
        with fewer than sixteen such batches get smaller ones, down to 32 rows.
    max_epochs : int
        The most passes over the data; a small table makes several passes in one epoch.
    patience : int
        Epochs without improvement on the validation rows before the learning rate is lowered or training
        ends. More finds late improvements and takes longer.
    device : str
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0] - X[:, 1]
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=StableNet(), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.0, 0.0], [None, 1.0]]) - [1.0, -1.0]).max() < 0.3)
    True
    """

    name: ClassVar[str] = "stablenet"
    predictor: ClassVar[type[Predictor]] = StableNetPredictor
    space: ClassVar[Space] = {
        "hidden": Choice((), (128,), (512,), (128, 128), (512, 512), (128, 128, 128)),
        "lambda_p": Range(10.0, 300.0, log=True),
        "learning_rate": Range(3e-4, 3e-2, log=True),
        "weight_decay": Range(1e-4, 1.0, log=True),
    }
    brief: ClassVar[Mapping[str, Any]] = {"inner_steps": 2, "max_epochs": 15}

    def __init__(
        self,
        hidden: Sequence[int] = (),
        use_mask: bool = False,
        lambda_p: float = 70.0,
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
        patience: int = 4,
        device: str = "auto",
    ):
        self.hidden = hidden
        self.use_mask = use_mask
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

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> StableNetPredictor:
        self._check()
        # Of its own, so that the network sees rows in the same order with any weights.
        weight_rng = np.random.default_rng(draw_seed(rng))
        device = to_device(self.device)
        with torch_randomness(rng):
            network = ImputedMLP(train.n_columns, self.hidden, task.d_output, self.use_mask).to(device)
        network.center.copy_(torch.from_numpy(train.column_means()))
        # PAPER: weights are learnt for the features that the last layer reads.
        # DEVIATION: parts of one column (a category's codes; a column and its own bit in the mask) do not
        # count as dependent, because no weights can part them.
        groups = np.arange(self.hidden[-1]) if self.hidden else np.tile(train.groups, 1 + self.use_mask)
        # DEVIATION: the memory is a queue by default, because the paper's blend averages different rows until
        # all its rows are near the mean: beside them even independent columns look dependent.
        weigh = BatchWeights(
            Memory(self.memory, self.n_memory, self.alpha),
            weight_rng,
            groups,
            self.inner_steps,
            self.inner_learning_rate,
            self.lambda_p,
            self.q,
            self.max_columns,
        )

        def loss(batch: Rows) -> Tensor:
            features = network.features(batch.values, batch.mask)
            share = weigh(features.detach(), batch.weight)
            # PAPER: Σ softmax(v)_i loss_i.
            # DEVIATION: times the weight that a row has of its own, whose mean over all rows is one, because
            # rows may come with weights.
            return (share * batch.weight * task.row_loss(network.mlp.last(features), batch.target)).sum()

        rows, judges = judged(train, valid, device)
        # DEVIATION: AdamW and early stopping on validation rows, because SGD at a fixed schedule of 30 epochs
        # is tuned to images, and the authors' code picks its epoch on the test set.
        step = Step(loss, list(network.parameters()), adamw(self.learning_rate, self.weight_decay))
        history = train_network(self, network, [step], rows, judges, task, rng, progress)
        return StableNetPredictor(network, history)

    def _check(self) -> None:
        if self.memory not in ("queue", "blend"):
            raise ValueError(f'memory={self.memory!r} is unknown; choose "queue" or "blend".')
        if not 0 <= self.alpha < 1 or not self.lambda_p > 0:
            raise ValueError(
                f"alpha must be at least 0 and below 1, and lambda_p above 0, but alpha={self.alpha!r} and "
                f"lambda_p={self.lambda_p!r} came."
            )
        check_widths(self, "hidden")
        check_at_least(self, q=1, inner_steps=0, inner_learning_rate=0.0, n_memory=0, max_columns=2)
        check_at_least(self, batch_size=1, max_epochs=1, patience=1)
