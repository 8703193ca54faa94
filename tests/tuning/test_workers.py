import os
import time
from concurrent.futures import BrokenExecutor

import pytest

from stablemiss.tuning.workers import Workers


def test_one_job_runs_here_and_errors_are_part_of_what_it_returns():
    with Workers(1) as workers:
        assert workers.submit(os.getpid).result() == os.getpid()
        assert isinstance(workers.submit(int, "x").exception(), ValueError)


def test_an_interrupt_ends_the_work_here():
    def interrupt():
        raise KeyboardInterrupt

    with Workers(1) as workers, pytest.raises(KeyboardInterrupt):
        workers.submit(interrupt)


def test_whose_process_dies_takes_no_other_with_it():
    with Workers(2) as workers:
        bystander = workers.submit(time.sleep, 1)
        for _ in range(2):
            assert isinstance(workers.submit(os.abort).exception(), BrokenExecutor)
        assert bystander.exception() is None


def test_no_more_processes_are_begun_than_there_are_jobs():
    with Workers(2) as workers:
        pids = set()
        for _ in range(3):
            both = [workers.submit(os.getpid) for _ in range(2)]
            pids |= {future.result() for future in both}
    assert len(pids) <= 2


def test_several_jobs_run_elsewhere_with_their_share_of_the_cores_and_survive_a_death(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with Workers(2) as workers:
        assert workers.n_jobs == 2
        assert workers.submit(os.getpid).result() != os.getpid()
        assert workers.submit(os.getenv, "OMP_NUM_THREADS").result() == "3"
        assert isinstance(workers.submit(int, "x").exception(), ValueError)
        assert workers.submit(os.abort).exception() is not None
        assert workers.submit(abs, -2).result() == 2
        # What still runs at the end is not waited for.
        running = workers.submit(time.sleep, 60)
        while not running.running():
            time.sleep(0.01)
        start = time.monotonic()
    assert time.monotonic() - start < 30
