"""Row weights that bring a table close, in optimal transport, to a table with independent columns.

    min over w > 0 with mean one:  sliced distance(weighted rows, permuted columns) + γ · std(w) / mean(w)

In the second table, the pairs of value and mask indicator of each column are permuted, independently of the
other columns. This keeps all marginal distributions and removes all dependence between columns. Both tables
are projected onto random directions of (x ⊙ m, m); along each direction, the distance is the area between the
two distribution functions.
"""

# DEVIATION: this is our interpretation of StableMiss+. Its released code measures the distance of each column
# separately, which compares only marginals; permuting columns keeps these, so nothing is decorrelated.

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from stablemiss.checks import check_integer, check_number
from stablemiss.data import Floats, MaskedData
from stablemiss.decorrelation.dependence import Dependence
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.decorrelation.objective import Objective, RowWeights, Weighting, critical_gamma_from_gradient
from stablemiss.decorrelation.permuting import draw_orders, resample_by_weight
from stablemiss.progress import Progress, to_progress
from stablemiss.seeding import Rng, check_rng
from stablemiss.torch_state import torch_threads
from stablemiss.training import Rows, Stage, Step, run_stages, to_device

# Number of steps before new directions and a new permutation are drawn. Fewer draws would save time, because
# sorting the new projections costs as much as ten steps, but with twenty steps per draw the weights would
# overfit the fifty directions.
STEPS_PER_EPOCH = 5
# Number of draws over which the gradient is averaged before γ_c is computed: the noise in the gradient of a
# single draw increases its norm and so γ_c.
CRITICAL_DRAWS = 10
# Epochs without a better score before the learning rate is lowered. It is high because the score of an epoch
# of five noisy steps is itself noisy.
PATIENCE = 20
# Number of random features per column in the reported dependence.
N_FEATURES = 5


class SlicedDistance:
    """Mean Wasserstein-1 distance of two projected samples, as a function of the weights of the first.

    Parameters
    ----------
    projected : (n, J) tensor
        The weighted sample along J directions.
    reference : (k, J) tensor
        The reference sample along the same directions; its rows have equal weights.
    """

    def __init__(self, projected: Tensor, reference: Tensor):
        self.n, k = len(projected), len(reference)
        # The positions do not depend on the weights, so both samples are sorted together only once.
        position, self.order = torch.cat([projected, reference]).T.contiguous().sort(dim=1)
        self.gap = position.diff(dim=1)  # (J, n + k - 1)
        ranks = torch.arange(position.shape[1], device=projected.device).expand_as(self.order)
        self.rank = torch.empty_like(self.order).scatter_(1, self.order, ranks)[:, : self.n].contiguous()
        self.reference_fraction = torch.full((k,), -1 / k, dtype=projected.dtype, device=projected.device)

    def __call__(self, weight: Tensor) -> tuple[dict[str, float], Tensor]:
        """The distance, and its gradient (n,) with respect to the weights (n,) of mean one."""
        fractions = torch.cat([weight.detach() / self.n, self.reference_fraction])
        # Difference of the two distribution functions in each gap between neighbouring points.
        difference = fractions[self.order].cumsum(dim=1)[:, :-1]
        slope = self.gap * difference.sign()
        # The weight of a row raises the distribution function in all gaps to the right of the row.
        left = pad(slope.cumsum(dim=1), (1, 0))
        right = left[:, -1:] - left.gather(1, self.rank)
        return {"sliced": float((slope * difference).sum(dim=1).mean())}, right.mean(dim=0) / self.n


def draw_directions(d: int, n_directions: int, rng: Rng) -> Floats:
    """Draw directions (2 d, n_directions) of (x ⊙ m, m), uniform on the sphere.

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
    """Distance between two tables with missing values: Wasserstein-1, averaged over random directions.

    The distance of two samples of n rows from the same distribution is not zero but about 1 / √n.

    Parameters
    ----------
    values, mask : (n, d)
        Standardised columns and 1 = observed; missing values have no influence.
    other_values, other_mask : (k, d)
        The second table, such as the result of `permute_columns`.
    weight : (n,), default=None
        Weights of the rows of the first table, scaled to mean one; None for equal weights.
    n_directions : int, default=50
        A larger value gives a less noisy mean; the cost is proportional.
    rng : numpy Generator
        Draws the directions.

    See Also
    --------
    TransportDecorrelator : Row weights that lower the distance to permuted columns.

    Examples
    --------
    Two equal columns are far from independent columns with the same marginals:

    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(1000, 1)) @ np.ones((1, 2))
    >>> mask = np.ones_like(table)
    >>> from stablemiss.decorrelation import permute_columns
    >>> sliced_distance(table, mask, *permute_columns(table, mask, rng), rng=rng) > 0.1
    True
    """
    check_integer({"n_directions": n_directions}, n_directions=(1, 100_000))
    check_rng(rng)
    first, second = MaskedData.of(values, mask, None, weight), MaskedData.of(other_values, other_mask)
    if first.n_columns != second.n_columns:
        raise ValueError(
            f"Both tables must have the same columns in the same order; the first has {first.n_columns} and "
            f"the second {second.n_columns} columns."
        )
    directions = torch.from_numpy(draw_directions(first.n_columns, n_directions, rng))
    tables = (torch.from_numpy(np.hstack([data.values, data.mask])) for data in (first, second))
    measure = SlicedDistance(*(table @ directions for table in tables))
    return measure(torch.from_numpy(first.weight))[0]["sliced"]


@dataclass(frozen=True)
class TransportDecorrelator:
    """Learns row weights that bring a table close to one with independent columns and the same marginals.

    Parameters
    ----------
    strength : float, default=0.15
        Strength of the penalty on uneven weights: its coefficient γ as a fraction of the critical value, at
        which all weights stay equal. Larger values therefore decorrelate less; towards 0 the distance falls
        further and fewer rows carry the weight.
    n_directions : int, default=50
        Number of directions drawn at a time. A larger value gives less noisy steps; time and memory are
        proportional.
    max_epochs : int, default=200
        Maximum number of epochs of 5 steps, each with new directions and a new permutation. Learning ends
        earlier when the distance along other, fixed directions stops falling.
    learning_rate : float, default=0.03
        Initial step size, lowered twice before the end. A larger value learns faster and less reliably.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".

    See Also
    --------
    Decorrelator : Minimises covariances of random features instead of a distance.
    sliced_distance : The distance between two given tables.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> table = np.hstack([x + rng.normal(size=(500, 1)), x + rng.normal(size=(500, 1))])
    >>> weighting = TransportDecorrelator().learn_weights(table, np.ones((500, 2)), rng=rng)
    >>> weighting.after["xx"] < weighting.before["xx"]
    True
    """

    strength: float = 0.15
    n_directions: int = 50
    max_epochs: int = 200
    learning_rate: float = 0.03
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_number(self, strength="[0, 1e30]", learning_rate="(0, 1]")
        check_integer(self, n_directions=(1, 100_000), max_epochs=1)

    # One thread, because steps take milliseconds: on a busy machine two threads took thirteen times as long.
    @torch_threads(1)
    def learn_weights(
        self,
        values: NDArray,
        mask: NDArray,
        *,
        rng: Rng,
        weight: NDArray | None = None,
        groups: NDArray | None = None,
        progress: Progress | None = None,
    ) -> Weighting:
        """Learn the weights of the rows of a table.

        Parameters
        ----------
        values, mask : (n, d)
            Standardised columns and 1 = observed; missing values have no influence.
        rng : numpy Generator
        weight : (n,), default=None
            Weights that the rows already have; the fitted weights multiply them. None for equal weights.
        groups : (d,) int, default=None
            Columns with the same group number encode the same original column and may stay dependent. None
            gives every column its own group.
        progress : Progress, default=None
            Receives the score of each epoch.

        Returns
        -------
        Weighting
            Its `before` and `after` hold the `dependence`, as for `Decorrelator`.
        """
        check_rng(rng)
        data = MaskedData.of(values, mask, None, weight, groups)
        data.check_has_rows()
        rows = Rows.of(data, to_device(self.device))
        draw_measure = partial(_draw_measure, rows, _marginals(rows, data), data.groups, self.n_directions)
        weights = RowWeights(rows.weight, rng)
        gradients = [draw_measure(rng)(weights.base)[1] for _ in range(CRITICAL_DRAWS)]
        critical = critical_gamma_from_gradient(torch.stack(gradients).mean(dim=0), weights.base)
        objective = Objective(self.strength * critical)
        loss_measure, score_measure = draw_measure(rng), draw_measure(rng)

        def loss(_: Rows) -> Tensor:
            return objective(weights, loss_measure)

        def score() -> float:
            nonlocal loss_measure
            # Called once per epoch, so a new permutation and new directions for the loss are drawn here. The
            # distance to a single permuted sample could be lowered by fitting its noise.
            loss_measure = draw_measure(rng)
            return float(objective(weights, score_measure))

        stage = Stage(
            name="row weights",
            module=weights,
            rows=rows,
            steps=[Step(loss, [weights.theta], partial(torch.optim.Adam, lr=self.learning_rate), math.inf)],
            score=score,
            batch_size=len(rows),
            max_epochs=self.max_epochs,
            patience=PATIENCE,
            lr_reductions=2,
            min_batches=STEPS_PER_EPOCH,
        )
        run_stages([stage], rng, to_progress(progress))
        features = RandomFeatures.draw(data.n_columns, N_FEATURES, rng)
        group_tensor = torch.as_tensor(data.groups, device=rows.values.device)
        report_measure = Dependence(rows.values, rows.mask > 0, features, groups=group_tensor)
        fitted = objective.best(weights, score_measure)
        return Weighting.of(
            (weights.base, fitted), rows.index, report_measure, 1.0, objective.gamma, critical
        )


def _marginals(rows: Rows, data: MaskedData) -> Tensor:
    """(x ⊙ m, m) of the rows to permute; the reference is unweighted, so heavier rows are repeated."""
    table = torch.cat([rows.values, rows.mask], dim=1)
    return table[torch.as_tensor(resample_by_weight(data.weight), device=table.device)]


def _draw_measure(
    rows: Rows, marginals: Tensor, groups: NDArray[np.int64], n_directions: int, rng: Rng
) -> SlicedDistance:
    """Distance to a new permutation of the columns along new directions."""
    table = torch.cat([rows.values, rows.mask], dim=1)
    n, d = rows.values.shape
    directions = torch.from_numpy(draw_directions(d, n_directions, rng)).to(table)
    order = torch.from_numpy(draw_orders(n, groups, rng)).to(table.device)
    permuted = marginals.gather(0, torch.cat([order, order], dim=1))
    return SlicedDistance(table @ directions, permuted @ directions)
