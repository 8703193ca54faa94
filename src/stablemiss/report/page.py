"""Records → one HTML file that needs nothing else: no network, no scripts, no fonts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
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
    """Raise if jinja2 or matplotlib is not installed: before long work, not after it."""
    absent = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if absent:
        raise ModuleNotFoundError(
            f'The HTML report needs {" and ".join(absent)}; install with: pip install "stablemiss[report]".'
        )


def render_page(
    records: Iterable[Record],
    budget: Budget,
    demo: PaperTable | None = None,
    progress: Mapping[str, tuple[int, int]] | None = None,
) -> str:
    """A page with every table beside the paper's numbers, figures, patterns, times and settings.

    Parameters
    ----------
    records : iterable of Record
    budget : Budget
        Whose records to show.
    demo : PaperTable, default=None
        The demo's table. The page then shows it alone, with the records to download.
    progress : dict, default=None
        Name of a table → number of runs that are done and needed, for tables that are not complete.
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
        share=text.share,
        percent=text.percent,
    )
    records = list(records)
    summary = summarise(records, budget, [demo] if demo else TABLES.values())
    plotted = [one for one in summary.comparisons if demo or one.table.is_figure]
    lines = "".join(record.to_json() + "\n" for record in records) if demo else ""
    return environment.get_template("page.html.j2").render(
        summary=summary,
        budget=budget,
        demo=demo,
        progress=progress or {},
        plots={one.table.name: gap_plot(one) for one in plotted},
        patterns={} if demo else {title: mask_plot(mask) for title, mask in draw_patterns().items()},
        download="data:application/jsonl;base64," + b64encode(lines.encode()).decode(),
        text=text,
    )


def write_page(page: str, path: str | Path) -> Path:
    """Write a page; an earlier file is replaced only when the new one is complete."""
    with atomic_write(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return Path(path)
