"""The table on a terminal of 80 columns."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stablemiss.report.tables import percent

STYLE = {"best": "bold", "second": "underline", "": ""}


def print_table(table: dict[str, Any], console: Console | None = None) -> None:
    """Print what `gap_table` computed, every number whole, on a terminal however narrow.

    Examples
    --------
    >>> import io
    >>> from stablemiss.report.tables import gap_table
    >>> row = {"dataset": "toy", "mechanism": "MAR", "train_level": 0.1, "test_level": 0.1, "optimal_rmse": 10.0}
    >>> rows = [{**row, "method": "ols", "role": "method", "rmse": 12.0}]
    >>> text = io.StringIO()
    >>> print_table(gap_table(rows), Console(file=text, width=10))
    >>> "ols            2.00*" in text.getvalue()
    True
    """
    print_whole(terminal_table(table), console or Console())


def print_whole(view: Table, console: Console) -> None:
    """Print a table that may be wider than the terminal."""
    unbounded = console.options.update(max_width=10_000)
    # A terminal that breaks lines too long for it shows all of them; a number cut short misleads.
    console.width = max(console.width, console.measure(view, options=unbounded).maximum)
    console.print(view)


def terminal_table(table: dict[str, Any]) -> Table:
    """What `gap_table` computed, for `rich` to print.

    Examples
    --------
    >>> from rich.console import Console
    >>> row = {"dataset": "toy", "mechanism": "MAR", "train_level": 0.1, "test_level": 0.1, "optimal_rmse": 10.0}
    >>> rows = [{**row, "method": "ols", "role": "method", "rmse": 12.0}]
    >>> from stablemiss.report.tables import gap_table
    >>> terminal_table(gap_table(rows)).row_count
    2
    """
    view = Table(
        title=f"Gap to Optimal (RMSE minus Optimal's), trained at {percent(table['train_level'])} missing",
        caption="bold best, underlined second, * as trained, † worse than constant",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    view.add_column("tested at", no_wrap=True)
    for level in table["test_levels"]:
        view.add_column(percent(level), justify="right", no_wrap=True)
    for line in table["methods"]:
        view.add_row(Text(line["method"]), *(_cell(cell, table["decimals"]) for cell in line["cells"]))
    view.add_section()
    for line in table["references"]:
        view.add_row(
            Text(line["method"]), *(_cell(cell, table["decimals"]) for cell in line["cells"]), style="dim"
        )
    view.add_row(
        "Optimal, RMSE", *(f"{rmse:.{table['decimals']}f}" for rmse in table["optimal_rmse"]), style="dim"
    )
    return view


def _cell(cell: dict[str, Any] | None, decimals: int) -> Text:
    if cell is None:
        return Text("–")
    # Only the number carries the style: an underline must not run on into the padding or the marks.
    text = Text().append(f"{cell['gap']:.{decimals}f}", style=STYLE[cell["mark"]])
    return text.append(("*" if cell["same_level"] else "") + ("†" if cell["worse_than_constant"] else ""))
