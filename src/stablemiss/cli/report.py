"""`stablemiss report`: write the stored records of the reproduction as an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.formats import check_not_input


def report(
    budget: Annotated[
        str, typer.Option(help="Budget whose records are shown: quick, standard or paper.")
    ] = "standard",
    folder: Annotated[
        Path, typer.Option(help="Folder in which `stablemiss reproduce` stores records.")
    ] = Path("paper/results"),
    output: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("paper/report.html"),
    docs: Annotated[
        Path | None,
        typer.Option(
            help="Also write the tables into this Markdown file, between its markers.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write an HTML report of the records of `stablemiss reproduce`, beside the published results."""
    with plain_errors():
        from stablemiss.experiments.reproduce import current_records, to_budget
        from stablemiss.report.markdown import reproduction_markdown, split_page, write_block
        from stablemiss.report.page import check_can_render, render_page, write_page
        from stablemiss.report.summary import summarise
        from stablemiss.results import Store
        from stablemiss.writing import check_can_write

        chosen = to_budget(budget)
        if not folder.is_dir():
            raise FileNotFoundError(
                f"There is no folder {folder} with records. Run `stablemiss reproduce` first, or choose "
                "another folder with --folder."
            )
        check_can_render()
        check_can_write(output)
        records_file = folder / f"{budget}.jsonl"
        check_not_input("--output", output, {"the records": records_file, "--docs": docs})
        if docs is not None:
            split_page(docs, "reproduction")
        records, n_old = current_records(Store(records_file), chosen)
        if n_old:
            typer.echo(
                f"Skipped {n_old} records that were computed with different settings. To compute them again: "
                f"stablemiss reproduce all --budget {budget} --folder {folder}",
                err=True,
            )
        write_page(render_page(records, chosen), output)
        typer.echo(f"Report: {output}")
        if docs is not None:
            write_block(docs, "reproduction", reproduction_markdown(summarise(records, chosen)))
            typer.echo(f"Docs: {docs}")
