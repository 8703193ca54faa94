"""Progress reporting.

Long-running code calls ``start`` once per task, ``update`` as it proceeds and ``finish`` at the end. The
caller decides whether that becomes a progress bar, log lines or nothing.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID

# Widths in characters. There is no bar, and no note, if there is less room.
MIN_BAR_WIDTH, MAX_BAR_WIDTH, MIN_NOTE_WIDTH = 6, 20, 8


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
        from rich.progress import Progress as RichProgress

        self.finish()
        self._progress = RichProgress(_line_column(), console=Console(stderr=True), transient=True)
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


def progress_line(
    description: str, share: float | None, elapsed: float, left: float | None, note: str, width: int
) -> str:
    """The text of a progress bar. On a narrow terminal, first the note and then the bar is cut.

    Parameters
    ----------
    description : str
        Description of the task.
    share : float or None
        Share that is done; None if it is not known.
    elapsed, left : float or None
        Seconds since the start, and estimated seconds that are left.
    note : str
        A short fact.
    width : int
        Number of characters of the line.

    Examples
    --------
    >>> progress_line("Step 2 of 5: trees", 0.5, 3.0, 90.0, "loss 0.5", width=76)
    'Step 2 of 5: trees ━━━━━━━━━━──────────  50% 0:00:03, 0:01:30 left loss 0.5'
    >>> progress_line("Step 2 of 5: trees", 0.5, 3.0, 90.0, "loss 0.5", width=55)
    'Step 2 of 5: trees ━━━━─────  50% 0:00:03, 0:01:30 left'
    """
    times = str(timedelta(seconds=round(elapsed)))
    if left is not None:
        times += f", {timedelta(seconds=max(0, round(left)))} left"
    percentage = "" if share is None else f"{share:4.0%}"
    n_free = width - len(" ".join(filter(None, [description, percentage, times])))
    bar = ""
    if share is not None and n_free > MIN_BAR_WIDTH:
        n_bar = min(MAX_BAR_WIDTH, n_free - 1)
        n_done = round(share * n_bar)
        bar = "━" * n_done + "─" * (n_bar - n_done)
    line = " ".join(filter(None, [description, bar, percentage, times]))
    if note and width - len(line) > MIN_NOTE_WIDTH:
        line += f" {note}"
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _line_column() -> ProgressColumn:
    """A single column of rich with `progress_line`."""
    from rich.console import Console, ConsoleOptions
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Line:
        def __init__(self, task: Task):
            self._task = task

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
            task = self._task
            share = None if task.total is None else min(1.0, task.completed / max(task.total, 1))
            line = progress_line(
                task.description,
                share,
                task.elapsed or 0.0,
                None if share is None else task.time_remaining,
                task.fields["note"],
                options.max_width,
            )
            yield Text(line, no_wrap=True, overflow="ellipsis")

    class LineColumn(ProgressColumn):
        def render(self, task: Task) -> Line:
            return Line(task)

    return LineColumn()


def to_progress(progress: Progress | None) -> Progress:
    """Return `progress`, or one that shows nothing for None; raise TypeError for anything else.

    Examples
    --------
    >>> type(to_progress(None)).__name__
    'NullProgress'
    """
    if not isinstance(progress, Progress | None):
        # Imported here, because it imports numpy, which the command line does not need for every command.
        from stablemiss.checks import shown

        raise TypeError(
            f"progress must be a Progress, such as ProgressBar(), or None; got {shown(progress)}."
        )
    return progress or NullProgress()
