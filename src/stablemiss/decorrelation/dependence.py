"""Dependence between columns and mask bits under row weights, and its gradient with respect to the weights.

Pairs are compared through random Fourier features. There are two forms:

- **weighted**, the default: covariances of the weighted distribution. Two columns are compared over the rows
  where both are observed, two mask bits over all rows, and a column and another column's bit over the rows
  where the column is observed.
- **paper**, exactly as published: sums of (w u − mean)(w v − mean) over jointly observed rows, divided by
  their number minus one. They contain w², so for independent columns they vanish only if all weights are
  equal.

Both depend on the weights through one Gram matrix of the feature columns, so all pairs cost one matrix
product and the gradient costs one more. Wide tables are processed in pairs of column blocks to bound memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from stablemiss.data import MaskedData
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.seeding import Rng

Form = Literal["weighted", "paper"]
TERMS = ("xx", "mm", "xm")
# Columns observed, or jointly observed, in fewer rows are skipped, because their covariances are mostly
# noise.
MIN_ROWS = 30
# Joint counts are cached for tables with at most this many blocks of columns.
MAX_CACHED_BLOCKS = 8


class Dependence:
    """Dependence of a table's columns for one draw of features, as a function of the row weights.

    Parameters
    ----------
    values : (n, d) tensor
        Standardised columns. Missing values have no influence, whatever their entries.
    mask : (n, d) bool tensor
        True = observed.
    features : RandomFeatures
        Losses are comparable only for the same features.
    terms : subset of {"xx", "mm", "xm"}, default=("xx", "mm", "xm")
        Which pairs are included: column and column, bit and bit, column and bit.
    form : {"weighted", "paper"}, default="weighted"
        See the module docstring.
    groups : (d,) int tensor, default=None
        Columns with the same group number encode the same original column, such as a one-hot encoded
        category. Weights cannot remove their dependence, so it is excluded, and their identical bits count
        as one bit. None gives every column its own group.
    block : int, default=128
        Number of columns processed at a time. A larger value is faster; memory grows with its square.

    See Also
    --------
    dependence : The same measure of numpy arrays.
    """

    def __init__(
        self,
        values: torch.Tensor,
        mask: torch.Tensor,
        features: RandomFeatures,
        terms: Sequence[str] = TERMS,
        form: Form = "weighted",
        groups: torch.Tensor | None = None,
        block: int = 128,
    ):
        unknown = set(terms) - set(TERMS)
        if unknown or form not in ("weighted", "paper"):
            raise ValueError(
                f"terms must be a subset of {TERMS} and form must be 'weighted' or 'paper'; got "
                f"terms={terms!r} and form={form!r}."
            )
        self.n, self.d = values.shape
        self.q = features.frequency.shape[1]
        self.terms, self.form = tuple(terms), form
        self.blocks = [
            _Block.of(slice(start, min(start + block, self.d)), values, mask, features, groups)
            for start in range(0, self.d, block)
        ]
        group = torch.cat([column_block.groups for column_block in self.blocks])
        group_size = (group[:, None] == group).sum(dim=1) if groups is not None else torch.ones_like(group)
        # Losses are squares: each of the k copies of a group's bit contributes 1 / k.
        bit_scale = group_size.to(values).rsqrt()[:, None]
        self.bit_zero, self.bit_step = (bits.to(values) * bit_scale for bits in features.of_bits())
        self._counts: dict[tuple[int, int], torch.Tensor] = {}

    def __call__(self, weight: torch.Tensor) -> tuple[dict[str, float], torch.Tensor]:
        """Loss of each term, and the gradient (n,) of their sum with respect to the weights (n,)."""
        evaluate = self._weighted if self.form == "weighted" else self._paper
        # Gradients with respect to the Gram matrix are needed even if the caller has turned gradients off.
        with torch.enable_grad():
            losses, gradient = evaluate(weight.detach())
        return {term: float(losses[term]) for term in self.terms}, gradient

    def equal_weights(self) -> torch.Tensor:
        """Weight one for each row, in the precision and on the device of the table."""
        return self.bit_step.new_ones(self.n)

    def _pairs(self) -> Iterator[tuple[_Block, _Block]]:
        """Pairs of blocks, each pair once."""
        for i, first in enumerate(self.blocks):
            for second in self.blocks[i:]:
                yield first, second

    def _joint_counts(self, first: _Block, second: _Block) -> torch.Tensor:
        """Number of rows in which two columns are both observed, (b, c).

        It does not depend on the weights and is cached, except in tables of many blocks, where all counts
        would fill the memory.
        """
        key = first.columns.start, second.columns.start
        if key in self._counts:
            return self._counts[key]
        counts = first.bits.T @ second.bits
        if len(self.blocks) <= MAX_CACHED_BLOCKS:
            self._counts[key] = counts
        return counts

    def _weighted(self, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        q, n = self.q, self.n
        # E[w m u] of each feature, and the weighted fraction of rows in which each column is observed.
        means = {block: (weight @ block.matrix / n).requires_grad_() for block in self.blocks}
        losses = {term: weight.new_zeros(()) for term in TERMS}
        gradient = torch.zeros_like(weight)
        step = self.bit_step.square().sum(dim=1)
        for first, second in self._pairs():
            gram = ((first.matrix * weight[:, None]).T @ second.matrix / n).requires_grad_()
            b, c = first.width, second.width
            mean_left, observed_left = means[first][: b * q].reshape(b, q), means[first][b * q :]
            mean_right, observed_right = means[second][: c * q].reshape(c, q), means[second][c * q :]
            both = gram[b * q :, c * q :]
            products = gram[: b * q, : c * q].reshape(b, q, c, q)
            left_bit = gram[: b * q, c * q :].reshape(b, q, c)  # features of first, bits of second
            bit_right = gram[b * q :, : c * q].reshape(b, c, q)  # bits of first, features of second
            upper = _each_pair_once(first, second)
            step_left, step_right = step[first.columns], step[second.columns]
            sums = {}
            if "xx" in self.terms:
                included = upper & (self._joint_counts(first, second) >= MIN_ROWS)
                share = torch.where(included, both, 1.0)[:, None, :, None]
                covariance = products / share - left_bit[:, :, :, None] * bit_right[:, None] / share**2
                sums["xx"] = (covariance.square().sum(dim=(1, 3)) * included).sum()
            if "mm" in self.terms:
                covariance = both - observed_left[:, None] * observed_right
                sums["mm"] = (covariance.square() * step_left[:, None] * step_right * upper).sum()
            if "xm" in self.terms:
                included = upper & first.has_enough_rows[:, None]
                sums["xm"] = _column_and_bit(left_bit, mean_left, observed_left, both, step_right, included)
                # The reverse pairs; within one block these are the pairs below the diagonal.
                included = (upper & second.has_enough_rows).T
                reverse = bit_right.permute(1, 2, 0), mean_right, observed_right, both.T, step_left, included
                sums["xm"] = sums["xm"] + _column_and_bit(*reverse)
            total = sum(sums.values(), weight.new_zeros(()))
            if total.requires_grad:
                for term, value in sums.items():
                    losses[term] = losses[term] + value.detach()
                total.backward()
            if gram.grad is not None:
                gradient += ((first.matrix @ gram.grad) * second.matrix).sum(dim=1) / n
        for block, mean in means.items():
            if mean.grad is not None:
                gradient += block.matrix @ mean.grad / n
        return losses, gradient

    def _paper(self, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        # PAPER: Σ' of X_k X_l, X_k M_l and M_k M_l with pairwise counts; w inside both factors.
        q, n = self.q, self.n
        losses = {term: weight.new_zeros(()) for term in TERMS}
        gradient = torch.zeros_like(weight)
        # |u(0)|², u(0)·step and |step|² of each bit, whose q features span two directions: w and w · bit.
        directions = torch.stack([self.bit_zero, self.bit_step], dim=1)
        gram_bit = directions @ directions.mT
        for first, second in self._pairs():
            left = first.centred(weight)
            right = left if first is second else second.centred(weight)
            gram = (left.T @ right).requires_grad_()
            b, c = first.width, second.width
            products = gram[: b * q, : c * q].reshape(b, q, c, q)
            left_bit = gram[: b * q, c * q : c * q + c].reshape(b, q, c)
            left_rest = gram[: b * q, -1].reshape(b, q)
            bit_right = gram[b * q : b * q + b, : c * q].reshape(b, c, q)
            rest_right = gram[-1, : c * q].reshape(c, q)
            upper = _each_pair_once(first, second)
            of_first, of_second = gram_bit[first.columns], gram_bit[second.columns]
            sums = {}
            if "xx" in self.terms:
                counts = self._joint_counts(first, second)
                covariance = products / (counts.clamp_min(MIN_ROWS) - 1)[:, None, :, None]
                included = upper & (counts >= MIN_ROWS)
                sums["xx"] = (covariance.square().sum(dim=(1, 3)) * included).sum()
            if "mm" in self.terms:
                rest_by = torch.stack([gram[-1, -1].expand(c), gram[-1, c * q : -1]], dim=1).expand(b, c, 2)
                bit_by = torch.stack(
                    [gram[b * q : -1, -1:].expand(b, c), gram[b * q : -1, c * q : -1]], dim=2
                )
                table = torch.stack([rest_by, bit_by], dim=2) / (n - 1)
                squares = torch.einsum("kst,klsx,lxy,klty->kl", of_first, table, of_second, table)
                sums["mm"] = (squares * upper).sum()
            if "xm" in self.terms:
                # As published, the pair of a column and its own bit is included.
                pairs = (upper | upper.T).fill_diagonal_(True) if first is second else upper
                included = pairs & first.has_enough_rows[:, None]
                sums["xm"] = _paper_column_and_bit(left_bit, left_rest, first.count, of_second, included)
                if first is not second:
                    included = (pairs & second.has_enough_rows).T
                    reverse = bit_right.permute(1, 2, 0), rest_right, second.count, of_first, included
                    sums["xm"] = sums["xm"] + _paper_column_and_bit(*reverse)
            total = sum(sums.values(), weight.new_zeros(()))
            if not total.requires_grad:
                continue
            for term, value in sums.items():
                losses[term] = losses[term] + value.detach()
            total.backward()
            assert gram.grad is not None
            if first is second:
                gradient += first.by_weight(left @ (gram.grad + gram.grad.T))
            else:
                gradient += first.by_weight(right @ gram.grad.T) + second.by_weight(left @ gram.grad)
        return losses, gradient


@dataclass(frozen=True, eq=False)
class _Block:
    """Adjacent columns of the table that are processed together.

    `matrix` (n, b · q + b) holds the features of each column, zero where missing, followed by the mask bits.
    """

    columns: slice
    matrix: torch.Tensor
    count: torch.Tensor
    groups: torch.Tensor

    @classmethod
    def of(
        cls,
        columns: slice,
        values: torch.Tensor,
        mask: torch.Tensor,
        features: RandomFeatures,
        groups: torch.Tensor | None,
    ) -> _Block:
        observed = mask[:, columns].to(values.dtype)
        cosines = features.of_values(torch.where(mask[:, columns], values[:, columns], 0.0), columns)
        matrix = torch.cat([(cosines * observed[:, :, None]).flatten(1), observed], dim=1)
        group = torch.arange(values.shape[1], device=values.device) if groups is None else groups
        return cls(columns, matrix, observed.sum(dim=0), group[columns])

    @property
    def width(self) -> int:
        return self.columns.stop - self.columns.start

    @property
    def has_enough_rows(self) -> torch.Tensor:
        """Which columns are observed in enough rows to be compared with a bit."""
        return self.count >= MIN_ROWS

    @property
    def bits(self) -> torch.Tensor:
        return self.matrix[:, -self.width :]

    def centred(self, weight: torch.Tensor) -> torch.Tensor:
        """The paper's Z̃ of features and bits, with w as the last column: (n, b · q + b + 1)."""
        n, b = len(weight), self.width
        scaled = torch.cat([self.matrix, weight.new_ones(n, 1)], dim=1) * weight[:, None]
        total = scaled.sum(dim=0)
        # The mean of a feature is over the rows where the column is observed and is subtracted only there.
        mean = total[: -b - 1].reshape(b, -1) / self.count.clamp_min(1)[:, None]
        scaled[:, : -b - 1] -= (self.bits[:, :, None] * mean).flatten(1)
        scaled[:, -b - 1 :] -= total[-b - 1 :] / n
        return scaled

    def by_weight(self, by_centred: torch.Tensor) -> torch.Tensor:
        """Convert the gradient with respect to `centred` into the gradient with respect to the weights."""
        n, b = len(by_centred), self.width
        by_feature = by_centred[:, : -b - 1].reshape(n, b, -1) * self.bits[:, :, None]
        by_feature = by_feature - by_feature.sum(dim=0) / self.count.clamp_min(1)[:, None]
        by_bit = by_centred[:, -b - 1 :] - by_centred[:, -b - 1 :].mean(dim=0)
        features = self.matrix[:, :-b]
        return (
            (features * by_feature.flatten(1)).sum(dim=1)
            + (self.bits * by_bit[:, :-1]).sum(dim=1)
            + by_bit[:, -1]
        )


def _each_pair_once(first: _Block, second: _Block) -> torch.Tensor:
    """Which pairs (k, l) are included: different groups, and above the diagonal within one block."""
    pairs = first.groups[:, None] != second.groups
    return pairs.triu(1) if first is second else pairs


def _column_and_bit(
    products: torch.Tensor,
    mean: torch.Tensor,
    observed: torch.Tensor,
    both: torch.Tensor,
    step: torch.Tensor,
    pairs: torch.Tensor,
) -> torch.Tensor:
    """Σ over pairs (k, l) of ‖Cov(u(x_k), features of bit_l | x_k observed)‖².

    Shapes: products = E[w m_k u(x_k) m_l] (b, q, c), mean (b, q), observed (b,), both (b, c), step (c,) and
    pairs (b, c).
    """
    share = observed.clamp_min(1e-12)[:, None]
    covariance = products / share[:, :, None] - mean[:, :, None] * (both / share**2)[:, None, :]
    return (covariance.square().sum(dim=1) * step * pairs).sum()


def _paper_column_and_bit(
    products: torch.Tensor,
    rest: torch.Tensor,
    count: torch.Tensor,
    gram_bit: torch.Tensor,
    pairs: torch.Tensor,
) -> torch.Tensor:
    """The same sum in the paper's form: products (b, q, c) with w · bit, rest (b, q) with w alone."""
    divisor = (count - 1).clamp_min(1)
    with_bit = products / divisor[:, None, None]
    alone = rest / divisor[:, None]
    squares = (
        gram_bit[:, 0, 0] * alone.square().sum(dim=1)[:, None]
        + 2 * gram_bit[:, 0, 1] * (alone[:, :, None] * with_bit).sum(dim=1)
        + gram_bit[:, 1, 1] * with_bit.square().sum(dim=1)
    )
    return (squares * pairs).sum()


def dependence(
    values: NDArray,
    mask: NDArray,
    weight: NDArray | None = None,
    form: Form = "weighted",
    q: int = 5,
    *,
    rng: Rng,
) -> dict[str, float]:
    """Measure the dependence between the columns and mask bits of a table.

    Parameters
    ----------
    values : (n, d)
        Standardised columns; missing values have no influence.
    mask : (n, d)
        1 = observed.
    weight : (n,), default=None
        Row weights, scaled to mean one; None weights all rows equally.
    form : {"weighted", "paper"}, default="weighted"
        "weighted" uses covariances of the weighted distribution, "paper" the published sums, which contain
        squared weights.
    q : int, default=5
        Number of random features per column. A larger value detects more kinds of dependence; the cost
        grows with its square.
    rng : numpy Generator
        Draws the features.

    Returns
    -------
    dict
        "xx": between columns, "mm": between mask bits, "xm": between columns and mask bits.

    See Also
    --------
    learn_weights : Row weights that lower the dependence.
    stablemiss.diagnostics.dependence_matrix : The dependence of each pair on a scale from 0 to 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 1))
    >>> complete = np.ones((2000, 2), dtype=bool)
    >>> equal = dependence(np.hstack([x, x]), complete, rng=np.random.default_rng(1))
    >>> independent = dependence(np.hstack([x, x[::-1]]), complete, rng=np.random.default_rng(1))
    >>> equal["xx"] > 20 * independent["xx"]
    True
    """
    data = MaskedData.of(values, mask, np.zeros(len(values)), weight)
    # Rows of weight zero must not count towards the minimum number of observed rows.
    data = data.rows(np.flatnonzero(data.weight > 0))
    features = RandomFeatures.draw(data.n_columns, q, rng)
    measure = Dependence(torch.from_numpy(data.values), torch.from_numpy(data.mask), features, form=form)
    losses, _ = measure(torch.from_numpy(data.weight / data.weight.mean()))
    return losses
