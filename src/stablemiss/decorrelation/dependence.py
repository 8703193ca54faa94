"""How dependent columns and mask bits are under row weights, and how that changes with each weight.

Pairs are compared through random Fourier features. Two forms:

- **weighted**, the default: covariances of the weighted distribution. For two columns over the rows where
  both are observed, for two mask bits over all rows, for a column and another column's bit over the rows
  where the column is observed.
- **paper**, to the letter: sums of (w u − mean)(w v − mean) over jointly observed rows, divided by their
  number less one. It contains w², so for independent columns it vanishes only if all weights are equal.

Both depend on the weights through one Gram matrix of the feature columns, so all pairs cost one matrix
product and the gradient one more. Wide tables are worked on in pairs of column blocks: memory is bounded.
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
# Columns seen, or seen together, in fewer rows tell nothing but noise.
FEWEST = 30


class Dependence:
    """The dependence of one table's columns for one draw of features, as a function of the row weights.

    Parameters
    ----------
    values : (n, d) tensor
        Standardised columns. What stands in hidden cells has no influence.
    mask : (n, d) bool tensor
        True = observed.
    features : RandomFeatures
        Kept for as long as losses are to be compared.
    terms : subset of "xx", "mm", "xm"
        Which pairs count: column and column, bit and bit, column and bit.
    form : "weighted" or "paper"
    groups : (d,) int tensor, optional
        Columns with the same number are parts of one (a category spread over several columns, say). Their
        dependence cannot be undone and does not count, and their bits, all the same, count as one.
    block : int
        Columns worked on at a time. More is faster while it fits; memory grows with the square.
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
                f"terms must be among {', '.join(TERMS)} and form 'weighted' or 'paper', but "
                f"terms={terms!r} and form={form!r} came."
            )
        self.n, self.d = values.shape
        self.q = features.frequency.shape[1]
        self.terms, self.form = tuple(terms), form
        self.blocks = [
            _Block.of(slice(start, min(start + block, self.d)), values, mask, features, groups)
            for start in range(0, self.d, block)
        ]
        own = torch.cat([part.groups for part in self.blocks])
        parts = (own[:, None] == own).sum(dim=1) if groups is not None else torch.ones_like(own)
        # Squared lengths are what counts: a bit that is there k times has each time a k-th of it.
        shorter = parts.to(values).rsqrt()[:, None]
        self.bit_zero, self.bit_step = (part.to(values) * shorter for part in features.of_bits())
        self._counts: dict[tuple[int, int], torch.Tensor] = {}

    def __call__(self, weight: torch.Tensor) -> tuple[dict[str, float], torch.Tensor]:
        """The loss of each term, and the gradient (n,) of their sum with respect to the weights (n,)."""
        evaluate = self._weighted if self.form == "weighted" else self._paper
        # Gradients by the Gram matrix are taken here also where the caller has turned them off.
        with torch.enable_grad():
            losses, gradient = evaluate(weight.detach())
        return {term: float(losses[term]) for term in self.terms}, gradient

    def equal_weights(self) -> torch.Tensor:
        """The weight one for each row, in this table's precision and on its device."""
        return self.bit_step.new_ones(self.n)

    def _pairs(self) -> Iterator[tuple[_Block, _Block]]:
        """Pairs of blocks, each pair once."""
        for i, first in enumerate(self.blocks):
            for second in self.blocks[i:]:
                yield first, second

    def _seen_together(self, first: _Block, second: _Block) -> torch.Tensor:
        """In how many rows two columns are both observed, (b, c).

        Weights do not matter, so it is counted once; in tables of many blocks, where all counts would fill
        the memory, each time anew.
        """
        key = first.part.start, second.part.start
        if key in self._counts:
            return self._counts[key]
        counts = first.bits.T @ second.bits
        if len(self.blocks) <= 8:
            self._counts[key] = counts
        return counts

    def _weighted(self, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        q, n = self.q, self.n
        # E[w m u] of each feature and ν, the weighted share of rows that have each column.
        means = {block: (weight @ block.matrix / n).requires_grad_() for block in self.blocks}
        losses = {term: weight.new_zeros(()) for term in TERMS}
        gradient = torch.zeros_like(weight)
        step = self.bit_step.square().sum(dim=1)
        for first, second in self._pairs():
            gram = ((first.matrix * weight[:, None]).T @ second.matrix / n).requires_grad_()
            b, c = first.width, second.width
            mean_left, seen_left = means[first][: b * q].reshape(b, q), means[first][b * q :]
            mean_right, seen_right = means[second][: c * q].reshape(c, q), means[second][c * q :]
            both = gram[b * q :, c * q :]
            products = gram[: b * q, : c * q].reshape(b, q, c, q)
            left_bit = gram[: b * q, c * q :].reshape(b, q, c)  # features of first, bits of second
            bit_right = gram[b * q :, : c * q].reshape(b, c, q)  # bits of first, features of second
            upper = _each_pair_once(first, second)
            step_left, step_right = step[first.part], step[second.part]
            parts = {}
            if "xx" in self.terms:
                known = upper & (self._seen_together(first, second) >= FEWEST)
                share = torch.where(known, both, 1.0)[:, None, :, None]
                covariance = products / share - left_bit[:, :, :, None] * bit_right[:, None] / share**2
                parts["xx"] = (covariance.square().sum(dim=(1, 3)) * known).sum()
            if "mm" in self.terms:
                covariance = both - seen_left[:, None] * seen_right
                parts["mm"] = (covariance.square() * step_left[:, None] * step_right * upper).sum()
            if "xm" in self.terms:
                known = upper & first.is_known[:, None]
                parts["xm"] = _column_and_bit(left_bit, mean_left, seen_left, both, step_right, known)
                # The other way round; within one block these are the pairs below the diagonal.
                known = (upper & second.is_known).T
                turned = bit_right.permute(1, 2, 0), mean_right, seen_right, both.T, step_left, known
                parts["xm"] = parts["xm"] + _column_and_bit(*turned)
            total = sum(parts.values(), weight.new_zeros(()))
            if total.requires_grad:
                for term, value in parts.items():
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
        # |u(0)|², u(0)·step and |step|² of each bit: a bit's q features span two directions, w and w · bit.
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
            of_first, of_second = gram_bit[first.part], gram_bit[second.part]
            parts = {}
            if "xx" in self.terms:
                pairs = self._seen_together(first, second)
                covariance = products / (pairs.clamp_min(FEWEST) - 1)[:, None, :, None]
                known = upper & (pairs >= FEWEST)
                parts["xx"] = (covariance.square().sum(dim=(1, 3)) * known).sum()
            if "mm" in self.terms:
                rest_by = torch.stack([gram[-1, -1].expand(c), gram[-1, c * q : -1]], dim=1).expand(b, c, 2)
                bit_by = torch.stack(
                    [gram[b * q : -1, -1:].expand(b, c), gram[b * q : -1, c * q : -1]], dim=2
                )
                table = torch.stack([rest_by, bit_by], dim=2) / (n - 1)
                squares = torch.einsum("kst,klsx,lxy,klty->kl", of_first, table, of_second, table)
                parts["mm"] = (squares * upper).sum()
            if "xm" in self.terms:
                # To the letter a column and its own bit count too.
                apart = (upper | upper.T).fill_diagonal_(True) if first is second else upper
                known = apart & first.is_known[:, None]
                parts["xm"] = _paper_column_and_bit(left_bit, left_rest, first.count, of_second, known)
                if first is not second:
                    known = (apart & second.is_known).T
                    turned = bit_right.permute(1, 2, 0), rest_right, second.count, of_first, known
                    parts["xm"] = parts["xm"] + _paper_column_and_bit(*turned)
            total = sum(parts.values(), weight.new_zeros(()))
            if not total.requires_grad:
                continue
            for term, value in parts.items():
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
    """Some neighbouring columns of the table, worked on together.

    matrix (n, b · q + b) holds the features of each column, zero where hidden, and then the mask bits.
    """

    part: slice
    matrix: torch.Tensor
    count: torch.Tensor
    groups: torch.Tensor

    @classmethod
    def of(
        cls,
        part: slice,
        values: torch.Tensor,
        mask: torch.Tensor,
        features: RandomFeatures,
        groups: torch.Tensor | None,
    ) -> _Block:
        observed = mask[:, part].to(values.dtype)
        cosines = features.of_values(torch.where(mask[:, part], values[:, part], 0.0), part)
        matrix = torch.cat([(cosines * observed[:, :, None]).flatten(1), observed], dim=1)
        own = torch.arange(values.shape[1], device=values.device) if groups is None else groups
        return cls(part, matrix, observed.sum(dim=0), own[part])

    @property
    def width(self) -> int:
        return self.part.stop - self.part.start

    @property
    def is_known(self) -> torch.Tensor:
        """Which columns are observed often enough to be compared with a bit."""
        return self.count >= FEWEST

    @property
    def bits(self) -> torch.Tensor:
        return self.matrix[:, -self.width :]

    def centred(self, weight: torch.Tensor) -> torch.Tensor:
        """The paper's Z̃ of features and bits, and w itself as the last column: (n, b · q + b + 1)."""
        n, b = len(weight), self.width
        scaled = torch.cat([self.matrix, weight.new_ones(n, 1)], dim=1) * weight[:, None]
        total = scaled.sum(dim=0)
        # A feature's mean is over the rows that have the column, and is taken off these rows alone.
        mean = total[: -b - 1].reshape(b, -1) / self.count.clamp_min(1)[:, None]
        scaled[:, : -b - 1] -= (self.bits[:, :, None] * mean).flatten(1)
        scaled[:, -b - 1 :] -= total[-b - 1 :] / n
        return scaled

    def by_weight(self, by_centred: torch.Tensor) -> torch.Tensor:
        """From the gradient by the columns of `centred` to that by the weights."""
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
    """Which pairs (k, l) of columns count: of different groups, and within one block above the diagonal."""
    pairs = first.groups[:, None] != second.groups
    return pairs.triu(1) if first is second else pairs


def _column_and_bit(
    products: torch.Tensor,
    mean: torch.Tensor,
    seen: torch.Tensor,
    both: torch.Tensor,
    step: torch.Tensor,
    pairs: torch.Tensor,
) -> torch.Tensor:
    """Σ over pairs (k, l) of ‖Cov(u(x_k), bit_l | x_k observed)‖², features of the bit included.

    products (b, q, c) = E[w m_k u(x_k) m_l], mean (b, q), seen (b,), both (b, c), step (c,), pairs (b, c).
    """
    share = seen.clamp_min(1e-12)[:, None]
    covariance = products / share[:, :, None] - mean[:, :, None] * (both / share**2)[:, None, :]
    return (covariance.square().sum(dim=1) * step * pairs).sum()


def _paper_column_and_bit(
    products: torch.Tensor,
    rest: torch.Tensor,
    count: torch.Tensor,
    gram_bit: torch.Tensor,
    pairs: torch.Tensor,
) -> torch.Tensor:
    """The same for the paper's form: products (b, q, c) with w · bit, rest (b, q) with w itself."""
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
    """Measure how dependent a table's columns and mask bits are.

    Parameters
    ----------
    values : (n, d)
        Standardised columns; hidden cells have no influence.
    mask : (n, d)
        1 = observed.
    weight : (n,), optional
        Row weights, brought to mean one; equal by default.
    form : "weighted" or "paper"
    q : int
        Features per column. More see more kinds of dependence, at a cost that grows with their square.
    rng : numpy Generator
        Draws the features.

    Returns
    -------
    dict
        "xx": between columns, "mm": between mask bits, "xm": between columns and mask bits.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 1))
    >>> all_seen = np.ones((2000, 2), dtype=bool)
    >>> alike = dependence(np.hstack([x, x]), all_seen, rng=np.random.default_rng(1))
    >>> apart = dependence(np.hstack([x, x[::-1]]), all_seen, rng=np.random.default_rng(1))
    >>> alike["xx"] > 20 * apart["xx"]
    True
    """
    data = MaskedData.of(values, mask, np.zeros(len(values)), weight)
    # Rows of weight zero are as good as absent; counted among those that see a column they would not be.
    data = data.rows(np.flatnonzero(data.weight > 0))
    features = RandomFeatures.draw(data.n_columns, q, rng)
    measure = Dependence(torch.from_numpy(data.values), torch.from_numpy(data.mask), features, form=form)
    losses, _ = measure(torch.from_numpy(data.weight / data.weight.mean()))
    return losses
