"""Global confounder balance: row weights, learned jointly with a predictor, that balance all columns.

Each column in turn is a treatment, binarised; the other columns are its confounders. They are balanced if
their weighted means are the same with and without the treatment:

    imbalance(w) = Σ_j ‖ mean of x₋ⱼ where tⱼ = 1  −  mean of x₋ⱼ where tⱼ = 0 ‖²,   means weighted by w

and the weights of mean one are learned together with the parameters of a predictor:

    min   loss(w)  +  balance · imbalance(w)  +  penalty · mean of w²
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stablemiss.checks import check_integer, check_number
from stablemiss.data import Bools, Floats
from stablemiss.decorrelation.balancing import MIN_DECREASE, PATIENCE, STEPS_PER_EPOCH, SquaredWeights
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.training import MIN_OPS_FOR_THREADS, History, Stage, Step, run_stages

# Initial step size in v, where w = v²; as in `BalancingDecorrelator`.
WEIGHT_LEARNING_RATE = 0.1
# Lower bound of the total weight with or without a treatment, which the weights could make vanish.
MIN_SHARE = 1e-6


def binarise(table: Floats) -> Bools:
    """Treatments (n, d) of complete columns: whether a value is above the median of its column.

    If no value is, as in a column of zeros and ones that are mostly ones, values equal to the median count as
    treated. A constant column is treated in all rows.

    Examples
    --------
    >>> binarise(np.array([[0.0, 1.0], [3.0, 1.0], [5.0, 0.0]])).astype(int).tolist()
    [[0, 1], [0, 1], [1, 0]]
    """
    if not len(table):
        return np.zeros(table.shape, dtype=bool)
    median = np.median(table, axis=0)
    above = table > median
    return np.where(above.any(axis=0), above, table >= median)


class GlobalBalance:
    """Differences between the rows with and without each treatment, as a function of the row weights.

    Parameters
    ----------
    table : (n, d)
        Standardised complete columns.
    groups : (d,) int
        Columns with the same group number encode the same original column; none of them is a confounder of
        another.
    device : torch device

    Attributes
    ----------
    columns : (k,) int64 array
        Columns that are treatments: all except constant ones.
    is_confounder : (k, d) bool tensor
        Whether a column is a confounder of a treatment.

    See Also
    --------
    JointBalancer : Learns weights that lower it together with a predictor.

    Examples
    --------
    Two equal columns: their means differ by the distance between the two halves.

    >>> table = np.array([[-1.0, -1.0], [-1.0, -1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> balance = GlobalBalance(table, np.arange(2), torch.device("cpu"))
    >>> float(balance.imbalance(torch.ones(4)))
    8.0
    """

    def __init__(self, table: Floats, groups: NDArray, device: torch.device):
        treated = binarise(table)
        self.columns = np.flatnonzero(treated.any(axis=0) & ~treated.all(axis=0))
        self.treated = torch.as_tensor(treated[:, self.columns], dtype=torch.float32, device=device)
        self.table = torch.as_tensor(table, dtype=torch.float32, device=device)
        self.is_confounder = torch.as_tensor(groups[self.columns, None] != groups, device=device)

    def contrasts(self, weight: Tensor, treatments: Tensor | None = None) -> Tensor:
        """Coefficients (n, k) of the rows, whose products with confounders are the differences of means.

        Parameters
        ----------
        weight : (n,) tensor
            Row weights.
        treatments : int tensor, default=None
            Positions in `columns`; None for all.
        """
        treated = self.treated if treatments is None else self.treated[:, treatments]
        # PAPER: X₋ⱼᵀ(W ⊙ Xⱼ) / (Wᵀ Xⱼ) − X₋ⱼᵀ(W ⊙ (1 − Xⱼ)) / (Wᵀ (1 − Xⱼ)).
        with_it = weight[:, None] * treated
        without = weight[:, None] - with_it
        least = MIN_SHARE * len(weight)
        return with_it / with_it.sum(dim=0).clamp_min(least) - without / without.sum(dim=0).clamp_min(least)

    def imbalance(self, weight: Tensor) -> Tensor:
        """Sum of the squared differences over all treatments and their confounders among the columns."""
        differences = self.contrasts(weight).T @ self.table
        return (differences * self.is_confounder).square().sum()


class BalancedModel(nn.Module, ABC):
    """A predictor and the weights of its training rows, to be learned by `JointBalancer`."""

    weights: SquaredWeights

    @abstractmethod
    def loss(self, weight: Tensor) -> Tensor:
        """Everything but balance and spread of the weights, on the training rows under these weights (n,)."""

    @abstractmethod
    def validation_loss(self) -> Tensor:
        """The same on the validation rows."""

    @abstractmethod
    def imbalance(self, weight: Tensor) -> Tensor:
        """Imbalance under these weights (n,); in training mode it may be an estimate."""


@dataclass(frozen=True)
class JointBalancer:
    """Learns row weights for global balance together with the predictor that they weight.

    Parameters
    ----------
    balance : float
        Weight of the imbalance. A larger value balances better and leaves a smaller effective sample size.
    penalty : float
        Penalty on the spread of the weights. A larger value makes them more equal and leaves more imbalance.
    max_steps : int
        Maximum number of steps, each on all rows. A larger value gets closer to the optimum.
    learning_rate : float
        Initial learning rate of the predictor. A larger value learns faster and less reliably.

    See Also
    --------
    BalancingDecorrelator : Weights under which columns are uncorrelated, learned without a predictor.
    """

    balance: float
    penalty: float
    max_steps: int
    learning_rate: float

    def __post_init__(self) -> None:
        check_number(self, balance="[0, 1e6]", penalty="[0, 1e30]", learning_rate="(0, 1]")
        check_integer(self, max_steps=1)

    def learn(
        self, model: BalancedModel, n_operations: int, rng: Rng, progress: Progress
    ) -> tuple[Floats, list[History]]:
        """Train the model in place; returns the weights (n,) of mean one and the training history.

        Parameters
        ----------
        model : BalancedModel
        n_operations : int
            Multiplications in a step, which decide the number of threads.
        rng : numpy Generator
        progress : Progress
        """
        weights = model.weights
        others = [parameter for parameter in model.parameters() if parameter is not weights.v]
        best = math.inf

        def objective() -> Tensor:
            # DEVIATION: weights are divided by their mean instead of penalised by (Σ w − 1)², because the
            # size of that term depends on n.
            weight = weights()
            loss = model.loss(weight) + self.penalty * weights.spread()
            return loss + self.balance * model.imbalance(weight)

        def score() -> float:
            nonlocal best
            loss = float(model.validation_loss())
            current = loss + self.balance * float(model.imbalance(weights()))
            current += self.penalty * (float(weights.spread()) - 1)
            # A score that is not finite is passed on, because training then has diverged. Otherwise small
            # improvements do not count: relative to the loss, which can be much smaller than the other terms.
            if not math.isfinite(current):
                return current
            best = current if current < best - MIN_DECREASE * loss else best
            return best

        def adam(parameters: list[Tensor]) -> torch.optim.Optimizer:
            v, *rest = parameters
            groups: list[dict[str, Any]] = [{"params": [v], "lr": WEIGHT_LEARNING_RATE}, {"params": rest}]
            return torch.optim.Adam(groups, lr=self.learning_rate)

        # PAPER: weights and predictor are learned jointly.
        # DEVIATION: one step of Adam on both instead of alternating proximal steps, and early stopping on the
        # objective with validation rows in its loss, because a network overfits.
        stage = Stage(
            name="row weights and predictor",
            module=model,
            steps=[Step(objective, [weights.v, *others], adam, clip=math.inf)],
            score=score,
            max_epochs=-(-self.max_steps // STEPS_PER_EPOCH),
            patience=PATIENCE,
            lr_reductions=1,
            min_batches=STEPS_PER_EPOCH,
            n_threads=1 if n_operations < MIN_OPS_FOR_THREADS else None,
        )
        history = run_stages([stage], rng, progress)
        fitted = weights().detach().double().cpu().numpy()
        return fitted / fitted.mean(), history
