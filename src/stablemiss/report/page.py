"""Records → one HTML file that needs nothing else: no network, no scripts, no fonts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.patterns import draw_patterns
from stablemiss.experiments.tables import TABLES, PaperTable
from stablemiss.report import text
from stablemiss.report.plots import gap_plot, mask_plot
from stablemiss.report.summary import summarise
from stablemiss.results import Record
from stablemiss.writing import atomic_write


def check_can_render() -> None:
    """Raise if jinja2 or matplotlib is not installed. Call it before a long computation, not after it."""
    absent = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if absent:
        raise ModuleNotFoundError(
            f'The HTML report needs {" and ".join(absent)}; install with: pip install "stablemiss[report]".'
        )


def render_page(
    records: Iterable[Record],
    budget: Budget,
    demo: PaperTable | None = None,
) -> str:
    """A page with every table beside the paper's numbers, figures, patterns, times and settings.

    Parameters
    ----------
    records : iterable of Record
        Records of other budgets are ignored.
    budget : Budget
        The budget whose records are shown.
    demo : PaperTable, default=None
        Table of the demo. The page then shows only this table, and contains its records as a download.
    """
    check_can_render()
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("stablemiss.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        title=text.title_of,
        table=text.table_title,
        number=text.number,
        as_percent=text.as_percent,
        percent=text.percent,
    )
    records = list(records)
    summary = summarise(records, budget, [demo] if demo else TABLES.values())
    plotted = [comparison for comparison in summary.comparisons if demo or comparison.table.is_figure]
    jsonl = "".join(record.to_json() + "\n" for record in records) if demo else ""
    return environment.get_template("page.html.j2").render(
        summary=summary,
        budget=budget,
        demo=demo,
        plots={comparison.table.name: gap_plot(comparison) for comparison in plotted},
        patterns={} if demo else {title: mask_plot(mask) for title, mask in draw_patterns().items()},
        download="data:application/jsonl;base64," + b64encode(jsonl.encode()).decode(),
        text=text,
    )


def write_page(page: str, path: str | Path) -> Path:
    """Write a page; an earlier file is replaced only when the new one is complete."""
    with atomic_write(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return Path(path)
