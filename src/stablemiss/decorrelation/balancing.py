"""Row weights under which complete columns are uncorrelated.

    min over w ≥ 0 with mean one:   Σ_{j≠l} C_jl(w)²  +  penalty · mean of w²

where C is the weighted correlation (or covariance) of the standardised columns. Only what is linear is
balanced: columns may stay dependent in other ways, which `weigh_rows` looks for with random features.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stablemiss.data import Floats, MaskedData, centre_and_scale
from stablemiss.progress import NullProgress, Progress
from stablemiss.seeding import Rng
from stablemiss.training import SMALL_STEP, Rows, Stage, Step, run_stages, to_device

Scale = Literal["correlation", "covariance", "fixed"]
# Steps between two looks at whether the objective still falls, the share of it that counts as a gain, and
# looks without a gain before it does not fall any more.
STEPS = 20
GAIN = 1e-3
PATIENCE = 2
# A variance below this, of columns that began with one, is taken for none.
NO_VARIANCE = 1e-4


class _SquaredWeights(nn.Module):
    """Weights of mean one, base · v² scaled; `spread` is the mean of v⁴ where that of v² is one."""

    base: Tensor

    def __init__(self, base: Tensor):
        super().__init__()
        self.register_buffer("base", base)
        self.v = nn.Parameter(torch.ones_like(base))

    def forward(self) -> Tensor:
        weight = self.base * self.v**2
        return weight / weight.mean()

    def spread(self) -> Tensor:
        ratio = self.v**2
        return (ratio / ratio.mean()).square().mean()


def balance_weights(
    columns: NDArray,
    scale: Scale = "correlation",
    penalty: float = 1.0,
    *,
    rng: Rng,
    base: NDArray | None = None,
    groups: NDArray | None = None,
    tolerance: float = 1e-6,
    max_steps: int = 1000,
    learning_rate: float = 0.1,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Floats:
    """Learn row weights that make columns uncorrelated.

    Parameters
    ----------
    columns : (n, d)
        Complete columns, such as mean-imputed ones; standardised here.
    scale : "correlation", "covariance" or "fixed"
        What is made small. "covariance" is as published; covariances also vanish where variances do, so part
        of what they lose is not dependence. "correlation" counts that for nothing, but rows far out carry
        much of a correlation, so variances shrink here too. "fixed" are covariances with each variance held
        at one; it costs more rows.
    penalty : float
        The price of uneven weights. Of small correlations, such as chance leaves among independent columns,
        the share penalty / (2 + penalty) remains. Towards zero all go, and few rows carry the weight.
    rng : numpy Generator
    base : (n,), optional
        Weights that the rows have already. What is learnt multiplies them; equal by default.
    groups : (d,) int, optional
        Columns with the same number are parts of one, so their correlation does not count.
    tolerance : float
        A sum of squares below this counts as balanced. Raising it ends sooner.
    max_steps : int
        Most steps. It ends sooner when the objective has stopped falling.
    learning_rate : float
        First step size in v, where w = v² and v begins at one; lowered once before the end.
    device : str
        "cpu", "cuda" or "auto".
    progress : Progress, optional

    Returns
    -------
    (n,) float64
        Learnt weights times `base`: not negative, mean one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> table = np.hstack([x + rng.normal(size=(500, 1)), x + rng.normal(size=(500, 1))])
    >>> weight = balance_weights(table, penalty=0.01, rng=rng)
    >>> before, after = np.cov(table.T)[0, 1], np.cov(table.T, aweights=weight)[0, 1]
    >>> bool(abs(after) < 0.05 * before)
    True
    """
    _check(scale, penalty, tolerance, max_steps)
    columns = np.asarray(columns, dtype=np.float64)
    n, d = columns.shape
    centre, spread = centre_and_scale(columns, base)
    # A stage shuffles its rows, of which steps on all rows at once have no use: it gets rows without columns.
    rows = Rows.of(MaskedData.of(np.empty((n, 0)), np.empty((n, 0)), np.zeros(n), base), to_device(device))
    table = torch.as_tensor((columns - centre) / spread).to(rows.values)
    own = torch.as_tensor(np.arange(d) if groups is None else groups, device=table.device)
    counts = own[:, None] != own
    weights = _SquaredWeights(rows.weight)
    # One, but zero for a constant column.
    fixed = _covariance(table, rows.weight).diagonal()

    def balance() -> Tensor:
        found = _covariance(table, weights())
        variance = found.diagonal()
        if scale == "correlation":
            deviation = variance.clamp(min=NO_VARIANCE).sqrt()
            found = found / (deviation[:, None] * deviation)
        # PAPER: Σ_j ‖X_jᵀ Σ_W X_{−j} / n − (X_jᵀ W / n) (X_{−j}ᵀ W / n)‖².
        loss = found[counts].square().sum()
        return loss + (variance - fixed).square().sum() if scale == "fixed" else loss

    def objective(_: Rows) -> Tensor:
        # PAPER: a bound on Σ w² / n, here with a multiplier.
        # DEVIATION: weights are divided by their mean instead of penalised by (Σ w / n − 1)², because that
        # term's size grows with n.
        return balance() + penalty * weights.spread()

    best = math.inf

    def score() -> float:
        nonlocal best
        # Of weights that balance well enough the most even are the best; equal ones have spread one.
        found = max(float(balance()), tolerance) + penalty * (float(weights.spread()) - 1)
        best = found if found < (1 - GAIN) * best else best
        return best

    stage = Stage(
        name="row weights",
        module=weights,
        rows=rows,
        steps=[Step(objective, [weights.v], partial(torch.optim.Adam, lr=learning_rate), clip=math.inf)],
        score=score,
        batch_size=n,
        max_epochs=-(-max_steps // STEPS),
        patience=PATIENCE,
        lr_reductions=1,
        min_batches=STEPS,
        n_threads=1 if n * d * d < SMALL_STEP else None,
    )
    run_stages([stage], rng, progress or NullProgress())
    learnt = weights().detach().double().cpu().numpy()
    return learnt / learnt.mean()


def _covariance(columns: Tensor, weight: Tensor) -> Tensor:
    """Covariances (d, d) under weights (n,) of mean one."""
    weighted = weight[:, None] * columns / len(weight)
    mean = weighted.sum(dim=0)
    return weighted.T @ columns - mean[:, None] * mean


def _check(scale: str, penalty: float, tolerance: float, max_steps: int) -> None:
    if scale not in get_args(Scale):
        choices = ", ".join(repr(name) for name in get_args(Scale))
        raise ValueError(f"scale={scale!r} is unknown; choose among {choices}.")
    if not penalty >= 0 or not tolerance >= 0:
        raise ValueError(f"penalty={penalty!r} and tolerance={tolerance!r} must be zero or positive.")
    if max_steps < 1:
        raise ValueError(f"max_steps={max_steps!r} is too small; give at least 1.")
