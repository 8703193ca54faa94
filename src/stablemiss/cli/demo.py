"""`stablemiss demo`: a column dies, then the paper's synthetic data; prints tables and writes one page."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.progress import Progress, terminal_progress

# Training rows of the first part: enough for stable numbers in seconds.
MAX_FLATS = 4000


class TimedProgress(Progress):
    """Shows a progress bar for each task and prints the time it took when it is finished."""

    def __init__(self) -> None:
        self._bar = terminal_progress()
        self._description = ""
        self._start = 0.0

    def start(self, description: str, total: int | None = None) -> None:
        self._description, self._start = description, monotonic()
        self._bar.start(description, total)

    def update(self, done: int, note: str = "") -> None:
        self._bar.update(done, note)

    def finish(self) -> None:
        self._bar.finish()
        typer.echo(f"{self._description}: {monotonic() - self._start:.1f} s", err=True)


def demo(
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    mechanism: Annotated[
        str, typer.Option(help="Missingness mechanism: mar, mcar_window or mcar_independent.")
    ] = "mar",
    train_level: Annotated[float, typer.Option(help="Share of values missing in training.")] = 0.1,
    rows: Annotated[
        int, typer.Option(help="Number of training rows. Fewer rows are faster and less accurate.", min=100)
    ] = 16384,
    output: Annotated[Path, typer.Option(help="HTML report to write.")] = Path("report.html"),
) -> None:
    """See what happens when a column dies, and what to do then; and methods on the paper's synthetic data.

    First LightGBM and AnyMask are fitted to a generated table of flats to let, and a column stops arriving:
    errors, diagnosis, stress test, adaptation and intervals. Then methods are trained at one missing rate
    and tested at nine, on synthetic data with a known optimum. The report shows both.
    """
    with plain_errors():
        from stablemiss.experiments.tables import demo_table
        from stablemiss.pages import check_can_render, write_page
        from stablemiss.report.page import render_page
        from stablemiss.writing import check_can_write

        check_can_render()
        check_can_write(output)
        table = demo_table(mechanism, train_level)
        from stablemiss.experiments.comparison import compare
        from stablemiss.experiments.dead_column import run_dead_column
        from stablemiss.experiments.reproduce import run_demo
        from stablemiss.report.dead_column import print_dead_column
        from stablemiss.report.terminal import print_comparison

        story = run_dead_column(seed, min(rows, MAX_FLATS), TimedProgress())
        print_dead_column(story)
        budget, records = run_demo(table, seed, rows, TimedProgress())
        comparison = compare(table, records, budget)
        print_comparison(comparison)
        write_page(render_page(records, budget, demo=table, story=story), output)
        typer.echo(f"Report: {output}")
        if comparison.failures:
            raise typer.Exit(code=1)
