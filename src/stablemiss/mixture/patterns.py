"""Rows grouped by which cells they have, so that equal masks are factored once and equal shapes together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

# Numbers held at once by one block of work: 2^18 doubles are 2 MiB, about what stays in a core's cache.
BLOCK_CELLS = 2**18


@dataclass(frozen=True)
class Block:
    """Neighbouring rows, in the order of their `Patterns`, that need matrices of one size and side.

    A row's conditional mechanism follows from its observed block of the covariance or, just as well, from its
    missing block of the precision; the smaller of the two is used.

    Attributes
    ----------
    rows : slice
        Which R of the ordered rows.
    pattern : (R,) int64
        Which of the U distinct masks each row has.
    columns : (U, b) int64
        The observed columns (`observed` True) or the missing ones of each distinct mask.
    observed : bool
        Which side `columns` names.
    """

    rows: slice
    pattern: torch.Tensor
    columns: torch.Tensor
    observed: bool


class Patterns:
    """The distinct masks of some rows, and the order of the rows in which equal work is side by side.

    Parameters
    ----------
    mask : (n, d) bool
        True = observed.

    Attributes
    ----------
    order : (n,) int64
        Row numbers, sorted by the side and size of the block they need, rows with equal masks together.
    """

    def __init__(self, mask: NDArray):
        n, self._d = mask.shape
        packed = np.ascontiguousarray(np.packbits(mask, axis=1))
        keys = packed.view([("", np.void, packed.shape[1])]).ravel() if self._d else np.zeros(n)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        masks = mask[first]
        n_observed = masks.sum(axis=1)
        observed = n_observed <= self._d - n_observed
        size = np.where(observed, n_observed, self._d - n_observed)
        by_kind = np.lexsort((size, observed))
        self._masks = masks[by_kind]
        self._kind = size[by_kind] + (self._d + 1) * observed[by_kind]
        rank = np.empty_like(by_kind)
        rank[by_kind] = np.arange(len(by_kind))
        row_rank = rank[inverse.ravel()]
        self.order = np.argsort(row_rank, kind="stable")
        self._row_rank = row_rank[self.order]

    def blocks(self, n_components: int) -> list[Block]:
        """The ordered rows cut into pieces of work of bounded size."""
        # One past the last pattern of each kind, that is side and size.
        ends = np.append(np.flatnonzero(np.diff(self._kind)) + 1, len(self._kind))
        blocks = []
        start, n = 0, len(self.order)
        while start < n:
            lowest = self._row_rank[start]
            observed, b = divmod(int(self._kind[lowest]), self._d + 1)
            room = max(1, BLOCK_CELLS // (n_components * max(1, b * b)))
            room_rows = max(1, BLOCK_CELLS // (n_components * self._d))
            last = min(lowest + room, ends[np.searchsorted(ends, lowest, side="right")])
            end = int(min(np.searchsorted(self._row_rank, last), start + min(4 * room, room_rows)))
            chosen = self._masks[lowest : self._row_rank[end - 1] + 1]
            blocks.append(
                Block(
                    rows=slice(start, end),
                    pattern=torch.from_numpy(self._row_rank[start:end] - lowest),
                    columns=torch.from_numpy(np.nonzero(chosen == bool(observed))[1].reshape(len(chosen), b)),
                    observed=bool(observed),
                )
            )
            start = end
        return blocks
