"""DGBR: the code of an auto-encoder, balanced between high and low values of each column by row weights.

Kuang, Cui, Athey, Xiong and Li, "Stable Prediction across Unknown Environments", KDD 2018 (deep global
balancing regression), for binary columns X, row weights W, encoder φ and reconstruction X̂:

    min over W, β, φ   Σ_i W_i log(1 + exp((1 − 2 y_i) φ(x_i)ᵀβ))
    subject to         Σ_j ‖ φ(X₋ⱼ)ᵀ(W ⊙ Xⱼ) / (WᵀXⱼ)  −  φ(X₋ⱼ)ᵀ(W ⊙ (1 − Xⱼ)) / (Wᵀ(1 − Xⱼ)) ‖² ≤ λ₁,
                       ‖(X − X̂) ⊙ W‖² ≤ λ₂,  bounds on ‖W‖², ‖β‖², ‖β‖₁, (Σ W − 1)² and the layers' norms

where X₋ⱼ is X with zeros in column j. With the identity as φ this is CRLR. Only the abstract of the paper was
available, and there is no public code: the equation and what is marked PAPER were not checked against it.

Deviations: columns of any kind, binarised at the median as treatments; several classes by softmax, and
squared loss for numbers; the balanced code is standardised, in place of the bound on the norms of the layers;
a step balances a random subset of the treatments; only observed values are reconstructed, and weights enter
that term once; a stronger penalty on the weights; no penalty on ‖β‖₁. Two more are in
`decorrelation/global_balance.py`. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from stablemiss.base.linear import design, regress
from stablemiss.base.method import Method, Predictor
from stablemiss.base.network import NetworkPredictor, train_and_validation_rows
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import check_integer, check_number, check_widths
from stablemiss.data import Floats, MaskedData, centre_and_scale
from stablemiss.decorrelation.balancing import SquaredWeights
from stablemiss.decorrelation.global_balance import BalancedModel, GlobalBalance, JointBalancer
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import History, Rows, to_device

# Maximum number of values that are encoded at once for the balance; fewer treatments are used in wide tables.
MAX_CELLS = 2**25
# Lower bound of the standard deviation of a code, for codes that are constant.
MIN_CODE_SCALE = 1e-3


class CodeRegression(nn.Module):
    """Standardised mean-imputed columns, an encoder of sigmoid layers, and a linear map from its code.

    Parameters
    ----------
    d, d_output : int
        Number of columns and outputs.
    hidden : sequence of int
        Widths of the layers of the encoder; the last one is the code. An empty sequence is the identity.

    Shape
    -----
    values (n, d), mask (n, d) → outputs (n, d_output)

    Examples
    --------
    >>> CodeRegression(3, 1, hidden=[8, 2])(torch.zeros(4, 3), torch.ones(4, 3)).shape
    torch.Size([4, 1])
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, d: int, d_output: int, hidden: Sequence[int]):
        super().__init__()
        self.config = {"d": d, "d_output": d_output, "hidden": tuple(hidden)}
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("factor", torch.ones(d))
        # PAPER: sigmoid layers.
        self.encoder = nn.Sequential()
        for d_in, d_out in pairwise([d, *hidden]):
            self.encoder.append(nn.Linear(d_in, d_out))
            self.encoder.append(nn.Sigmoid())
        self.head = nn.Linear([d, *hidden][-1], d_output)
        # Initially predicts the mean.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def columns(self, values: Tensor, mask: Tensor) -> Tensor:
        """Standardised columns (n, d), zero where missing."""
        return (values - self.mean) * self.factor * mask

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.encoder(self.columns(values, mask)))


class BalancedAutoEncoder(BalancedModel):
    """A `CodeRegression` with the decoder and the row weights that it needs in training.

    Parameters
    ----------
    network : CodeRegression
    rows, validation : Rows
    task : Task
    balance : GlobalBalance
        Of the training rows.
    method : DGBR
        Its `reconstruction`, `ridge` and `n_treatments` are used.
    """

    def __init__(
        self,
        network: CodeRegression,
        rows: Rows,
        validation: Rows,
        task: Task,
        balance: GlobalBalance,
        method: DGBR,
    ):
        super().__init__()
        self.network, self.rows, self.validation = network, rows, validation
        self.task, self.balance, self.method = task, balance, method
        self.weights = SquaredWeights(rows.weight)
        widths = [rows.values.shape[1], *method.hidden][::-1]
        self.decoder = nn.Sequential()
        for d_in, d_out in pairwise(widths):
            if len(self.decoder):
                self.decoder.append(nn.Sigmoid())
            self.decoder.append(nn.Linear(d_in, d_out))
        n, d = rows.values.shape
        self.n_treatments = int(max(1, min(method.n_treatments, MAX_CELLS // max(1, n * d))))
        # PAPER: X₋ⱼ is X with zeros in column j; here also in the other columns of its category.
        self.keep = balance.is_confounder.to(rows.values)

    def loss(self, weight: Tensor) -> Tensor:
        return (weight * self._losses(self.rows)).mean() + self._shrinkage()

    def validation_loss(self) -> Tensor:
        share = self.validation.weight / self.validation.weight.sum()
        return (share * self._losses(self.validation)).sum() + self._shrinkage()

    def imbalance(self, weight: Tensor) -> Tensor:
        n_all = len(self.balance.columns)
        code = self.network.encoder(self.balance.table)
        share = (self.rows.weight / self.rows.weight.sum())[:, None]
        variance = (share * (code - (share * code).sum(dim=0)).square()).sum(dim=0)
        # DEVIATION: differences of codes are divided by their standard deviations, instead of a bound on the
        # norms of the layers, because small codes would otherwise be balanced, however dependent they are.
        deviation = variance.clamp_min(MIN_CODE_SCALE**2).sqrt()
        if not self.training or n_all <= self.n_treatments:
            chosen = torch.arange(n_all, device=weight.device)
        else:
            # DEVIATION: a random subset in each step, because each treatment has its own codes, which would
            # make a step as expensive as an epoch.
            chosen = torch.randperm(n_all, device=weight.device)[: self.n_treatments]
        total = weight.new_zeros(())
        for treatments in chosen.split(self.n_treatments):
            # PAPER: φ(X₋ⱼ), the code of the row without the treatment.
            codes = self.network.encoder(self.balance.table * self.keep[treatments][:, None])
            contrasts = self.balance.contrasts(weight, treatments)
            differences = (contrasts.T[:, None] @ codes)[:, 0] / deviation
            total = total + differences.square().sum()
        return total * (n_all / max(1, len(chosen)))

    def _losses(self, rows: Rows) -> Tensor:
        """Loss of each row, (n,)."""
        columns = self.network.columns(rows.values, rows.mask)
        code = self.network.encoder(columns)
        losses = self.task.row_loss(self.network.head(code), rows.target)
        if not self.method.hidden:
            return losses
        # DEVIATION: only of observed values, because imputed ones carry no information; and with the weights
        # of the prediction loss, not their squares, because rare rows would otherwise determine the code.
        errors = (rows.mask * (columns - self.decoder(code)).square()).mean(dim=1)
        return losses + self.method.reconstruction * errors

    def _shrinkage(self) -> Tensor:
        return self.method.ridge * self.network.head.weight.square().sum()


class DGBRPredictor(NetworkPredictor):
    """A trained `CodeRegression`; decoder and row weights are used in training only.

    Parameters
    ----------
    network : CodeRegression
    history : sequence of History, default=()
        Training history; empty for a loaded predictor.
    weight : (n,), default=None
        Fitted weights of the training rows, mean one; None for a loaded predictor.
    """

    network_class = CodeRegression

    def __init__(self, network: nn.Module, history: Sequence[History] = (), weight: Floats | None = None):
        super().__init__(network, history)
        self.weight = weight

    @property
    def effective_share(self) -> float | None:
        if self.weight is None:
            return None
        return float(self.weight.sum() ** 2 / (self.weight**2).sum() / len(self.weight))


class DGBR(Method):
    """An auto-encoder whose code predicts the target, with weights that balance the code with each column.

    Each column in turn is a treatment, and the weights give the rows with high and with low values of it the
    same mean code of all other columns. A code of few dimensions is easier to balance than many columns.
    Auto-encoder, prediction and weights are learned jointly.

    Parameters
    ----------
    hidden : sequence of int, default=(64,)
        Widths of the layers of the encoder and, reversed, of the decoder; the last one is the length of the
        code. Wider layers fit more; a longer code keeps more of a row and is harder to balance. An empty
        sequence is the identity, which gives CRLR.
    reconstruction : float, default=1.0
        λ₂, the weight of the mean squared reconstruction error relative to the loss of the prediction. A
        larger value gives a code that represents the columns, a smaller one a code that predicts the target.
    balance : float, default=0.1
        λ₁, the weight of the imbalance, a sum over columns and codes. A larger value balances better and
        leaves a smaller effective sample size and, because the encoder changes too, a less informative code.
    penalty : float, default=1.0
        Penalty on the mean squared weight. A larger value makes the weights more equal and leaves more
        imbalance. If it is not larger than the losses of single rows, rows that are predicted badly lose
        their weight.
    n_treatments : int, default=4
        Number of columns that a step balances; a random subset if there are more. A larger value makes the
        weights less noisy; the cost is proportional.
    max_steps : int, default=1000
        Maximum number of steps, each on all rows. A larger value gets closer to the optimum; learning ends
        earlier when the objective stops falling.
    learning_rate : float, default=0.01
        Initial learning rate of auto-encoder and prediction, lowered once. A larger value learns faster and
        less reliably.
    ridge : float, default=1e-6
        Penalty on the squared coefficients of the code. A larger value shrinks them towards zero.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.

    See Also
    --------
    CRLR : The same balance for the columns themselves.
    StableNet : Weights of each batch for the features of a network.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0].copy()
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=DGBR(hidden=(8,), learning_rate=0.05), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.0, 0.0], [None, 0.0]]) - [1.0, 0.0]).max() < 0.3)
    True
    """

    name: ClassVar[str] = "dgbr"
    predictor_class: ClassVar[type[Predictor]] = DGBRPredictor
    space: ClassVar[Space] = {
        "hidden": Choice((), (16,), (64,), (128,), (128, 64)),
        "reconstruction": Range(0.01, 100.0, log=True),
        "balance": Range(0.01, 100.0, log=True),
        "penalty": Range(0.1, 100.0, log=True),
        "learning_rate": Range(1e-3, 0.1, log=True),
    }
    brief: ClassVar[Mapping[str, Any]] = {"hidden": (8,), "learning_rate": 0.1, "max_steps": 40}

    # DEVIATION: penalty=1, not of the order of 1 / n as in CRLR's demo, because weights that are learned
    # jointly with the prediction would otherwise leave the rows that are predicted badly.
    def __init__(
        self,
        hidden: Sequence[int] = (64,),
        reconstruction: float = 1.0,
        balance: float = 0.1,
        penalty: float = 1.0,
        n_treatments: int = 4,
        max_steps: int = 1000,
        learning_rate: float = 0.01,
        ridge: float = 1e-6,
        device: str = "auto",
    ):
        self.hidden = hidden
        self.reconstruction = reconstruction
        self.balance = balance
        self.penalty = penalty
        self.n_treatments = n_treatments
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.device = device

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> DGBRPredictor:
        check_widths(self, "hidden")
        check_integer(self, n_treatments=1)
        check_number(self, reconstruction="[0, 1e6]", ridge="[0, 1e6]")
        balancer = JointBalancer(self.balance, self.penalty, self.max_steps, self.learning_rate)
        device = to_device(self.device)
        rows, validation = train_and_validation_rows(train, valid, device)
        means = train.column_means()
        inputs = design(train.values, train.mask, means)
        _, scale = centre_and_scale(inputs, train.weight)
        # DEVIATION: columns of any kind, which are treatments above their median, because few tables have
        # only binary columns.
        balance = GlobalBalance(inputs / scale, train.groups, device)
        with torch_randomness(rng):
            network = CodeRegression(train.n_columns, task.d_output, tuple(self.hidden))
            network.mean.copy_(torch.from_numpy(means))
            network.factor.copy_(torch.from_numpy(1 / scale))
            # DEVIATION: the loss is that of the task: softmax for several classes, squares for numbers,
            # because the paper has two classes only.
            model = BalancedAutoEncoder(network, rows, validation, task, balance, self).to(device)
        n_operations = len(train) * self.n_treatments * sum(p.numel() for p in network.parameters())
        weight, history = balancer.learn(model, n_operations, rng, progress)
        if not self.hidden:
            # DEVIATION: the last step on β is exact and has no penalty on ‖β‖₁, because this is the
            # regression of CRLR. After an encoder early stopping limits β instead, because it could overfit.
            coefficients, intercept = regress(inputs / scale, train.target, weight, task, self.ridge)
            with torch.no_grad():
                network.head.weight.copy_(torch.from_numpy(coefficients.T))
                network.head.bias.copy_(torch.from_numpy(intercept))
        return DGBRPredictor(network, history, weight)
