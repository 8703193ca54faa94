"""Our results beside the paper's: gaps with their spread over instances, ranks, paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev
from typing import TypeVar

from scipy.stats import spearmanr, t

from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.published import read_published
from stablemiss.experiments.tables import (
    ABLATION,
    CONSTANT,
    FURTHER_METHODS,
    LINEAR,
    PAPER_METHODS,
    PaperTable,
    TableColumn,
)
from stablemiss.results import Record

Column = TypeVar("Column")
# Of methods: the paper's, those that we add, and FURTHER_METHODS.
GROUPS = ("paper", "added", "further")


@dataclass(frozen=True)
class Cell:
    """One method in one column of a table, over the instances that are compared."""

    gap: float  # mean of the RMSE minus the reference's
    spread: float | None  # standard deviation of the gap; None with a single instance
    relative_gap: float  # mean of the gap divided by the reference's RMSE
    rmse: float
    is_as_trained: bool  # the test rows have the missingness of the training rows
    is_worse_than_constant: bool
    mark: str = ""  # "best" or "second" of its group


@dataclass(frozen=True)
class Published:
    """One method in one column of a table, as the paper prints it."""

    gap: float
    relative_gap: float | None  # divided by the paper's reference, if that is printed
    is_worse_than_constant: bool | None  # None if unknown
    mark: str = ""  # "best" or "second" of the paper's methods


@dataclass(frozen=True)
class Line:
    """One method: for each column our cell, None where it was not run, and the published one."""

    label: str
    group: str  # of GROUPS; views show groups apart from each other
    cells: tuple[Cell | None, ...]
    published: tuple[Published | None, ...]


@dataclass(frozen=True)
class Reference:
    """The reference from which the gaps of one column are measured."""

    rmse: float | None
    published: float | None
    published_is_worse_than_constant: bool | None


@dataclass(frozen=True)
class Pair:
    """A subject, such as StableMiss, compared with another method on the same rows."""

    subject: str
    label: str  # of the other method
    mean: float  # relative difference of the subject's RMSE from the method's; below zero, it is better
    interval: tuple[float, float] | None  # 95% interval of the mean; None with a single instance
    n_won: int  # number of (column, instance) pairs in which the subject is better
    n: int
    by_instance: Mapping[int, float]  # instance → relative difference, mean over columns

    @property
    def is_clear(self) -> bool | None:
        """Whether the interval excludes zero; None with a single instance."""
        return None if self.interval is None else not self.interval[0] <= 0 <= self.interval[1]

    @property
    def is_clearly_lower(self) -> bool:
        """Whether the whole interval is below zero: the subject has the lower RMSE."""
        return self.interval is not None and self.interval[1] < 0


@dataclass(frozen=True)
class Comparison:
    """A table or figure with everything that is shown of it."""

    table: PaperTable
    columns: tuple[TableColumn, ...]  # those that are run at the budget
    lines: tuple[Line, ...]
    references: tuple[Reference, ...]  # one per column
    instances: tuple[tuple[int, ...], ...]  # instances that are compared, for each column
    n_instances: int  # instances that are run at the budget
    agreement: tuple[float | None, ...]  # Spearman's correlation of our gaps and the published ones
    rmse: Mapping[tuple[str, TableColumn], Mapping[int, float]]  # (method, column) → instance → RMSE
    failures: tuple[Record, ...]

    @property
    def n_cells(self) -> int:
        return len(self.lines) * len(self.columns)

    @property
    def n_missing(self) -> int:
        """Number of cells without a result."""
        return self.n_cells - sum(len(self.column(number)) for number in range(len(self.columns)))

    @property
    def n_planned(self) -> int:
        """Number of results that the table needs: one per method, column and instance."""
        return self.n_cells * self.n_instances

    @property
    def n_results(self) -> int:
        """Number of these results that there are."""
        return sum(len(errors) for errors in self.rmse.values())

    @property
    def shifted(self) -> list[int]:
        """Numbers of the columns whose test rows do not have the missingness of the training rows."""
        return [i for i, column in enumerate(self.columns) if not self.table.is_as_trained(column)]

    @property
    def pairs(self) -> list[Pair]:
        """The subject of the table compared with every other method, over all columns."""
        numbers = range(len(self.columns))
        subject = self.table.subject
        pairs = (self.pair(subject, line.label, numbers) for line in self.lines if line.label != subject)
        return [pair for pair in pairs if pair is not None]

    def column(self, number: int) -> dict[str, Cell]:
        """Label → cell of one column, without the methods that were not run."""
        cells = {line.label: line.cells[number] for line in self.lines}
        return {label: cell for label, cell in cells.items() if cell is not None}

    def published_column(self, number: int) -> dict[str, Published]:
        """Label → published result of one column, without the methods that the paper does not have."""
        cells = {line.label: line.published[number] for line in self.lines}
        return {label: cell for label, cell in cells.items() if cell is not None}

    def pair(self, subject: str, label: str, numbers: Iterable[int]) -> Pair | None:
        """A subject compared with another method over some columns; None if no fit can be compared."""
        columns = [self.columns[number] for number in numbers]
        return pair_of(subject, label, self.rmse, columns)


def pair_of(
    subject: str,
    label: str,
    rmse: Mapping[tuple[str, Column], Mapping[int, float]],
    columns: Iterable[Column],
) -> Pair | None:
    """A subject compared with another method over some columns; None if no fit can be compared.

    An instance counts once, with its mean over columns: columns of an instance share fits and rows, so they
    are not independent. Instances with fewer columns than others are left out, because the mean of some
    columns is not comparable with that of all.

    Parameters
    ----------
    subject, label : str
        The two methods.
    rmse : mapping
        (method, column) → instance → RMSE.
    columns : iterable
        Columns to compare over.

    Examples
    --------
    >>> pair_of("a", "b", {("a", 1): {0: 3.0}, ("b", 1): {0: 2.0}}, [1]).mean
    0.5
    """
    differences: dict[int, list[float]] = {}
    for column in columns:
        ours, other = (rmse.get((one, column), {}) for one in (subject, label))
        for i in sorted(ours.keys() & other.keys()):
            differences.setdefault(i, []).append(ours[i] / other[i] - 1)
    if not differences:
        return None
    n_columns = max(map(len, differences.values()))
    differences = {i: values for i, values in differences.items() if len(values) == n_columns}
    means = {i: fmean(values) for i, values in differences.items()}
    every = [value for values in differences.values() for value in values]
    interval = mean_interval(list(means.values()))
    n_won = sum(value < 0 for value in every)
    return Pair(subject, label, fmean(means.values()), interval, n_won, len(every), means)


def compare(table: PaperTable, records: Iterable[Record], budget: Budget) -> Comparison:
    """Compare the methods of a table with its reference, with each other, and with the paper.

    Parameters
    ----------
    table : PaperTable
    records : iterable of Record
        Records of any tables; those of other tables and budgets are ignored.
    budget : Budget
    """
    errors = _Errors(table, records, budget)
    columns = budget.columns(table)
    cells = [errors.cells(column) for column in columns]
    published = [errors.published_cells(column) for column in columns]
    return Comparison(
        table=table,
        columns=tuple(columns),
        lines=tuple(
            Line(
                label,
                group_of(label, table.is_figure),
                tuple(column.get(label) for column in cells),
                tuple(column.get(label) for column in published),
            )
            for label in budget.labels(table)
        ),
        references=tuple(errors.reference(column) for column in columns),
        instances=tuple(tuple(errors.shared_instances(column)) for column in columns),
        n_instances=len(budget.instances(table)),
        agreement=tuple(_agreement(*both) for both in zip(cells, published, strict=True)),
        rmse={
            (label, column): errors.by_instance(label, column)
            for label in budget.labels(table)
            for column in columns
        },
        failures=tuple(errors.failures(columns)),
    )


def records_of(table: PaperTable, records: Iterable[Record], budget: Budget) -> list[Record]:
    """Records of the fits of a table at a budget, with those of its reference.

    Another table may need more instances of a fit. Only those of this table are returned, so that all its
    methods are compared on the same ones.
    """
    where = (budget.name, table.dataset, table.train_mechanism)
    return [
        record
        for record in records
        if (record.experiment, record.dataset, record.mechanism) == where
        and record.instance in budget.instances(table)
    ]


class _Errors:
    """RMSE of every label in every column and instance of a table, and the statistics based on them."""

    def __init__(self, table: PaperTable, records: Iterable[Record], budget: Budget):
        self.table = table
        self.published = read_published(table.name)
        self.records = records_of(table, records, budget)
        self._rmse: dict[tuple[str, float | None, float | None], dict[int, float]] = {}
        for record in self.records:
            for score in record.scores:
                if score.mechanism == table.test_mechanism and score.error is not None:
                    key = record.label, record.level, score.level
                    self._rmse.setdefault(key, {})[record.instance] = score.error

    def by_instance(self, label: str, column: TableColumn) -> dict[int, float]:
        """Instance → RMSE of a label in a column."""
        return self._rmse.get((label, column.train_level, column.test_level), {})

    def reference_by_instance(self, column: TableColumn) -> dict[int, float]:
        """Instance → RMSE of the reference in a column."""
        level = self.table.reference_level(column)
        return self._rmse.get((self.table.reference, level, column.test_level), {})

    def shared_instances(self, column: TableColumn) -> list[int]:
        """Of the instances that have a reference, those on which the largest number of methods were run.

        `FURTHER_METHODS` do not count: while they are being run, the other rows stay as they are.
        """
        labels = [label for label in self.table.methods if label not in FURTHER_METHODS]
        lines = [self.by_instance(label, column) for label in labels]
        counts = {i: sum(i in line for line in lines) for i in self.reference_by_instance(column)}
        return sorted(i for i, n in counts.items() if n == max(counts.values()) > 0)

    def mean(self, label: str, column: TableColumn) -> float | None:
        """Mean RMSE over the shared instances; None if there are none or the label lacks one of them."""
        return _mean(self.by_instance(label, column), self.shared_instances(column))

    def cells(self, column: TableColumn) -> dict[str, Cell]:
        """Label → cell of a column, with marks, for the methods that were run."""
        cells = {label: cell for label in self.table.methods if (cell := self._cell(label, column))}
        marks = mark_best({label: cell.gap for label, cell in cells.items()}, self.table.is_figure)
        return {label: replace(cell, mark=marks.get(label, "")) for label, cell in cells.items()}

    def published_cells(self, column: TableColumn) -> dict[str, Published]:
        """Label → published result of a column, with marks, whether or not the method was run."""
        level, base = self.table.column_level(column), self._published_reference(column)
        gaps = {label: self.published.get((label, level)) for label in self.table.methods}
        marks = mark_best(gaps, self.table.is_figure)
        return {
            label: Published(
                gap=gap,
                relative_gap=gap / base if base else None,
                is_worse_than_constant=self._published_is_worse(gap, column),
                mark=marks.get(label, ""),
            )
            for label, gap in gaps.items()
            if gap is not None
        }

    def reference(self, column: TableColumn) -> Reference:
        """Our reference in a column beside the published one."""
        return Reference(
            rmse=_mean(self.reference_by_instance(column), self.shared_instances(column)),
            published=self.published.get(("reference", self.table.column_level(column))),
            published_is_worse_than_constant=self._published_is_worse(0.0, column),
        )

    def failures(self, columns: Sequence[TableColumn]) -> list[Record]:
        """Failed runs of the methods and the reference."""
        table = self.table
        needed = {(label, column.train_level) for label in table.methods for column in columns}
        needed |= {(table.reference, table.reference_level(column)) for column in columns}
        failed = [record for record in self.records if record.failure is not None]
        return [record for record in failed if (record.label, record.level) in needed]

    def _cell(self, label: str, column: TableColumn) -> Cell | None:
        ours, reference = self.by_instance(label, column), self.reference_by_instance(column)
        instances, rmse = self.shared_instances(column), self.mean(label, column)
        if rmse is None:
            return None
        gaps = [ours[i] - reference[i] for i in instances]
        constant = self.mean(CONSTANT, column)
        return Cell(
            gap=fmean(gaps),
            spread=stdev(gaps) if len(gaps) > 1 else None,
            relative_gap=fmean(ours[i] / reference[i] - 1 for i in instances),
            rmse=rmse,
            is_as_trained=self.table.is_as_trained(column),
            is_worse_than_constant=constant is not None and rmse > constant,
        )

    def _published_reference(self, column: TableColumn) -> float | None:
        # Table 2, tested at a single level, prints its reference only in the column of that level.
        printed = [("reference", level) for level in (self.table.column_level(column), column.test_level)]
        return next((self.published[key] for key in printed if key in self.published), None)

    def _published_is_worse(self, gap: float | None, column: TableColumn) -> bool | None:
        """Whether a published error exceeds that of a constant; None if unknown.

        The paper does not report the error of a constant prediction. For house prices we use the standard
        deviation of all sales: the paper's test rows are part of them, and single splits differ a lot.
        Elsewhere a published error counts as worse than the constant if (published error / published Optimal)
        exceeds (our constant / our `linear`). We divide by `linear` because the published Optimal resembles
        it more than our Optimal; for one Gaussian both are equal.
        """
        base = self._published_reference(column)
        if gap is None or base is None:
            return None
        if self.table.target_sd is not None:
            return gap + base > self.table.target_sd
        constant, linear = self.mean(CONSTANT, column), self.mean(LINEAR, column)
        return None if constant is None or linear is None else (gap + base) / base > constant / linear


def mark_best(values: dict[str, float | None], is_figure: bool = False) -> dict[str, str]:
    """Label → "best" or "second" for the smallest and second smallest values; ties share a mark.

    The paper ranks its own methods, so the others are ranked separately. `linear` is not ranked.

    Parameters
    ----------
    values : dict
        Label → value; None is not ranked.
    is_figure : bool, default=False
        Whether to rank the variants of the paper's ablation instead of its eight methods.

    Examples
    --------
    >>> mark_best({"dwr": 2.0, "srdo": 1.0, "miwae": 1.0, "ols": 0.5})
    {'srdo': 'best', 'miwae': 'best', 'dwr': 'second', 'ols': 'best'}
    """
    marks: dict[str, str] = {}
    for from_paper in (True, False):
        group = {
            label: value
            for label, value in values.items()
            if value is not None and label != LINEAR and (group_of(label, is_figure) == "paper") == from_paper
        }
        for mark, smallest in zip(("best", "second"), sorted(set(group.values())), strict=False):
            marks |= {label: mark for label, value in group.items() if value == smallest}
    return marks


def group_of(label: str, is_figure: bool = False) -> str:
    """The one of `GROUPS` to which a label belongs.

    Examples
    --------
    >>> group_of("neumiss"), group_of("ols"), group_of("gain")
    ('paper', 'added', 'further')
    """
    if label in (ABLATION if is_figure else PAPER_METHODS):
        return "paper"
    return "further" if label in FURTHER_METHODS else "added"


def _mean(values: dict[int, float], instances: Sequence[int]) -> float | None:
    if not instances or not values.keys() >= set(instances):
        return None
    return fmean(values[i] for i in instances)


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95% interval of the mean of independent values, by Student's t; None with fewer than two.

    Examples
    --------
    >>> low, high = mean_interval([0.0, 1.0, 2.0])
    >>> round(low, 2), round(high, 2)
    (-1.48, 3.48)
    """
    n = len(values)
    if n < 2:
        return None
    half = float(t.ppf(0.975, n - 1)) * stdev(values) / sqrt(n)
    return fmean(values) - half, fmean(values) + half


def _agreement(cells: dict[str, Cell], published: dict[str, Published]) -> float | None:
    """Spearman's rank correlation of our gaps and the published ones, if all eight methods have both."""
    both = [(cells[label].gap, published[label].gap) for label in cells if label in published]
    ours, printed = zip(*both, strict=True) if both else ((), ())
    # Equal gaps have no ranks.
    if len(both) < len(PAPER_METHODS) or len(set(ours)) == 1 or len(set(printed)) == 1:
        return None
    return float(spearmanr(ours, printed).statistic)
