"""Execute independent tasks on several workers: processes of this machine, or a Dask or Ray cluster.

Dask and Ray are used through their own interfaces, which return results as they are completed and raise an
error when a worker is lost. Their joblib backends do neither.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from socket import create_connection
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

from joblib import Parallel, delayed

from stablemiss.processes import call_in_worker

# Backend → the package it needs.
BACKENDS: dict[str, str] = {"loky": "joblib", "dask": "distributed", "ray": "ray"}
# Seconds to wait for a scheduler.
TIMEOUT = 10

Item = TypeVar("Item")
Connection = TypeVar("Connection")


@dataclass(frozen=True)
class Workers:
    """Where tasks are executed. Arguments are checked at once, before any work.

    Parameters
    ----------
    jobs : int, default=1
        Workers on this machine. A running cluster (`scheduler`) has its own.
    backend : "loky", "dask" or "ray", default="loky"
        Without a scheduler, Dask and Ray start workers on this machine.
    scheduler : str, default=None
        Address of a running cluster: ``tcp://host:8786`` of a Dask scheduler, ``host:6379`` of a Ray head.

    Examples
    --------
    >>> sorted(Workers().map(abs, [-1, -2, 3]))
    [1, 2, 3]
    """

    jobs: int = 1
    backend: str = "loky"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {self.backend!r}.")
        if self.scheduler is not None and self.backend == "loky":
            raise ValueError("scheduler is the address of a cluster; choose the backend dask or ray with it.")
        if self.jobs < 1:
            raise ValueError(f"jobs must be at least 1; got {self.jobs}.")
        if find_spec(BACKENDS[self.backend]) is None:
            raise ModuleNotFoundError(
                f"The backend {self.backend} needs {BACKENDS[self.backend]}; install it with: pip install "
                '"stablemiss[cluster]".'
            )

    def map(self, function: Callable[[Item], Any], items: Sequence[Item]) -> Iterator[Any]:
        """Results of `function` for each item, in the order in which they are completed."""
        if not items:
            return
        try:
            if self.backend == "dask":
                yield from self._map_dask(function, items)
            elif self.backend == "ray":
                yield from self._map_ray(function, items)
            else:
                parallel = Parallel(n_jobs=self.jobs, batch_size=1, return_as="generator_unordered")
                yield from parallel(delayed(call_in_worker)(os.getpid(), function, item) for item in items)
        except BrokenExecutor as error:
            raise _lost_worker() from error

    def _map_dask(self, function: Callable[[Item], Any], items: Sequence[Item]) -> Iterator[Any]:
        from distributed import as_completed
        from distributed.scheduler import KilledWorker

        with self._dask_client() as client:
            try:
                for future in as_completed(client.map(function, items, pure=False)):
                    yield future.result()
            except (KilledWorker, CancelledError) as error:
                raise _lost_worker() from error

    @contextmanager
    def _dask_client(self) -> Iterator[Any]:
        from distributed import Client, LocalCluster

        if self.scheduler is None:
            local = LocalCluster(n_workers=self.jobs, threads_per_worker=1, dashboard_address=":0")
            with local as cluster, Client(cluster) as client:
                yield client
            return
        with _connect("Dask", self.scheduler, lambda: Client(self.scheduler, timeout=TIMEOUT)) as client:
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            if not workers:
                raise ConnectionError(f"The Dask scheduler at {self.scheduler} has no workers; start some.")
            if any(worker["nthreads"] > 1 for worker in workers):
                # Threads of one process share torch's random state, so results would not be reproducible.
                raise ValueError(
                    f"Some workers at {self.scheduler} have several threads, but each fit needs its own "
                    "process. Start the workers with: dask worker --nthreads 1 --nworkers …"
                )
            yield client

    def _map_ray(self, function: Callable[[Item], Any], items: Sequence[Item]) -> Iterator[Any]:
        import ray
        from ray.exceptions import RayError

        # A program that has already joined a cluster stays in it.
        starts_ray = not ray.is_initialized()
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if starts_ray and self.scheduler is None:
            # By default Ray's workers have a low priority and get hardly any time beside other processes.
            os.environ.setdefault("RAY_worker_niceness", "0")
            ray.init(num_cpus=self.jobs, include_dashboard=False, **quiet)
        elif starts_ray and self.scheduler is not None:
            _connect("Ray", self.scheduler, lambda: ray.init(address=self.scheduler, **quiet))
        try:
            task: Any = ray.remote(max_retries=0)(lambda item: function(item))
            waiting = [task.remote(item) for item in items]
            while waiting:
                ready, waiting = ray.wait(waiting)
                yield from ray.get(ready)
        except RayError as error:
            raise _lost_worker() from error
        finally:
            if starts_ray:
                ray.shutdown()


def _lost_worker() -> ChildProcessError:
    return ChildProcessError(
        "A worker was killed, most likely because memory ran out, or could not run the task. Stored results "
        "are safe. Run the command again with fewer jobs: it continues from there."
    )


def _connect(backend: str, scheduler: str, connect: Callable[[], Connection]) -> Connection:
    """The result of `connect`; raises if there is no answer in time. The backends would retry for minutes."""
    address = urlsplit(scheduler if "://" in scheduler else f"//{scheduler}")
    connections: list[Connection] = []

    def attempt() -> None:
        # The reason for a failure does not matter: nothing at this address answers like a scheduler.
        with suppress(Exception):
            create_connection((address.hostname or "", address.port or 0), timeout=TIMEOUT).close()
            connections.append(connect())

    thread = Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(2 * TIMEOUT)
    if not connections:
        raise ConnectionError(
            f"No {backend} scheduler answers at {scheduler}. Start one, or correct the address (host:port)."
        )
    return connections[0]
