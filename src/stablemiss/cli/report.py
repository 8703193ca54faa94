"""`stablemiss report`: write the stored records of the reproduction as an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stablemiss.cli.errors import plain_errors
from stablemiss.cli.formats import check_not_input

if TYPE_CHECKING:
    from stablemiss.results import Record

# Marker of the table in the page which_method.md.
WHICH_METHOD = "which method"


def report(
    budget: Annotated[
        str, typer.Option(help="Budget whose records are shown: quick, standard, paper or as_published.")
    ] = "standard",
    folder: Annotated[
        Path, typer.Option(help="Folder in which `stablemiss reproduce` stores records.")
    ] = Path("paper/results"),
    output: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("paper/report.html"),
    docs: Annotated[
        Path | None,
        typer.Option(
            help="Also write the tables into this Markdown file, between its markers; at budget standard "
            "also into the pages about methods beside it.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write an HTML report of the records of `stablemiss reproduce`, beside the published results."""
    with plain_errors():
        from stablemiss.experiments.reproduce import current_records, to_budget
        from stablemiss.pages import check_can_render, write_page
        from stablemiss.report.changes import FIRST_RUN, changes_markdown
        from stablemiss.report.markdown import (
            reproduction_markdown,
            rules_markdown,
            split_page,
            write_block,
        )
        from stablemiss.report.method_results import method_results
        from stablemiss.report.page import render_page
        from stablemiss.report.summary import summarise
        from stablemiss.report.which_method import which_method_markdown
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
        pages = _method_pages(docs) if docs is not None and budget == "standard" else {}
        overview = _overview_page(docs) if docs is not None and pages else None
        # Of the budget "standard" there is a first run, and its rules are described.
        has_rules, first_run = budget == "standard", folder / FIRST_RUN
        shows_changes = has_rules and first_run.exists()
        if docs is not None:
            # All markers are checked before anything is written.
            markers = {"reproduction": True, "rules": has_rules, "changes": shows_changes}
            for marker in (name for name, is_written in markers.items() if is_written):
                split_page(docs, marker)
            for path in pages.values():
                split_page(path, "results")
            if overview is not None:
                split_page(overview, WHICH_METHOD)
        records, n_old = current_records(Store(records_file), chosen)
        if n_old:
            typer.echo(
                f"Skipped {n_old} records that were computed with different settings. To compute them again: "
                f"stablemiss reproduce all --budget {budget} --folder {folder}",
                err=True,
            )
        as_published = _as_published(folder, budget)
        earlier = Store(first_run).records() if shows_changes else []
        page = render_page(records, chosen, as_published=as_published, first_run=earlier)
        write_page(page, output)
        typer.echo(f"Report: {output}")
        if docs is not None:
            summary = summarise(records, chosen, as_published=as_published)
            write_block(docs, "reproduction", reproduction_markdown(summary))
            if has_rules:
                write_block(docs, "rules", rules_markdown())
            if shows_changes:
                write_block(docs, "changes", changes_markdown(earlier, records))
            for name, path in pages.items():
                write_block(path, "results", method_results(summary, name))
            written = [docs, *pages.values()]
            if overview is not None:
                written.append(write_block(overview, WHICH_METHOD, which_method_markdown(summary)))
            typer.echo("Docs: " + ", ".join(map(str, written)))


def _method_pages(docs: Path) -> dict[str, Path]:
    """Method → its page in the folder `methods` beside the docs, for the pages that exist."""
    from stablemiss.report.method_results import SHOWN

    pages = {name: docs.parent / "methods" / f"{name}.md" for name in SHOWN}
    return {name: page for name, page in pages.items() if page.exists()}


def _overview_page(docs: Path) -> Path | None:
    """The page that compares all methods, beside the docs, if it exists."""
    page = docs.parent / "which_method.md"
    return page if page.exists() else None


def _as_published(folder: Path, budget: str) -> list[Record]:
    """Up-to-date records of networks trained as published, to show beside those of another budget."""
    from stablemiss.experiments.reproduce import current_records, to_budget
    from stablemiss.results import Store

    name = "as_published"
    path = folder / f"{name}.jsonl"
    # Smaller data of the budget quick would not be comparable.
    if budget not in ("standard", "paper") or not path.exists():
        return []
    records, n_old = current_records(Store(path), to_budget(name))
    if n_old:
        typer.echo(f"Skipped {n_old} records in {path} that were computed with different settings.", err=True)
    return records
