"""Processes of this machine, Dask and Ray give the same records, and errors if a worker is lost."""

import os
import signal
import subprocess
import sys
from socket import create_server
from threading import Event

import pytest

from stablemiss.experiments import workers
from stablemiss.experiments.workers import Workers
from stablemiss.results import Store

# Clusters of two processes at a time would compete for ports.
pytestmark = pytest.mark.xdist_group("clusters")

# Table 6 with two quick methods, in a separate process because clusters leave threads and warnings behind.
CALL = [
    *(sys.executable, "-m", "stablemiss", "reproduce", "table6", "--budget", "quick"),
    *("--method", "ols", "--method", "neumiss"),
]


def outcomes(folder, *arguments):
    done = subprocess.run(
        [*CALL, "--folder", str(folder), *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    results = sorted(Store(folder / "quick.jsonl").records(), key=lambda record: record.key)
    return [record.outcome() for record in results]


@pytest.fixture(scope="module")
def sequential(tmp_path_factory):
    return outcomes(tmp_path_factory.mktemp("sequential"))


@pytest.mark.slow
def test_one_worker_and_two_give_the_same_records(sequential, tmp_path):
    assert len(sequential) == 5
    assert all(outcome["failure"] is None for outcome in sequential)
    assert outcomes(tmp_path, "--jobs", "2") == sequential


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_of_two_processes_gives_the_same_records(sequential, tmp_path, backend):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[backend])
    assert outcomes(tmp_path, "--jobs", "2", "--backend", backend) == sequential


@pytest.mark.slow
def test_a_running_scheduler_is_used(sequential, tmp_path):
    """Two workers of a Dask cluster that the command did not start."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        assert outcomes(tmp_path, "--backend", "dask", "--scheduler", cluster.scheduler_address) == sequential
        # All five fits were executed there.
        with distributed.Client(cluster) as client:
            done = client.run_on_scheduler(
                lambda dask_scheduler: {log[0] for log in dask_scheduler.transition_log if log[2] == "memory"}
            )
        assert len(done) >= len(sequential)


WHERE = """
import os, sys, time
from stablemiss.experiments.workers import Workers

def where(_):
    time.sleep(0.5)
    return os.getpid()

if __name__ == "__main__":
    print(os.getpid(), *Workers(2, sys.argv[1]).map(where, range(4)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "dask", "ray"])
def test_tasks_are_executed_in_two_other_processes(tmp_path, backend):
    if backend != "loky":
        pytest.importorskip({"dask": "distributed", "ray": "ray"}[backend])
    program = tmp_path / "program.py"
    program.write_text(WHERE)
    done = subprocess.run(
        [sys.executable, str(program), backend], capture_output=True, text=True, timeout=120, check=False
    )
    parent, *workers_used = done.stdout.split()
    assert len(workers_used) == 4, done.stderr
    assert len(set(workers_used)) == 2
    assert parent not in workers_used


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_an_unreachable_scheduler_gives_an_error_and_nothing_is_written(tmp_path, backend):
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
    assert done.stderr.splitlines()[-1].startswith(
        f"Error: No {backend.capitalize()} scheduler answers at {address}"
    )
    assert "Traceback" not in done.stderr
    assert Store(tmp_path / "quick.jsonl").records() == []


@pytest.mark.slow
def test_a_server_that_is_not_a_scheduler_gives_an_error(monkeypatch):
    """The backends would wait forever for the answer of such a server."""
    monkeypatch.setattr(workers, "TIMEOUT", 0.2)
    with create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=f"No Ray scheduler answers at {address}"):
            workers._connect("Ray", address, Event().wait)


@pytest.mark.slow
def test_dask_workers_with_several_threads_raise():
    distributed = pytest.importorskip("distributed")
    threaded = distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0")
    with (
        threaded as cluster,
        pytest.raises(ValueError, match="Start the workers with: dask worker --nthreads 1"),
    ):
        list(Workers(1, "dask", cluster.scheduler_address).map(abs, [1]))


@pytest.mark.slow
def test_a_task_that_kills_its_dask_worker_gives_an_error(tmp_path):
    pytest.importorskip("distributed")
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal\n"
        "from stablemiss.experiments.workers import Workers\n"
        "def die(_):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    list(Workers(2, 'dask').map(die, [1, 2]))\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert "ChildProcessError: A worker was killed" in done.stderr


def test_results_are_returned_one_by_one():
    results = Workers().map(abs, [-1, -2, -3])
    assert next(results) == 1
    assert sorted(results) == [2, 3]


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_worker_gives_an_error():
    with pytest.raises(ChildProcessError, match=r"A worker was killed.* Stored results are safe"):
        list(Workers(2).map(die, [1, 2]))


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ((1, "spark"), "loky, dask, ray; got 'spark'"),
        ((1, "loky", "tcp://host:1"), "address of a cluster"),
        ((0,), "jobs must be at least 1; got 0"),
    ],
)
def test_invalid_arguments_raise(arguments, facts):
    with pytest.raises(ValueError, match=facts):
        Workers(*arguments)
