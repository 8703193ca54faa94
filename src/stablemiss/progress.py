"""How long work tells what it is doing.

Whoever computes says ``start`` once per piece of work, ``update`` as it goes and ``finish`` at the end;
whoever called decides whether that becomes a bar, a log line or silence.
"""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Silence:
    """Progress that shows nothing, and the interface of all progress.

    Examples
    --------
    >>> progress = Silence()
    >>> progress.start("fitting", total=3)
    >>> progress.update(1, "loss 0.5")
    >>> progress.finish()
    """

    def start(self, what: str, total: int | None = None) -> None:
        """Begin a piece of work with `total` steps (None: unknown)."""

    def update(self, done: int, note: str = "") -> None:
        """`done` steps of the current piece are over; `note` is a short fact such as a loss."""

    def finish(self) -> None:
        """The current piece of work is over."""


class Bar(Silence):
    """A progress bar on standard error, one at a time, gone when the work is done."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def start(self, what: str, total: int | None = None) -> None:
        self.finish()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(what, total=total, note="")
        self._progress.start()

    def update(self, done: int, note: str = "") -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, note=note)

    def finish(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._task = None
