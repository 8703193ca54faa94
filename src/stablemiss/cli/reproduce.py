"""`stablemiss reproduce`: the paper's tables and figures, run and compared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.progress import Progress, ProgressBar


class Lines(Progress):
    """A line for each step, for runs whose output goes to a file."""

    def start(self, what: str, total: int | None = None) -> None:
        self._total = total
        typer.echo(what, err=True)

    def update(self, done: int, note: str = "") -> None:
        typer.echo(f"{done} of {self._total}  {note}", err=True)

    def finish(self) -> None:
        pass


def reproduce(
    names: Annotated[list[str], typer.Argument(help="table1 … table11, figure2, figure3, patterns, or all.")],
    budget: Annotated[
        str, typer.Option(help="quick (minutes), standard (hours) or paper (1000 epochs and a search).")
    ] = "standard",
    folder: Annotated[
        Path, typer.Option(help="Where rows are kept; a run that was stopped goes on from there.")
    ] = Path("paper/results"),
    method: Annotated[
        list[str] | None,
        typer.Option(help="Only this method (repeatable), and what it is compared with.", show_default=False),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Fits at a time on this machine.", min=1)] = 1,
    backend: Annotated[str, typer.Option(help="Who computes: loky (this machine), dask or ray.")] = "loky",
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a running cluster of dask's or ray's.", show_default=False),
    ] = None,
    retry_failed: Annotated[bool, typer.Option(help="Run again what failed before.")] = False,
) -> None:
    """Run tables and figures of the paper, keep every row, and print ours beside the paper's."""
    with plain_errors():
        from stablemiss.experiments.budgets import BUDGETS
        from stablemiss.experiments.compare import compare
        from stablemiss.experiments.exhibits import EXHIBITS
        from stablemiss.experiments.reproduce import reproduce as run
        from stablemiss.experiments.reproduce import to_budget, to_exhibits, to_labels
        from stablemiss.experiments.workers import check_backend
        from stablemiss.report.comparison import print_comparison

        # Before the folder is made: a mistake leaves nothing behind.
        wanted = to_exhibits(names)
        to_budget(budget)
        to_labels(method)
        check_backend(backend, scheduler, jobs)
        folder.mkdir(parents=True, exist_ok=True)
        rows = run(
            names,
            budget=budget,
            folder=folder,
            methods=method,
            jobs=jobs,
            backend=backend,
            scheduler=scheduler,
            retry_failed=retry_failed,
            # Into a file a bar would leave nothing but empty lines.
            progress=ProgressBar() if sys.stderr.isatty() else Lines(),
        )
        for name in wanted:
            if name in EXHIBITS:
                print_comparison(compare(EXHIBITS[name], rows, BUDGETS[budget]))
        typer.echo(f"Rows: {folder / budget}.jsonl")
        typer.echo(f"For a page: stablemiss report --budget {budget} --folder {folder}")
