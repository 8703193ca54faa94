"""Row weights fitted for each batch, under which the columns of the batch are less dependent.

Zhang, Cui, Xu, Zhou, He and Shen, "Deep Stable Learning for Out-Of-Distribution Generalization", CVPR 2021.

`Dependence` compares every random feature of one column with every feature of another, handles missing
values, and is used for the weights of whole tables. Here the columns are complete, and the a-th feature of
one column is compared only with the a-th feature of another ("channel" a). One evaluation takes less than a
millisecond, so weights can be fitted for every batch.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stablemiss.checks import check_choice, check_integer, check_number
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.seeding import Rng, check_rng

# AUTHORS' CODE: a `Memory` of kind "blend" averages this many first batches equally, before it uses `alpha`.
N_AVERAGED_BATCHES = 10
# AUTHORS' CODE: of the steps on the weights.
MOMENTUM = 0.9


class ChannelDependence:
    """Dependence between the columns of complete rows, as a function of weights and random features.

    The sum of squared weighted covariances of u_a(x_k) and u_a(x_l) over the ordered pairs k ≠ l and over the
    channels a.

    Parameters
    ----------
    columns : (n, d) tensor
        Complete columns. They are standardised here over these rows, to match the distribution of the random
        frequencies. The dependence of a constant column is zero.
    groups : (d,) int tensor, default=None
        Columns with the same group number encode the same original column; their dependence is ignored. None
        gives every column its own group.

    See Also
    --------
    Dependence : For incomplete columns and their mask indicators.

    Examples
    --------
    >>> import numpy as np
    >>> features = RandomFeatures.draw(2, q=20, rng=np.random.default_rng(0))
    >>> x, y = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 500, 1)))
    >>> weight = torch.full((500,), 1 / 500, dtype=torch.float64)
    >>> equal, independent = (
    ...     ChannelDependence(torch.cat(pair, dim=1))(weight, features) for pair in ((x, x), (x, y))
    ... )
    >>> bool(equal > 5 * independent)
    True
    """

    def __init__(self, columns: Tensor, groups: Tensor | None = None):
        # DEVIATION: each column is standardised over the rows, because the authors' code scales each row by
        # its smallest and largest feature, which makes every feature depend on the others.
        centred = columns - columns.mean(dim=0)
        spread = centred.square().mean(dim=0).sqrt()
        # A column that is constant up to rounding becomes zero.
        is_constant = spread <= 1e-6 * columns.abs().amax(dim=0)
        self.standardised = centred / torch.where(is_constant, torch.inf, spread)
        groups = torch.arange(columns.shape[1], device=columns.device) if groups is None else groups
        self.pairs = (groups[:, None] != groups).to(columns)

    def __call__(self, weight: Tensor, features: RandomFeatures) -> Tensor:
        """The loss, a scalar, under row weights `weight` (n,) that sum to one.

        It also falls if a few rows get all the weight, so it must be combined with a penalty on the spread of
        the weights.
        """
        return self._covariances(weight, self._channels(features))[1].square().sum()

    def gradient(self, weight: Tensor, features: RandomFeatures) -> Tensor:
        """Derivative (n,) of the loss with respect to `weight`, without the cost of autograd."""
        # With C the included covariances and μ the means, the derivative with respect to the weight of row i
        # is 2 (uᵢᵀ C uᵢ − 2 μᵀ C uᵢ).
        channels = self._channels(features)
        mean, included = self._covariances(weight, channels)
        products = channels @ included
        return 2 * products.mul_(channels.sub_(2 * mean[:, None])).sum(dim=(0, 2))

    def _channels(self, features: RandomFeatures) -> Tensor:
        """Random features (q, n, d)."""
        # DEVIATION: each column has its own frequencies and phases, and a feature is a cosine, because the
        # authors' code shares the frequencies between columns (each has its own phase) and adds cosine and
        # sine, so that the functions it compares differ only by a shift.
        frequency, phase = (
            # Contiguous, so that the result is too; otherwise a step takes twice as long.
            table.T.contiguous()[:, None].to(self.standardised)
            for table in (features.frequency, features.phase)
        )
        return torch.addcmul(phase, self.standardised, frequency).cos_().mul_(math.sqrt(2))

    def _covariances(self, weight: Tensor, channels: Tensor) -> tuple[Tensor, Tensor]:
        """Weighted means (q, d), and covariances (q, d, d) that are zero for pairs that do not count."""
        # E[uv] − E[u] E[v]: features lie within ±√2, so no precision is lost by not centring them first.
        mean = weight @ channels
        products = (channels * weight[:, None]).mT @ channels
        return mean, products.baddbmm(mean[:, :, None], mean[:, None, :], alpha=-1) * self.pairs


class Memory:
    """Features (k, d) and logits (k,) of the weights of earlier rows, k ≤ `size`, used with each batch.

    The weights are the softmax of the logits.

    Parameters
    ----------
    kind : {"queue", "blend"}
        "queue" keeps the latest rows. "blend" averages each batch into the memory, row by row:
        memory ← alpha · memory + (1 − alpha) · batch.
    size : int
        Maximum number of rows.
    alpha : float, default=0.9
        For "blend", the fraction of the old memory that is kept with each new batch. The first ten batches
        are averaged equally instead. Closer to one the memory forgets more slowly; with 0 it holds only the
        last batch.

    See Also
    --------
    RandomFeatures : The features whose dependence is measured.

    Examples
    --------
    >>> memory = Memory("queue", size=3)
    >>> for batch in (torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]])):
    ...     memory.add(batch, torch.ones(2))
    >>> memory.features.flatten()
    tensor([2., 3., 4.])
    """

    def __init__(self, kind: Literal["queue", "blend"], size: int, alpha: float = 0.9):
        check_choice({"kind": kind}, kind=("queue", "blend"))
        check_integer({"size": size}, size=0)
        check_number({"alpha": alpha}, alpha="[0, 1)")
        self.kind = kind
        self.size = size
        self.alpha = alpha
        self.n_batches = 0
        self.features: Tensor
        self.logits: Tensor

    def add(self, features: Tensor, logits: Tensor) -> None:
        """Add the features (n, d) and logits (n,) of a batch."""
        if self.n_batches == 0:
            # DEVIATION: the memory starts with the first batch, not with rows of zeros, because if batches
            # are shorter than the memory, some zeros would never be replaced and make all columns look
            # dependent.
            self.features, self.logits = features[: self.size], logits[: self.size]
        elif self.kind == "queue":
            features, logits = torch.cat([self.features, features]), torch.cat([self.logits, logits])
            start = max(0, len(features) - self.size)
            self.features, self.logits = features[start:], logits[start:]
        else:
            alpha = (
                self.alpha if self.n_batches >= N_AVERAGED_BATCHES else self.n_batches / (self.n_batches + 1)
            )
            # Batch sizes differ by at most one; a row of the memory without a counterpart is kept.
            n = min(len(features), len(self.features))
            blended = torch.lerp(features[:n], self.features[:n], alpha)
            blended_logits = torch.lerp(logits[:n], self.logits[:n], alpha)
            self.features = torch.cat([blended, self.features[n:]])
            self.logits = torch.cat([blended_logits, self.logits[n:]])
        self.n_batches += 1

    def append_features(self, features: Tensor) -> Tensor:
        """The features (n, d) of a batch followed by those of the memory."""
        return torch.cat([features, self.features]) if self.n_batches else features

    def append_logits(self, logits: Tensor) -> Tensor:
        """The logits (n,) of a batch followed by those of the memory."""
        return torch.cat([logits, self.logits]) if self.n_batches else logits


class BatchDecorrelator:
    """Learns weights for the rows of each batch, under which their features are less dependent.

    Parameters
    ----------
    memory : Memory
        Earlier rows, used together with the batch. Each batch is added to it.
    rng : numpy Generator
        Draws new random features in every step.
    groups : (d,) int array
        Features with the same group number encode the same original column; their dependence is ignored.
    n_steps : int, default=20
        Number of steps per batch. A larger value decorrelates more; the cost is proportional.
    learning_rate : float, default=1.0
        Step size of the first half of the steps; the second half uses a tenth of it. A larger value
        decorrelates more and is less stable.
    lambda_p : float, default=70.0
        Divides the dependence in the objective. A larger value makes the weights more equal; with a value
        below 2 the steps can overshoot, so that a single row gets all the weight of its batch.
    q : int, default=2
        Number of random features per column. A larger value detects more kinds of dependence; the cost is
        proportional.
    max_columns : int, default=128
        Maximum number of features per batch. If there are more, a random subset is drawn for each batch. A
        larger value covers more pairs at once; the cost grows with its square.

    See Also
    --------
    Decorrelator : Weights of the rows of a whole table.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = torch.from_numpy(rng.normal(size=(128, 1)))
    >>> decorrelator = BatchDecorrelator(Memory("queue", 128), rng, np.arange(2), lambda_p=0.1)
    >>> weight = decorrelator(torch.cat([x, x], dim=1), torch.ones_like(x[:, 0]))
    >>> weight.shape, round(float(weight.sum()), 5)
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
        self._sum_of_shares, self._n_batches = torch.zeros(()), 0
        check_rng(rng)
        check_integer(self, n_steps=0, q=(1, 1000), max_columns=2)
        check_number(self, learning_rate="[0, 1e6]", lambda_p="[1e-30, 1e30]")

    @property
    def effective_share(self) -> float | None:
        """Effective sample size of the fitted weights divided by the number of rows, mean over batches."""
        return float(self._sum_of_shares) / self._n_batches if self._n_batches else None

    def __call__(self, features: Tensor, weight: Tensor) -> Tensor:
        """Fitted weights (n,) of the rows of a batch, which sum to one.

        Parameters
        ----------
        features : (n, d)
        weight : (n,)
            Sample weights. Dependence is measured under the product of sample weights and fitted weights, so
            that a row of weight two is equivalent to two equal rows.
        """
        log_weight = weight.clamp_min(1e-30).log()
        d = len(self.groups)
        # DEVIATION: if there are many features, a subset is drawn for each batch, because cost and dependence
        # grow with the square of their number, and with a fixed λ_p the steps would become unstable.
        width = min(d, self.max_columns)
        columns = torch.from_numpy(self.rng.permutation(d)[:width]) if width < d else torch.arange(d)
        # Indexing instead would store the rows column by column.
        with_memory = self.memory.append_features(features).index_select(1, columns.to(features.device))
        groups = torch.from_numpy(self.groups)[columns].to(features.device)
        with torch.no_grad():
            logits = self._fit(ChannelDependence(with_memory, groups), log_weight)
        self.memory.add(features, logits + log_weight)
        fitted = logits.softmax(dim=0)
        # A tensor is added, because reading a number would make a GPU wait.
        self._sum_of_shares = self._sum_of_shares.to(fitted) + 1 / (len(fitted) * fitted.square().sum())
        self._n_batches += 1
        return fitted

    def _fit(self, dependence: ChannelDependence, log_weight: Tensor) -> Tensor:
        """Logits (n,) of the weights of a batch, by gradient descent with momentum."""
        # PAPER: v = 1 at the start of each batch.
        logits, velocity = torch.ones_like(log_weight), torch.zeros_like(log_weight)
        n, n_first = len(logits), self.n_steps - self.n_steps // 2
        for step in range(self.n_steps):
            # AUTHORS' CODE: a tenth of the learning rate in the second half, which starts without momentum.
            learning_rate = self.learning_rate * (1.0 if step < n_first else 0.1)
            momentum = 0.0 if step == n_first else MOMENTUM
            # PAPER: λ_p divides the dependence; its random features are new in each step.
            drawn = RandomFeatures.draw(dependence.standardised.shape[1], self.q, self.rng)
            normalised = self.memory.append_logits(logits + log_weight).softmax(dim=0)
            gradient = _through_softmax(normalised, dependence.gradient(normalised, drawn))[:n]
            share = logits.softmax(dim=0)
            gradient.div_(self.lambda_p).add_(_through_softmax(share, 2 * share))
            velocity.mul_(momentum).add_(gradient)
            logits.sub_(velocity, alpha=learning_rate)
        return logits


def _through_softmax(softmax: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with respect to logits from that with respect to their softmax."""
    return softmax * (gradient - softmax @ gradient)
