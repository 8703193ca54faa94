"""Networks trained as published, without early stopping, beside those that stop early."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stablemiss.experiments.budgets import BUDGETS, Budget
from stablemiss.experiments.comparison import Cell, Comparison, Published, compare
from stablemiss.experiments.tables import CONSTANT, LINEAR, PaperTable
from stablemiss.results import Record

AS_PUBLISHED = BUDGETS["as_published"]


@dataclass(frozen=True)
class TrainingLine:
    """One method of a table: for each column its cell with and without early stopping, and the published."""

    label: str
    stopped: tuple[Cell | None, ...]
    as_published: tuple[Cell | None, ...]
    published: tuple[Published | None, ...]


@dataclass(frozen=True)
class LongTraining:
    """A table trained twice, on the same instances: with early stopping, and as published."""

    stopped: Comparison
    as_published: Comparison

    @property
    def table(self) -> PaperTable:
        return self.as_published.table

    @property
    def lines(self) -> list[TrainingLine]:
        """The methods that were trained as published."""
        return [
            TrainingLine(line.label, self._of(self.stopped, line.label), line.cells, line.published)
            for line in self.as_published.lines
            if any(line.cells) and line.label not in (CONSTANT, LINEAR)
        ]

    @property
    def references(self) -> list[tuple[str, list[float | None]]]:
        """RMSE of the reference in each column: of both ways of training, and as published."""
        errors = (reference.rmse for reference in self.stopped.references)
        stopped = dict(zip(self.stopped.columns, errors, strict=True))
        late = self.as_published.references
        return [
            ("stopped early", [stopped.get(column) for column in self.as_published.columns]),
            ("1000 epochs", [reference.rmse for reference in late]),
            ("in print", [reference.published for reference in late]),
        ]

    @property
    def n_columns(self) -> int:
        """Number of columns in which the subject of the table was trained as published."""
        subjects = (line for line in self.lines if line.label == self.table.subject)
        return sum(cell is not None for line in subjects for cell in line.as_published)

    def plotted(self) -> list[tuple[str, Comparison]]:
        """Both as comparisons of the same methods and columns, with their names."""
        labels = [line.label for line in self.lines]
        named = [("stopped early", self.stopped), ("trained as published", self.as_published)]
        return [
            (name, replace(one, lines=tuple(line for line in one.lines if line.label in labels)))
            for name, one in named
        ]

    def _of(self, comparison: Comparison, label: str) -> tuple[Cell | None, ...]:
        """Cells of a method in the columns that were trained as published."""
        cells = next(line.cells for line in comparison.lines if line.label == label)
        by_column = dict(zip(comparison.columns, cells, strict=True))
        return tuple(by_column.get(column) for column in self.as_published.columns)


def long_trainings(
    records: Sequence[Record],
    budget: Budget,
    as_published: Iterable[Record],
    tables: Iterable[PaperTable],
) -> list[LongTraining]:
    """The tables whose subject was trained as published, in more columns than one.

    Other tables may share a fit with them: table 2, for example, one column with table 1.

    Parameters
    ----------
    records : sequence of Record
        Of networks that stop early.
    budget : Budget
        Budget of `records`. Only the instances that were trained as published are compared.
    as_published : iterable of Record
        Of the budget "as_published".
    tables : iterable of PaperTable
    """
    as_published = list(as_published)
    same_instances = replace(budget, n_instances=AS_PUBLISHED.n_instances)
    trainings = (
        LongTraining(compare(table, records, same_instances), compare(table, as_published, AS_PUBLISHED))
        for table in tables
    )
    return [training for training in trainings if training.n_columns > 1]
