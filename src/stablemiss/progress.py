"""Progress reporting.

Long-running code calls ``start`` once per task, ``update`` as it proceeds and ``finish`` at the end. The
caller decides whether that becomes a progress bar, log lines or nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from stablemiss.checks import shown


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

    See Also
    --------
    NullProgress : Shows nothing.
    """

    def __init__(self) -> None:
        self._progress: RichProgress | None = None
        self._task: TaskID | None = None

    def start(self, description: str, total: int | None = None) -> None:
        self.finish()
        self._progress = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(description, total=total, note="")
        self._progress.start()

    def update(self, done: int, note: str = "") -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, note=note)

    def finish(self) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._task = None


def to_progress(progress: Progress | None) -> Progress:
    """Return `progress`, or one that shows nothing for None; raise TypeError for anything else.

    Examples
    --------
    >>> type(to_progress(None)).__name__
    'NullProgress'
    """
    if not isinstance(progress, Progress | None):
        raise TypeError(
            f"progress must be a Progress, such as ProgressBar(), or None; got {shown(progress)}."
        )
    return progress or NullProgress()
