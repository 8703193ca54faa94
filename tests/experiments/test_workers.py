"""The same rows from any workers: processes, a cluster of dask's, a cluster of ray's."""

import os
import signal
import subprocess
import sys

import pytest

from stablemiss.experiments.run_cell import MEASURED
from stablemiss.experiments.store import Store
from stablemiss.experiments.workers import as_completed, check_backend

# Table 6 with two quick methods, in a process of its own: clusters leave threads and warnings behind.
CALL = [
    *(sys.executable, "-m", "stablemiss", "reproduce", "table6", "--budget", "quick"),
    *("--method", "ols", "--method", "neumiss"),
]


def rows(folder, *arguments):
    done = subprocess.run(
        [*CALL, "--folder", str(folder), *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = Store(folder / "quick.jsonl").rows()
    facts = [{key: value for key, value in row.items() if key not in MEASURED} for row in found]
    return sorted(facts, key=lambda row: row["key"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return rows(tmp_path_factory.mktemp("alone"))


def test_one_worker_and_two_give_the_same_rows(alone, tmp_path):
    assert len(alone) == 5
    assert all(row["error"] is None for row in alone)
    assert rows(tmp_path, "--jobs", "2") == alone


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_of_two_processes_gives_the_same_rows(alone, tmp_path, backend):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[backend])
    assert rows(tmp_path, "--jobs", "2", "--backend", backend) == alone


def test_a_scheduler_that_runs_already_is_used(alone, tmp_path):
    """Two workers that nobody here started join a scheduler of dask's."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        assert rows(tmp_path, "--backend", "dask", "--scheduler", cluster.scheduler_address) == alone


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_an_unreachable_scheduler_is_one_sentence_and_writes_nothing(tmp_path, backend):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[backend])
    address = {"dask": "tcp://127.0.0.1:9", "ray": "127.0.0.1:9"}[backend]
    done = subprocess.run(
        [*CALL, "--folder", str(tmp_path), "--backend", backend, "--scheduler", address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"Error: No scheduler of {backend}'s answers at {address}")
    assert "Traceback" not in done.stderr
    assert Store(tmp_path / "quick.jsonl").rows() == []


def test_results_come_as_they_are_ready():
    found = as_completed(abs, [-1, -2, -3])
    assert next(found) == 1
    assert sorted(found) == [2, 3]


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_one_sentence():
    with pytest.raises(ChildProcessError, match="for want of memory; what was stored is safe"):
        list(as_completed(die, [1, 2], jobs=2))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("spark", None, 1), "no backend 'spark'; choose from loky, dask, ray"),
        (("loky", "tcp://host:1", 1), "belongs to a cluster"),
        (("loky", None, 0), "at least 1"),
    ],
)
def test_impossible_workers_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_backend(*arguments)
