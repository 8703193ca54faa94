"""A comparison as a table on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stablemiss.experiments.array_comparison import ArrayCell, ArrayComparison
from stablemiss.experiments.comparison import Cell, Comparison, Published
from stablemiss.report.text import (
    array_instances_text,
    array_line_title,
    array_notes,
    axis_title,
    column_titles,
    decimals_for,
    number,
    reference_title,
    table_title,
    title_of,
)

STYLE = {"best": "bold", "second": "underline", "": ""}


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Print a table or figure.

    Parameters
    ----------
    comparison : Comparison
    console : Console, default=None
        None prints to standard output.

    Examples
    --------
    >>> import io
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.comparison import compare
    >>> from stablemiss.experiments.tables import TABLES
    >>> text = io.StringIO()
    >>> print_comparison(compare(TABLES["table1"], [], BUDGETS["quick"]), Console(file=text, width=20))
    >>> ["Partial", "VAE", "–", "–", "–"] in [line.split() for line in text.getvalue().splitlines()]
    True
    """
    console = console or Console()
    view = _view(comparison)
    unbounded = console.options.update(max_width=10_000)
    # A terminal wraps lines that are too long for it; a truncated number would mislead.
    console.width = max(console.width, console.measure(view, options=unbounded).maximum)
    console.print(view)
    for record in comparison.failures:
        console.print(Text(f"failed: {title_of(record.label)}, instance {record.instance}: {record.failure}"))


def print_arrays(comparison: ArrayComparison, console: Console | None = None) -> None:
    """Print a table of images or sensor networks.

    Parameters
    ----------
    comparison : ArrayComparison
    console : Console, default=None
        None prints to standard output.
    """
    console = console or Console()
    table = comparison.table
    view = Table(
        title=f"{table_title(table.name)}: {table.title}\n{table.unit}",
        caption=f"mean over {array_instances_text(comparison)}; bold: best; underlined: second best. "
        + " ".join(array_notes(comparison)),
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    view.add_column("")
    for column in comparison.columns:
        view.add_column(column.title, justify="right", no_wrap=True)
    # Without the methods that were not run, unless none was.
    is_any_run = any(any(line.cells) for line in comparison.lines)
    for lines in comparison.groups.values():
        for line in lines:
            if is_any_run and not any(line.cells):
                continue
            view.add_row(Text(array_line_title(line)), *map(_rmse, line.cells))
            if line.has_published:
                view.add_row("  published", *(number(value, 2) for value in line.published), style="dim")
        view.add_section()
    unbounded = console.options.update(max_width=10_000)
    console.width = max(console.width, console.measure(view, options=unbounded).maximum)
    console.print(view)
    for record in comparison.failures:
        console.print(Text(f"failed: {title_of(record.label)}, instance {record.instance}: {record.failure}"))


def _view(comparison: Comparison) -> Table:
    reference = reference_title(comparison)
    decimals = decimals_for(one.rmse for one in comparison.references)
    published_decimals = decimals_for(one.published for one in comparison.references)
    view = Table(
        title=f"{table_title(comparison.table.name)}: {comparison.table.title}\n"
        f"Gap to {reference} (RMSE minus {reference}'s)",
        caption="bold: best; underlined: second best (paper's methods and others ranked separately)\n"
        "*: tested as trained; †: worse than predicting the mean",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
    )
    view.add_column(axis_title(comparison), no_wrap=True)
    for title in column_titles(comparison):
        view.add_column(title, justify="right", no_wrap=True)
    previous = None
    for line in comparison.lines:
        if previous is not None and previous.group != line.group:
            view.add_section()
        previous = line
        view.add_row(Text(title_of(line.label)), *(_gap(cell, decimals) for cell in line.cells))
        if any(line.published):
            published = [_published(cell, published_decimals) for cell in line.published]
            view.add_row("  published", *published, style="dim")
    view.add_section()
    view.add_row(f"{reference}, RMSE", *(number(one.rmse, decimals) for one in comparison.references))
    if any(one.published is not None for one in comparison.references):
        marks = ["†" if one.published_is_worse_than_constant else "" for one in comparison.references]
        cells = [number(one.published, published_decimals) for one in comparison.references]
        view.add_row("  published", *map("".join, zip(cells, marks, strict=True)), style="dim")
    if any(value is not None for value in comparison.agreement):
        view.add_row("rank agreement", *(number(value, 2) for value in comparison.agreement))
    return view


def _rmse(cell: ArrayCell | None) -> Text:
    if cell is None:
        return Text("–")
    text = Text(style="dim" if cell.is_partial else "").append(number(cell.rmse, 2), style=STYLE[cell.mark])
    return text.append("‡" if cell.is_partial else "")


def _gap(cell: Cell | None, decimals: int) -> Text:
    if cell is None:
        return Text("–")
    # Only the number is styled: an underline must not extend into the padding or the marks.
    text = Text().append(number(cell.gap, decimals), style=STYLE[cell.mark])
    return text.append(("*" if cell.is_as_trained else "") + ("†" if cell.is_worse_than_constant else ""))


def _published(cell: Published | None, decimals: int) -> Text:
    if cell is None:
        return Text("–")
    text = Text().append(number(cell.gap, decimals), style=STYLE[cell.mark])
    return text.append("†" if cell.is_worse_than_constant else "")
