"""Work on a thread of its own."""

import threading
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest
import torch

from stablemiss.background import BackgroundTask, Cancelled
from stablemiss.progress import NullProgress
from stablemiss.torch_state import torch_threads


class Heard(NullProgress):
    def __init__(self):
        self.pieces, self.notes = [], []

    def start(self, what, total=None):
        self.pieces.append((what, total))

    def update(self, done, note=""):
        self.notes.append((done, note))


@pytest.fixture(autouse=True)
def two_threads():
    with torch_threads(2):
        yield


def test_the_work_runs_beside_the_block():
    begun, go_on = threading.Event(), threading.Event()

    def work(progress):
        begun.set()
        return go_on.wait(10)

    with BackgroundTask(work) as background:
        assert begun.wait(10)
        assert background.n_threads_left == 1
        go_on.set()
        assert background.result(NullProgress()) is True
        assert background.n_threads_left is None


def test_its_progress_is_shown_while_it_is_waited_for():
    shown = threading.Event()
    heard = Heard()
    heard.finish = shown.set
    seen = threading.Event()
    heard.update = lambda done, note="": (heard.notes.append((done, note)), seen.set())

    def work(progress):
        progress.start("net", total=3)
        progress.update(2, "validation 0.5")
        return "done" if seen.wait(10) else "nobody looked"

    with BackgroundTask(work) as background:
        assert background.result(heard) == "done"
    assert heard.pieces == [("net", 3)]
    assert heard.notes[-1] == (2, "validation 0.5")
    assert shown.is_set()


def test_errors_of_the_work_come_out_where_its_result_is_asked_for():
    def work(progress):
        raise ValueError("no rows")

    with pytest.raises(ValueError, match="no rows"), BackgroundTask(work) as background:
        background.result(NullProgress())


def test_work_stops_when_the_block_fails():
    ended = []

    def work(progress):
        try:
            for _ in range(10_000):
                progress.update(1)
                sleep(0.001)
        except Cancelled:
            ended.append("stopped")
            raise

    with pytest.raises(KeyboardInterrupt), BackgroundTask(work):
        raise KeyboardInterrupt
    assert ended == ["stopped"]


@pytest.mark.parametrize(("wanted", "n_threads"), [(False, 2), (True, 1)])
def test_without_a_second_core_the_work_is_done_when_asked_for(wanted, n_threads):
    threads = []
    with (
        torch_threads(n_threads),
        BackgroundTask(lambda p: threads.append(threading.current_thread()), wanted) as a,
    ):
        assert a.n_threads_left is None
        assert not threads
        a.result(NullProgress())
    assert threads == [threading.main_thread()]


def test_torch_keeps_its_number_of_threads():
    """Also new threads, which take over what was last set on any."""
    with BackgroundTask(lambda progress: torch.set_num_threads(1)) as background:
        background.result(NullProgress())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2


def test_pieces_of_one_name_are_shown_one_by_one():
    heard, seen = Heard(), [threading.Event(), threading.Event()]
    heard.start = lambda what, total=None: (heard.pieces.append(what), seen[len(heard.pieces) - 1].set())

    def work(progress):
        for event in seen:
            progress.start("net", 1)
            assert event.wait(10)

    with BackgroundTask(work) as background:
        background.result(heard)
    assert heard.pieces == ["net", "net"]
