"""RMSEs of the tables with images and sensor networks: means over instances, ranks, published numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from statistics import fmean, stdev

from stablemiss.experiments.array_tables import ArrayColumn, ArrayTable, Setting
from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.comparison import Pair, pair_of
from stablemiss.experiments.published import read_published_rmse
from stablemiss.experiments.tables import PAPER_METHODS
from stablemiss.results import Record


@dataclass(frozen=True)
class ArrayCell:
    """One method in one column, over its instances."""

    rmse: float  # mean
    spread: float | None  # standard deviation; None with a single instance
    n: int  # instances
    mark: str = ""  # "best" or "second" of its group
    is_partial: bool = False  # not ranked, because others of its column and group have more instances


@dataclass(frozen=True)
class ArrayLine:
    """One row of a table: for each column our cell, None where it was not run, and the published RMSE."""

    label: str
    is_from_paper: bool
    is_retrained: bool  # trained under the missingness of each test
    cells: tuple[ArrayCell | None, ...]
    published: tuple[float | None, ...]

    @property
    def group(self) -> str:
        """Views show the groups "paper", "others" and "retrained" apart from each other."""
        if self.is_retrained:
            return "retrained"
        return "paper" if self.is_from_paper else "others"

    @property
    def has_published(self) -> bool:
        return any(value is not None for value in self.published)


@dataclass(frozen=True)
class ArrayComparison:
    """A table with everything that is shown of it. The paper's methods come first, retrained ones last."""

    table: ArrayTable
    columns: tuple[ArrayColumn, ...]
    lines: tuple[ArrayLine, ...]
    n_instances: int  # instances that are run at the budget
    # (method, column) → instance → RMSE, without methods that were trained as tested
    rmse: Mapping[tuple[str, ArrayColumn], Mapping[int, float]]
    failures: tuple[Record, ...]

    @property
    def is_empty(self) -> bool:
        return not self.failures and not any(any(line.cells) for line in self.lines)

    @property
    def headings(self) -> list[tuple[str, int]]:
        """What neighbouring columns have in common, and how many they are."""
        return [(name, len(list(same))) for name, same in groupby(column.heading for column in self.columns)]

    @property
    def groups(self) -> dict[str, tuple[ArrayLine, ...]]:
        """Lines of each group, in the order of the rows."""
        return {group: tuple(lines) for group, lines in groupby(self.lines, key=attrgetter("group"))}

    @property
    def shifted(self) -> list[int]:
        """Numbers of the columns whose test rows have other missingness than the training rows."""
        return [i for i, column in enumerate(self.columns) if column.is_shifted]

    @property
    def instances(self) -> tuple[tuple[int, ...], ...]:
        """Instances on which all eight methods of the paper were run, for each column."""
        by_column = [[self.rmse[label, column] for label in PAPER_METHODS] for column in self.columns]
        return tuple(tuple(sorted(set.intersection(*map(set, errors)))) for errors in by_column)

    @property
    def n_cells(self) -> int:
        """Number of cells that the table should have."""
        return len(self._planned_cells)

    @property
    def n_planned(self) -> int:
        """Number of results that the table needs: one per method, column and instance."""
        return self.n_cells * self.n_instances

    @property
    def n_results(self) -> int:
        """Number of these results that there are."""
        return sum(cell.n for line in self.lines for cell in line.cells if cell is not None)

    def column(self, number: int) -> dict[str, ArrayCell]:
        """Label → cell of one column, without the methods that were not run."""
        cells = {line.label: line.cells[number] for line in self.lines if not line.is_retrained}
        return {label: cell for label, cell in cells.items() if cell is not None}

    def common_means(self, number: int) -> dict[str, float]:
        """Label → mean RMSE of one column over the instances on which all methods of the paper were run.

        Other methods are left out if they were not run on all of these; empty if there are none.
        """
        instances = self.instances[number]
        errors = {label: self.rmse[label, self.columns[number]] for label in self.table.methods}
        return {
            label: fmean(by_instance[instance] for instance in instances)
            for label, by_instance in errors.items()
            if instances and by_instance.keys() >= set(instances)
        }

    def pair(self, subject: str, label: str, numbers: Iterable[int]) -> Pair | None:
        """A subject compared with another method over some columns; None if no fit can be compared."""
        return pair_of(subject, label, self.rmse, [self.columns[number] for number in numbers])

    @property
    def n_missing(self) -> int:
        """Number of cells without results of all instances."""
        return sum(cell is None or cell.n < self.n_instances for cell in self._planned_cells)

    @property
    def n_absent(self) -> int:
        """Number of cells without any result."""
        return sum(cell is None for cell in self._planned_cells)

    @property
    def _planned_cells(self) -> list[ArrayCell | None]:
        return [
            cell
            for line in self.lines
            for column, cell in zip(self.columns, line.cells, strict=True)
            if self._is_planned(line, column)
        ]

    def _is_planned(self, line: ArrayLine, column: ArrayColumn) -> bool:
        return not line.is_retrained or self.table.retrains(column)


def compare_arrays(table: ArrayTable, records: Iterable[Record], budget: Budget) -> ArrayComparison:
    """Collect the RMSEs of a table.

    Parameters
    ----------
    table : ArrayTable
    records : iterable of Record
        Records of any tables; those of other data and budgets are ignored.
    budget : Budget
    """
    kept = [
        record
        for record in records
        if (record.experiment, record.dataset) == (budget.name, table.dataset)
        and record.instance in budget.instances(table)
    ]
    errors = _errors(kept)
    columns = budget.array_columns(table)
    published = _published(table, columns)
    lines = [
        ArrayLine(
            label,
            label in PAPER_METHODS,
            False,
            tuple(_cell(errors, label, column.train, column.test) for column in columns),
            published.get(label, (None,) * len(columns)),
        )
        for label in table.methods_in_rows
    ]
    retrained = [
        ArrayLine(
            label,
            label in PAPER_METHODS,
            True,
            tuple(
                _cell(errors, label, column.test, column.test) if table.retrains(column) else None
                for column in columns
            ),
            published.get("reference", (None,) * len(columns))
            if label == "stablemiss"
            else (None,) * len(columns),
        )
        for label in table.retrained
    ]
    failures = tuple(record for record in kept if record.failure is not None)
    marked = _mark(lines, len(columns))
    return ArrayComparison(
        table=table,
        columns=columns,
        lines=(*marked, *retrained),
        n_instances=len(budget.instances(table)),
        rmse={
            (label, column): errors.get((label, column.train, column.test), {})
            for label in table.methods
            for column in columns
        },
        failures=failures,
    )


Key = tuple[str, Setting, Setting]


def _errors(records: Iterable[Record]) -> dict[Key, dict[int, float]]:
    """(label, training, test) → instance → RMSE."""
    errors: dict[Key, dict[int, float]] = {}
    for record in records:
        train = Setting(record.mechanism or "", record.level)
        for score in record.scores:
            if score.error is not None:
                key = record.label, train, Setting(score.mechanism, score.level)
                errors.setdefault(key, {})[record.instance] = score.error
    return errors


def _cell(
    errors: Mapping[Key, Mapping[int, float]], label: str, train: Setting, test: Setting
) -> ArrayCell | None:
    by_instance = list(errors.get((label, train, test), {}).values())
    if not by_instance:
        return None
    spread = stdev(by_instance) if len(by_instance) > 1 else None
    return ArrayCell(fmean(by_instance), spread, len(by_instance))


def _mark(lines: list[ArrayLine], n_columns: int) -> list[ArrayLine]:
    """The same lines with the best and the second best of each column marked, in two groups.

    Cells with fewer instances than others of their column and group are not ranked: instances differ. Nor is
    a cell that has no other to be compared with.
    """
    cells = {line.label: list(line.cells) for line in lines}
    for from_paper in (True, False):
        group = [line.label for line in lines if line.is_from_paper == from_paper]
        for number in range(n_columns):
            run = {label: cell for label in group if (cell := cells[label][number]) is not None}
            n_instances = max((cell.n for cell in run.values()), default=0)
            complete = [label for label, cell in run.items() if cell.n == n_instances]
            ranked = sorted(complete, key=lambda label: run[label].rmse) if len(complete) > 1 else []
            marks = dict(zip(ranked, ("best", "second"), strict=False))
            for label, cell in run.items():
                is_partial = cell.n < n_instances
                cells[label][number] = replace(cell, mark=marks.get(label, ""), is_partial=is_partial)
    return [replace(line, cells=tuple(cells[line.label])) for line in lines]


def _published(table: ArrayTable, columns: Iterable[ArrayColumn]) -> dict[str, tuple[float | None, ...]]:
    """Label, or "reference" → published RMSE of each column."""
    printed = {} if table.published is None else read_published_rmse(table.published)
    labels = {label for label, _ in printed}
    return {label: tuple(printed.get((label, column.test.level)) for column in columns) for label in labels}
