"""Row weights that bring a table close, in optimal transport, to one whose columns are independent.

    min over w > 0 with mean one:  sliced distance(weighted rows, permuted columns) + γ · std(w) / mean(w)

The second table holds the same columns, each (value, bit) pair of a column permuted on its own: all margins
are kept and nothing else. Both tables are seen along random directions of (x ⊙ m, m); along each, the
distance is the area between two distribution functions.
"""

# DEVIATION: this is our reading of StableMiss+. Its released code measures the distance of each column apart,
# which sees margins alone; those of the permuted table are right already, so it could decorrelate nothing.

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from stablemiss.data import Floats, MaskedData
from stablemiss.decorrelation.dependence import Dependence
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.decorrelation.permuting import draw_orders, rows_in_proportion
from stablemiss.decorrelation.weights import Objective, RowWeights, Weighting, critical_slope
from stablemiss.progress import NullProgress, Progress
from stablemiss.seeding import Rng
from stablemiss.torch_state import torch_threads
from stablemiss.training import Rows, Stage, Step, run_stages, to_device

# Steps on the same directions and the same permutation. To sort costs as much as ten steps; twenty steps on
# the same fifty directions follow what is peculiar to them.
STEPS = 5
# Draws over which the critical penalty is averaged: that of a single one is mostly noise.
CRITICAL_DRAWS = 10
# Rounds without a better score before the step size is lowered: a round of a few noisy steps says little.
PATIENCE = 20
# Random features per column in the dependence that is reported.
Q = 5


class SlicedDistance:
    """Mean Wasserstein-1 distance of two samples along some directions, as a function of the row weights.

    Parameters
    ----------
    here : (n, J) tensor
        The weighted sample along J directions.
    there : (k, J) tensor
        The sample it is compared with, along the same directions; its rows count alike.
    """

    def __init__(self, here: Tensor, there: Tensor):
        self.n = len(here)
        # Weights move no point, so both samples are sorted once and for all, as one.
        place, self.order = torch.cat([here, there]).T.contiguous().sort(dim=1)
        self.gap = place.diff(dim=1)  # (J, n + k - 1)
        ranks = torch.arange(place.shape[1], device=here.device).expand_as(self.order)
        self.rank = torch.empty_like(self.order).scatter_(1, self.order, ranks)[:, : self.n].contiguous()
        self.share_there = torch.full((len(there),), -1 / len(there), dtype=here.dtype, device=here.device)

    def __call__(self, weight: Tensor) -> tuple[dict[str, float], Tensor]:
        """The distance, and its gradient (n,) with respect to the weights (n,), which have mean one."""
        shares = torch.cat([weight.detach() / self.n, self.share_there])
        difference = shares[self.order].cumsum(dim=1)[:, :-1]  # of both distribution functions, in each gap
        slope = self.gap * difference.sign()
        # A row's weight lifts its distribution function in all gaps to the right of the row.
        left = pad(slope.cumsum(dim=1), (1, 0))
        right = left[:, -1:] - left.gather(1, self.rank)
        return {"sliced": float((slope * difference).sum(dim=1).mean())}, right.mean(dim=0) / self.n


def draw_directions(d: int, n_directions: int, rng: Rng) -> Floats:
    """Directions (2 d, n_directions) of (x ⊙ m, m), uniform on the sphere.

    Examples
    --------
    >>> np.linalg.norm(draw_directions(3, 2, np.random.default_rng(0)), axis=0).round(6)
    array([1., 1.])
    """
    directions = rng.normal(size=(2 * d, n_directions))
    return directions / np.linalg.norm(directions, axis=0)


def sliced_distance(
    values: NDArray,
    mask: NDArray,
    other_values: NDArray,
    other_mask: NDArray,
    weight: NDArray | None = None,
    n_directions: int = 50,
    *,
    rng: Rng,
) -> float:
    """How far two tables with holes are apart: their Wasserstein-1 distance, averaged over directions.

    Two samples of n rows from one distribution are not at distance zero but at about 1 / √n.

    Parameters
    ----------
    values, mask : (n, d)
        Standardised columns and 1 = observed; hidden cells have no influence.
    other_values, other_mask : (k, d)
        The second table, such as the first one's `permute_columns`.
    weight : (n,), optional
        Weights of the first table's rows, brought to mean one; equal by default.
    n_directions : int
        More give a steadier mean and cost time in proportion.
    rng : numpy Generator
        Draws the directions.

    Examples
    --------
    Two equal columns are far from independent ones, although each alone looks the same:

    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(1000, 1)) @ np.ones((1, 2))
    >>> seen = np.ones_like(table)
    >>> from stablemiss.decorrelation import permute_columns
    >>> sliced_distance(table, seen, *permute_columns(table, seen, rng), rng=rng) > 0.1
    True
    """
    first = MaskedData.of(values, mask, np.zeros(len(values)), weight)
    second = MaskedData.of(other_values, other_mask, np.zeros(len(other_values)))
    if first.n_columns != second.n_columns:
        raise ValueError(
            f"Tables are compared by the same columns, but the first has {first.n_columns} and the second "
            f"{second.n_columns}. Give both the same columns in the same order."
        )
    directions = torch.from_numpy(draw_directions(first.n_columns, n_directions, rng))
    tables = (torch.from_numpy(np.hstack([data.values, data.mask])) for data in (first, second))
    measure = SlicedDistance(*(table @ directions for table in tables))
    return measure(torch.from_numpy(first.weight))[0]["sliced"]


# Steps of some milliseconds: on a busy machine two threads took thirteen times as long as one.
@torch_threads(1)
def transport_weights(
    values: NDArray,
    mask: NDArray,
    strength: float = 0.15,
    n_directions: int = 50,
    *,
    rng: Rng,
    base: NDArray | None = None,
    groups: NDArray | None = None,
    max_epochs: int = 200,
    learning_rate: float = 0.03,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Weighting:
    """Learn row weights that bring the table closer to one with independent columns and the same margins.

    Parameters
    ----------
    values, mask : (n, d)
        Standardised columns and 1 = observed; hidden cells have no influence.
    strength : float
        γ as a share of the critical γ, from which on no small change of equal weights pays. Towards one
        weights become equal; towards zero the distance falls further and fewer rows carry the weight.
    n_directions : int
        Directions drawn at a time. More give steadier steps and cost time and memory in proportion.
    rng : numpy Generator
    base : (n,), optional
        Weights that the rows have already. What is learnt multiplies them; equal by default.
    groups : (d,) int, optional
        Columns with the same number are parts of one and may stay dependent.
    max_epochs : int
        Most rounds of 5 steps, each on directions and a permutation of its own. It ends sooner when the
        distance along other, fixed directions has stopped falling.
    learning_rate : float
        First step size; lowered twice before the end.
    device : str
        "cpu", "cuda" or "auto".
    progress : Progress, optional

    Returns
    -------
    Weighting
        Its `before` and `after` hold the `dependence`, as those of `weigh_rows` do.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> table = np.hstack([x + rng.normal(size=(500, 1)), x + rng.normal(size=(500, 1))])
    >>> found = transport_weights(table, np.ones((500, 2)), rng=rng)
    >>> found.after["xx"] < found.before["xx"]
    True
    """
    data = MaskedData.of(values, mask, np.zeros(len(values)), weight=base, groups=groups)
    rows = Rows.of(data, to_device(device))
    n, d = data.values.shape
    table = torch.cat([rows.values, rows.mask], dim=1)
    # Rows of the permuted table count alike, so one of twice the weight has to be there twice.
    margins = table[torch.as_tensor(rows_in_proportion(data.weight), device=table.device)]

    def draw() -> SlicedDistance:
        directions = torch.from_numpy(draw_directions(d, n_directions, rng)).to(table)
        order = torch.from_numpy(draw_orders(n, data.groups, rng)).to(table.device)
        apart = margins.gather(0, torch.cat([order, order], dim=1))
        return SlicedDistance(table @ directions, apart @ directions)

    weights = RowWeights(rows.weight, rng)
    gradients = [draw()(weights.base)[1] for _ in range(CRITICAL_DRAWS)]
    critical = critical_slope(torch.stack(gradients).mean(dim=0), weights.base)
    penalty = strength * critical
    descended, judge = draw(), draw()

    objective = Objective(penalty)

    def loss(_: Rows) -> Tensor:
        return objective(weights, descended)

    def score() -> float:
        nonlocal descended
        # The distance to one permuted sample can be lowered by taking on its chance; that to ever new ones
        # is least where the weighted distribution is their median, the independent one itself.
        descended = draw()
        return float(objective(weights, judge))

    stage = Stage(
        name="row weights",
        module=weights,
        rows=rows,
        steps=[Step(loss, [weights.theta], partial(torch.optim.Adam, lr=learning_rate), clip=math.inf)],
        score=score,
        batch_size=n,
        max_epochs=max_epochs,
        patience=PATIENCE,
        lr_reductions=2,
        min_batches=STEPS,
    )
    run_stages([stage], rng, progress or NullProgress())
    own = torch.as_tensor(data.groups, device=table.device)
    afresh = Dependence(rows.values, rows.mask > 0, RandomFeatures.draw(d, Q, rng), groups=own)
    learnt = objective.best(weights, judge)
    return Weighting.of(learnt, weights.base, afresh, rows.index, penalty, critical)
