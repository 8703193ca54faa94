"""Sources whose parts are processed by the workers of a Dask cluster.

A part is always processed as a whole and results are used in the order of the parts, so they do not depend on
the number of workers. If a worker is lost, Dask repeats its parts on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from socket import create_connection
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from stablemiss.sources.parts import LocalSource, Part, Source, SourceError

if TYPE_CHECKING:
    import pyarrow

Result = TypeVar("Result")
# Seconds to wait for a scheduler, and for a worker if there is none.
TIMEOUT, WAIT_FOR_WORKERS = 10, 60


def is_dask(X: Any) -> bool:
    """Whether X is a data frame or a series of Dask."""
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr"))


def find_client() -> Any | None:
    """The current client of Dask in this process; None without one."""
    if find_spec("distributed") is None:
        return None
    from distributed import get_client

    # Without a client, Dask computes in this process.
    with suppress(ValueError):
        return get_client()
    return None


def connect_dask(address: str) -> Any:
    """Connect to the scheduler of a Dask cluster; raises ConnectionError if nothing answers.

    Parameters
    ----------
    address : str
        Such as ``tcp://host:8786``.
    """
    if find_spec("distributed") is None:
        raise ModuleNotFoundError('Dask is not installed; install: pip install "stablemiss[dask]".')
    from distributed import Client

    url = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        # Dask itself would repeat the attempt for a long time.
        create_connection((url.hostname or "", url.port or 0), timeout=TIMEOUT).close()
        client = Client(url.geturl(), timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"No Dask scheduler answers at {address}; start one, or correct the address (host:port)."
        ) from error
    if not client.scheduler_info(n_workers=-1)["workers"]:
        client.close()
        raise ConnectionError(f"The Dask scheduler at {address} has no workers; start some.")
    return client


def lost_worker_message(what: str) -> str:
    """A sentence for work that Dask workers did not survive, which does not pretend to know the cause.

    Parameters
    ----------
    what : str
        What happened, with a verb.

    Examples
    --------
    >>> print(lost_worker_message("All Dask workers were lost"))
    All Dask workers were lost; see their logs for the cause (if it is memory, give them more or make
    partitions smaller), and run the same again.
    """
    return (
        f"{what}; see their logs for the cause (if it is memory, give them more or make partitions smaller), "
        "and run the same again."
    )


def wait_for_worker(client: Any) -> None:
    """Wait until the cluster has a worker; raises ChildProcessError if none joins it."""
    try:
        client.wait_for_workers(1, timeout=WAIT_FOR_WORKERS)
    except TimeoutError as error:
        what = f"All Dask workers were lost, and none joined within {WAIT_FOR_WORKERS} seconds"
        raise ChildProcessError(lost_worker_message(what)) from error


def result_of(future: Any, client: Any) -> Any:
    """The result of a future. Without any worker Dask would wait for ever; this raises ChildProcessError."""
    while True:
        try:
            return future.result(timeout=WAIT_FOR_WORKERS)
        except TimeoutError:
            # The task itself may have raised it.
            if future.done():
                raise
            wait_for_worker(client)


class DistributedSource(Source):
    """Files whose parts are processed by the workers of a cluster, which can read the same paths.

    Parameters
    ----------
    schema, parts
        As in `Source`.
    client : distributed.Client
    """

    is_distributed = True

    def __init__(self, schema: pyarrow.Schema, parts: Sequence[Part], client: Any):
        super().__init__(schema, parts)
        self.client = client

    def submit(self, function: Callable[[Part], Result]) -> list[Any]:
        """One future per part, in their order. Dask repeats the parts of workers that are lost."""
        # A task of its own, because a model in the function should travel once to each worker and, unlike
        # data that are scattered, must not be lost with a worker.
        shared = self.client.submit(_identity, function, pure=False)
        # Evenly, because results that stay on the workers, such as rows for trees, are processed there.
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        return [
            self._submit_part(shared, part, workers[number % len(workers)] if workers else None)
            for number, part in enumerate(self.parts)
        ]

    def _submit_part(self, function: Any, part: Part, worker: str | None) -> Any:
        return self.client.submit(_call, function, part, pure=False, **_preferring(worker))

    def map_parts(self, function: Callable[[Part], Result]) -> Iterator[Result]:
        from distributed.scheduler import KilledWorker

        futures = self.submit(function)
        try:
            for number, future in enumerate(futures):
                result = result_of(future, self.client)
                # Frees the result on its worker.
                futures[number] = None
                del future
                yield result
        except KilledWorker as error:
            what = "Dask workers were lost again and again while they processed the same rows"
            raise ChildProcessError(lost_worker_message(what)) from error
        except CancelledError as error:
            raise ChildProcessError(
                f"The Dask scheduler has dropped the work ({error}); check that it still runs, and run the "
                "same again."
            ) from error
        finally:
            self.client.cancel([future for future in futures if future is not None])


@dataclass(frozen=True, eq=False)
class FramePart(Part):
    """A partition of a Dask data frame.

    Attributes
    ----------
    frame : pandas.DataFrame or Delayed
    target : pandas.Series, Delayed or None
        The target of its rows, if it is not a column of the frame.
    target_name : str or None
        The name of the column that the target becomes.
    """

    frame: Any
    target: Any = None
    target_name: str | None = None

    def fingerprint(self) -> list[Any]:
        # The key of a partition follows from the files or rows that it is computed from, and from the query.
        return [self.n_rows, str(self.frame.key)]

    def tables(self, columns: Sequence[str], max_rows: int) -> Iterator[pyarrow.Table]:
        import pyarrow

        frame, target = self.frame, self.target
        if hasattr(frame, "dask"):
            import dask

            frame, target = dask.compute(frame, target, scheduler="synchronous")
        frame = _with_text_labels(frame)
        if target is not None:
            if len(target) != len(frame):
                raise SourceError(
                    f"There are {len(frame)} rows but {len(target)} targets in {self.name}; pass a series "
                    "with the same partitions as the data frame."
                )
            frame = frame.assign(**{str(self.target_name): target.to_numpy()})
        table = pyarrow.Table.from_pandas(frame, columns=list(columns), preserve_index=False)
        for first in range(0, table.num_rows, max_rows):
            yield table.slice(first, max_rows)


def open_dask(X: Any, y: Any = None) -> Source:
    """A source whose parts are the partitions of a data frame.

    Parameters
    ----------
    X : dask DataFrame
    y : dask Series, default=None
        Targets, in the same partitions; becomes a column of its name, or "target".
    """
    import dask
    import pyarrow

    client = find_client()
    schema = pyarrow.Schema.from_pandas(_with_text_labels(X._meta), preserve_index=False).remove_metadata()
    name = None
    targets: list[Any] = [None] * X.npartitions
    if y is not None:
        if not is_dask(y) or y.ndim != 1 or y.npartitions != X.npartitions:
            raise SourceError(
                "The target of a Dask data frame must be the name of a column of it, a list of such names, "
                f"or a Dask series with the same {X.npartitions} partitions."
            )
        name = y.name if isinstance(y.name, str) else "target"
        if name in schema.names:
            raise SourceError(
                f"The target has the name of a column of X, {name!r}; drop the column from X, or rename it."
            )
        schema = schema.append(pyarrow.field(name, pyarrow.from_numpy_dtype(_numpy_dtype(y))))
        targets = y.to_delayed()
    # Without a client, partition after partition in this process.
    options = {} if client is not None else {"scheduler": "synchronous"}
    (lengths,) = dask.compute(X.map_partitions(len, meta=("n_rows", "int64")), **options)
    frames, parts, n_rows = X.to_delayed(), list[Part](), 0
    for frame, target, length in zip(frames, targets, lengths, strict=True):
        label = f"partition {len(parts)}"
        parts.append(FramePart(len(parts), n_rows, int(length), label, frame, target, name))
        n_rows += int(length)
    if not n_rows:
        raise SourceError("The data frame has no rows; check the query that produced it.")
    return LocalSource(schema, parts) if client is None else _PartitionSource(schema, parts, client)


class _PartitionSource(DistributedSource):
    """The partitions of a Dask data frame, which the workers compute."""

    def _submit_part(self, function: Any, part: Part, worker: str | None) -> Any:
        import dask

        assert isinstance(part, FramePart)
        bare = replace(part, frame=None, target=None)
        # The part is pickled, because Dask would look for its own objects inside it.
        task = dask.delayed(_call_with, pure=False)(function, _Opaque(bare), part.frame, part.target)
        return self.client.compute(task, **_preferring(worker))


class _Opaque:
    """Hides a part from Dask, which would otherwise take it apart."""

    def __init__(self, part: FramePart):
        self.part = part


def _preferring(worker: str | None) -> dict[str, Any]:
    """Options of a task that another worker may process too; Dask does not accept them without a worker."""
    return {} if worker is None else {"workers": worker, "allow_other_workers": True}


def _with_text_labels(frame: Any) -> Any:
    """A data frame of pandas whose column labels are text, as the names of columns in a schema are."""
    return frame.set_axis([str(label) for label in frame.columns], axis=1)


def _identity(function: Callable[[Part], Result]) -> Callable[[Part], Result]:
    return function


def _call(function: Callable[[Part], Result], part: Part) -> Result:
    return function(part)


def _call_with(function: Callable[[Part], Result], bare: _Opaque, frame: Any, target: Any) -> Result:
    return function(replace(bare.part, frame=frame, target=target))


def _numpy_dtype(series: Any) -> Any:
    """The numpy type of a series, for the schema; text and other types are objects of one kind."""
    import numpy as np

    dtype = series._meta.dtype
    return dtype if isinstance(dtype, np.dtype) and dtype.kind in "fiub" else np.dtype("U")
