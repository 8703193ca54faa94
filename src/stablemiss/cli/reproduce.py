"""`stablemiss reproduce`: run the paper's tables and figures and compare them with the published ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.interrupts import interruption
from stablemiss.progress import NullProgress, ProgressBar

RESULTS = Path("paper/results")


class LineProgress(NullProgress):
    """Prints one line per step instead of a progress bar, for output that is redirected to a file."""

    def start(self, description: str, total: int | None = None) -> None:
        self._total = total
        typer.echo(description, err=True)

    def update(self, done: int, note: str = "") -> None:
        typer.echo(f"{done} of {self._total}  {note}", err=True)


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(help="table1 … table11, figure2, figure3, or all; table5_didi if you have its data."),
    ],
    budget: Annotated[
        str,
        typer.Option(
            help="quick (minutes), standard (hours), as_published (three methods, 1000 epochs without early "
            "stopping) or paper (1000 epochs and a hyper-parameter search)."
        ),
    ] = "standard",
    folder: Annotated[
        Path, typer.Option(help="Folder for the records. An interrupted run is resumed from them.")
    ] = RESULTS,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only this method, and the references of tables of gaps. Can be repeated; a wrong name "
            "lists those of the tables.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Number of parallel fits on this machine.", min=1)] = 1,
    backend: Annotated[str, typer.Option(help="loky (processes on this machine), dask or ray.")] = "loky",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a running Dask or Ray cluster.", show_default=False)
    ] = None,
    retry_failed: Annotated[bool, typer.Option(help="Repeat fits that failed in an earlier run.")] = False,
) -> None:
    """Run tables and figures of the paper, store all records, and print results beside the published ones."""
    with plain_errors():
        from stablemiss.experiments.array_comparison import compare_arrays
        from stablemiss.experiments.comparison import compare
        from stablemiss.experiments.reproduce import Reproduction
        from stablemiss.experiments.workers import Workers
        from stablemiss.report.terminal import print_arrays, print_comparison
        from stablemiss.results import Store

        # All arguments are checked before the folder is created.
        reproduction = Reproduction(names, budget, method)
        workers = Workers(jobs, backend, scheduler)
        folder.mkdir(parents=True, exist_ok=True)
        store = Store(folder / f"{budget}.jsonl")
        # Redirected to a file, a progress bar would leave only empty lines.
        progress = ProgressBar() if sys.stderr.isatty() else LineProgress()
        interruption.message = (
            f"Interrupted; finished records are in {store.path}. Run the command again to continue."
        )
        records = reproduction.run(store, workers, retry_failed, progress)
        for table in reproduction.tables:
            print_comparison(compare(table, records, reproduction.budget))
        for array_table in reproduction.array_tables:
            print_arrays(compare_arrays(array_table, records, reproduction.budget))
        typer.echo(f"Records: {store.path}")
        output = "" if folder == RESULTS else f" --output {folder / 'report.html'}"
        typer.echo(f"To write an HTML report: stablemiss report --budget {budget} --folder {folder}{output}")
