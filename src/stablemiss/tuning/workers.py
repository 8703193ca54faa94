"""Execution of trials, in this process or in worker processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from typing import Any, Self

import joblib
from joblib.externals.loky import ProcessPoolExecutor

from stablemiss.processes import end_with_parent


class ProcessWorkers:
    """Context manager for `n_jobs` worker processes. With one job, no process is started and the current
    process does the work.

    Each worker process has a separate pool, because a process that dies breaks its whole pool. Workers end
    with this process, even if it is killed.

    Parameters
    ----------
    n_jobs : int
        Number of processes; -1 uses one per core.

    Examples
    --------
    >>> with ProcessWorkers(1) as workers:
    ...     workers.submit(abs, -2).result()
    2
    """

    def __init__(self, n_jobs: int):
        self.n_jobs = joblib.effective_n_jobs(n_jobs)
        # The last submitted job of each pool.
        self._pools: dict[ProcessPoolExecutor, Future[Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        for pool in self._pools:
            # Running jobs are killed: if there are any, the user has interrupted the search.
            pool.shutdown(wait=True, kill_workers=True)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a job and return its future, whose exception is a `BrokenExecutor` if the process died.

        At most `n_jobs` jobs should run at a time; each further job starts another process.
        """
        if self.n_jobs == 1:
            return _run_in_this_process(function, *arguments)
        pool = next((pool for pool, last in self._pools.items() if last.done()), None) or self._new_pool()
        try:
            future = pool.submit(function, *arguments)
        except BrokenExecutor:
            # The process was killed, usually because it ran out of memory.
            del self._pools[pool]
            pool = self._new_pool()
            future = pool.submit(function, *arguments)
        self._pools[pool] = future
        return future

    def _new_pool(self) -> ProcessPoolExecutor:
        n_threads = max(1, joblib.cpu_count() // self.n_jobs)
        return ProcessPoolExecutor(
            max_workers=1,
            initializer=end_with_parent,
            initargs=(os.getpid(),),
            # The cores are divided between the processes, which would otherwise compete for them.
            env={"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(n_threads))},
        )


def _run_in_this_process(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(function(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future
