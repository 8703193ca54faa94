"""MaskDRO: a network that is trained for the worst of several missingness mechanisms.

Group distributionally robust optimisation (Sagawa, Koh, Hashimoto and Liang, "Distributionally Robust Neural
Networks for Group Shifts", ICLR 2020) has groups of rows. Here the groups are missingness mechanisms that
hide further values of the training rows: every row belongs to every group, with another mask in each. The
network f reads the values and the mask,

    min over f  max over q   Σ_g q_g L_g(f),      L_g: mean of loss(f(x ⊙ m, m), y) with masks of mechanism g

and in each step q_g ← max(ε / G, c q_g exp(η L_g)), with c such that the weights of the G groups sum to one.

Deviations: groups are mechanisms; a floor ε / G of the group weights; losses may be measured relative to a
linear prediction for the same mechanism; early stopping on the mean over the groups. Each is explained at its
DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stablemiss.base.linear import design, regress
from stablemiss.base.method import Method, Predictor
from stablemiss.base.network import NetworkPredictor, train_and_validation_rows, train_network
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import check_choice, check_integer, check_number, check_widths, is_real, shown, to_list
from stablemiss.data import Bools, Floats, MaskedData, zero_where_missing
from stablemiss.missingness import MCARIndependent, MCARWindow, Mechanism, Outage
from stablemiss.networks import MLP
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_randomness
from stablemiss.training import History, Rows, Step, adamw, to_device

# Largest number of mechanisms of one kind.
MAX_GROUPS = 1000
# Penalty on the squared coefficients of the linear predictions that losses are compared with.
REFERENCE_RIDGE = 1e-3


class MaskedMLP(nn.Module):
    """An MLP that reads values and mask.

    Parameters
    ----------
    d, d_output : int
        Number of columns and outputs.
    hidden : sequence of int
        Widths of the hidden layers.

    Shape
    -----
    values (n, d), mask (n, d) → outputs (n, d_output)

    Examples
    --------
    >>> MaskedMLP(3, 1, hidden=[8])(torch.zeros(4, 3), torch.ones(4, 3)).shape
    torch.Size([4, 1])
    """

    def __init__(self, d: int, d_output: int, hidden: Sequence[int]):
        super().__init__()
        self.config = {"d": d, "d_output": d_output, "hidden": tuple(hidden)}
        self.mlp = MLP([2 * d, *hidden, d_output])
        # Initially predicts the mean, which is kept if training does not improve the validation score.
        nn.init.zeros_(self.mlp.last.weight)
        nn.init.zeros_(self.mlp.last.bias)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return self.mlp(torch.cat([values * mask, mask], dim=1))


class GroupWeights:
    """Weights of the groups by exponentiated gradient ascent, with a floor.

    Parameters
    ----------
    n_groups : int
    step_size : float
        η. A larger value follows the worst group faster and is noisier; 0 keeps equal weights.
    floor : float
        ε, the sum of the floors, from 0 to 1. No weight falls below floor / n_groups; 1 keeps equal weights.

    Attributes
    ----------
    q : (n_groups,) float64
        Weights, which sum to one.

    Examples
    --------
    >>> weights = GroupWeights(2, step_size=1.0, floor=0.2)
    >>> for _ in range(100):
    ...     weights.update(np.array([1.0, 3.0]))
    >>> weights.q.round(3).tolist()
    [0.1, 0.9]
    """

    def __init__(self, n_groups: int, step_size: float, floor: float):
        self.step_size, self.floor = step_size, floor
        self.q = np.full(n_groups, 1 / n_groups)

    def update(self, losses: Floats) -> None:
        """One step with the loss of each group, (n_groups,). Losses that are not finite are ignored."""
        if not np.isfinite(losses).all():
            return
        # PAPER: q_g ← q_g exp(η L_g), rescaled to sum one. The maximum is subtracted against overflow.
        # Without a floor, the weight of the group that has it may have been rounded to zero.
        scaled = self.step_size * losses
        risen = np.maximum(self.q, np.finfo(np.float64).tiny) * np.exp(scaled - scaled.max())
        # DEVIATION: with a floor, because a group whose weight has vanished would be forgotten by the network
        # and would need many steps to return.
        self.q = _raise_to(self.floor / len(self.q), risen)


class MaskDROPredictor(NetworkPredictor):
    """A trained `MaskedMLP`.

    Parameters
    ----------
    network : MaskedMLP
    history : sequence of History, default=()
        Training history; empty for a loaded predictor.
    group_weights : dict of str to float, default=None
        Mechanism → its weight at the end of the training; None for a loaded predictor.
    """

    network_class = MaskedMLP

    def __init__(
        self,
        network: nn.Module,
        history: Sequence[History] = (),
        group_weights: dict[str, float] | None = None,
    ):
        super().__init__(network, history)
        self.group_weights = group_weights


class MaskDRO(Method):
    """A network on values and mask, trained for the worst of several missingness mechanisms.

    In every step each row gets a mask of one mechanism: unchanged, values missing completely at random,
    windows of neighbouring columns, or a single column. Mechanisms with a larger loss get a larger weight.

    Parameters
    ----------
    levels : sequence of float, default=(0.25, 0.5, 0.75)
        Shares of further values that are hidden, each of which is one mechanism for values missing completely
        at random. Higher levels prepare for more missing values, and take weight from other mechanisms.
    window : float, default=0.5
        Share of the columns in the window that one more mechanism hides. A larger value hides more; 0 leaves
        the mechanism out.
    n_vanishing : int, default=8
        Number of columns that vanish, each in a mechanism of its own: the columns that a linear prediction
        relies on most. A larger value protects against the loss of more columns, and leaves fewer rows for
        each mechanism in a batch.
    reference : {"none", "linear"}, default="none"
        What the loss of a mechanism is compared with before the weights are updated. "none": nothing; the
        mechanism that hides most then usually counts as the worst. "linear": the loss of a linear prediction
        fitted to that mechanism, so that mechanisms which are merely hard do not attract all the weight.
    step_size : float, default=0.01
        η, the step size of the weights of the mechanisms. A larger value follows the worst mechanism faster;
        0 keeps equal weights.
    floor : float, default=0.2
        ε: no mechanism has less than this fraction of its equal share of the weight, from 0 to 1. A larger
        value protects all mechanisms more equally; 1 keeps equal weights.
    hidden : sequence of int, default=(128, 128)
        Widths of the hidden layers. Wider layers fit more and overfit sooner.
    learning_rate : float, default=2e-3
        Initial learning rate, lowered up to three times. A larger value trains faster and less reliably.
    weight_decay : float, default=0.1
        Weight decay of the matrices. A larger value gives a smoother function; the worst group generalises
        only if the network does not fit all training rows.
    batch_size : int, default=256
        Maximum number of rows in a step. A larger value estimates the losses of the mechanisms better and
        makes fewer steps.
    max_epochs : int, default=100
        Maximum number of epochs.
    patience : int or None, default=8
        Epochs without a better validation loss after which the learning rate is lowered, at most three times;
        then training ends. A larger value finds late improvements and takes longer. None turns early stopping
        off: all epochs are run, and the network of the last one is kept.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for training.

    See Also
    --------
    ColumnNet : Masks of all kinds with equal weights, and a reconstruction loss.
    StableMiss : Generates the parameters of the predictor from the mask.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0].copy()
    >>> model = MissingRegressor(method=MaskDRO(hidden=(32,), max_epochs=20), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.0, 0.0], [None, 0.0]]) - [1.0, 0.0]).max() < 0.4)
    True
    """

    name: ClassVar[str] = "mask_dro"
    predictor_class: ClassVar[type[Predictor]] = MaskDROPredictor
    space: ClassVar[Space] = {
        "reference": Choice("none", "linear"),
        "step_size": Range(1e-3, 1.0, log=True),
        "floor": Range(0.0, 1.0),
        "hidden": Choice((128,), (128, 128), (256, 256)),
        "learning_rate": Range(3e-4, 1e-2, log=True),
        "weight_decay": Range(1e-3, 1.0, log=True),
    }
    brief: ClassVar[Mapping[str, Any]] = {
        "n_vanishing": 2,
        "hidden": (32,),
        "learning_rate": 2e-2,
        "max_epochs": 4,
    }

    def __init__(
        self,
        levels: Sequence[float] = (0.25, 0.5, 0.75),
        window: float = 0.5,
        n_vanishing: int = 8,
        reference: Literal["none", "linear"] = "none",
        step_size: float = 0.01,
        floor: float = 0.2,
        hidden: Sequence[int] = (128, 128),
        learning_rate: float = 2e-3,
        weight_decay: float = 0.1,
        batch_size: int = 256,
        max_epochs: int = 100,
        patience: int | None = 8,
        device: str = "auto",
    ):
        self.levels = levels
        self.window = window
        self.n_vanishing = n_vanishing
        self.reference = reference
        self.step_size = step_size
        self.floor = floor
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.device = device

    @property
    def hides_values(self) -> bool:
        return True

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> MaskDROPredictor:
        self._check()
        device = to_device(self.device)
        with torch_randomness(rng):
            network = MaskedMLP(train.n_columns, task.d_output, tuple(self.hidden)).to(device)
        # DEVIATION: groups are mechanisms, imposed on all rows, because what may change is the missingness.
        groups = MaskGroups(self._mechanisms(train, task), train.groups)
        reference = self._reference_losses(train, task, groups, rng)
        weights = GroupWeights(len(groups), self.step_size, self.floor)

        def loss(batch: Rows) -> Tensor:
            group, keep = groups.draw(len(batch), rng)
            mask = batch.mask * torch.from_numpy(keep).to(batch.mask)
            # A group without rows in a small batch has no loss; its weight stays about the same.
            member = nn.functional.one_hot(torch.from_numpy(group), len(groups)).to(batch.weight)
            losses = task.row_loss(network(batch.values * mask, mask), batch.target)
            mass = batch.weight @ member
            group_losses = (batch.weight * losses) @ member / mass.clamp_min(1e-6)
            is_present = (mass > 0).cpu().numpy()
            current = group_losses.detach().double().cpu().numpy() - reference
            mean = current[is_present].mean() if is_present.any() else 0.0
            weights.update(np.where(is_present, current, mean))
            q = torch.as_tensor(np.where(is_present, weights.q, 0.0)).to(batch.weight)
            # Times the mean sample weight, so that heavy batches count more.
            return batch.weight.mean() * (q @ group_losses) / q.sum().clamp_min(1e-12)

        # DEVIATION: early stopping on the mean over the mechanisms, because the worst one is usually that
        # which hides most, whose loss alone tells little about the others.
        copies = groups.copies(valid if len(valid) else train, rng)
        rows, validation = train_and_validation_rows(train, copies, device)
        step = Step(loss, list(network.parameters()), adamw(self.learning_rate, self.weight_decay))
        history = train_network(self, network, [step], rows, validation, task, rng, progress)
        names = map(str, groups.mechanisms)
        return MaskDROPredictor(network, history, dict(zip(names, weights.q.tolist(), strict=True)))

    def _mechanisms(self, train: MaskedData, task: Task) -> list[Mechanism]:
        """The mechanisms; columns are those of the user's table. The first one hides nothing."""
        mechanisms: list[Mechanism] = [MCARIndependent(0.0)]
        mechanisms += [MCARIndependent(float(level), spread=0.0) for level in self.levels]
        if self.window:
            mechanisms.append(MCARWindow(self.window, spread=0.0))
        if self.n_vanishing and len(np.unique(train.groups)) > 1:
            mechanisms += [Outage([column]) for column in _most_relevant(train, task)[: self.n_vanishing]]
        return mechanisms

    def _reference_losses(self, train: MaskedData, task: Task, groups: MaskGroups, rng: Rng) -> Floats:
        """Loss of each group that counts as zero, (n_groups,)."""
        # DEVIATION: relative to a linear prediction for the same mechanism, if asked for, because values that
        # nobody can predict are no reason to give a mechanism more weight.
        if self.reference == "none":
            return np.zeros(len(groups))
        losses = []
        for mechanism in range(len(groups)):
            masked = train.keep_where(groups.draw_group(mechanism, len(train), rng))
            inputs = design(masked.values, masked.mask, masked.column_means(), use_mask=True)
            coefficients, intercept = regress(inputs, train.target, train.weight, task, REFERENCE_RIDGE)
            losses.append(task.loss(inputs @ coefficients + intercept, train.target, train.weight))
        return np.array(losses)

    def _check(self) -> None:
        levels = to_list(self.levels)
        if levels is None or not all(is_real(level) and 0 < level <= 1 for level in levels):
            raise ValueError(
                "levels must be a sequence of numbers above 0 and at most 1, such as (0.25, 0.5); got "
                f"{shown(self.levels)}."
            )
        check_number(self, window="[0, 1]", step_size="[0, 1e6]", floor="[0, 1]")
        check_integer(self, n_vanishing=(0, MAX_GROUPS), batch_size=1, max_epochs=1)
        check_integer(self, patience=1, unless=None)
        check_choice(self, reference=("none", "linear"))
        check_number(self, learning_rate="(0, 1]", weight_decay="[0, inf)")
        check_widths(self, "hidden")


class MaskGroups:
    """Mechanisms as groups of rows.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        Mechanisms for the columns of the user's table, which need no fit.
    columns : (d,) int
        The column of the user's table that each encoded column belongs to; those of one are hidden together.
    """

    def __init__(self, mechanisms: Sequence[Mechanism], columns: NDArray):
        self.mechanisms = list(mechanisms)
        distinct, self._index = np.unique(columns, return_inverse=True)
        self._n_columns = len(distinct)

    def __len__(self) -> int:
        return len(self.mechanisms)

    def draw_group(self, group: int, n: int, rng: Rng) -> Bools:
        """Draw masks (n, d) of one group, True = stays observed."""
        mask = self.mechanisms[group].draw(np.zeros((n, self._n_columns)), rng)
        return mask[:, self._index]

    def draw(self, n: int, rng: Rng) -> tuple[NDArray[np.int64], Bools]:
        """Draw the group of each of n rows, (n,), all about equally often, and its mask, (n, d)."""
        group = rng.permutation(np.arange(n) + rng.integers(len(self))) % len(self)
        keep = np.empty((n, len(self._index)), dtype=bool)
        for one in range(len(self)):
            rows = group == one
            keep[rows] = self.draw_group(one, int(rows.sum()), rng)
        return group, keep

    def copies(self, data: MaskedData, rng: Rng) -> MaskedData:
        """All rows once in each group."""
        masks = [data.mask & self.draw_group(group, len(data), rng) for group in range(len(self))]
        mask = np.concatenate(masks)
        return replace(
            data,
            values=zero_where_missing(np.tile(data.values, (len(self), 1)), mask),
            mask=mask,
            target=np.concatenate([data.target] * len(self)),
            weight=np.tile(data.weight, len(self)),
        )


def _raise_to(least: float, weights: Floats) -> Floats:
    """Weights that sum to one, none below `least`; those above it keep their proportions.

    Of all such weights these are the nearest in Kullback-Leibler divergence.
    """
    is_raised = np.zeros(len(weights), dtype=bool)
    while not is_raised.all():
        left = 1 - least * is_raised.sum()
        projected = np.where(is_raised, least, weights * (left / weights[~is_raised].sum()))
        is_below = projected < least
        if not is_below.any():
            return projected
        is_raised |= is_below
    return np.full(len(weights), 1 / len(weights))


def _most_relevant(train: MaskedData, task: Task) -> list[int]:
    """Columns of the user's table, those first whose contribution to a linear prediction varies most."""
    inputs = design(train.values, train.mask, train.column_means())
    coefficients, _ = regress(inputs, train.target, train.weight, task, REFERENCE_RIDGE)
    _, index = np.unique(train.groups, return_inverse=True)
    share = train.weight / train.weight.sum()
    relevance = np.zeros((index.max() + 1, task.d_output))
    for column in range(len(relevance)):
        contribution = inputs[:, index == column] @ coefficients[index == column]
        relevance[column] = share @ contribution**2
    return np.argsort(-relevance.sum(axis=1), kind="stable").tolist()
