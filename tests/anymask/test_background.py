"""A function on a second thread: its result, its progress, its errors and its cancellation."""

import threading
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest
import torch

from stablemiss.anymask.background import BackgroundTask, Cancelled
from stablemiss.progress import NullProgress
from stablemiss.torch_state import torch_threads


class RecordingProgress(NullProgress):
    def __init__(self):
        self.tasks, self.notes = [], []

    def start(self, what, total=None):
        self.tasks.append((what, total))

    def update(self, done, note=""):
        self.notes.append((done, note))


@pytest.fixture(autouse=True)
def two_threads():
    with torch_threads(2):
        yield


def test_the_function_runs_in_parallel_to_the_block():
    started, may_finish = threading.Event(), threading.Event()

    def function(progress):
        started.set()
        return may_finish.wait(10)

    with BackgroundTask(function) as background:
        assert started.wait(10)
        assert background.n_free_threads == 1
        may_finish.set()
        assert background.result(NullProgress()) is True
        assert background.n_free_threads is None


def test_progress_is_shown_while_waiting_for_the_result():
    finished, updated = threading.Event(), threading.Event()
    shown = RecordingProgress()
    shown.finish = finished.set
    shown.update = lambda done, note="": (shown.notes.append((done, note)), updated.set())

    def function(progress):
        progress.start("net", total=3)
        progress.update(2, "validation 0.5")
        return "done" if updated.wait(10) else "no update was shown"

    with BackgroundTask(function) as background:
        assert background.result(shown) == "done"
    assert shown.tasks == [("net", 3)]
    assert shown.notes[-1] == (2, "validation 0.5")
    assert finished.is_set()


def test_exceptions_of_the_function_are_raised_by_result():
    def function(progress):
        raise ValueError("no rows")

    with pytest.raises(ValueError, match="no rows"), BackgroundTask(function) as background:
        background.result(NullProgress())


def test_the_function_is_cancelled_if_the_block_fails():
    outcome = []

    def function(progress):
        try:
            for _ in range(10_000):
                progress.update(1)
                sleep(0.001)
        except Cancelled:
            outcome.append("cancelled")
            raise

    with pytest.raises(KeyboardInterrupt), BackgroundTask(function):
        raise KeyboardInterrupt
    assert outcome == ["cancelled"]


@pytest.mark.parametrize(("concurrent", "n_threads"), [(False, 2), (True, 1)])
def test_without_a_second_thread_the_function_runs_inside_result(concurrent, n_threads):
    threads = []
    with (
        torch_threads(n_threads),
        BackgroundTask(lambda p: threads.append(threading.current_thread()), concurrent) as background,
    ):
        assert background.n_free_threads is None
        assert not threads
        background.result(NullProgress())
    assert threads == [threading.main_thread()]


def test_the_number_of_torch_threads_is_restored():
    """Also for new threads, which inherit the number that was last set on any thread."""
    with BackgroundTask(lambda progress: torch.set_num_threads(1)) as background:
        background.result(NullProgress())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2


def test_tasks_with_the_same_name_are_shown_one_by_one():
    shown, started = RecordingProgress(), [threading.Event(), threading.Event()]
    shown.start = lambda what, total=None: (shown.tasks.append(what), started[len(shown.tasks) - 1].set())

    def function(progress):
        for event in started:
            progress.start("net", 1)
            assert event.wait(10)

    with BackgroundTask(function) as background:
        background.result(shown)
    assert shown.tasks == ["net", "net"]
