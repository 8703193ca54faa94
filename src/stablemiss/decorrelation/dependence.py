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
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.seeding import Rng

Form = Literal["weighted", "paper"]
TERMS = ("xx", "mm", "xm")
# Two columns seen together in fewer rows tell nothing but noise.
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
        self.terms, self.form, self.block = tuple(terms), form, block
        self.mask = mask.to(values.dtype)
        # (n, d · q), zero where hidden.
        cosines = features.of_values(torch.where(mask, values, 0.0)) * self.mask[:, :, None]
        self.features = cosines.reshape(self.n, self.d * self.q)
        self.bit_zero, self.bit_step = (part.to(values) for part in features.of_bits())

    def __call__(self, weight: torch.Tensor) -> tuple[dict[str, float], torch.Tensor]:
        """The loss of each term, and the gradient (n,) of their sum with respect to the weights (n,)."""
        evaluate = self._weighted if self.form == "weighted" else self._paper
        # Gradients by the Gram matrix are taken here also where the caller has turned them off.
        with torch.enable_grad():
            losses, gradient = evaluate(weight.detach())
        return {term: float(losses[term]) for term in self.terms}, gradient

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        """Pairs of column ranges, each pair once."""
        cuts = [slice(start, min(start + self.block, self.d)) for start in range(0, self.d, self.block)]
        for i, first in enumerate(cuts):
            for second in cuts[i:]:
                yield first, second

    def _columns(self, block: slice) -> torch.Tensor:
        """Feature columns of a block, (n, b · q + b): values' features, then mask bits."""
        part = self.features[:, block.start * self.q : block.stop * self.q]
        return torch.cat([part, self.mask[:, block]], dim=1)

    def _counts(self, first: slice, second: slice) -> torch.Tensor:
        return self.mask[:, first].T @ self.mask[:, second]

    def _weighted(self, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        q, n = self.q, self.n
        seen = (weight @ self.mask / n).requires_grad_()  # ν: weighted share of rows that have each column
        mean = (weight @ self.features / n).reshape(self.d, q).requires_grad_()  # E[w m u]
        losses = {term: torch.zeros((), dtype=weight.dtype) for term in TERMS}
        gradient = torch.zeros_like(weight)
        step = self.bit_step.square().sum(dim=1)
        for first, second in self._blocks():
            left, right = self._columns(first), self._columns(second)
            gram = ((left * weight[:, None]).T @ right / n).requires_grad_()
            b, c = first.stop - first.start, second.stop - second.start
            both = gram[b * q :, c * q :]
            products = gram[: b * q, : c * q].reshape(b, q, c, q)
            left_bit = gram[: b * q, c * q :].reshape(b, q, c)  # features of first, bits of second
            bit_right = gram[b * q :, : c * q].reshape(b, c, q)  # bits of first, features of second
            upper = torch.ones(b, c, dtype=torch.bool)
            if first == second:
                upper = upper.triu(1)
            parts = {}
            if "xx" in self.terms:
                known = upper & (self._counts(first, second) >= FEWEST)
                share = torch.where(known, both, 1.0)
                means = left_bit[:, :, :, None] * bit_right[:, None, :, :] / share[:, None, :, None] ** 2
                covariance = products / share[:, None, :, None] - means
                parts["xx"] = (covariance.square().sum(dim=(1, 3)) * known).sum()
            if "mm" in self.terms:
                covariance = both - seen[first, None] * seen[None, second]
                scale = step[first, None] * step[None, second]
                parts["mm"] = (covariance.square() * scale * upper).sum()
            if "xm" in self.terms:
                parts["xm"] = _column_and_bit(left_bit, mean[first], seen[first], both, step[second], upper)
                # The other way round; within one block these are the pairs below the diagonal.
                turned = bit_right.permute(1, 2, 0), mean[second], seen[second], both.T, step[first], upper.T
                parts["xm"] = parts["xm"] + _column_and_bit(*turned)
            total = sum(parts.values(), torch.zeros((), dtype=weight.dtype))
            if total.requires_grad:
                for term, value in parts.items():
                    losses[term] = losses[term] + value.detach()
                total.backward()
            if gram.grad is not None:
                gradient += ((left @ gram.grad) * right).sum(dim=1) / n
        for leaf, source in ((seen, self.mask), (mean, self.features)):
            if leaf.grad is not None:
                gradient += source @ leaf.grad.reshape(-1) / n
        return losses, gradient

    def _paper(self, weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        # PAPER: Σ' of X_k X_l, X_k M_l and M_k M_l with pairwise counts; w inside both factors.
        q, n = self.q, self.n
        count = self.mask.sum(dim=0)
        mean = (weight @ self.features).reshape(self.d, q) / count.clamp_min(1)[:, None]
        mean_bit, mean_weight = weight @ self.mask / n, weight.mean()
        rest = weight - mean_weight
        losses = {term: torch.zeros((), dtype=weight.dtype) for term in TERMS}
        gradient = torch.zeros_like(weight)
        # |u(0)|², u(0)·step and |step|² of each bit: a bit's q features span two directions, w and w · bit.
        zero, step = self.bit_zero, self.bit_step
        gram_bit = torch.stack(
            [
                torch.stack([(zero * zero).sum(dim=1), (zero * step).sum(dim=1)], dim=1),
                torch.stack([(zero * step).sum(dim=1), (step * step).sum(dim=1)], dim=1),
            ],
            dim=2,
        )

        def centred(block: slice) -> torch.Tensor:
            features = self.features[:, block.start * q : block.stop * q] * weight[:, None]
            mask = self.mask[:, block]
            features = features - (mask[:, :, None] * mean[block]).reshape(n, -1)
            bits = mask * weight[:, None] - mean_bit[block]
            return torch.cat([features, bits, rest[:, None]], dim=1)

        for first, second in self._blocks():
            left, right = centred(first), centred(second)
            gram = (left.T @ right).requires_grad_()
            b, c = first.stop - first.start, second.stop - second.start
            products = gram[: b * q, : c * q].reshape(b, q, c, q)
            left_bit = gram[: b * q, c * q : c * q + c].reshape(b, q, c)
            left_rest = gram[: b * q, -1].reshape(b, q)
            bit_right = gram[b * q : b * q + b, : c * q].reshape(b, c, q)
            rest_right = gram[-1, : c * q].reshape(c, q)
            upper = torch.ones(b, c, dtype=torch.bool)
            if first == second:
                upper = upper.triu(1)
            parts = {}
            if "xx" in self.terms:
                pairs = self._counts(first, second)
                known = upper & (pairs >= FEWEST)
                covariance = products / (pairs.clamp_min(FEWEST) - 1)[:, None, :, None]
                parts["xx"] = (covariance.square().sum(dim=(1, 3)) * known).sum()
            if "mm" in self.terms:
                table = torch.stack(
                    [
                        torch.stack([gram[-1, -1].expand(b, c), gram[-1, c * q : -1].expand(b, c)], dim=2),
                        torch.stack(
                            [gram[b * q : -1, -1, None].expand(b, c), gram[b * q : -1, c * q : -1]], dim=2
                        ),
                    ],
                    dim=2,
                ) / (n - 1)
                squares = torch.einsum(
                    "kst,klsx,lxy,klty->kl", gram_bit[first], table, gram_bit[second], table
                )
                parts["mm"] = (squares * upper).sum()
            if "xm" in self.terms:
                include = torch.ones(b, c, dtype=torch.bool)
                parts["xm"] = _paper_column_and_bit(
                    left_bit, left_rest, count[first], gram_bit[second], include
                )
                if first != second:
                    turned = bit_right.permute(1, 2, 0), rest_right, count[second], gram_bit[first], include.T
                    parts["xm"] = parts["xm"] + _paper_column_and_bit(*turned)
            total = sum(parts.values(), torch.zeros((), dtype=weight.dtype))
            if not total.requires_grad:
                continue
            for term, value in parts.items():
                losses[term] = losses[term] + value.detach()
            total.backward()
            assert gram.grad is not None
            gradient += self._paper_chain(first, right @ gram.grad.T, count)
            gradient += self._paper_chain(second, left @ gram.grad, count)
        return losses, gradient

    def _paper_chain(self, block: slice, by_column: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        """From the gradient (n, b · q + b + 1) by the centred columns of a block to that by the weights."""
        q, b = self.q, block.stop - block.start
        features = self.features[:, block.start * q : block.stop * q]
        mask = self.mask[:, block]
        by_feature = (by_column[:, : b * q].reshape(self.n, b, q)) * mask[:, :, None]
        by_feature = by_feature - by_feature.sum(dim=0) / count[block].clamp_min(1)[:, None]
        by_bit = by_column[:, b * q : -1] - by_column[:, b * q : -1].mean(dim=0)
        by_rest = by_column[:, -1] - by_column[:, -1].mean()
        return (features * by_feature.reshape(self.n, -1)).sum(dim=1) + (mask * by_bit).sum(dim=1) + by_rest


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
    table = torch.from_numpy(np.where(mask, values, 0.0))
    features = RandomFeatures.draw(table.shape[1], q, rng)
    weights = np.ones(len(table)) if weight is None else np.asarray(weight, dtype=np.float64)
    measure = Dependence(table, torch.from_numpy(np.asarray(mask, dtype=bool)), features, form=form)
    losses, _ = measure(torch.from_numpy(weights / weights.mean()))
    return losses
