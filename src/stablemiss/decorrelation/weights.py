"""Row weights under which columns and mask bits are less dependent, without a few rows taking all the weight.

    min over w > 0 with mean one:  dependence(w) + γ · std(w) / mean(w)

The penalty is not squared, so γ has a critical value γ_c: at or above it equal weights are the optimum,
below it they are not. `strength` gives γ as a share of γ_c, which means the same for every table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stablemiss.data import Floats, MaskedData
from stablemiss.decorrelation.dependence import TERMS, Dependence, Form
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.progress import Silence
from stablemiss.seeding import Rng
from stablemiss.training import Rows, Stage, Step, run_stages

# Steps between two looks at fresh features; the features that are descended on are redrawn as often.
STEPS = 20


@dataclass(frozen=True, eq=False)
class Weighting:
    """Learnt row weights and what they did.

    Attributes
    ----------
    weight : (n,) float64
        Positive, mean one.
    effective_rows : float
        (Σw)² / Σw²: how many equally weighted rows would be as steady.
    gamma, critical_gamma : float
        The penalty used, and the one from which on equal weights are the optimum.
    before, after : dict
        Dependence of each term under equal and under learnt weights, on features drawn afresh.
    """

    weight: Floats
    effective_rows: float
    gamma: float
    critical_gamma: float
    before: dict[str, float]
    after: dict[str, float]


class _Loss(torch.autograd.Function):
    """A `Dependence` as a node of torch's graph, with its own gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, measure: Dependence) -> Tensor:
        losses, gradient = measure(weight)
        ctx.save_for_backward(gradient)
        return torch.tensor(sum(losses.values()), dtype=weight.dtype)

    @staticmethod
    def backward(ctx: Any, *by_loss: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return by_loss[0] * gradient, None


class _RowWeights(nn.Module):
    """Positive weights of mean one: n · softmax(θ)."""

    def __init__(self, start: Tensor):
        super().__init__()
        self.theta = nn.Parameter(start)

    def forward(self) -> Tensor:
        return len(self.theta) * self.theta.softmax(dim=0)


def critical_gamma(measure: Dependence) -> float:
    """The penalty from which on equal weights are the optimum, to first order: √n · ‖g − mean of g‖.

    g is the gradient of the dependence at equal weights. Moving the weights by ε v, v of mean zero, changes
    the loss by ε g·v and the penalty by γ ε ‖v‖ / √n.
    """
    _, gradient = measure(torch.ones(measure.n, dtype=measure.features.dtype))
    return math.sqrt(measure.n) * float((gradient - gradient.mean()).norm())


def weigh_rows(
    values: NDArray,
    mask: NDArray,
    terms: Sequence[str] = TERMS,
    form: Form = "weighted",
    strength: float = 0.3,
    gamma: float | None = None,
    q: int = 5,
    *,
    rng: Rng,
    redraw: bool = True,
    batch_size: int | None = None,
    max_epochs: int = 15,
    learning_rate: float = 0.03,
    progress: Silence | None = None,
) -> Weighting:
    """Learn row weights that make columns and mask bits less dependent.

    Parameters
    ----------
    values, mask : (n, d)
        Standardised columns and 1 = observed; hidden cells have no influence.
    terms : subset of "xx", "mm", "xm"
        Which dependences to lower: ("xx", "mm") within columns and within the mask, ("xm",) between them.
    form : "weighted" or "paper"
        See `dependence`.
    strength : float
        γ as a share of the critical γ. Towards one weights become equal; towards zero dependence falls
        further, few rows carry all the weight, and below about 0.02 the drawn features are overfitted.
    gamma : float, optional
        γ itself, as in the paper; `strength` is then ignored.
    q : int
        Features per column.
    rng : numpy Generator
    redraw : bool
        Draw new features every 20 steps, and stop on others, so that none can be overfitted. False descends
        and stops on the first, which shows what the loss itself does.
    batch_size : int, optional
        Rows per step where the table is too large to be used whole; None uses all rows.
    max_epochs : int
        Most rounds of 20 steps. It ends sooner when the loss on fresh features has stopped falling.
    learning_rate : float
        First step size; lowered twice before the end.
    progress : Silence, optional

    Returns
    -------
    Weighting

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> table = np.hstack([x + rng.normal(size=(500, 1)), x + rng.normal(size=(500, 1))])
    >>> found = weigh_rows(table, np.ones((500, 2)), terms=("xx",), rng=rng)
    >>> found.after["xx"] < found.before["xx"]
    True
    """
    data = MaskedData.of(values, mask, np.zeros(len(values)))
    rows = Rows.of(data, torch.device("cpu"))
    n, d = data.values.shape
    is_full_batch = batch_size is None or batch_size >= n
    observed = torch.from_numpy(data.mask)

    def draw() -> RandomFeatures:
        return RandomFeatures.draw(d, q, rng)

    def whole(features: RandomFeatures, which: Sequence[str] = terms) -> Dependence:
        return Dependence(rows.values, observed, features, which, form)

    features = draw()
    descended = whole(features)
    judge = whole(draw()) if redraw else descended
    critical = critical_gamma(descended)
    penalty = strength * critical if gamma is None else gamma
    weights = _RowWeights(torch.from_numpy(0.05 * rng.normal(size=n)).to(rows.values))

    def objective(weight: Tensor, measure: Dependence) -> Tensor:
        # PAPER: + γ · Std(w) / mean(w), which keeps single rows from taking all the weight.
        return (
            _Loss.apply(weight / weight.mean(), measure) + penalty * weight.std(correction=0) / weight.mean()
        )

    def loss(batch: Rows) -> Tensor:
        if len(batch) == n:
            return objective(weights(), descended)
        part = Dependence(batch.values, batch.mask > 0, features, terms, form)
        return objective(weights()[batch.index], part)

    def score() -> float:
        nonlocal features, descended
        if redraw:
            features = draw()
            # Of use only where a step takes all rows; parts of them are measured as they come.
            descended = whole(features) if is_full_batch else descended
        return float(objective(weights(), judge))

    stage = Stage(
        name="row weights",
        module=weights,
        rows=rows,
        steps=[Step(loss, [weights.theta], partial(torch.optim.Adam, lr=learning_rate), clip=math.inf)],
        score=score,
        batch_size=n if batch_size is None else batch_size,
        max_epochs=max_epochs,
        patience=2,
        cuts=2,
        min_batches=STEPS,
    )
    run_stages([stage], rng, progress or Silence())
    learnt = weights().detach()
    equal = torch.ones_like(learnt)
    if float(objective(equal, judge)) <= float(objective(learnt, judge)):
        learnt = equal
    seen_afresh = whole(draw(), TERMS)
    weight = learnt.double().numpy()
    weight = weight / weight.mean()
    return Weighting(
        weight=weight,
        effective_rows=float(weight.sum() ** 2 / (weight**2).sum()),
        gamma=penalty,
        critical_gamma=critical,
        before=seen_afresh(equal)[0],
        after=seen_afresh(learnt)[0],
    )


def learn_weights(
    values: NDArray,
    mask: NDArray,
    terms: Sequence[str] = TERMS,
    form: Form = "weighted",
    strength: float = 0.3,
    *,
    rng: Rng,
    **settings: Any,
) -> Floats:
    """The weights (n,) of `weigh_rows`, positive and with mean one; the same parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> weight = learn_weights(rng.normal(size=(200, 2)), np.ones((200, 2)), rng=rng)
    >>> bool((weight > 0).all()), round(float(weight.mean()), 6)
    (True, 1.0)
    """
    return weigh_rows(values, mask, terms, form, strength, rng=rng, **settings).weight
