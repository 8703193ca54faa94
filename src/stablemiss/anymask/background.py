"""Run one function on a second thread while the caller continues."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, NamedTuple, Self, TypeVar

import torch

from stablemiss.progress import Progress

Result = TypeVar("Result")
# Seconds between two progress updates while waiting for the result.
POLL_SECONDS = 0.2


class Cancelled(Exception):
    """Raised inside a cancelled function the next time it reports progress."""


class BackgroundTask(Generic[Result]):
    """Runs a function on a second thread during a ``with`` block; the end of the block cancels it.

    Torch, numpy and LightGBM release Python's global interpreter lock while they compute, so two such
    computations at the same time take little longer than the longer of the two.

    Parameters
    ----------
    function : callable
        Function from a `Progress` to the result. Only one thread at a time may draw from torch's global
        generators.
    concurrent : bool, default=True
        Whether to use a second thread. If False, or if torch uses a single thread, `result` runs the
        function.

    Examples
    --------
    >>> from stablemiss.progress import NullProgress
    >>> with BackgroundTask(lambda progress: 6 * 7) as background:
    ...     meanwhile = 1
    ...     background.result(NullProgress()) + meanwhile
    43
    """

    def __init__(self, function: Callable[[Progress], Result], concurrent: bool = True):
        self._function = function
        self._progress = _RecordedProgress()
        self._pool = ThreadPoolExecutor(1) if concurrent and torch.get_num_threads() > 1 else None
        self._future: Future[Result] | None = None

    def __enter__(self) -> Self:
        self._n_threads = torch.get_num_threads()
        if self._pool is not None:
            self._future = self._pool.submit(self._function, self._progress)
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._progress.is_cancelled = True
            try:
                self._pool.shutdown()
            finally:
                # A number of threads set in one Python thread becomes torch's default in all threads started
                # later, so it is reset here.
                torch.set_num_threads(self._n_threads)

    @property
    def is_concurrent(self) -> bool:
        """Whether the function runs on a second thread."""
        return self._pool is not None

    @property
    def n_free_threads(self) -> int | None:
        """Number of threads that the caller should use while the function runs; None (no limit) afterwards.

        One core is left to the function. The threads of a matrix product, or of LightGBM, wait for each
        other, so a thread without a free core would delay all of them.
        """
        is_running = self._future is not None and not self._future.done()
        return max(1, self._n_threads - 1) if is_running else None

    def result(self, progress: Progress) -> Result:
        """Wait for the result and return it; exceptions of the function are raised here.

        Parameters
        ----------
        progress : Progress
            Shows the progress of the function while waiting.
        """
        if self._future is None:
            return self._function(progress)
        shown = 0
        try:
            while not wait([self._future], timeout=POLL_SECONDS).done:
                report = self._progress.last
                if report.number != shown:
                    progress.start(report.description, report.total)
                    shown = report.number
                if report.number:
                    progress.update(report.done, report.note)
        finally:
            if shown:
                progress.finish()
        return self._future.result()


class _Report(NamedTuple):
    """The latest progress report; `number` counts the tasks started so far."""

    number: int = 0
    description: str = ""
    total: int | None = None
    done: int = 0
    note: str = ""


class _RecordedProgress(Progress):
    """Keeps the latest report for another thread, and cancels the function that reports."""

    def __init__(self) -> None:
        # Replaced as a whole, so that the other thread never reads parts of two reports.
        self.last = _Report()
        self.is_cancelled = False

    def start(self, description: str, total: int | None = None) -> None:
        self._raise_if_cancelled()
        self.last = _Report(self.last.number + 1, description, total)

    def update(self, done: int, note: str = "") -> None:
        self._raise_if_cancelled()
        self.last = self.last._replace(done=done, note=note)

    def finish(self) -> None:
        pass

    def _raise_if_cancelled(self) -> None:
        if self.is_cancelled:
            raise Cancelled
