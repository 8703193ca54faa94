"""Where trials run: here, or in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from typing import Any, Self

import joblib
from joblib.externals.loky import ProcessPoolExecutor


class Workers:
    """`n_jobs` processes for as long as the ``with`` block lasts; a single job runs in this process.

    Each process is a pool of its own: where one of several in a pool dies, all that the others do is lost.

    Examples
    --------
    >>> with Workers(1) as workers:
    ...     workers.submit(abs, -2).result()
    2
    """

    def __init__(self, n_jobs: int):
        self.n_jobs = joblib.effective_n_jobs(n_jobs)
        # Each with the last work that it was given.
        self._pools: dict[ProcessPoolExecutor, Future[Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        for pool in self._pools:
            # Nobody waits for what still runs: either nothing does, or the user has interrupted.
            pool.shutdown(wait=True, kill_workers=True)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """What `work` will return; errors are part of it, a `BrokenExecutor` where its process died.

        For up to `n_jobs` at a time; more get a process each, too.
        """
        if self.n_jobs == 1:
            return _done_here(work, *arguments)
        pool = next((pool for pool, last in self._pools.items() if last.done()), None) or self._new_pool()
        try:
            future = pool.submit(work, *arguments)
        except BrokenExecutor:
            # Its process was killed, most often for want of memory.
            del self._pools[pool]
            pool = self._new_pool()
            future = pool.submit(work, *arguments)
        self._pools[pool] = future
        return future

    def _new_pool(self) -> ProcessPoolExecutor:
        threads = max(1, joblib.cpu_count() // self.n_jobs)
        return ProcessPoolExecutor(
            max_workers=1,
            # Processes that each take all cores would wait for each other most of the time.
            env={"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))},
        )


def _done_here(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(work(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future
