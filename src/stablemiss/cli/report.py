"""`stablemiss report`: the stored rows of the reproduction as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stablemiss.cli.errors import plain_errors


def report(
    budget: Annotated[str, typer.Option(help="Whose rows to show: quick, standard or paper.")] = "standard",
    folder: Annotated[Path, typer.Option(help="Where `stablemiss reproduce` keeps its rows.")] = Path(
        "paper/results"
    ),
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("paper/report.html"),
    docs: Annotated[
        Path | None,
        typer.Option(help="A Markdown page whose generated part is to be renewed.", show_default=False),
    ] = None,
) -> None:
    """Show what `stablemiss reproduce` has stored: every table and figure beside the paper's, in one page."""
    with plain_errors():
        from stablemiss.experiments.reproduce import current_rows, to_budget
        from stablemiss.experiments.store import Store
        from stablemiss.report.html import check_can_render
        from stablemiss.report.markdown import check_page, reproduction_markdown, write_block
        from stablemiss.report.reproduction import write_reproduction
        from stablemiss.writing import check_folder

        price = to_budget(budget)
        if not folder.is_dir():
            raise FileNotFoundError(
                f"There is no folder {folder} with result rows; `stablemiss reproduce` makes it, "
                "or give another one with --folder."
            )
        check_can_render()
        check_folder(output)
        if docs is not None:
            check_page(docs)
        rows, n_old = current_rows(Store(folder / f"{budget}.jsonl"), price)
        if n_old:
            typer.echo(
                f"Left out, because made with other settings than today's: {n_old} of the rows. To make them "
                f"again: stablemiss reproduce all --budget {budget} --folder {folder}",
                err=True,
            )
        write_reproduction(rows, price, output)
        typer.echo(f"Report: {output}")
        if docs is not None:
            write_block(reproduction_markdown(rows, price), docs)
            typer.echo(f"Docs: {docs}")
