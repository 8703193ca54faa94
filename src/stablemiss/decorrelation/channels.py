"""Row weights for one batch after another, under which the columns of the batch look independent.

Zhang, Cui, Xu, Zhou, He and Shen, "Deep Stable Learning for Out-Of-Distribution Generalization", CVPR 2021.

`Dependence` compares every random feature of one column with every feature of another, over rows with holes,
and is made for weights of whole tables. Here the cells are all there, features are compared within their own
channel alone (the a-th feature of one column with the a-th of another), and one evaluation takes less than a
millisecond: what a weight for each row of each batch can afford.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.seeding import Rng
from stablemiss.training import inner_loop

# PAPER: in so many first batches a blended memory is the plain mean of what it saw.
FIRST_BATCHES = 10


class ChannelDependence:
    """The dependence of the columns of a few complete rows, as a function of weights and random features.

    The sum of the squared weighted covariances of u_a(x_k) and u_a(x_l) over the pairs k ≠ l, both orders,
    and over the channels a.

    Parameters
    ----------
    columns : (n, d) tensor
        They are centred and scaled here, over these rows, so that the frequencies suit them. A column
        without spread depends on nothing.
    groups : (d,) int tensor, optional
        Columns with the same number are parts of one, and their dependence does not count.

    Examples
    --------
    >>> import numpy as np
    >>> features = RandomFeatures.draw(2, q=20, rng=np.random.default_rng(0))
    >>> x, other = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 500, 1)))
    >>> equal = torch.full((500,), 1 / 500, dtype=torch.float64)
    >>> copies, strangers = (
    ...     ChannelDependence(torch.cat(pair, dim=1))(equal, features) for pair in ((x, x), (x, other))
    ... )
    >>> bool(copies > 5 * strangers)
    True
    """

    def __init__(self, columns: Tensor, groups: Tensor | None = None):
        # DEVIATION: each column is standardised over the rows, because the authors' code scales each row
        # between its own smallest and largest feature, which makes one feature's code depend on the others.
        centred = columns - columns.mean(dim=0)
        spread = centred.square().mean(dim=0).sqrt()
        # What is left of a column that is equal up to rounding has no shape to look at.
        is_flat = spread <= 1e-6 * columns.abs().amax(dim=0)
        self.standardised = centred / torch.where(is_flat, torch.inf, spread)
        own = torch.arange(columns.shape[1], device=columns.device) if groups is None else groups
        self.pairs = (own[:, None] != own).to(columns)

    def __call__(self, share: Tensor, features: RandomFeatures) -> Tensor:
        """The loss, a scalar, under row weights `share` (n,) that add up to one.

        It falls also if all weight goes to a few rows, so a price on uneven weights belongs beside it.
        """
        # DEVIATION: each column has frequencies and phases of its own, because with shared ones, as in the
        # authors' code, a column is compared with no other function of another than its own.
        channels = features.of_values(self.standardised).permute(2, 0, 1).contiguous()
        return _SquaredCovariances.apply(share, channels, self.pairs)


class _SquaredCovariances(torch.autograd.Function):
    """Sum of the squared covariances of pairs of columns, with a gradient in half the time of torch's own."""

    @staticmethod
    def forward(ctx: Any, share: Tensor, channels: Tensor, pairs: Tensor) -> Tensor:
        # E[uv] − E[u] E[v]: features lie within ±√2, so nothing is lost by not centring them first.
        mean = share @ channels
        products = (channels * share[:, None]).mT @ channels
        covariance = products.baddbmm_(mean[:, :, None], mean[:, None, :], alpha=-1)
        counted = covariance * pairs
        ctx.save_for_backward(channels, mean, counted)
        return (counted * covariance).sum()

    @staticmethod
    def backward(ctx: Any, *by_loss: Tensor) -> tuple[Tensor, None, None]:
        # With C the covariances that count, row i's share moves the loss by 2 (uᵢᵀ C uᵢ − 2 μᵀ C uᵢ).
        channels, mean, counted = ctx.saved_tensors
        by_share = ((channels @ counted) * (channels - 2 * mean[:, None])).sum(dim=(0, 2))
        return 2 * by_loss[0] * by_share, None, None


class Memory:
    """Features (k, d) and raw weights (k,) of earlier rows, k ≤ `size`, beside which a batch is weighted.

    Parameters
    ----------
    kind : "queue" or "blend"
        "queue" keeps the latest rows as they were. "blend" mixes each batch into what is there, place by
        place: memory ← alpha · memory + (1 − alpha) · batch.
    size : int
        The most rows to hold.
    alpha : float
        For "blend", the share of the old memory that stays once the first ten batches, which are averaged
        evenly, are over; at 0 the memory is then the last batch.

    Examples
    --------
    >>> memory = Memory("queue", size=3)
    >>> for batch in (torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]])):
    ...     memory.take(batch, torch.ones(2))
    >>> memory.features.flatten()
    tensor([2., 3., 4.])
    """

    def __init__(self, kind: Literal["queue", "blend"], size: int, alpha: float = 0.9):
        self.kind = kind
        self.size = size
        self.alpha = alpha
        self.n_taken = 0
        self.features: Tensor
        self.raw: Tensor

    def take(self, features: Tensor, raw: Tensor) -> None:
        """Remember a batch."""
        if self.n_taken == 0:
            # DEVIATION: the memory starts with the first batch, not with rows of zeros, because zeros that
            # no batch is long enough to reach would count for ever as rows in which all columns agree.
            self.features, self.raw = features[: self.size], raw[: self.size]
        elif self.kind == "queue":
            features, raw = torch.cat([self.features, features]), torch.cat([self.raw, raw])
            start = max(0, len(features) - self.size)
            self.features, self.raw = features[start:], raw[start:]
        else:
            alpha = self.alpha if self.n_taken >= FIRST_BATCHES else self.n_taken / (self.n_taken + 1)
            # Batches differ in length, by one at most; a row that has no partner stays as it is.
            n = min(len(features), len(self.features))
            mixed = (
                torch.lerp(features[:n], self.features[:n], alpha),
                torch.lerp(raw[:n], self.raw[:n], alpha),
            )
            self.features = torch.cat([mixed[0], self.features[n:]])
            self.raw = torch.cat([mixed[1], self.raw[n:]])
        self.n_taken += 1

    def under(self, features: Tensor) -> Tensor:
        """A batch's features (n, d), and the memory's below them."""
        return torch.cat([features, self.features]) if self.n_taken else features

    def under_raw(self, raw: Tensor) -> Tensor:
        """A batch's raw weights (n,), and the memory's behind them."""
        return torch.cat([raw, self.raw]) if self.n_taken else raw


class BatchWeights:
    """Weights for the rows of one batch after another, under which their features look independent.

    Parameters
    ----------
    memory : Memory
        Earlier rows that are looked at together with the batch; each batch is added to it.
    rng : numpy Generator
        Draws the random features, anew for every step.
    groups : (d,) array
        Features with the same number are parts of one, and their dependence does not count.
    n_steps, learning_rate
        The inner steps of `StableNet` and the first half's step size.
    lambda_p, q, max_columns
        As in `StableNet`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = torch.from_numpy(rng.normal(size=(128, 1)))
    >>> weigh = BatchWeights(Memory("queue", 128), rng, np.arange(2), lambda_p=0.1)
    >>> share = weigh(torch.cat([x, x], dim=1), torch.ones_like(x[:, 0]))
    >>> share.shape, round(float(share.sum()), 5)
    (torch.Size([128]), 1.0)
    """

    def __init__(
        self,
        memory: Memory,
        rng: Rng,
        groups: NDArray[np.int64],
        n_steps: int = 20,
        learning_rate: float = 1.0,
        lambda_p: float = 70.0,
        q: int = 2,
        max_columns: int = 128,
    ):
        self.memory = memory
        self.rng = rng
        self.groups = groups
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.lambda_p = lambda_p
        self.q = q
        self.max_columns = max_columns

    def __call__(self, features: Tensor, weight: Tensor) -> Tensor:
        """Learnt shares (n,) of a batch, adding up to one.

        Parameters
        ----------
        features : (n, d)
        weight : (n,)
            What the rows weigh of their own. Dependence is looked at under both weights together, so that a
            row of weight two is like a row that is there twice.
        """
        # PAPER: v = 1 at the start of each batch.
        raw = torch.ones_like(weight).requires_grad_()
        own = weight.clamp_min(1e-30).log()
        d = len(self.groups)
        # DEVIATION: of very many features some are drawn for each batch, because cost and dependence grow
        # with the square of their number, and against a fixed λ_p the steps would go astray.
        width = min(d, self.max_columns)
        columns = torch.from_numpy(self.rng.permutation(d)[:width]) if width < d else torch.arange(d)
        seen = self.memory.under(features)[:, columns.to(features.device)]
        groups = torch.from_numpy(self.groups)[columns].to(features.device)
        dependence = ChannelDependence(seen, groups)

        def loss() -> Tensor:
            share = self.memory.under_raw(raw + own).softmax(dim=0)
            # PAPER: the dependence is what λ_p divides; its random features are new in each step.
            drawn = RandomFeatures.draw(width, self.q, self.rng)
            return dependence(share, drawn) / self.lambda_p + raw.softmax(dim=0).square().sum()

        # PAPER: learning rate × 0.1 halfway. The second half starts without the momentum of the first.
        slow = self.n_steps // 2
        for rate, n_steps in ((self.learning_rate, self.n_steps - slow), (0.1 * self.learning_rate, slow)):
            inner_loop(loss, [raw], partial(torch.optim.SGD, lr=rate, momentum=0.9), n_steps)
        raw = raw.detach()
        self.memory.take(features, raw + own)
        return raw.softmax(dim=0)
