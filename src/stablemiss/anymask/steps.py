"""Numbered steps in the progress reports of a fit."""

from __future__ import annotations

from collections.abc import Sequence

from stablemiss.progress import Progress


class Steps:
    """The steps of a fit, in the order in which their progress is shown.

    Parameters
    ----------
    names : sequence of str
        Name of each step, such as the name of a member.
    progress : Progress
        Receives the reports of all steps.

    Examples
    --------
    >>> from stablemiss.progress import NullProgress
    >>> class Printed(NullProgress):
    ...     def start(self, description, total=None):
    ...         print(description)
    >>> Steps(["mixture", "net"], Printed()).report("net").start("neural network", total=10)
    step 2 of 2: neural network
    """

    def __init__(self, names: Sequence[str], progress: Progress):
        self._names = list(names)
        self.progress = progress

    def report(self, name: str) -> Progress:
        """Receives the reports of one step and puts the number of the step before each description."""
        return self.report_to(self.progress, name)

    def report_to(self, progress: Progress, name: str, remark: str = "") -> Progress:
        """The same for a step that reports to another thread, with a remark after each description."""
        number = f"step {self._names.index(name) + 1} of {len(self._names)}"
        return _NumberedProgress(progress, number, remark)


class _NumberedProgress(Progress):
    def __init__(self, progress: Progress, number: str, remark: str):
        self._progress, self._number, self._remark = progress, number, remark

    def start(self, description: str, total: int | None = None) -> None:
        self._progress.start(f"{self._number}: {description}{self._remark}", total)

    def update(self, done: int, note: str = "") -> None:
        self._progress.update(done, note)

    def finish(self) -> None:
        self._progress.finish()
