"""The content of a page about several tables, as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from stablemiss.experiments.array_comparison import ArrayComparison, compare_arrays
from stablemiss.experiments.array_tables import ARRAY_DATASETS, ARRAY_TABLES, MNIST
from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.comparison import Comparison, compare, group_of, mark_best
from stablemiss.experiments.tables import TABLES, PaperTable
from stablemiss.missingness import LEVELS
from stablemiss.report.claims import SUBJECT, Claim, judge_claims
from stablemiss.report.long_training import LongTraining, long_trainings
from stablemiss.report.text import percent, place_of, table_title, title_of
from stablemiss.report.weights import RowWeights, row_weights
from stablemiss.results import Record

# Time in which a fit to images or sensor networks should end.
ARRAY_SECONDS = 25 * 60
KINDS = ("tables", "images", "sensors")


class RelativeGap(NamedTuple):
    """Gap divided by the reference's RMSE, mean over the columns of a table."""

    ours: float | None  # None unless all columns have a result
    published: float | None
    mark: str
    published_mark: str


class HeadToHead(NamedTuple):
    """The paper's method against another one, over all tables but those of images and sensors."""

    label: str
    n_won: int  # columns in which the paper's method has the smaller gap
    n: int  # columns that have both
    clear: tuple[int, int, int]  # tables in which its RMSE is clearly lower, clearly higher, or neither


class Timing(NamedTuple):
    """Seconds and megabytes of all fits of a label to one kind of data."""

    label: str
    data: str  # "tables", "images" or "sensors"
    n: int
    median_fit: float
    max_fit: float
    median_predict: float
    max_megabytes: float


@dataclass(frozen=True)
class Summary:
    """The content of a page, except the pictures of the missingness patterns."""

    comparisons: tuple[Comparison, ...]
    overview: dict[str, dict[str, RelativeGap]]  # label → table → mean
    claims: tuple[Claim, ...]
    head_to_head: tuple[HeadToHead, ...]
    weights: dict[str, list[RowWeights]]  # table → row weights of its methods
    long_trainings: tuple[LongTraining, ...]  # networks that were also trained without early stopping
    arrays: tuple[ArrayComparison, ...]  # tables of images and sensor networks
    n_results: int  # results of all tables: one per method, column and instance
    n_planned: int  # results that all tables need
    settings: tuple[tuple[str, str], ...]  # name, value
    timings: tuple[Timing, ...]
    configurations: tuple[tuple[str, str, str], ...]  # label, data sets, parameters

    @property
    def figures(self) -> list[Comparison]:
        return [comparison for comparison in self.comparisons if comparison.table.is_figure]

    @property
    def tables(self) -> list[Comparison]:
        """The comparisons that are not figures."""
        return [comparison for comparison in self.comparisons if not comparison.table.is_figure]

    @property
    def in_order(self) -> list[Comparison | ArrayComparison]:
        """All tables by their numbers, then all figures."""
        return sorted([*self.comparisons, *self.arrays], key=lambda one: place_of(one.table.name))

    def overview_lines(self, group: str) -> list[tuple[str, list[RelativeGap | None]]]:
        """Label and relative gaps (one per table) of each method of one of `GROUPS`."""
        names = [comparison.table.name for comparison in self.tables]
        return [
            (label, [by_table.get(name) for name in names])
            for label, by_table in self.overview.items()
            if group_of(label) == group
        ]


def summarise(
    records: Iterable[Record],
    budget: Budget,
    tables: Iterable[PaperTable] = tuple(TABLES.values()),
    as_published: Iterable[Record] = (),
) -> Summary:
    """Summarise records; their order does not matter.

    Parameters
    ----------
    records : iterable of Record
        Records of other budgets are ignored.
    budget : Budget
        The budget whose records are summarised.
    tables : iterable of PaperTable, default=tuple(TABLES.values())
        Tables to summarise. Those without a score or a failure are left out.
    as_published : iterable of Record, default=()
        Records of the budget "as_published", to compare with.
    """
    tables = list(tables)
    of_budget = (record for record in records if record.experiment == budget.name)
    records = sorted(of_budget, key=lambda record: record.key)
    if not records:
        raise ValueError(
            f"There are no records of the budget {budget.name}. Compute some with: "
            f"stablemiss reproduce table1 --budget {budget.name}"
        )
    comparisons = [compare(table, records, budget) for table in tables]
    is_demo = not any(table.name in TABLES for table in tables)
    array_tables = list(ARRAY_TABLES.values()) if budget.has_arrays and not is_demo else []
    arrays = [compare_arrays(table, records, budget) for table in array_tables]
    # Data that are not public are shown if there are results.
    arrays = [each for each in arrays if each.table.is_public or not each.is_empty]
    every: list[Comparison | ArrayComparison] = [*comparisons, *arrays]
    shown = [each for each in comparisons if each.failures or any(any(line.cells) for line in each.lines)]
    without_figures = [each for each in shown if not each.table.is_figure]
    return Summary(
        comparisons=tuple(shown),
        overview=_overview(without_figures),
        claims=tuple(judge_claims(comparisons, arrays)),
        head_to_head=tuple(_head_to_head(without_figures)),
        weights={one.table.name: row_weights(one.table, records, budget) for one in shown},
        long_trainings=tuple(long_trainings(records, budget, as_published, tables)),
        n_results=sum(one.n_results for one in every),
        n_planned=sum(one.n_planned for one in every),
        arrays=tuple(each for each in arrays if not each.is_empty),
        settings=(*_settings(records, budget), *_not_run(comparisons, arrays)),
        timings=tuple(_timings(records)),
        configurations=tuple(_configurations(records)),
    )


def distinct_columns(comparisons: Iterable[Comparison]) -> list[tuple[Comparison, int]]:
    """Columns of several tables; one that two tables share, such as 50% in tables 1 and 2, is listed once."""
    columns: dict[tuple, tuple[Comparison, int]] = {}
    for comparison in comparisons:
        table = comparison.table
        for number, column in enumerate(comparison.columns):
            if comparison.column(number):
                key = (table.dataset, table.train_mechanism, table.test_mechanism, column)
                columns.setdefault(key, (comparison, number))
    return list(columns.values())


def _overview(comparisons: Sequence[Comparison]) -> dict[str, dict[str, RelativeGap]]:
    overview: dict[str, dict[str, RelativeGap]] = {}
    for one in comparisons:
        ours = {
            line.label: _complete_mean([cell.relative_gap if cell else None for cell in line.cells])
            for line in one.lines
        }
        published = {
            line.label: _complete_mean([cell.relative_gap if cell else None for cell in line.published])
            for line in one.lines
        }
        marks, published_marks = mark_best(ours), mark_best(published)
        for label in ours:
            by_table = overview.setdefault(label, {})
            if ours[label] is not None or published[label] is not None:
                marked = marks.get(label, ""), published_marks.get(label, "")
                by_table[one.table.name] = RelativeGap(ours[label], published[label], *marked)
    return overview


def _complete_mean(values: Sequence[float | None]) -> float | None:
    """The mean; None if any value is missing."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _head_to_head(comparisons: Sequence[Comparison]) -> Iterable[HeadToHead]:
    columns = [one.column(number) for one, number in distinct_columns(comparisons)]
    for label in dict.fromkeys(label for column in columns for label in column):
        both = [column for column in columns if label in column and SUBJECT in column]
        if label == SUBJECT or not both:
            continue
        pairs = [pair for one in comparisons for pair in one.pairs if pair.label == label]
        tested = [pair for pair in pairs if pair.is_clear is not None]
        lower = sum(pair.is_clearly_lower for pair in tested)
        higher = sum(bool(pair.is_clear) and not pair.is_clearly_lower for pair in tested)
        n_won = sum(column[SUBJECT].gap < column[label].gap for column in both)
        yield HeadToHead(label, n_won, len(both), (lower, higher, len(tested) - lower - higher))


def _settings(records: Sequence[Record], budget: Budget) -> Iterable[tuple[str, str]]:
    instances: dict[str, set[int]] = {}
    for record in records:
        # A run that failed has no numbers of rows.
        if record.n_rows is not None:
            size = f"{record.n_rows:,} rows of {record.n_features} columns for training and validation"
            data = f"{record.dataset}: {size}, {record.n_test_rows:,} test rows"
            instances.setdefault(data, set()).add(record.instance)
    minutes = sum(record.seconds or 0.0 for record in records) / 60
    duration = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
    yield "Budget", budget.name
    yield (
        "Data",
        "; ".join(f"{data} (instances: {len(numbers)})" for data, numbers in sorted(instances.items())),
    )
    yield "Missing levels", ", ".join(map(percent, budget.levels or LEVELS))
    if budget.levels_if_trained_per_column is not None:
        levels = ", ".join(map(percent, budget.levels_if_trained_per_column))
        tables = ", ".join(table_title(one.name) for one in TABLES.values() if one.trains_for_each_column)
        yield f"Missing levels of {tables}", levels
    yield "Trials of a search before each fit", str(budget.n_trials)
    yield "Fits", f"{len(records):,}; {duration}"
    of_arrays = [one for one in records if one.dataset in ARRAY_DATASETS]
    of_tables = [one for one in records if one.dataset not in ARRAY_DATASETS]
    if of_tables:
        yield f"Fits that took longer than {budget.seconds:,.0f} s", _slow(of_tables, budget.seconds)
    if of_arrays:
        name = f"Fits to images and sensors that took longer than {ARRAY_SECONDS // 60} minutes"
        yield name, _slow(of_arrays, ARRAY_SECONDS)
    yield "Versions", ", ".join(sorted({f"{k} {v}" for one in records for k, v in one.versions.items()}))
    # Several versions, because a run is continued after changes that do not concern its records. Records of
    # methods whose settings changed are computed again.
    yield "Digests of the source code", ", ".join(sorted({one.source or "unknown" for one in records}))
    yield "Last record", max(one.finished for one in records)


def _slow(records: Sequence[Record], seconds: float) -> str:
    """Number of fits that took longer, and their methods."""
    slow = [one for one in records if (one.fit_seconds or one.seconds or 0.0) > seconds]
    methods = ", ".join(sorted({title_of(one.label) for one in slow}))
    return f"{len(slow)} of {len(records)} ({methods})" if slow else "none"


def _not_run(
    comparisons: Sequence[Comparison], arrays: Sequence[ArrayComparison]
) -> Iterable[tuple[str, str]]:
    """Tables without any result, and tables with some results missing."""
    absent = [table_title(one.table.name) for one in comparisons if one.n_missing == one.n_cells]
    absent += [table_title(one.table.name) for one in arrays if one.is_empty]
    every: list[Comparison | ArrayComparison] = [*comparisons, *arrays]
    begun = [one for one in every if 0 < one.n_missing < one.n_cells]
    if absent:
        yield "Not run", ", ".join(absent)
    if begun:
        counts = (f"{table_title(one.table.name)} ({one.n_missing} of {one.n_cells} cells)" for one in begun)
        yield "Results missing in", ", ".join(counts)


def _timings(records: Sequence[Record]) -> list[Timing]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.failure is None:
            groups.setdefault((record.label, _kind(record)), []).append(record)
    timings = []
    for (label, kind), done in groups.items():
        fits = [one.fit_seconds or 0.0 for one in done]
        predicting = median(one.predict_seconds or 0.0 for one in done)
        memory = max(one.peak_memory or 0 for one in done) / 1e6
        timings.append(Timing(label, kind, len(done), median(fits), max(fits), predicting, memory))
    return sorted(timings, key=lambda timing: (KINDS.index(timing.data), timing.median_fit))


def _kind(record: Record) -> str:
    """The kind of data of a record, one of `KINDS`."""
    if record.dataset not in ARRAY_DATASETS:
        return "tables"
    return "images" if record.dataset == MNIST else "sensors"


def _configurations(records: Sequence[Record]) -> list[tuple[str, str, str]]:
    datasets: dict[tuple[str, str], dict[str, None]] = {}
    for record in records:
        if record.config:
            config = json.dumps(record.config, ensure_ascii=False)
            datasets.setdefault((record.label, config), {})[record.dataset] = None
    return [(label, ", ".join(names), config) for (label, config), names in sorted(datasets.items())]
