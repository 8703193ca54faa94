"""The same rows from any workers: processes, a cluster of dask's, a cluster of ray's."""

import os
import signal
import subprocess
import sys
from socket import create_server
from threading import Event
from typing import ClassVar

import pytest

from stablemiss.experiments import workers
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
        # Every one of the five fits was done there.
        with distributed.Client(cluster) as client:
            done = client.run_on_scheduler(
                lambda dask_scheduler: {log[0] for log in dask_scheduler.transition_log if log[2] == "memory"}
            )
        assert len(done) >= len(alone)


WHERE = """
import os, sys, time
from stablemiss.experiments.workers import as_completed

def where(_):
    time.sleep(0.5)
    return os.getpid()

if __name__ == "__main__":
    print(os.getpid(), *as_completed(where, range(4), jobs=2, backend=sys.argv[1]))
"""


@pytest.mark.parametrize("backend", ["loky", "dask", "ray"])
def test_two_other_processes_do_the_work(tmp_path, backend):
    if backend != "loky":
        pytest.importorskip({"dask": "distributed", "ray": "ray"}[backend])
    program = tmp_path / "program.py"
    program.write_text(WHERE)
    done = subprocess.run(
        [sys.executable, str(program), backend], capture_output=True, text=True, timeout=120, check=False
    )
    own, *others = done.stdout.split()
    assert len(others) == 4, done.stderr
    assert len(set(others)) == 2
    assert own not in others


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


def test_something_else_at_the_address_is_told_too(monkeypatch):
    """Somebody listens there, but does not answer as a scheduler does: backends would wait for ever."""
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    with create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=f"No scheduler of ray's answers at {address}"):
            workers._connected("ray", address, Event().wait)


def test_workers_of_several_threads_are_refused():
    distributed = pytest.importorskip("distributed")
    threaded = distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None)
    with threaded as cluster, pytest.raises(ValueError, match="start them with: dask worker --nthreads 1"):
        list(as_completed(abs, [1], backend="dask", scheduler=cluster.scheduler_address))


def test_a_task_that_kills_its_worker_of_dasks_is_one_sentence(tmp_path):
    pytest.importorskip("distributed")
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal\n"
        "from stablemiss.experiments.workers import as_completed\n"
        "def die(_):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    list(as_completed(die, [1, 2], backend='dask', jobs=2))\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert "ChildProcessError: A worker was killed" in done.stderr


def test_what_goes_wrong_while_results_are_collected_is_not_lost():
    def broken():
        yield 1
        raise RuntimeError("no luck")

    class Client:
        futures: ClassVar = {}

    found = workers._unless_lost(broken(), Client())
    assert next(found) == 1
    with pytest.raises(RuntimeError, match="no luck"):
        next(found)


def test_results_come_as_they_are_ready():
    found = as_completed(abs, [-1, -2, -3])
    assert next(found) == 1
    assert sorted(found) == [2, 3]


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_one_sentence():
    with pytest.raises(ChildProcessError, match=r"A worker was killed, .* what was stored is safe"):
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
