"""MaskAugmentation: while a model learns, observed cells are hidden further, so that it meets masks the data lack."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from stablemiss.data import Bools, Floats, MaskedData, hide
from stablemiss.seeding import Rng

# Share of rows that lose cells; the others stay as they are.
AUGMENTED_SHARE = 0.8
# Share of the rows that lose cells in which importance columns go first.
TILTED_SHARE = 0.35


@dataclass(frozen=True, eq=False)
class MaskAugmentation:
    """Which cells to hide further, row by row.

    A row in five stays as it is. Most others draw a rate, anything from none to all, and hide each column
    with that chance. The rest hide columns in an order drawn with the odds `importance`: what is lost when a
    sensor that matters fails is rare among masks drawn blindly.

    Attributes
    ----------
    groups : (d,) int
        Encoded columns with the same number are one column of the user's and go together.
    importance : (n_groups,) float
        How much each of the user's columns tells about the target; only proportions matter. All zero: no
        order is better than another, so all augmented rows draw a rate.
    may_go : (n_groups,) bool
        Columns that may be hidden; the others never are.

    Examples
    --------
    >>> augmentation = MaskAugmentation.of([0, 1, 1], may_go=[False, True])
    >>> keep = augmentation.keep(1000, np.random.default_rng(0))
    >>> bool(keep[:, 0].all()), bool((keep[:, 1] == keep[:, 2]).all()), bool(keep.all())
    (True, True, False)
    """

    groups: NDArray[np.int64]
    importance: Floats
    may_go: Bools

    @classmethod
    def of(
        cls, groups: ArrayLike, importance: ArrayLike | None = None, may_go: ArrayLike | None = None
    ) -> MaskAugmentation:
        """For columns in `groups`, all of which may go and tell alike unless said otherwise."""
        _, numbered = np.unique(np.asarray(groups, dtype=np.int64), return_inverse=True)
        n_groups = int(numbered.max(initial=-1)) + 1
        tells = np.zeros(n_groups) if importance is None else np.asarray(importance, dtype=np.float64)
        goes = np.ones(n_groups, dtype=bool) if may_go is None else np.asarray(may_go, dtype=bool)
        return cls(numbered.astype(np.int64), tells, goes)

    def keep(self, n: int, rng: Rng) -> Bools:
        """Cells (n, d) that stay, for n rows."""
        k = len(self.may_go)
        rate = rng.random((n, 1), dtype=np.float32)
        is_augmented = rng.random((n, 1), dtype=np.float32) < AUGMENTED_SHARE
        hidden = rng.random((n, k), dtype=np.float32) < rate
        if self.importance.any():
            tilted = np.flatnonzero(rng.random(n, dtype=np.float32) < TILTED_SHARE)
            # Largest of log odds plus Gumbel noise: columns one after the other, drawn by their odds.
            odds = np.log(self.importance / self.importance.sum() + 0.2 / k)
            odds[~self.may_go] = -np.inf
            noise = -np.log(-np.log(rng.random((len(tilted), k), dtype=np.float32) + 1e-12) + 1e-12)
            place = np.argsort(np.argsort(-(odds + noise), axis=1), axis=1)
            hidden[tilted] = place < np.ceil(rate[tilted] * 0.8 * self.may_go.sum())
        hidden &= is_augmented & self.may_go
        return ~hidden[:, self.groups]

    def copies(self, data: MaskedData, n_copies: int, rng: Rng) -> MaskedData:
        """The rows as they are, followed by `n_copies` copies of them, each augmented afresh."""
        keeps = (data.mask & self.keep(len(data), rng) for _ in range(n_copies))
        # One array for all copies, filled at once: they are the largest thing that is held while learning.
        mask = np.stack([data.mask, *keeps])
        weight = np.tile(data.weight, n_copies + 1)
        return replace(
            data,
            values=hide(data.values, mask).reshape(-1, data.n_columns),
            mask=mask.reshape(-1, data.n_columns),
            target=np.concatenate([data.target] * (n_copies + 1)),
            weight=weight * (len(weight) / weight.sum()) if len(weight) else weight,
        )


def univariate_importance(table: Floats, target: NDArray, is_classes: bool) -> Floats:
    """Share of the variance of each column's ranks that goes with the target, (d,), 0 to 1.

    Columns that stand in for each other all count in full, unlike in what a model gains from them.

    Parameters
    ----------
    table : (n, d)
        NaN where missing; such cells do not count.
    target : (n,)
        Numbers, whose ranks are correlated, or classes, whose groups are compared.
    is_classes : bool

    Examples
    --------
    >>> table = np.array([[1.0, 4.0], [2.0, 4.0], [3.0, 4.0], [np.nan, 4.0]])
    >>> univariate_importance(table, np.array([10.0, 20.0, 30.0, 0.0]), is_classes=False).round(6).tolist()
    [1.0, 0.0]
    """
    found = np.zeros(table.shape[1])
    for column, cells in enumerate(table.T):
        seen = ~np.isnan(cells)
        own = np.asarray(target)[seen]
        if seen.sum() < 3 or np.ptp(cells[seen]) == 0 or len(np.unique(own)) < 2:
            continue
        ranks = rankdata(cells[seen])
        if not is_classes:
            found[column] = np.corrcoef(ranks, rankdata(own))[0, 1] ** 2
        else:
            _, codes = np.unique(own, return_inverse=True)
            means = np.bincount(codes, ranks) / np.bincount(codes)
            found[column] = np.var(means[codes]) / np.var(ranks)
    return found
