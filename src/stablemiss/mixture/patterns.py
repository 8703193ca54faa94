"""Groups rows by mask: rows with equal masks share a factorisation, matrices of equal size are batched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

# Maximum number of float64 values per block: 2^18 are 2 MiB, which roughly fits into the cache of a core.
MAX_BLOCK_CELLS = 2**18


@dataclass(frozen=True)
class Block:
    """Rows that need a submatrix of the same kind and size, consecutive in the order given by `Patterns`.

    The conditional distribution of a row can be computed from the covariance of its observed columns or from
    the precision matrix of its missing columns. The smaller of the two submatrices is used.

    Attributes
    ----------
    rows : slice
        The R rows of this block, among the ordered rows.
    pattern : (R,) int64
        Index of the mask of each row, among the U distinct masks of the block.
    columns : (U, b) int64
        The observed columns (if `columns_are_observed`) or the missing columns of each distinct mask.
    columns_are_observed : bool
        True if `columns` are the observed columns, False if they are the missing columns.
    """

    rows: slice
    pattern: torch.Tensor
    columns: torch.Tensor
    columns_are_observed: bool


class Patterns:
    """The distinct masks of some rows, and an order of the rows in which equal masks are adjacent.

    Parameters
    ----------
    mask : (n, d) bool
        True = observed.

    Attributes
    ----------
    order : (n,) int64
        Row indices, sorted by the kind (observed or missing) and size of the submatrix they need. Rows with
        equal masks are adjacent.
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
        """Split the ordered rows into blocks of bounded memory."""
        # For each combination of kind and size, the index just after its last pattern.
        ends = np.append(np.flatnonzero(np.diff(self._kind)) + 1, len(self._kind))
        blocks = []
        start, n = 0, len(self.order)
        while start < n:
            first = self._row_rank[start]
            columns_are_observed, b = divmod(int(self._kind[first]), self._d + 1)
            max_patterns = max(1, MAX_BLOCK_CELLS // (n_components * max(1, b * b)))
            max_rows = max(1, MAX_BLOCK_CELLS // (n_components * self._d))
            stop = min(first + max_patterns, ends[np.searchsorted(ends, first, side="right")])
            end = int(min(np.searchsorted(self._row_rank, stop), start + min(4 * max_patterns, max_rows)))
            masks = self._masks[first : self._row_rank[end - 1] + 1]
            blocks.append(
                Block(
                    rows=slice(start, end),
                    pattern=torch.from_numpy(self._row_rank[start:end] - first),
                    columns=torch.from_numpy(
                        np.nonzero(masks == bool(columns_are_observed))[1].reshape(len(masks), b)
                    ),
                    columns_are_observed=bool(columns_are_observed),
                )
            )
            start = end
        return blocks
