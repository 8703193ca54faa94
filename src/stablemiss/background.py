"""One piece of work on a thread of its own, while the caller goes on with another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, Self, TypeVar

import torch

from stablemiss.progress import Progress

Result = TypeVar("Result")
# Seconds between two looks at how far the work has come.
POLL_SECONDS = 0.2


class Cancelled(Exception):
    """Raised in work that nobody waits for any more, where it next tells its progress."""


class BackgroundTask(Generic[Result]):
    """Work beside the ``with`` block; if the block fails, the work is told to stop.

    Torch, numpy and LightGBM leave Python's lock while they compute, so two such pieces of work take little
    longer than the longer one.

    Parameters
    ----------
    work : callable
        Progress → result. Only one such piece at a time may draw from torch's global generators.
    wanted : bool
        False keeps the work for `result`, to be done then, such as where there is but one core.

    Examples
    --------
    >>> with BackgroundTask(lambda progress: 6 * 7) as background:
    ...     own = 1
    ...     background.result(NullProgress()) + own
    43
    """

    def __init__(self, work: Callable[[Progress], Result], wanted: bool = True):
        self._work = work
        self._told = _Told()
        self._pool = ThreadPoolExecutor(1) if wanted and torch.get_num_threads() > 1 else None
        self._future: Future[Result] | None = None

    def __enter__(self) -> Self:
        self._n_threads = torch.get_num_threads()
        if self._pool is not None:
            self._future = self._pool.submit(self._work, self._told)
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._told.is_stopped = True
            try:
                self._pool.shutdown()
            finally:
                # Threads that start later take over the number last set on any thread.
                torch.set_num_threads(self._n_threads)

    @property
    def n_threads_left(self) -> int | None:
        """Threads that leave the work a core while it lasts; None when it is over: as many as one likes.

        Threads that wait for each other, as those of a matrix product or of LightGBM do, wait very long for
        one whose core is taken.
        """
        is_running = self._future is not None and not self._future.done()
        return max(1, self._n_threads - 1) if is_running else None

    def result(self, progress: Progress) -> Result:
        """What the work found; `progress` shows how far it is until then. Its errors are raised here."""
        if self._future is None:
            return self._work(progress)
        shown = 0
        try:
            while not wait([self._future], timeout=POLL_SECONDS).done:
                piece, what, total, done, note = self._told.last
                if piece != shown:
                    progress.start(what, total)
                    shown = piece
                if piece:
                    progress.update(done, note)
        finally:
            if shown:
                progress.finish()
        return self._future.result()


class _Told(Progress):
    """The last that the work told, in one piece: (number of the piece of work, what, total, done, note)."""

    def __init__(self) -> None:
        self.last: tuple[int, str, int | None, int, str] = (0, "", None, 0, "")
        self.is_stopped = False

    def start(self, what: str, total: int | None = None) -> None:
        self._go_on()
        self.last = (self.last[0] + 1, what, total, 0, "")

    def update(self, done: int, note: str = "") -> None:
        self._go_on()
        self.last = (*self.last[:3], done, note)

    def finish(self) -> None:
        pass

    def _go_on(self) -> None:
        if self.is_stopped:
            raise Cancelled
