"""`stablemiss demo`: the main job on built-in data, as a table and a report."""

from __future__ import annotations

import sys
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.progress import NullProgress, Progress, ProgressBar


class Milestones(Progress):
    """A bar while a piece of work runs, one line that stays when it is done."""

    def __init__(self) -> None:
        # Into a file a bar would leave nothing but empty lines.
        self._bar = ProgressBar() if sys.stderr.isatty() else NullProgress()
        self._what = ""
        self._start = 0.0

    def start(self, what: str, total: int | None = None) -> None:
        self._what, self._start = what, monotonic()
        self._bar.start(what, total)

    def update(self, done: int, note: str = "") -> None:
        self._bar.update(done, note)

    def finish(self) -> None:
        self._bar.finish()
        typer.echo(f"{self._what}: {monotonic() - self._start:.1f} s", err=True)


def demo(
    seed: Annotated[int, typer.Option(help="Another seed draws other data.", min=0)] = 0,
    mechanism: Annotated[
        str, typer.Option(help="How cells get hidden: mar, mcar_window or mcar_independent.")
    ] = "mar",
    train_level: Annotated[float, typer.Option(help="Share of cells missing in training.")] = 0.1,
    rows: Annotated[
        int, typer.Option(help="Training rows; fewer are quicker and score worse.", min=100)
    ] = 16384,
    output: Annotated[Path, typer.Option(help="The report to write.")] = Path("report.html"),
) -> None:
    """Train at one missing level, test at nine, on data whose best answer is known: a table and a report."""
    with plain_errors():
        from stablemiss.report import gap_table, print_table, write_report
        from stablemiss.report.html import check_can_render
        from stablemiss.writing import check_folder

        check_can_render()
        check_folder(output)
        from stablemiss.experiments.demo import run_demo

        results = run_demo(
            seed=seed, mechanism=mechanism, train_level=train_level, rows=rows, progress=Milestones()
        )
        print_table(gap_table(results))
        write_report(results, output)
        typer.echo(f"Report: {output}")
