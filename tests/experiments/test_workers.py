"""The same records from any workers: processes of this machine, a Dask cluster, a Ray cluster."""

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

# Table 6 with two quick methods, in a process of its own: clusters leave threads and warnings behind.
CALL = [
    *(sys.executable, "-m", "stablemiss", "reproduce", "table6", "--budget", "quick"),
    *("--method", "ols", "--method", "neumiss"),
]


def outcomes(folder, *arguments):
    done = subprocess.run(
        [*CALL, "--folder", str(folder), *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = sorted(Store(folder / "quick.jsonl").records(), key=lambda record: record.key)
    return [record.outcome() for record in found]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return outcomes(tmp_path_factory.mktemp("alone"))


@pytest.mark.slow
def test_one_worker_and_two_give_the_same_records(alone, tmp_path):
    assert len(alone) == 5
    assert all(outcome["failure"] is None for outcome in alone)
    assert outcomes(tmp_path, "--jobs", "2") == alone


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_of_two_processes_gives_the_same_records(alone, tmp_path, backend):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[backend])
    assert outcomes(tmp_path, "--jobs", "2", "--backend", backend) == alone


@pytest.mark.slow
def test_a_running_scheduler_is_used(alone, tmp_path):
    """Two workers of a Dask cluster that the command did not start."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        assert outcomes(tmp_path, "--backend", "dask", "--scheduler", cluster.scheduler_address) == alone
        # All five fits were executed there.
        with distributed.Client(cluster) as client:
            done = client.run_on_scheduler(
                lambda dask_scheduler: {log[0] for log in dask_scheduler.transition_log if log[2] == "memory"}
            )
        assert len(done) >= len(alone)


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


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_an_unreachable_scheduler_is_reported_and_nothing_is_written(tmp_path, backend):
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
def test_another_server_at_the_address_is_reported_too(monkeypatch):
    """A server that does not answer as a scheduler does: the backends would wait for ever."""
    monkeypatch.setattr(workers, "TIMEOUT", 0.2)
    with create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=f"No Ray scheduler answers at {address}"):
            workers._connect("Ray", address, Event().wait)


@pytest.mark.slow
def test_workers_of_several_threads_are_refused():
    distributed = pytest.importorskip("distributed")
    threaded = distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None)
    with (
        threaded as cluster,
        pytest.raises(ValueError, match="Start the workers with: dask worker --nthreads 1"),
    ):
        list(Workers(1, "dask", cluster.scheduler_address).map(abs, [1]))


@pytest.mark.slow
def test_a_task_that_kills_its_dask_worker_is_reported(tmp_path):
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


def test_results_are_returned_as_they_are_ready():
    found = Workers().map(abs, [-1, -2, -3])
    assert next(found) == 1
    assert sorted(found) == [2, 3]


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_worker_is_reported():
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
def test_bad_arguments_are_refused(arguments, facts):
    with pytest.raises(ValueError, match=facts):
        Workers(*arguments)
