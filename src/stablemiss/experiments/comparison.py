"""Our results beside the paper's: gaps with their spread over instances, ranks, paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev
from typing import Any, cast

from scipy.stats import spearmanr, t

from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.published import read_published
from stablemiss.experiments.tables import CONSTANT, EIGHT, LINEAR, Column, PaperTable
from stablemiss.results import Record


@dataclass(frozen=True)
class Cell:
    """One method in one column of a table, over the instances that are compared.

    Attributes
    ----------
    gap : float
        Mean of the RMSE minus the reference's.
    spread : float or None
        Standard deviation of the gap; None with a single instance.
    share : float
        Mean of the gap divided by the reference's RMSE.
    rmse : float
    is_as_trained : bool
        Whether the test rows have the missingness of the training rows.
    is_worse_than_constant : bool
    published, published_share : float or None
        The gap in the paper, and divided by the paper's reference.
    published_is_worse_than_constant : bool or None
        None if that cannot be said.
    mark, published_mark : "best", "second" or ""
        Rank among the methods of its group.
    """

    gap: float
    spread: float | None
    share: float
    rmse: float
    is_as_trained: bool
    is_worse_than_constant: bool
    published: float | None = None
    published_share: float | None = None
    published_is_worse_than_constant: bool | None = None
    mark: str = ""
    published_mark: str = ""


@dataclass(frozen=True)
class Line:
    """One method: a cell for each column, None where it was not run."""

    label: str
    is_of_the_paper: bool
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Reference:
    """What gaps are measured from, in one column."""

    rmse: float | None
    published: float | None
    published_is_worse_than_constant: bool | None


@dataclass(frozen=True)
class Pair:
    """How a method compares with the subject of the table on the same rows.

    Attributes
    ----------
    label : str
    mean : float
        Mean relative increase of the RMSE over the subject's; positive means that the subject is better.
    spread : float or None
        Standard deviation over instances of the mean over columns.
    is_clear : bool or None
        Whether the 95% interval of the mean over instances excludes zero; None with a single instance.
    n_won, n : int
        Columns and instances in which the subject is better, and all of them.
    """

    label: str
    mean: float
    spread: float | None
    is_clear: bool | None
    n_won: int
    n: int


@dataclass(frozen=True)
class Comparison:
    """A table or figure: everything that its views show.

    Attributes
    ----------
    table : PaperTable
    columns : tuple of Column
        The columns that were run at the budget.
    lines : tuple of Line
    references : tuple of Reference
        One per column.
    instances : tuple of tuple of int
        Instances that are compared, for each column.
    n_instances : int
        Instances that the budget asks for.
    agreement : tuple of float or None
        Spearman's correlation of our gaps and the published ones, for each column.
    pairs : tuple of Pair
    failures : tuple of Record
    """

    table: PaperTable
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    references: tuple[Reference, ...]
    instances: tuple[tuple[int, ...], ...]
    n_instances: int
    agreement: tuple[float | None, ...]
    pairs: tuple[Pair, ...]
    failures: tuple[Record, ...]

    def column(self, number: int) -> dict[str, Cell]:
        """Label → cell of one column, without the methods that were not run."""
        cells = {line.label: line.cells[number] for line in self.lines}
        return {label: cell for label, cell in cells.items() if cell is not None}


def compare(table: PaperTable, records: Iterable[Record], budget: Budget) -> Comparison:
    """Compare the methods of a table with its reference, with each other, and with the paper.

    Parameters
    ----------
    table : PaperTable
    records : iterable of Record
        Of any tables; those of other tables and budgets are ignored.
    budget : Budget
    """
    columns = budget.columns(table)
    rmse = _Errors(table, records, budget)
    published = read_published(table.name)
    instances = {column: rmse.shared_instances(column) for column in columns}
    lines = [
        Line(
            label,
            label in EIGHT or table.is_figure,
            tuple(_cell(rmse, published, label, column, instances[column]) for column in columns),
        )
        for label in table.methods
    ]
    lines = mark_best(mark_best(lines, "gap", "mark"), "published", "published_mark")
    return Comparison(
        table=table,
        columns=tuple(columns),
        lines=tuple(lines),
        references=tuple(_reference(rmse, published, column, instances[column]) for column in columns),
        instances=tuple(tuple(instances[column]) for column in columns),
        n_instances=len(budget.instances(table)),
        agreement=tuple(_agreement(lines, number) for number in range(len(columns))),
        pairs=tuple(_pairs(rmse, columns)),
        failures=tuple(rmse.failures(columns)),
    )


class _Errors:
    """RMSE of every label in every column and instance of a table."""

    def __init__(self, table: PaperTable, records: Iterable[Record], budget: Budget):
        self.table = table
        # Another table may have run a fit on more instances; all lines are compared over the same ones.
        self.records = [
            record
            for record in records
            if (record.suite, record.dataset, record.mechanism)
            == (budget.name, table.dataset, table.train_mechanism)
            and record.instance in budget.instances(table)
        ]
        self._rmse: dict[tuple[str, float | None, float | None], dict[int, float]] = {}
        for record in self.records:
            for score in record.scores:
                if score.mechanism == table.test_mechanism and score.error is not None:
                    key = record.label, record.level, score.level
                    self._rmse.setdefault(key, {})[record.instance] = score.error

    def of(self, label: str, column: Column) -> dict[int, float]:
        """Instance → RMSE of a label."""
        return self._rmse.get((label, column.train_level, column.test_level), {})

    def of_reference(self, column: Column) -> dict[int, float]:
        level = self.table.reference_level(column)
        return self._rmse.get((self.table.reference, level, column.test_level), {})

    def shared_instances(self, column: Column) -> list[int]:
        """Instances of the reference that most lines have."""
        lines = [self.of(label, column) for label in self.table.methods]
        counts = {one: sum(one in line for line in lines) for one in self.of_reference(column)}
        return sorted(one for one, n in counts.items() if n == max(counts.values()) > 0)

    def failures(self, columns: Sequence[Column]) -> list[Record]:
        table = self.table
        needed = {(label, column.train_level) for label in table.methods for column in columns}
        needed |= {(table.reference, table.reference_level(column)) for column in columns}
        failed = [record for record in self.records if record.failure is not None]
        return [record for record in failed if (record.label, record.level) in needed]


def _mean(values: dict[int, float], instances: Sequence[int]) -> float | None:
    """Mean over the instances; None unless there are some and all have a value."""
    if not instances or not values.keys() >= set(instances):
        return None
    return fmean(values[one] for one in instances)


Published = dict[tuple[str, float], float]


def _cell(
    rmse: _Errors, published: Published, label: str, column: Column, instances: Sequence[int]
) -> Cell | None:
    ours, reference = rmse.of(label, column), rmse.of_reference(column)
    mean = _mean(ours, instances)
    if mean is None:
        return None
    gaps = [ours[one] - reference[one] for one in instances]
    constant = _mean(rmse.of(CONSTANT, column), instances)
    gap = published.get((label, rmse.table.column_level(column)))
    base = _published_reference(rmse.table, published, column)
    return Cell(
        gap=fmean(gaps),
        spread=stdev(gaps) if len(gaps) > 1 else None,
        share=fmean(ours[one] / reference[one] - 1 for one in instances),
        rmse=mean,
        is_as_trained=rmse.table.is_as_trained(column),
        is_worse_than_constant=constant is not None and mean > constant,
        published=gap,
        published_share=gap / base if gap is not None and base else None,
        published_is_worse_than_constant=_published_is_worse(rmse, gap, base, column, instances),
    )


def _reference(rmse: _Errors, published: Published, column: Column, instances: Sequence[int]) -> Reference:
    base = _published_reference(rmse.table, published, column)
    return Reference(
        rmse=_mean(rmse.of_reference(column), instances),
        published=published.get(("reference", rmse.table.column_level(column))),
        published_is_worse_than_constant=_published_is_worse(rmse, 0.0, base, column, instances),
    )


def _published_reference(table: PaperTable, published: Published, column: Column) -> float | None:
    # The table that is tested at a single level prints its reference once.
    levels = (table.column_level(column), column.test_level)
    return next(
        (published[("reference", level)] for level in levels if ("reference", level) in published), None
    )


def _published_is_worse(
    rmse: _Errors, gap: float | None, base: float | None, column: Column, instances: Sequence[int]
) -> bool | None:
    """Whether a published error exceeds that of a constant; None if that cannot be said.

    The paper does not print a constant. For house prices the standard deviation over the whole table serves
    instead: the paper's test rows are part of it, and single splits differ a lot. Elsewhere it is our
    constant, relative to the exact predictor that is linear in the observed values, to which the paper's
    Optimal is closest (for one Gaussian both are the same).
    """
    if gap is None or base is None:
        return None
    if rmse.table.target_sd is not None:
        return gap + base > rmse.table.target_sd
    constant, linear = (_mean(rmse.of(label, column), instances) for label in (CONSTANT, LINEAR))
    if constant is None or linear is None:
        return None
    return (gap + base) / base > constant / linear


def mark_best(lines: Sequence[Line], value: str, mark: str) -> list[Line]:
    """Mark the smallest and second smallest values of each column as "best" and "second"; ties share a mark.

    The paper ranks its own methods, so the others are ranked separately. `linear` is not ranked.

    Parameters
    ----------
    lines : sequence of Line
    value : str
        Attribute of the cells to rank by.
    mark : str
        Attribute of the cells to write to.
    """
    marks: dict[tuple[int, int], str] = {}
    for of_the_paper in (True, False):
        group = [
            i for i, line in enumerate(lines) if line.is_of_the_paper == of_the_paper and line.label != LINEAR
        ]
        for j in range(max((len(line.cells) for line in lines), default=0)):
            values = {i: getattr(lines[i].cells[j], value, None) for i in group}
            ranked = sorted({one for one in values.values() if one is not None})
            for name, smallest in zip(("best", "second"), ranked, strict=False):
                marks |= {(i, j): name for i, one in values.items() if one == smallest}
    return [
        replace(
            line,
            cells=tuple(
                None if cell is None else replace(cell, **cast(Any, {mark: marks.get((i, j), "")}))
                for j, cell in enumerate(line.cells)
            ),
        )
        for i, line in enumerate(lines)
    ]


def _agreement(lines: Sequence[Line], number: int) -> float | None:
    """Spearman's rank correlation of our gaps and the published ones, if all eight methods have both."""
    cells = [line.cells[number] for line in lines]
    both = [(cell.gap, cell.published) for cell in cells if cell and cell.published is not None]
    if len(both) < len(EIGHT):
        return None
    return float(spearmanr(*zip(*both, strict=True)).statistic)


def _pairs(rmse: _Errors, columns: Sequence[Column]) -> Iterable[Pair]:
    for label in rmse.table.methods:
        if label == rmse.table.subject:
            continue
        by_instance: dict[int, list[float]] = {}
        for column in columns:
            subject, other = rmse.of(rmse.table.subject, column), rmse.of(label, column)
            for instance in subject.keys() & other.keys():
                by_instance.setdefault(instance, []).append(other[instance] / subject[instance] - 1)
        if by_instance:
            means = [fmean(values) for values in by_instance.values()]
            every = [value for values in by_instance.values() for value in values]
            yield Pair(
                label=label,
                mean=fmean(means),
                spread=stdev(means) if len(means) > 1 else None,
                is_clear=_is_clear(means),
                n_won=sum(value > 0 for value in every),
                n=len(every),
            )


def _is_clear(differences: list[float]) -> bool | None:
    """Whether the 95% interval of the mean excludes zero; None with a single value."""
    n = len(differences)
    if n < 2:
        return None
    return bool(abs(fmean(differences)) > t.ppf(0.975, n - 1) * stdev(differences) / sqrt(n))
