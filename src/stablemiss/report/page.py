"""Records → one HTML file that needs nothing else: no network, no scripts, no fonts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.comparison import GROUPS
from stablemiss.experiments.patterns import draw_patterns
from stablemiss.experiments.tables import TABLES, PaperTable
from stablemiss.pages import make_environment
from stablemiss.report import text
from stablemiss.report.changes import CHANGES, measure_changes
from stablemiss.report.claims import RULES
from stablemiss.report.dead_column import sections
from stablemiss.report.long_training import LongTraining
from stablemiss.report.pictures import array_pictures
from stablemiss.report.plots import gap_limits, gap_plot, mask_plot
from stablemiss.report.rules import RULES_OF_COMPARISON
from stablemiss.report.summary import Summary, summarise
from stablemiss.report.verdict import verdict
from stablemiss.results import Record

if TYPE_CHECKING:
    from stablemiss.experiments.dead_column import DeadColumn


def render_page(
    records: Iterable[Record],
    budget: Budget,
    demo: PaperTable | None = None,
    *,
    as_published: Iterable[Record] = (),
    first_run: Iterable[Record] = (),
    story: DeadColumn | None = None,
) -> str:
    """A page with the verdict, claims, every table beside the paper's numbers, figures, times and settings.

    Parameters
    ----------
    records : iterable of Record
        Records of other budgets are ignored.
    budget : Budget
        The budget whose records are shown.
    demo : PaperTable, default=None
        Table of the demo. The page then shows only this table, and contains its records as a download.
    as_published : iterable of Record, default=()
        Records of the budget "as_published", shown beside those of `budget`.
    first_run : iterable of Record, default=()
        Records of the first run; the page shows what changed since.
    story : DeadColumn, default=None
        First part of the demo, shown before its table.
    """
    environment = make_environment("stablemiss.report")
    environment.filters.update(
        title=text.title_of,
        table=text.table_title,
        number=text.number,
        as_percent=text.as_percent,
        percent=text.percent,
        signed=text.signed_percent,
        interval=text.interval_text,
        range=text.range_text,
    )
    records = list(records)
    downloaded = [*(story.records.values() if story else ()), *records]
    summary = summarise(records, budget, [demo] if demo else TABLES.values(), as_published)
    plotted = [comparison for comparison in summary.comparisons if demo or comparison.table.is_figure]
    jsonl = "".join(record.to_json() + "\n" for record in downloaded) if demo else ""
    return environment.get_template("page.html.j2").render(
        summary=summary,
        budget=budget,
        demo=demo,
        story=sections(story) if story else None,
        verdict="" if demo else verdict(summary),
        rules=RULES,
        comparison_rules=RULES_OF_COMPARISON if budget.name == "standard" else {},
        changes=measure_changes(first_run, records),
        change_texts=CHANGES,
        methods=_methods(summary),
        groups=GROUPS,
        pictures={one.table.name: array_pictures(one.table, records, budget) for one in summary.arrays},
        plots={comparison.table.name: gap_plot(comparison) for comparison in plotted},
        training_plots={
            training.table.name: _training_plots(training)
            for training in summary.long_trainings
            if training.table.is_figure
        },
        patterns={} if demo else {title: mask_plot(mask) for title, mask in draw_patterns().items()},
        download="data:application/jsonl;base64," + b64encode(jsonl.encode()).decode(),
        text=text,
    )


def _methods(summary: Summary) -> list[str]:
    """Labels of the methods that the page shows, and of the reference, in the order of their description."""
    shown = {line.label for comparison in summary.in_order for line in comparison.lines}
    shown |= {comparison.table.reference for comparison in summary.comparisons}
    return [label for label in text.DESCRIPTIONS if label in shown]


def _training_plots(training: LongTraining) -> list[tuple[str, str]]:
    """Names and plots of both ways of training, on the same axis."""
    plotted = training.plotted()
    limits = gap_limits(comparison for _, comparison in plotted)
    return [
        (name, gap_plot(comparison, f"training-{i}-", limits)) for i, (name, comparison) in enumerate(plotted)
    ]
