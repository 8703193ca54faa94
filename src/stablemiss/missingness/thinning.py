"""Thinning: while a model learns, observed cells are hidden further, so that it meets masks the data lack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stablemiss.data import Bools, Floats, MaskedData, joined
from stablemiss.seeding import Rng

# Share of rows that lose cells; the others stay as they are.
THINNED_SHARE = 0.8
# Share of the rows that lose cells in which telling columns go first.
TILTED_SHARE = 0.35


@dataclass(frozen=True, eq=False)
class Thinning:
    """Which cells to hide further, row by row.

    A row in five stays as it is. Most others draw a rate, anything from none to all, and hide each column
    with that chance. The rest hide columns in an order drawn with the odds `telling`: what is lost when a
    sensor that matters fails is rare among masks drawn blindly.

    Attributes
    ----------
    groups : (d,) int
        Encoded columns with the same number are one column of the user's and go together.
    telling : (n_groups,) float
        How much each of the user's columns tells about the target; only proportions matter. All zero: no
        order is better than another, so all thinned rows draw a rate.
    may_go : (n_groups,) bool
        Columns that may be hidden; the others never are.

    Examples
    --------
    >>> thinning = Thinning.of([0, 1, 1], may_go=[False, True])
    >>> keep = thinning.keep(1000, np.random.default_rng(0))
    >>> bool(keep[:, 0].all()), bool((keep[:, 1] == keep[:, 2]).all()), bool(keep.all())
    (True, True, False)
    """

    groups: NDArray[np.int64]
    telling: Floats
    may_go: Bools

    @classmethod
    def of(
        cls, groups: ArrayLike, telling: ArrayLike | None = None, may_go: ArrayLike | None = None
    ) -> Thinning:
        """For columns in `groups`, all of which may go and tell alike unless said otherwise."""
        _, numbered = np.unique(np.asarray(groups, dtype=np.int64), return_inverse=True)
        n_groups = int(numbered.max(initial=-1)) + 1
        tells = np.zeros(n_groups) if telling is None else np.asarray(telling, dtype=np.float64)
        goes = np.ones(n_groups, dtype=bool) if may_go is None else np.asarray(may_go, dtype=bool)
        return cls(numbered.astype(np.int64), tells, goes)

    def keep(self, n: int, rng: Rng) -> Bools:
        """Cells (n, d) that stay, for n rows."""
        k = len(self.may_go)
        rate = rng.random((n, 1), dtype=np.float32)
        is_thinned = rng.random((n, 1), dtype=np.float32) < THINNED_SHARE
        hidden = rng.random((n, k), dtype=np.float32) < rate
        if self.telling.any():
            tilted = np.flatnonzero(rng.random(n, dtype=np.float32) < TILTED_SHARE)
            # Largest of log odds plus Gumbel noise: columns one after the other, drawn by their odds.
            odds = np.log(self.telling / self.telling.sum() + 0.2 / k)
            noise = -np.log(-np.log(rng.random((len(tilted), k), dtype=np.float32) + 1e-12) + 1e-12)
            place = np.argsort(np.argsort(-(odds + noise), axis=1), axis=1)
            hidden[tilted] = place < np.ceil(rate[tilted] * 0.8 * k)
        hidden &= is_thinned & self.may_go
        return ~hidden[:, self.groups]

    def copies(self, data: MaskedData, n_copies: int, rng: Rng) -> MaskedData:
        """The rows as they are, followed by `n_copies` copies of them, each thinned afresh."""
        return joined(data, *(data.hidden_where(self.keep(len(data), rng)) for _ in range(n_copies)))
