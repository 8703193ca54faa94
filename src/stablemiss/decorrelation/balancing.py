"""Row weights under which complete columns are uncorrelated.

    min over w ≥ 0 with mean one:   Σ_{j≠l} C_jl(w)²  +  penalty · mean of w²

where C is the weighted correlation (or covariance) of the standardised columns. Only linear dependence is
removed; `Decorrelator` measures other kinds of dependence with random features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stablemiss.checks import check_choice, check_integer, check_number
from stablemiss.data import Floats, MaskedData
from stablemiss.progress import Progress, to_progress
from stablemiss.seeding import Rng, check_rng
from stablemiss.training import MIN_OPS_FOR_THREADS, Stage, Step, run_stages, to_device

Scale = Literal["correlation", "covariance", "fixed"]
STEPS_PER_EPOCH = 20
# Smallest relative decrease of the objective that counts as an improvement.
MIN_DECREASE = 1e-3
# Epochs without an improvement before the learning rate is lowered or learning ends.
PATIENCE = 2
# Lower bound of variances in correlations, for columns whose weighted variance vanishes.
MIN_VARIANCE = 1e-4


@dataclass(frozen=True)
class BalancingDecorrelator:
    """Learns row weights that make complete columns uncorrelated.

    Parameters
    ----------
    scale : {"correlation", "covariance", "fixed"}, default="correlation"
        Scale on which linear dependence is measured. "covariance", the published form: weighted covariances
        of the standardised columns. They also fall if the weights only reduce the variances. "correlation":
        weighted correlations, which avoid this. Variances still shrink, because outlying rows contribute most
        to a correlation and lose weight. "fixed": weighted covariances, plus the squared changes of the
        variances, so that these stay close to one. It leaves a smaller effective sample size.
    penalty : float, default=1.0
        Penalty on the spread of the weights. A larger value makes them more equal and leaves more
        correlation: of a small correlation, such as a chance correlation of independent columns, the fraction
        penalty / (2 + penalty) remains. Towards zero all correlations vanish and few rows carry the weight.
    tolerance : float, default=1e-6
        A sum of squared correlations below this counts as zero. A larger value ends earlier.
    max_steps : int, default=1000
        Maximum number of steps. A larger value gets closer to the optimum; learning ends earlier when the
        objective stops falling.
    learning_rate : float, default=0.1
        Initial step size in v, where w = v² and v starts at one; lowered once before the end. A larger value
        learns faster and less reliably.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".

    See Also
    --------
    RatioDecorrelator : Weights under which complete columns are independent.
    Decorrelator : Weights for incomplete columns and their mask indicators.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> table = np.hstack([x + rng.normal(size=(500, 1)), x + rng.normal(size=(500, 1))])
    >>> weight = BalancingDecorrelator(penalty=0.01).learn_weights(table, rng=rng)
    >>> before, after = np.cov(table.T)[0, 1], np.cov(table.T, aweights=weight)[0, 1]
    >>> bool(abs(after) < 0.05 * before)
    True
    """

    scale: Scale = "correlation"
    penalty: float = 1.0
    tolerance: float = 1e-6
    max_steps: int = 1000
    learning_rate: float = 0.1
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_choice(self, scale=get_args(Scale))
        check_number(self, penalty="[0, 1e30]", tolerance="[0, inf)", learning_rate="(0, 1]")
        check_integer(self, max_steps=1)

    def learn_weights(
        self,
        columns: NDArray,
        *,
        rng: Rng,
        weight: NDArray | None = None,
        groups: NDArray | None = None,
        progress: Progress | None = None,
    ) -> Floats:
        """Learn the weights of the rows of a complete table.

        Parameters
        ----------
        columns : (n, d)
            Complete columns, such as mean-imputed ones; they are standardised here.
        rng : numpy Generator
        weight : (n,), default=None
            Weights that the rows already have; the fitted weights multiply them. None for equal weights.
        groups : (d,) int, default=None
            Columns with the same group number encode the same original column; their correlation is ignored.
            None gives every column its own group.
        progress : Progress, default=None
            Receives the objective of each epoch.

        Returns
        -------
        (n,) float64
            Fitted weights times `weight`: non-negative, with mean one.
        """
        check_rng(rng)
        data = MaskedData.of_complete(columns, weight, groups)
        data.check_has_rows()
        n, d = data.values.shape
        device = to_device(self.device)
        weights = SquaredWeights(torch.as_tensor(data.weight, dtype=torch.float32, device=device))
        table = torch.as_tensor(data.values, dtype=torch.float32, device=device)
        imbalance = _Imbalance(table, torch.as_tensor(data.groups, device=device), self.scale, weights.base)
        best = math.inf

        def objective() -> Tensor:
            # PAPER: a bound on Σ w² / n, here as a penalty.
            # DEVIATION: weights are divided by their mean instead of penalised by (Σ w / n − 1)², because
            # the size of that term grows with n.
            return imbalance(weights()) + self.penalty * weights.spread()

        def score() -> float:
            nonlocal best
            # If the imbalance is within the tolerance, only the spread of the weights counts. Equal weights
            # have spread one.
            current = max(float(imbalance(weights())), self.tolerance)
            current += self.penalty * (float(weights.spread()) - 1)
            best = current if current < (1 - MIN_DECREASE) * best else best
            return best

        stage = Stage(
            name="row weights",
            module=weights,
            steps=[Step(objective, [weights.v], partial(torch.optim.Adam, lr=self.learning_rate), math.inf)],
            score=score,
            max_epochs=-(-self.max_steps // STEPS_PER_EPOCH),
            patience=PATIENCE,
            lr_reductions=1,
            min_batches=STEPS_PER_EPOCH,
            n_threads=1 if n * d * d < MIN_OPS_FOR_THREADS else None,
        )
        run_stages([stage], rng, to_progress(progress))
        fitted = weights().detach().double().cpu().numpy()
        return fitted / fitted.mean()


class SquaredWeights(nn.Module):
    """Weights of mean one: base · v², rescaled; v is learned and starts at one.

    Parameters
    ----------
    base : (n,) tensor
        Weights that the rows already have.

    Examples
    --------
    >>> SquaredWeights(torch.tensor([1.0, 3.0]))().tolist()
    [0.5, 1.5]
    """

    base: Tensor

    def __init__(self, base: Tensor):
        super().__init__()
        self.register_buffer("base", base)
        self.v = nn.Parameter(torch.ones_like(base))

    def forward(self) -> Tensor:
        weight = self.base * self.v**2
        return weight / weight.mean()

    def spread(self) -> Tensor:
        """Mean of v⁴ after scaling v² to mean one; one for equal v."""
        ratio = self.v**2
        return (ratio / ratio.mean()).square().mean()


class _Imbalance:
    """Sum of squared correlations or covariances between columns, as a function of the row weights.

    Parameters
    ----------
    table : (n, d) tensor
        Standardised columns.
    groups : (d,) int tensor
        Pairs of columns with the same group number are ignored.
    scale : {"correlation", "covariance", "fixed"}
        As in `BalancingDecorrelator`.
    base : (n,) tensor
        Initial weights; "fixed" keeps the variances under these weights.
    """

    def __init__(self, table: Tensor, groups: Tensor, scale: Scale, base: Tensor):
        self.table = table
        self.scale = scale
        self.pairs = groups[:, None] != groups
        # The variance is one, or zero for a constant column.
        self.variance = self._covariance(base).diagonal()

    def __call__(self, weight: Tensor) -> Tensor:
        covariance = self._covariance(weight)
        variance = covariance.diagonal()
        if self.scale == "correlation":
            deviation = variance.clamp(min=MIN_VARIANCE).sqrt()
            covariance = covariance / (deviation[:, None] * deviation)
        # PAPER: Σ_j ‖X_jᵀ Σ_W X_{−j} / n − (X_jᵀ W / n) (X_{−j}ᵀ W / n)‖².
        loss = covariance[self.pairs].square().sum()
        return loss + (variance - self.variance).square().sum() if self.scale == "fixed" else loss

    def _covariance(self, weight: Tensor) -> Tensor:
        """Covariances (d, d) under weights (n,) of mean one."""
        weighted = weight[:, None] * self.table / len(weight)
        mean = weighted.sum(dim=0)
        return weighted.T @ self.table - mean[:, None] * mean
