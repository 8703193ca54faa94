import os
import time
from concurrent.futures import BrokenExecutor

import pytest

from stablemiss.tuning.workers import ProcessWorkers


def test_one_job_runs_in_this_process_and_the_future_has_its_exception():
    with ProcessWorkers(1) as workers:
        assert workers.submit(os.getpid).result() == os.getpid()
        assert isinstance(workers.submit(int, "x").exception(), ValueError)


def test_a_keyboard_interrupt_is_raised():
    def interrupt():
        raise KeyboardInterrupt

    with ProcessWorkers(1) as workers, pytest.raises(KeyboardInterrupt):
        workers.submit(interrupt)


def test_a_process_that_dies_does_not_affect_the_others():
    with ProcessWorkers(2) as workers:
        other_job = workers.submit(time.sleep, 1)
        for _ in range(2):
            assert isinstance(workers.submit(os.abort).exception(), BrokenExecutor)
        assert other_job.exception() is None


def test_at_most_n_jobs_processes_are_started():
    with ProcessWorkers(2) as workers:
        pids = set()
        for _ in range(3):
            futures = [workers.submit(os.getpid) for _ in range(2)]
            pids |= {future.result() for future in futures}
    assert len(pids) <= 2


def test_several_jobs_run_in_worker_processes_that_are_replaced_if_they_die(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with ProcessWorkers(2) as workers:
        assert workers.n_jobs == 2
        assert workers.submit(os.getpid).result() != os.getpid()
        assert workers.submit(os.getenv, "OMP_NUM_THREADS").result() == "3"
        assert isinstance(workers.submit(int, "x").exception(), ValueError)
        assert workers.submit(os.abort).exception() is not None
        assert workers.submit(abs, -2).result() == 2
        # Jobs that still run at the end of the block are killed.
        running = workers.submit(time.sleep, 60)
        while not running.running():
            time.sleep(0.01)
        start = time.monotonic()
    assert time.monotonic() - start < 30
