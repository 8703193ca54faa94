"""Thread pool for computations with many small matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Self, TypeVar

import torch

from stablemiss.mixture.patterns import Block
from stablemiss.torch_state import torch_threads

Result = TypeVar("Result")
# Number of chunks: enough to keep several threads busy, but few enough to sum their results cheaply.
N_CHUNKS = 8


class ThreadWorkers:
    """Context manager for a thread pool with as many threads as torch is set to use.

    Inside the block torch itself uses a single thread. Starting torch's threads for a 20 × 20 matrix costs
    more than the computation, and two levels of threads would compete for the same cores. The previous
    number of threads is restored at the end.

    Examples
    --------
    >>> with ThreadWorkers() as workers:
    ...     workers.map([], lambda blocks: len(blocks))
    [0]
    """

    def __enter__(self) -> Self:
        self._n_threads = torch.get_num_threads()
        self._stack = ExitStack()
        self._stack.enter_context(torch_threads(1))
        # Set in each thread explicitly, because the default of new threads may be changed by other threads.
        pool = ThreadPoolExecutor(self._n_threads, initializer=torch.set_num_threads, initargs=(1,))
        self._pool = self._stack.enter_context(pool)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def map(self, blocks: Sequence[Block], function: Callable[[Sequence[Block]], Result]) -> list[Result]:
        """Apply `function` to chunks of the blocks in parallel and return the results.

        The chunks and the order of their results do not depend on the number of threads, so sums over them
        are reproducible bit by bit.
        """
        n_chunks = min(N_CHUNKS, len(blocks))
        if n_chunks <= 1:
            return [function(blocks)]
        return list(self._pool.map(function, [blocks[i::n_chunks] for i in range(n_chunks)]))
