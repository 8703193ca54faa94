"""Sources on a cluster, with a client that has none: what is submitted, and what is said when it fails."""

from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow
import pytest
from distributed.scheduler import KilledWorker

from stablemiss.sources import Part, SourceError, open_source
from stablemiss.sources.cluster import DistributedSource
from stablemiss.sources.files import LocalSource


class FakeFuture:
    """Computes its result when it is asked for, or raises."""

    def __init__(self, compute: Callable[[], Any]):
        self.compute = compute

    def result(self, timeout: float | None = None) -> Any:
        return self.compute()

    def done(self) -> bool:
        return False


class FakeClient:
    """Runs tasks in this process; `fail` is raised by those that process parts."""

    def __init__(self, workers: list[str], fail: Exception | None = None):
        self.workers, self.fail = workers, fail
        self.used: list[str | None] = []

    def scheduler_info(self, n_workers: int) -> dict[str, list[str]]:
        return {"workers": self.workers}

    def submit(self, function: Any, *arguments: Any, pure: bool, **options: Any) -> FakeFuture:
        # As Dask does.
        if options.get("allow_other_workers") and options["workers"] is None:
            raise ValueError("Only use allow_other_workers= if using workers=")
        self.used.append(options.get("workers"))

        def compute() -> Any:
            if self.fail is not None and len(arguments) == 2:
                raise self.fail
            return function(*(one.result() if isinstance(one, FakeFuture) else one for one in arguments))

        return FakeFuture(compute)

    def wait_for_workers(self, n_workers: int, timeout: float) -> None:
        if len(self.workers) < n_workers:
            raise TimeoutError

    def cancel(self, futures: list[FakeFuture]) -> None:
        pass


class NumberPart(Part):
    def tables(self, columns: Any, max_rows: int) -> Any:
        yield pyarrow.table({"a": [float(self.number)]})


def source_of(client: FakeClient) -> DistributedSource:
    parts = [NumberPart(number, number, 1, f"part {number}") for number in range(3)]
    return DistributedSource(pyarrow.schema({"a": pyarrow.float64()}), parts, client)


def rows(source: LocalSource | DistributedSource) -> list[Any]:
    return list(source.map(lambda first, table: (first, table["a"].to_pylist())))


def test_parts_are_spread_evenly_and_come_in_order() -> None:
    client = FakeClient(["one", "two"])
    assert rows(source_of(client)) == [(0, [0.0]), (1, [1.0]), (2, [2.0])]
    assert client.used[1:] == ["one", "two", "one"]


def test_parts_can_be_submitted_while_there_is_no_worker() -> None:
    assert len(rows(source_of(FakeClient([])))) == 3


@pytest.mark.parametrize(
    ("fail", "said", "unsaid"),
    [
        (KilledWorker("task", None, 3), "lost again and again", "scheduler"),
        (CancelledError("scheduler-connection-lost"), "scheduler-connection-lost", "memory"),
        (TimeoutError(), "none joined", "again and again"),
    ],
)
def test_a_failure_of_the_cluster_is_one_sentence_about_its_own_cause(
    fail: Exception, said: str, unsaid: str
) -> None:
    with pytest.raises(ChildProcessError, match=said) as raised:
        rows(source_of(FakeClient([], fail)))
    assert unsaid not in str(raised.value)
    assert raised.value.__cause__ is not None


def frame(offset: float = 0.0) -> pd.DataFrame:
    return pd.DataFrame(np.arange(12.0).reshape(6, 2) + offset)


def test_column_labels_may_be_numbers() -> None:
    with open_source(dask.dataframe.from_pandas(frame(), npartitions=2)) as source:
        assert source.schema.names == ["0", "1"]
        tables = list(source.map(lambda first, table: table["1"].to_pylist()))
    assert tables == [[1.0, 3.0, 5.0], [7.0, 9.0, 11.0]]


def test_a_target_of_two_columns_is_refused() -> None:
    lazy = dask.dataframe.from_pandas(frame(), npartitions=2)
    with pytest.raises(SourceError, match="list of such names"):
        open_source(lazy, lazy)


def test_partitions_are_recognised_by_what_they_are_computed_from() -> None:
    def fingerprints(frame: pd.DataFrame) -> list[Any]:
        with open_source(dask.dataframe.from_pandas(frame, npartitions=2)) as source:
            return [part.fingerprint() for part in source.parts]

    assert fingerprints(frame()) == fingerprints(frame())
    assert fingerprints(frame()) != fingerprints(frame(1.0))
