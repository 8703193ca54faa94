"""Progress reporting.

Long-running code calls ``start`` once per task, ``update`` as it proceeds and ``finish`` at the end. The
caller decides whether that becomes a progress bar, log lines or nothing.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID


class Progress(ABC):
    """Base class of progress reporters."""

    @abstractmethod
    def start(self, description: str, total: int | None = None) -> None:
        """Begin a task.

        Parameters
        ----------
        description : str
            Description of the task, shown to the user.
        total : int, default=None
            Number of steps. None means that it is not known.
        """

    @abstractmethod
    def update(self, done: int, note: str = "") -> None:
        """Report that `done` steps of the current task are finished.

        Parameters
        ----------
        done : int
            Number of finished steps.
        note : str, default=""
            A short fact to show beside the bar, such as the current loss.
        """

    @abstractmethod
    def finish(self) -> None:
        """End the current task."""


class NullProgress(Progress):
    """Progress reporting that shows nothing.

    See Also
    --------
    ProgressBar : Shows a bar on standard error.

    Examples
    --------
    >>> progress = NullProgress()
    >>> progress.start("fitting", total=3)
    >>> progress.update(1, "loss 0.5")
    >>> progress.finish()
    """

    def start(self, description: str, total: int | None = None) -> None:
        pass

    def update(self, done: int, note: str = "") -> None:
        pass

    def finish(self) -> None:
        pass


class ProgressBar(Progress):
    """Shows a progress bar for the current task on standard error and removes it when the task ends.

    If the number of steps is known, the bar shows the share that is done and the time that is left.

    See Also
    --------
    NullProgress : Shows nothing.
    """

    def __init__(self) -> None:
        self._progress: RichProgress | None = None
        self._task: TaskID | None = None

    def start(self, description: str, total: int | None = None) -> None:
        # Rich takes a while to import, and most processes show no bar.
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self.finish()
        columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24)]
        if total is not None:
            columns.append(TextColumn("{task.percentage:>3.0f}%"))
        columns += [TimeElapsedColumn(), _time_left(), TextColumn("{task.fields[note]}")]
        self._progress = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(description, total=total, note="")
        self._progress.start()

    def update(self, done: int, note: str = "") -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, note=note)

    def finish(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._task = None


def terminal_progress() -> Progress:
    """A progress bar if standard error is a terminal. In a file, a bar would leave only empty lines."""
    return ProgressBar() if sys.stderr.isatty() else NullProgress()


def _time_left() -> ProgressColumn:
    """Column with the estimated time left; empty as long as it is not known."""
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            if task.total is None or task.time_remaining is None:
                return Text("")
            return Text(f"{timedelta(seconds=max(0, round(task.time_remaining)))} left")

    return TimeLeft()
