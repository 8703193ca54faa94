"""Dependence between columns and mask indicators under row weights, and its gradient.

The mask indicator of a column is 1 where the column is observed. Two variables are compared through the
covariances of their random Fourier features. There are two forms:

- **weighted**, the default: covariances of the weighted distribution. Two columns are compared over the rows
  where both are observed, two mask indicators over all rows, and a column and the indicator of another column
  over the rows where the column is observed.
- **paper**, exactly as published: sums of (w u − mean)(w v − mean) over jointly observed rows, divided by
  their number minus one. They contain w², so even for independent columns they are zero only if all weights
  are equal.

Both depend on the weights only through the Gram matrix of the random features, so one matrix product covers
all pairs and a second one gives the gradient. Wide tables are processed in blocks of columns to bound memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from stablemiss.checks import check_choice, shown
from stablemiss.data import MaskedData
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.seeding import Rng

Form = Literal["weighted", "paper"]
TERMS = ("xx", "mm", "xm")
# Minimum number of rows in which a column, or both columns of a pair, must be observed; others are skipped.
# The weighted form skips those with few rows, because their covariances are mostly noise. The paper skips
# none; its divisor, the number of rows minus one, needs two.
MIN_ROWS = 30
MIN_ROWS_PAPER = 2
# Joint counts are cached for tables with at most this many blocks of columns.
MAX_CACHED_BLOCKS = 8


def check_terms(terms: Sequence[str]) -> None:
    """Raise ValueError if `terms` is not a subset of "xx", "mm" and "xm"."""
    is_sequence = isinstance(terms, Sequence | Set) and not isinstance(terms, str | bytes)
    if not is_sequence or any(not isinstance(term, str) or term not in TERMS for term in terms):
        raise ValueError(f"terms must be a subset of {', '.join(map(repr, TERMS))}; got {shown(terms)}.")


class Dependence:
    """Dependence between columns and mask indicators for one draw of features, as a function of row weights.

    Parameters
    ----------
    values : (n, d) tensor
        Standardised columns. The entries of missing values have no influence.
    mask : (n, d) bool tensor
        True = observed.
    features : RandomFeatures
        Losses are comparable only for the same features.
    terms : subset of {"xx", "mm", "xm"}, default=("xx", "mm", "xm")
        Pairs to include: two columns ("xx"), two mask indicators ("mm"), a column and an indicator ("xm").
    form : {"weighted", "paper"}, default="weighted"
        See the module docstring.
    groups : (d,) int tensor, default=None
        Columns with the same group number encode the same original column, such as the one-hot columns of a
        category. Weights cannot remove the dependence within a group, so it is excluded, and the identical
        mask indicators of a group count as one. None gives every column its own group.
    block : int, default=128
        Number of columns processed at a time. A larger value is faster; memory grows with its square.

    See Also
    --------
    dependence : The same measure for numpy arrays.
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
        check_terms(terms)
        check_choice({"form": form}, form=get_args(Form))
        self.n, self.d = values.shape
        self.q = features.frequency.shape[1]
        self.terms, self.form = tuple(terms), form
        self.min_rows = MIN_ROWS if form == "weighted" else MIN_ROWS_PAPER
        self.blocks = [
            _Block.of(slice(start, min(start + block, self.d)), values, mask, features, groups)
            for start in range(0, self.d, block)
        ]
        group = torch.cat([column_block.groups for column_block in self.blocks])
        group_size = (group[:, None] == group).sum(dim=1) if groups is not None else torch.ones_like(group)
        # A group of k columns has k equal indicators. Losses are squares, so each is scaled by 1 / √k.
        mask_scale = group_size.to(values).rsqrt()[:, None]
        self.mask_zero, self.mask_difference = (
            indicators.to(values) * mask_scale for indicators in features.of_mask()
        )
        self._counts: dict[tuple[int, int], torch.Tensor] = {}

    def __call__(self, weight: torch.Tensor) -> tuple[dict[str, float], torch.Tensor]:
        """Loss of each term, and the gradient (n,) of their sum with respect to the weights (n,)."""
        evaluate = self._weighted if self.form == "weighted" else self._paper
        # Autograd computes the gradient with respect to the Gram matrix, even if the caller has disabled it.
        with torch.enable_grad():
            losses, gradient = evaluate(weight.detach())
        return {term: float(losses[term]) for term in self.terms}, gradient

    def equal_weights(self) -> torch.Tensor:
        """Weight one for each row, in the precision and on the device of the table."""
        return self.mask_difference.new_ones(self.n)

    def _pairs(self) -> Iterator[tuple[_Block, _Block]]:
        """Pairs of blocks, each pair once."""
        for i, first in enumerate(self.blocks):
            for second in self.blocks[i:]:
                yield first, second

    def _joint_counts(self, first: _Block, second: _Block) -> torch.Tensor:
        """Number of rows in which two columns are both observed, (b, c).

        It does not depend on the weights and is therefore cached, except for tables with many blocks, where
        the counts would take too much memory.
        """
        key = first.columns.start, second.columns.start
        if key in self._counts:
            return self._counts[key]
        counts = first.indicators.T @ second.indicators
        if len(self.blocks) <= MAX_CACHED_BLOCKS:
            self._counts[key] = counts
        return counts

    def _weighted(self, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        q, n = self.q, self.n
        # Per block: E[w m u] of each feature, then the weighted fraction of rows with each column observed.
        means = {block: (weight @ block.matrix / n).requires_grad_() for block in self.blocks}
        losses = {term: weight.new_zeros(()) for term in TERMS}
        gradient = torch.zeros_like(weight)
        norms = self.mask_difference.square().sum(dim=1)  # squared
        for first, second in self._pairs():
            gram = ((first.matrix * weight[:, None]).T @ second.matrix / n).requires_grad_()
            b, c = first.width, second.width
            mean_left, observed_left = means[first][: b * q].reshape(b, q), means[first][b * q :]
            mean_right, observed_right = means[second][: c * q].reshape(c, q), means[second][c * q :]
            both = gram[b * q :, c * q :]
            products = gram[: b * q, : c * q].reshape(b, q, c, q)
            left_mask = gram[: b * q, c * q :].reshape(b, q, c)  # features of first, indicators of second
            mask_right = gram[b * q :, : c * q].reshape(b, c, q)  # indicators of first, features of second
            upper = _each_pair_once(first, second)
            norm_left, norm_right = norms[first.columns], norms[second.columns]
            sums = {}
            if "xx" in self.terms:
                included = upper & (self._joint_counts(first, second) >= self.min_rows)
                fraction = torch.where(included, both, 1.0)[:, None, :, None]
                covariance = products / fraction - left_mask[..., None] * mask_right[:, None] / fraction**2
                sums["xx"] = (covariance.square().sum(dim=(1, 3)) * included).sum()
            if "mm" in self.terms:
                covariance = both - observed_left[:, None] * observed_right
                sums["mm"] = (covariance.square() * norm_left[:, None] * norm_right * upper).sum()
            if "xm" in self.terms:
                included = upper & (first.count >= self.min_rows)[:, None]
                sums["xm"] = _column_and_mask(left_mask, mean_left, observed_left, both, norm_right, included)
                # The reverse pairs; within one block these are the pairs below the diagonal.
                included = (upper & (second.count >= self.min_rows)).T
                reverse = mask_right.permute(1, 2, 0), mean_right, observed_right, both.T, norm_left, included
                sums["xm"] = sums["xm"] + _column_and_mask(*reverse)
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
        # The weighted features of an indicator are w · u(0) + w · indicator · Δ with Δ = u(1) − u(0);
        # `gram_mask` holds |u(0)|², u(0)·Δ and |Δ|². "ones" stands for w alone and "mask" for w · indicator.
        directions = torch.stack([self.mask_zero, self.mask_difference], dim=1)
        gram_mask = directions @ directions.mT
        for first, second in self._pairs():
            left = first.centred(weight)
            right = left if first is second else second.centred(weight)
            gram = (left.T @ right).requires_grad_()
            b, c = first.width, second.width
            products = gram[: b * q, : c * q].reshape(b, q, c, q)
            left_mask = gram[: b * q, c * q : c * q + c].reshape(b, q, c)
            left_ones = gram[: b * q, -1].reshape(b, q)
            mask_right = gram[b * q : b * q + b, : c * q].reshape(b, c, q)
            ones_right = gram[-1, : c * q].reshape(c, q)
            upper = _each_pair_once(first, second)
            of_first, of_second = gram_mask[first.columns], gram_mask[second.columns]
            sums = {}
            if "xx" in self.terms:
                counts = self._joint_counts(first, second)
                covariance = products / (counts.clamp_min(self.min_rows) - 1)[:, None, :, None]
                included = upper & (counts >= self.min_rows)
                sums["xx"] = (covariance.square().sum(dim=(1, 3)) * included).sum()
            if "mm" in self.terms:
                ones_row = torch.stack([gram[-1, -1].expand(c), gram[-1, c * q : -1]], dim=1).expand(b, c, 2)
                mask_row = torch.stack(
                    [gram[b * q : -1, -1:].expand(b, c), gram[b * q : -1, c * q : -1]], dim=2
                )
                covariance = torch.stack([ones_row, mask_row], dim=2) / (n - 1)  # (b, c, 2, 2)
                squares = torch.einsum("kst,klsx,lxy,klty->kl", of_first, covariance, of_second, covariance)
                sums["mm"] = (squares * upper).sum()
            if "xm" in self.terms:
                # As published, the pair of a column and its own indicator is included.
                pairs = (upper | upper.T).fill_diagonal_(True) if first is second else upper
                included = pairs & (first.count >= self.min_rows)[:, None]
                sums["xm"] = _paper_column_and_mask(left_mask, left_ones, first.count, of_second, included)
                if first is not second:
                    included = (pairs & (second.count >= self.min_rows)).T
                    reverse = mask_right.permute(1, 2, 0), ones_right, second.count, of_first, included
                    sums["xm"] = sums["xm"] + _paper_column_and_mask(*reverse)
            total = sum(sums.values(), weight.new_zeros(()))
            if not total.requires_grad:
                continue
            for term, value in sums.items():
                losses[term] = losses[term] + value.detach()
            total.backward()
            assert gram.grad is not None
            if first is second:
                gradient += first.weight_gradient(left @ (gram.grad + gram.grad.T))
            else:
                gradient += first.weight_gradient(right @ gram.grad.T) + second.weight_gradient(
                    left @ gram.grad
                )
        return losses, gradient


@dataclass(frozen=True, eq=False)
class _Block:
    """Adjacent columns of the table that are processed together.

    `matrix` (n, b · q + b) holds the features of each column, zero where missing, followed by the mask
    indicators; `count` (b,) is the number of rows in which each column is observed.
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
    def indicators(self) -> torch.Tensor:
        return self.matrix[:, -self.width :]

    def centred(self, weight: torch.Tensor) -> torch.Tensor:
        """The paper's Z̃: centred w · feature, w · indicator and, as last column, w; (n, b · q + b + 1)."""
        n, b = len(weight), self.width
        scaled = torch.cat([self.matrix, weight.new_ones(n, 1)], dim=1) * weight[:, None]
        total = scaled.sum(dim=0)
        # The mean of a feature is over the rows where the column is observed and is subtracted only there.
        mean = total[: -b - 1].reshape(b, -1) / self.count.clamp_min(1)[:, None]
        scaled[:, : -b - 1] -= (self.indicators[:, :, None] * mean).flatten(1)
        scaled[:, -b - 1 :] -= total[-b - 1 :] / n
        return scaled

    def weight_gradient(self, centred_gradient: torch.Tensor) -> torch.Tensor:
        """Convert the gradient with respect to `centred` into the gradient with respect to the weights."""
        n, b = len(centred_gradient), self.width
        feature_gradient = centred_gradient[:, : -b - 1].reshape(n, b, -1) * self.indicators[:, :, None]
        feature_gradient = feature_gradient - feature_gradient.sum(dim=0) / self.count.clamp_min(1)[:, None]
        mask_gradient = centred_gradient[:, -b - 1 :] - centred_gradient[:, -b - 1 :].mean(dim=0)
        features = self.matrix[:, :-b]
        return (
            (features * feature_gradient.flatten(1)).sum(dim=1)
            + (self.indicators * mask_gradient[:, :-1]).sum(dim=1)
            + mask_gradient[:, -1]
        )


def _each_pair_once(first: _Block, second: _Block) -> torch.Tensor:
    """Pairs (k, l) of different groups, (b, c); within one block only those above the diagonal."""
    pairs = first.groups[:, None] != second.groups
    return pairs.triu(1) if first is second else pairs


def _column_and_mask(
    products: torch.Tensor,
    mean: torch.Tensor,
    observed: torch.Tensor,
    both: torch.Tensor,
    norm: torch.Tensor,
    pairs: torch.Tensor,
) -> torch.Tensor:
    """Σ over pairs (k, l) of ‖Cov(u(x_k), u(m_l) | x_k observed)‖².

    Shapes: products = E[w m_k u(x_k) m_l] (b, q, c), mean (b, q), observed (b,), both (b, c), norm =
    ‖u(1) − u(0)‖² of m_l (c,) and pairs (b, c).
    """
    fraction = observed.clamp_min(1e-12)[:, None]
    covariance = products / fraction[:, :, None] - mean[:, :, None] * (both / fraction**2)[:, None, :]
    return (covariance.square().sum(dim=1) * norm * pairs).sum()


def _paper_column_and_mask(
    products: torch.Tensor,
    ones: torch.Tensor,
    count: torch.Tensor,
    gram_mask: torch.Tensor,
    pairs: torch.Tensor,
) -> torch.Tensor:
    """The same sum in the paper's form: products (b, q, c) with w · indicator, `ones` (b, q) with w alone."""
    divisor = (count - 1).clamp_min(1)
    with_mask = products / divisor[:, None, None]
    alone = ones / divisor[:, None]
    squares = (
        gram_mask[:, 0, 0] * alone.square().sum(dim=1)[:, None]
        + 2 * gram_mask[:, 0, 1] * (alone[:, :, None] * with_mask).sum(dim=1)
        + gram_mask[:, 1, 1] * with_mask.square().sum(dim=1)
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
    """Measure the dependence between the columns and mask indicators of a table.

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
        "xx": between columns, "mm": between mask indicators, "xm": between columns and mask indicators.

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
    data = MaskedData.of(values, mask, None, weight)
    data.check_has_rows()
    # Rows of weight zero must not count towards the minimum number of observed rows.
    data = data.rows(np.flatnonzero(data.weight > 0))
    features = RandomFeatures.draw(data.n_columns, q, rng)
    measure = Dependence(torch.from_numpy(data.values), torch.from_numpy(data.mask), features, form=form)
    losses, _ = measure(torch.from_numpy(data.weight / data.weight.mean()))
    return losses
