"""Everything that a page about several tables shows, as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.comparison import Comparison, compare, mark_best
from stablemiss.experiments.comparison import Line as TableLine
from stablemiss.experiments.tables import TABLES, PaperTable
from stablemiss.missingness import LEVELS
from stablemiss.report.text import percent, title_of
from stablemiss.results import Record

SUBJECT = "stablemiss"


@dataclass(frozen=True)
class OverviewCell:
    """Gap as a share of the reference's RMSE, mean over the columns of a table; ours and published."""

    share: float
    published: float | None
    mark: str = ""


@dataclass(frozen=True)
class Overview:
    """One number per method and table; a cell is None unless all columns have a score."""

    names: tuple[str, ...]
    lines: tuple[TableLine, ...]


@dataclass(frozen=True)
class Duel:
    """The paper's method against another one, over all tables.

    Attributes
    ----------
    label : str
    n_won, n : int
        Columns in which the paper's method has the smaller gap, and all columns that have both.
    clear : (int, int, int)
        Tables with several instances in which its RMSE is clearly lower, clearly higher, or neither.
    """

    label: str
    n_won: int
    n: int
    clear: tuple[int, int, int]


@dataclass(frozen=True)
class Timing:
    """Seconds and megabytes of all fits of a label."""

    label: str
    n: int
    median_fit: float
    max_fit: float
    median_predict: float
    max_megabytes: float


@dataclass(frozen=True)
class Summary:
    """What a page shows besides the patterns."""

    comparisons: tuple[Comparison, ...]
    overview: Overview
    duels: tuple[Duel, ...]
    settings: tuple[tuple[str, str], ...]
    timings: tuple[Timing, ...]
    configurations: tuple[tuple[str, str, str], ...]


def summarise(
    records: Iterable[Record], budget: Budget, tables: Iterable[PaperTable] = tuple(TABLES.values())
) -> Summary:
    """Summarise records, whatever their order.

    Parameters
    ----------
    records : iterable of Record
        Those of other budgets are ignored.
    budget : Budget
    tables : iterable of PaperTable
        Tables without a score or a failure are left out.
    """
    records = sorted((one for one in records if one.suite == budget.name), key=lambda one: one.key)
    if not records:
        raise ValueError(
            f"There are no records of the budget {budget.name}. Compute some with: "
            f"stablemiss reproduce table1 --budget {budget.name}"
        )
    every = [compare(table, records, budget) for table in tables]
    shown = [one for one in every if one.failures or any(any(line.cells) for line in one.lines)]
    return Summary(
        comparisons=tuple(shown),
        overview=_overview([one for one in shown if not one.table.is_figure]),
        duels=tuple(_duels([one for one in shown if not one.table.is_figure])),
        settings=tuple(_settings(records, budget)),
        timings=tuple(_timings(records)),
        configurations=tuple(_configurations(records)),
    )


def distinct_columns(comparisons: Iterable[Comparison]) -> dict[tuple, tuple[Comparison, int]]:
    """All columns of some tables; a column that two tables share, such as 50% in tables 1 and 2, once."""
    columns: dict[tuple, tuple[Comparison, int]] = {}
    for one in comparisons:
        table = one.table
        for number, column in enumerate(one.columns):
            if one.column(number):
                key = (table.dataset, table.train_mechanism, table.test_mechanism, column)
                columns.setdefault(key, (one, number))
    return columns


def _overview(comparisons: Sequence[Comparison]) -> Overview:
    labels = {line.label: line.is_of_the_paper for one in comparisons for line in one.lines}
    lines = []
    for label, is_of_the_paper in labels.items():
        cells: list[OverviewCell | None] = []
        for one in comparisons:
            line = next((line for line in one.lines if line.label == label), None)
            known = [cell for cell in line.cells if cell is not None] if line else []
            if line is None or len(known) < len(line.cells) or not known:
                cells.append(None)
                continue
            published = [cell.published_share for cell in known if cell.published_share is not None]
            mean = fmean(published) if len(published) == len(known) else None
            cells.append(OverviewCell(fmean(cell.share for cell in known), mean))
        lines.append(TableLine(label, is_of_the_paper, tuple(cells)))  # type: ignore[arg-type]
    return Overview(tuple(one.table.name for one in comparisons), tuple(mark_best(lines, "share", "mark")))


def _duels(comparisons: Sequence[Comparison]) -> Iterable[Duel]:
    columns = [one.column(number) for one, number in distinct_columns(comparisons).values()]
    for label in dict.fromkeys(label for column in columns for label in column):
        both = [column for column in columns if label in column and SUBJECT in column]
        if label == SUBJECT or not both:
            continue
        pairs = [pair for one in comparisons for pair in one.pairs if pair.label == label]
        several = [pair for pair in pairs if pair.is_clear is not None]
        lower = sum(bool(pair.is_clear) and pair.mean > 0 for pair in several)
        higher = sum(bool(pair.is_clear) and pair.mean < 0 for pair in several)
        n_won = sum(column[SUBJECT].gap < column[label].gap for column in both)
        yield Duel(label, n_won, len(both), (lower, higher, len(several) - lower - higher))


def _settings(records: Sequence[Record], budget: Budget) -> Iterable[tuple[str, str]]:
    sizes: dict[str, set[int]] = {}
    for record in records:
        # A run that failed does not know its rows.
        if record.n_rows is not None:
            size = f"{record.n_rows:,} training rows of {record.n_features} columns"
            what = f"{record.dataset}: {size}, {record.n_test_rows:,} test rows"
            sizes.setdefault(what, set()).add(record.instance)
    minutes = sum(record.seconds or 0.0 for record in records) / 60
    late = [one for one in records if (one.fit_seconds or one.seconds or 0.0) > budget.seconds]
    names = ", ".join(sorted({title_of(one.label) for one in late}))
    search = f"{budget.n_trials} trials before each fit" if budget.n_trials else "none"
    yield "Budget", budget.name
    yield "Data", "; ".join(f"{what} (instances: {len(found)})" for what, found in sorted(sizes.items()))
    yield "Missing levels", ", ".join(map(percent, budget.levels or LEVELS))
    yield "Search of hyper-parameters", search
    yield (
        "Fits",
        f"{len(records):,}; " + (f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"),
    )
    yield (
        f"Fits that took longer than {budget.seconds:,.0f} s",
        f"{len(late)} of {len(records)} ({names})" if late else "none",
    )
    yield "Versions", ", ".join(sorted({f"{k} {v}" for one in records for k, v in one.versions.items()}))
    yield "Digests of the source code", ", ".join(sorted({one.source or "unknown" for one in records}))
    yield "Last record", max(one.finished for one in records)


def _timings(records: Sequence[Record]) -> list[Timing]:
    timings = []
    for label in dict.fromkeys(record.label for record in records):
        done = [one for one in records if one.label == label and one.failure is None]
        if done:
            fits = [one.fit_seconds or 0.0 for one in done]
            predicting = median(one.predict_seconds or 0.0 for one in done)
            memory = max(one.peak_memory or 0 for one in done) / 1e6
            timings.append(Timing(label, len(done), median(fits), max(fits), predicting, memory))
    return sorted(timings, key=lambda timing: timing.median_fit)


def _configurations(records: Sequence[Record]) -> list[tuple[str, str, str]]:
    """Label, data sets and parameters of everything that was fitted."""
    datasets: dict[tuple[str, str], dict[str, None]] = {}
    for record in records:
        if record.config:
            config = json.dumps(record.config, ensure_ascii=False)
            datasets.setdefault((record.label, config), {})[record.dataset] = None
    return [(label, ", ".join(names), config) for (label, config), names in sorted(datasets.items())]
