"""`stablemiss demo`: compare methods on synthetic data; print a table and write a report."""

from __future__ import annotations

import sys
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.progress import NullProgress, Progress, ProgressBar


class MilestoneProgress(Progress):
    """A progress bar for each task, and a line with its duration when it is finished."""

    def __init__(self) -> None:
        # A bar would leave only empty lines in a file.
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
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    mechanism: Annotated[
        str, typer.Option(help="Missingness mechanism: mar, mcar_window or mcar_independent.")
    ] = "mar",
    train_level: Annotated[float, typer.Option(help="Share of values missing in training.")] = 0.1,
    rows: Annotated[
        int, typer.Option(help="Training rows. Fewer are faster and less accurate.", min=100)
    ] = 16384,
    output: Annotated[Path, typer.Option(help="HTML report to write.")] = Path("report.html"),
) -> None:
    """Train at one missing rate and test at nine, on data whose best predictor is known."""
    with plain_errors():
        from stablemiss.experiments.tables import demo_table
        from stablemiss.report.page import check_can_render, render_page, write_page
        from stablemiss.writing import check_folder

        check_can_render()
        check_folder(output)
        table = demo_table(mechanism, train_level)
        from stablemiss.experiments.comparison import compare
        from stablemiss.experiments.reproduce import run_demo
        from stablemiss.report.terminal import print_comparison

        budget, records = run_demo(table, seed, rows, MilestoneProgress())
        print_comparison(compare(table, records, budget))
        write_page(render_page(records, budget, demo=table), output)
        typer.echo(f"Report: {output}")
