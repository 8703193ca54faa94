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

    Examples
    --------
    >>> with Workers(1) as workers:
    ...     workers.submit(abs, -2).result()
    2
    """

    def __init__(self, n_jobs: int):
        self.n_jobs = joblib.effective_n_jobs(n_jobs)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._pool is not None:
            # Nobody waits for what still runs: either nothing does, or the user has interrupted.
            self._pool.shutdown(wait=True, kill_workers=True)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """What `work` will return; errors are part of it."""
        if self.n_jobs == 1:
            return _done_here(work, *arguments)
        if self._pool is None:
            self._pool = self._new_pool()
        try:
            return self._pool.submit(work, *arguments)
        except BrokenExecutor:
            # A process was killed, most often for want of memory; its trial has failed, others can go on.
            self._pool = self._new_pool()
            return self._pool.submit(work, *arguments)

    def _new_pool(self) -> ProcessPoolExecutor:
        threads = max(1, joblib.cpu_count() // self.n_jobs)
        return ProcessPoolExecutor(
            max_workers=self.n_jobs,
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
