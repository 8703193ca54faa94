"""Cells to rows on several workers: processes of this machine, or a cluster of dask's or ray's."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from socket import create_connection
from typing import Any, TypeVar
from urllib.parse import urlsplit

from joblib import Parallel, delayed, parallel_config

BACKENDS: tuple[str, ...] = ("loky", "dask", "ray")
# What is installed for a backend → the extra that brings it.
NEEDS = {"dask": "distributed", "ray": "ray"}
# Seconds until a scheduler that does not answer is given up.
PATIENCE = 10

Item = TypeVar("Item")


def check_backend(backend: str, scheduler: str | None, jobs: int) -> None:
    """Raise, in one sentence, where such workers cannot be had: before long work, not after it."""
    if backend not in BACKENDS:
        raise ValueError(f"There is no backend {backend!r}; choose from {', '.join(BACKENDS)}.")
    if scheduler is not None and backend == "loky":
        raise ValueError("A scheduler belongs to a cluster; choose the backend dask or ray with it.")
    if jobs < 1:
        raise ValueError(f"jobs={jobs} should be at least 1.")
    if backend in NEEDS and find_spec(NEEDS[backend]) is None:
        raise ModuleNotFoundError(
            f'The backend {backend} needs {NEEDS[backend]}; install with: pip install "stablemiss[cluster]".'
        )
    if scheduler is not None:
        _check_answers(backend, scheduler)


def as_completed(
    work: Callable[[Item], Any],
    items: Sequence[Item],
    jobs: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
) -> Iterator[Any]:
    """What `work` makes of each item, as it comes, in any order.

    Parameters
    ----------
    work : callable
    items : sequence
    jobs : int
        Workers on this machine. A cluster that is there already (`scheduler`) has its own.
    backend : "loky", "dask" or "ray"
        Whose workers. Without a scheduler dask and ray start workers on this machine.
    scheduler : str, optional
        Address of a running cluster: ``tcp://host:8786`` of dask's scheduler, ``host:6379`` of ray's head.

    Examples
    --------
    >>> sorted(as_completed(abs, [-1, -2, 3]))
    [1, 2, 3]
    """
    check_backend(backend, scheduler, jobs)
    calls = [delayed(work)(item) for item in items]
    if not calls:
        return
    try:
        if backend == "loky":
            yield from Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")(calls)
        elif backend == "dask":
            with _dask(jobs, scheduler), parallel_config("dask"):
                yield from Parallel(n_jobs=-1, batch_size=1, return_as="generator_unordered")(calls)
        else:
            with _ray(jobs, scheduler) as n, parallel_config("ray"), Parallel(n, batch_size=1) as parallel:
                # Ray's backend hands over results only when all are there: a few at a time, then.
                for start in range(0, len(calls), n):
                    yield from parallel(calls[start : start + n])
    except BrokenExecutor as error:
        raise ChildProcessError(
            "A worker was killed, most likely for want of memory; what was stored is safe. Run the command "
            "again with fewer jobs: it goes on from there."
        ) from error


@contextmanager
def _dask(jobs: int, scheduler: str | None) -> Iterator[None]:
    from distributed import Client, LocalCluster

    if scheduler is None:
        # Threads would share torch's random state; a worker is a process with one of them.
        local = LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
        with local as cluster, Client(cluster):
            yield
        return
    with Client(scheduler, timeout=PATIENCE) as client:
        if not client.scheduler_info()["workers"]:
            raise ConnectionError(f"dask's scheduler at {scheduler} has no workers; start some first.")
        yield


@contextmanager
def _ray(jobs: int, scheduler: str | None) -> Iterator[int]:
    import ray
    from ray.util.joblib import register_ray

    started = not ray.is_initialized()
    if scheduler is None:
        # Ray's workers give way to everything else unless told otherwise, and starve beside other work.
        os.environ.setdefault("RAY_worker_niceness", "0")
        ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    else:
        ray.init(address=scheduler, log_to_driver=False, logging_level=logging.ERROR)
    try:
        register_ray()
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if started:
            ray.shutdown()


def _check_answers(backend: str, scheduler: str) -> None:
    """Raise if nobody listens there; the backends themselves try for minutes before they say so."""
    place = urlsplit(scheduler if "://" in scheduler else f"//{scheduler}")
    try:
        with create_connection((place.hostname or "", place.port or 0), timeout=PATIENCE):
            pass
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"No scheduler of {backend}'s answers at {scheduler}; start one, or correct the address "
            "(host:port)."
        ) from error
