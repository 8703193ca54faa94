"""Cells to rows on several workers: processes of this machine, or a cluster of dask's or ray's."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from queue import Empty, Queue
from socket import create_connection
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

from joblib import Parallel, delayed, parallel_config

BACKENDS: tuple[str, ...] = ("loky", "dask", "ray")
# What is installed for a backend → the extra that brings it.
NEEDS = {"dask": "distributed", "ray": "ray"}
# Seconds until a scheduler that does not answer is given up.
PATIENCE = 10

# Seconds between two looks at whether a task was lost.
POLL_SECONDS = 1.0

Item = TypeVar("Item")
Connection = TypeVar("Connection")


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
            with _dask(jobs, scheduler) as client, parallel_config("dask"):
                found = Parallel(n_jobs=-1, batch_size=1, return_as="generator_unordered")(calls)
                yield from _unless_lost(found, client)
        else:
            with _ray(jobs, scheduler) as n, parallel_config("ray"), Parallel(n, batch_size=1) as parallel:
                # Ray's backend hands over results only when all are there: a few at a time, then.
                for start in range(0, len(calls), n):
                    yield from parallel(calls[start : start + n])
    except BrokenExecutor as error:
        raise _lost() from error


@contextmanager
def _dask(jobs: int, scheduler: str | None) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    if scheduler is None:
        local = LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
        with local as cluster, Client(cluster) as client:
            yield client
        return
    with _connected("dask", scheduler, lambda: Client(scheduler, timeout=PATIENCE)) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        if not workers:
            raise ConnectionError(f"dask's scheduler at {scheduler} has no workers; start some first.")
        if any(worker["nthreads"] > 1 for worker in workers):
            # Threads share torch's random state: the rows would be others from run to run.
            raise ValueError(
                f"Some workers at {scheduler} have several threads, but a fit needs a process of its own; "
                "start them with: dask worker --nthreads 1 --nworkers …"
            )
        yield client


@contextmanager
def _ray(jobs: int, scheduler: str | None) -> Iterator[int]:
    import ray
    from ray.exceptions import RayError
    from ray.util.joblib import register_ray

    # A program that has joined a cluster already stays in it.
    starts = not ray.is_initialized()
    quietly: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if starts and scheduler is None:
        # Ray's workers give way to everything else unless told otherwise, and starve beside other work.
        os.environ.setdefault("RAY_worker_niceness", "0")
        ray.init(num_cpus=jobs, include_dashboard=False, **quietly)
    elif starts and scheduler is not None:
        _connected("ray", scheduler, lambda: ray.init(address=scheduler, **quietly))
    try:
        register_ray()
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    except RayError as error:
        raise _lost() from error
    finally:
        if starts:
            ray.shutdown()


def _unless_lost(found: Iterator[Any], client: Any) -> Iterator[Any]:
    """Results as they come; raises if a task is lost, for which joblib's backend would wait for ever."""
    # Results one by one, each with True; then False with what went wrong, if anything did.
    ready: Queue[tuple[bool, Any]] = Queue()

    def collect() -> None:
        try:
            for result in found:
                ready.put((True, result))
        except Exception as error:
            ready.put((False, error))
        else:
            ready.put((False, None))

    # It must not keep the program alive if a result never comes.
    Thread(target=collect, daemon=True).start()
    while True:
        try:
            is_result, thing = ready.get(timeout=POLL_SECONDS)
        except Empty:
            if any(
                future.status in ("error", "cancelled", "lost") for future in list(client.futures.values())
            ):
                raise _lost() from None
            continue
        if is_result:
            yield thing
        elif thing is not None:
            raise thing
        else:
            return


def _lost() -> ChildProcessError:
    return ChildProcessError(
        "A worker was killed, most likely for want of memory, or could not run the work; what was stored is "
        "safe. Run the command again with fewer jobs: it goes on from there."
    )


def _connected(backend: str, scheduler: str, connect: Callable[[], Connection]) -> Connection:
    """What `connect` gives; raises if nobody answers, where backends would try for minutes or for ever."""
    place = urlsplit(scheduler if "://" in scheduler else f"//{scheduler}")
    made: list[Connection] = []

    def try_it() -> None:
        # Why it failed does not matter: nobody there answers as a scheduler does.
        with suppress(Exception):
            create_connection((place.hostname or "", place.port or 0), timeout=PATIENCE).close()
            made.append(connect())

    attempt = Thread(target=try_it, daemon=True)
    attempt.start()
    attempt.join(2 * PATIENCE)
    if not made:
        raise ConnectionError(
            f"No scheduler of {backend}'s answers at {scheduler}; start one, or correct the address "
            "(host:port)."
        )
    return made[0]
