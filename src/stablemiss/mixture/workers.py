"""Threads for many small matrices: each works on its own share, torch's own threads stay out of the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Self, TypeVar

import torch

from stablemiss.mixture.patterns import Block
from stablemiss.torch_state import torch_threads

Result = TypeVar("Result")
# Enough to keep several threads busy to the end, few enough that adding up the results costs nothing.
SHARES = 8


class Workers:
    """As many threads as torch was allowed, for as long as the ``with`` block lasts.

    Inside, torch runs every operation on the calling thread: waking its own threads for a 20 × 20 matrix
    costs more than the matrix, and two levels of threads fight for the same cores. Afterwards torch has its
    threads back.

    Examples
    --------
    >>> with Workers() as workers:
    ...     workers.map([], lambda blocks: len(blocks))
    [0]
    """

    def __enter__(self) -> Self:
        self._n_threads = torch.get_num_threads()
        self._stack = ExitStack()
        self._stack.enter_context(torch_threads(1))
        # Told to each thread: what new ones take over by themselves, other threads may change meanwhile.
        pool = ThreadPoolExecutor(self._n_threads, initializer=torch.set_num_threads, initargs=(1,))
        self._pool = self._stack.enter_context(pool)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def map(self, blocks: Sequence[Block], work: Callable[[Sequence[Block]], Result]) -> list[Result]:
        """`work` on a few shares of the blocks, in parallel.

        The shares are the same, and their results in the same order, for any number of threads: sums over
        them repeat to the last bit.
        """
        n_shares = min(SHARES, len(blocks))
        if n_shares <= 1:
            return [work(blocks)]
        return list(self._pool.map(work, [blocks[i::n_shares] for i in range(n_shares)]))
