"""Row weights under which columns and mask bits are less dependent, without a few rows taking all the weight.

    min over w > 0 with mean one:  dependence(w) + γ · std(w) / mean(w)

The penalty is not squared, so γ has a critical value γ_c: at or above it no small change of equal weights
pays, below it some do. `strength` gives γ as a share of γ_c, which means much the same for every table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stablemiss.data import Floats, MaskedData
from stablemiss.decorrelation.dependence import TERMS, Dependence, Form
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.decorrelation.permuting import draw_orders
from stablemiss.progress import NullProgress, Progress
from stablemiss.seeding import Rng
from stablemiss.training import Rows, Stage, Step, run_stages, to_device

# Steps between two looks at fresh features; the features that are descended on are redrawn as often.
STEPS = 20
# Rows by which weights are judged where the table is too large to be used whole.
SAMPLE = 16384
# Fewer columns are judged by several draws of features: of a few pairs one draw says little.
FEW = 32


@dataclass(frozen=True, eq=False)
class Weighting:
    """Learnt row weights and what they did.

    Attributes
    ----------
    weight : (n,) float64
        Mean one; positive, but zero where the rows' own weights are.
    effective_rows : float
        (Σw)² / Σw²: how many equally weighted rows would be as steady.
    gamma, critical_gamma : float
        The penalty used, and the one from which on no small change of the weights pays.
    before, after : dict
        Dependence of each term under the weights that rows had and under the learnt ones, on features drawn
        afresh.
    """

    weight: Floats
    effective_rows: float
    gamma: float
    critical_gamma: float
    before: dict[str, float]
    after: dict[str, float]

    @classmethod
    def of(
        cls,
        learnt: Tensor,
        base: Tensor,
        afresh: Dependence,
        rows: Tensor,
        gamma: float,
        critical: float,
        scale: float = 1.0,
    ) -> Weighting:
        """From weights (n,) and a fresh measure of some rows, under these weights and under `base` (n,)."""
        weight = learnt.double().cpu().numpy()
        before, after = (
            {term: scale * loss for term, loss in afresh(part[rows] / part[rows].mean())[0].items()}
            for part in (base, learnt)
        )
        effective = float(weight.sum() ** 2 / (weight**2).sum())
        return cls(weight / weight.mean(), effective, gamma, critical, before, after)


Measure = Callable[[Tensor], tuple[dict[str, float], Tensor]]


class _Measured(torch.autograd.Function):
    """What a measure such as `Dependence` finds, as a node of torch's graph with its own gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, measure: Measure) -> Tensor:
        losses, gradient = measure(weight)
        ctx.save_for_backward(gradient)
        return weight.new_tensor(sum(losses.values()))

    @staticmethod
    def backward(ctx: Any, *by_loss: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return by_loss[0] * gradient, None


@dataclass(frozen=True)
class _Mean:
    """Several measures as one."""

    measures: Sequence[Measure]

    def __call__(self, weight: Tensor) -> tuple[dict[str, float], Tensor]:
        found = [measure(weight) for measure in self.measures]
        losses = {term: float(np.mean([one[term] for one, _ in found])) for term in found[0][0]}
        return losses, torch.stack([gradient for _, gradient in found]).mean(dim=0)


class RowWeights(nn.Module):
    """Positive weights of mean one: base · softmax(θ), scaled.

    `ratio` is by how much the learnt weights change the base, up to a factor; its mean is one.
    """

    base: Tensor

    def __init__(self, base: Tensor, rng: Rng):
        super().__init__()
        self.register_buffer("base", base / base.mean())
        # The spread of weights has no gradient where all are equal, so they start a little off.
        self.theta = nn.Parameter(torch.from_numpy(0.05 * rng.normal(size=len(base))).to(base))

    @property
    def ratio(self) -> Tensor:
        return len(self.theta) * self.theta.softmax(dim=0)

    def forward(self) -> Tensor:
        weight = self.base * self.ratio
        return weight / weight.mean()


@dataclass(frozen=True)
class Objective:
    """What weights are to make small: a measure of dependence, and the price of uneven weights."""

    gamma: float
    scale: float = 1.0

    def __call__(self, weights: RowWeights, measure: Measure, rows: Tensor | None = None) -> Tensor:
        """At the weights as they stand, of all rows or of those chosen."""
        weight, ratio = weights(), weights.ratio
        if rows is not None:
            weight, ratio = weight[rows], ratio[rows]
        # PAPER: γ · Std(w) / mean(w) keeps single rows from taking all the weight.
        return self._measured(weight, measure) + self.gamma * ratio.std(correction=0) / ratio.mean()

    def best(self, weights: RowWeights, measure: Measure, rows: Tensor | None = None) -> Tensor:
        """The learnt weights, or those the rows had where they are no worse."""
        with torch.no_grad():
            start = weights.base if rows is None else weights.base[rows]
            at_start = self._measured(start, measure)
            # By more than rounding: where nothing is to be gained the start's own noise must not stay.
            is_better = self(weights, measure, rows) < (1 - 1e-5) * at_start
            return weights() if is_better else weights.base

    def _measured(self, weight: Tensor, measure: Measure) -> Tensor:
        return self.scale * _Measured.apply(weight / weight.mean(), measure)


def critical_gamma(measure: Dependence, base: Tensor | None = None) -> float:
    """The penalty from which on no small change of equal weights pays: √n · ‖g − mean of g‖.

    g is the gradient of the dependence at equal weights. Moving the weights by ε v, v of mean zero, changes
    the loss by ε g·v and the penalty by γ ε ‖v‖ / √n. With weights of the rows' own, `base` (n,) of mean one,
    "equal" means these, and what moves is by how much they are multiplied.
    """
    start = measure.equal_weights() if base is None else base
    return critical_slope(measure(start)[1], start)


def critical_slope(gradient: Tensor, base: Tensor) -> float:
    """`critical_gamma` from the gradient (n,) of a loss at the weights `base` (n,) of mean one."""
    # Weights are divided by their mean, so a change of all of them alike changes nothing.
    by_ratio = base * (gradient - (gradient * base).mean())
    return math.sqrt(len(base)) * float((by_ratio - by_ratio.mean()).norm())


def weigh_rows(
    values: NDArray,
    mask: NDArray,
    terms: Sequence[str] = TERMS,
    form: Form = "weighted",
    strength: float = 0.25,
    gamma: float | None = None,
    q: int = 5,
    *,
    rng: Rng,
    base: NDArray | None = None,
    groups: NDArray | None = None,
    redraw: bool = True,
    batch_size: int | None = None,
    max_columns: int = 128,
    max_epochs: int = 15,
    learning_rate: float = 0.03,
    device: str = "cpu",
    progress: Progress | None = None,
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
        further and few rows carry all the weight. With `redraw` the share is raised, if need be, to what
        chance alone amounts to: the root of the dependence of the columns permuted apart, over that found.
    gamma : float, optional
        γ itself, as in the paper; `strength` is then ignored.
    q : int
        Features per column. More see more kinds of dependence, at a cost that grows with their square.
    rng : numpy Generator
    base : (n,), optional
        Weights that the rows have already. What is learnt multiplies them; equal by default.
    groups : (d,) int, optional
        Columns with the same number are parts of one, so their dependence does not count.
    redraw : bool
        Draw new features every 20 steps, and stop on others, so that none can be overfitted. False descends
        and stops on the first, which shows what the loss itself does.
    batch_size : int, optional
        Rows per step where the table is too large to be used whole; None uses all rows. More rows see less
        sampling noise.
    max_columns : int
        A wider table is worked on by so many columns at a time, drawn anew with the features; losses are
        scaled to all pairs. More see more pairs at once, at a cost that grows with their square.
    max_epochs : int
        Most rounds of 20 steps. It ends sooner when the loss on fresh features has stopped falling.
    learning_rate : float
        First step size; lowered twice before the end.
    device : str
        "cpu", "cuda" or "auto".
    progress : Progress, optional

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
    _check(strength, gamma, q, batch_size, max_columns, max_epochs)
    everything = MaskedData.of(values, mask, np.zeros(len(values)), weight=base, groups=groups)
    # Rows of weight zero are as good as absent.
    there = np.flatnonzero(everything.weight > 0)
    data = everything.rows(there)
    rows = Rows.of(data, to_device(device))
    n, d = data.values.shape
    is_full_batch = batch_size is None or batch_size >= n
    # What is judged and reported needs no more rows than fit: a sample of them where there are batches.
    sample = rows if is_full_batch else rows.take(_sample(n, max(batch_size or 0, SAMPLE), rng, rows))
    own = torch.as_tensor(data.groups, device=rows.values.device)
    width = min(d, max_columns)
    scale = d * (d - 1) / (width * (width - 1)) if width > 1 else 1.0

    def draw() -> tuple[Tensor, RandomFeatures]:
        columns = np.sort(rng.permutation(d)[:width])
        return torch.as_tensor(columns, device=own.device), RandomFeatures.draw(width, q, rng)

    def measured(on: Rows, drawn: tuple[Tensor, RandomFeatures], which: Sequence[str] = terms) -> Dependence:
        columns, features = drawn
        return Dependence(on.values[:, columns], on.mask[:, columns] > 0, features, which, form, own[columns])

    drawn = draw()
    descended = measured(sample, drawn)
    judge: Measure = descended
    start = sample.weight / sample.weight.mean()
    gradients = [descended(start)[1]]
    if redraw:
        judge = _Mean([measured(sample, draw()) for _ in range(-(-FEW // width))])
        # A few columns' critical penalty is much a matter of the features drawn, a wide table's also of the
        # columns.
        more = 3 if width == d else 11
        gradients += [measured(sample, draw())(start)[1] for _ in range(more)]
    if width < d:
        # Draws see different columns: what they have in common is the gradient over all of them.
        gradients = [torch.stack(gradients).mean(dim=0)]
    critical = scale * float(np.mean([critical_slope(gradient, start) for gradient in gradients]))
    if gamma is None:
        share = strength
        if redraw:
            # Columns permuted apart are as dependent as chance makes them, and what chance would pay for
            # must not be bought: weights of independent columns stay equal. (A copy, so that whatever is
            # drawn later does not depend on this.)
            order = torch.from_numpy(draw_orders(len(sample), data.groups, deepcopy(rng))).to(own.device)
            apart = replace(sample, values=sample.values.gather(0, order), mask=sample.mask.gather(0, order))
            chance, seen = (sum(m(start)[0].values()) for m in (measured(apart, drawn), descended))
            # The dependence is a sum of squares, its gradient of first order.
            share = max(strength, math.sqrt(chance / seen)) if seen > 0 else 1.0
        gamma = share * critical
    weights = RowWeights(rows.weight, rng)
    objective = Objective(gamma, scale)

    def loss(batch: Rows) -> Tensor:
        if is_full_batch:
            return objective(weights, descended)
        return objective(weights, measured(batch, drawn), batch.index)

    def score() -> float:
        nonlocal drawn, descended
        if redraw:
            drawn = draw()
            descended = measured(sample, drawn) if is_full_batch else descended
        return float(objective(weights, judge, sample.index))

    stage = Stage(
        name="row weights",
        module=weights,
        rows=rows,
        steps=[Step(loss, [weights.theta], partial(torch.optim.Adam, lr=learning_rate), clip=math.inf)],
        score=score,
        batch_size=n if batch_size is None else batch_size,
        max_epochs=max_epochs,
        patience=2,
        lr_reductions=2,
        min_batches=STEPS,
    )
    run_stages([stage], rng, progress or NullProgress())
    learnt = objective.best(weights, judge, sample.index)
    afresh = measured(sample, draw(), TERMS)
    found = Weighting.of(learnt, weights.base, afresh, sample.index, gamma, critical, scale)
    weight = np.zeros(len(everything))
    weight[there] = found.weight
    return replace(found, weight=weight / weight.mean())


def _check(
    strength: float, gamma: float | None, q: int, batch_size: int | None, max_columns: int, max_epochs: int
) -> None:
    if strength < 0 or (gamma is not None and gamma < 0):
        raise ValueError(
            f"strength={strength!r} and gamma={gamma!r} must not be negative: they are the price of uneven "
            "weights."
        )
    least = {"q": (q, 1), "batch_size": (batch_size, 2), "max_columns": (max_columns, 2)}
    for name, (value, bound) in (least | {"max_epochs": (max_epochs, 1)}).items():
        if value is not None and value < bound:
            raise ValueError(f"{name}={value!r} is too small; give at least {bound}.")


def _sample(n: int, size: int, rng: Rng, rows: Rows) -> Tensor:
    return torch.as_tensor(rng.permutation(n)[:size], device=rows.index.device)


def learn_weights(
    values: NDArray,
    mask: NDArray,
    terms: Sequence[str] = TERMS,
    form: Form = "weighted",
    strength: float = 0.25,
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
