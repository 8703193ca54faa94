"""Rows grouped by which cells they have, so that equal masks are factored once and equal shapes together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

# Numbers held at once by one block of work: 2^17 doubles are 1 MiB, which stays in a core's cache.
BLOCK_CELLS = 2**17


@dataclass(frozen=True)
class Block:
    """Rows whose masks need a matrix of the same size and side.

    A row's conditional law follows from its observed block of the covariance or, just as well, from its
    missing block of the precision; the smaller of the two is used.

    Attributes
    ----------
    rows : (R,) int64
        Row numbers, rows with equal masks side by side.
    pattern : (R,) int64
        Which of the U distinct masks each row has.
    columns : (U, b) int64
        The observed columns (`observed` True) or the missing ones of each distinct mask.
    observed : bool
        Which side `columns` names.
    """

    rows: torch.Tensor
    pattern: torch.Tensor
    columns: torch.Tensor
    observed: bool


def distinct_rows(mask: NDArray) -> tuple[NDArray, NDArray]:
    """First occurrence of each distinct row of a boolean array, and for each row which one it equals."""
    packed = np.ascontiguousarray(np.packbits(mask, axis=1))
    keys = packed.view([("", np.void, packed.shape[1])]).ravel() if packed.shape[1] else np.zeros(len(mask))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse.ravel()


def to_blocks(mask: NDArray, n_components: int) -> Iterator[Block]:
    """Cut the rows of `mask` (n, d), True = observed, into blocks of work of bounded size."""
    d = mask.shape[1]
    first, inverse = distinct_rows(mask)
    masks = mask[first]
    n_observed = masks.sum(axis=1)
    observed = n_observed <= d - n_observed
    size = np.where(observed, n_observed, d - n_observed)
    # Patterns in the order (side, size); then rows in the order of their pattern.
    order = np.lexsort((size, observed))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    row_rank = rank[inverse]
    rows = np.argsort(row_rank, kind="stable")
    row_rank = row_rank[rows]
    kind = size[order] + (d + 1) * observed[order]
    ends = np.append(np.flatnonzero(np.diff(kind)) + 1, len(kind))  # one past the last pattern of each kind

    start = 0
    while start < len(rows):
        lowest = row_rank[start]
        side, b = divmod(int(kind[lowest]), d + 1)
        room = max(1, BLOCK_CELLS // (n_components * max(1, b * b)))
        room_rows = max(1, BLOCK_CELLS // (n_components * d))
        last = min(lowest + room, ends[np.searchsorted(ends, lowest, side="right")])
        end = min(np.searchsorted(row_rank, last, side="left"), start + min(4 * room, room_rows))
        patterns = order[lowest : row_rank[end - 1] + 1]
        chosen = masks[patterns] if side else ~masks[patterns]
        yield Block(
            rows=torch.from_numpy(rows[start:end]),
            pattern=torch.from_numpy(row_rank[start:end] - lowest),
            columns=torch.from_numpy(np.nonzero(chosen)[1].reshape(len(patterns), b)),
            observed=bool(side),
        )
        start = end
