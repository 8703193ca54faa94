"""Which fits the tables and figures need; a fit that several need is made once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from stablemiss.experiments.budgets import BUDGETS, LABELS, Budget
from stablemiss.experiments.exhibit import LINEAR, Exhibit
from stablemiss.experiments.exhibits import EXHIBITS

# Methods were developed, and their defaults chosen, on populations of small seeds: these are none of them.
FIRST_SEED = 1000


@dataclass(frozen=True, order=True)
class Exam:
    """How test rows are hidden: a name of `MECHANISMS`, and its level."""

    mechanism: str
    level: float


@dataclass(frozen=True, order=True)
class Cell:
    """One fit: what is fitted to which rows, hidden how.

    Parameters
    ----------
    budget : str
        One of `BUDGETS`.
    dataset : str
    mechanism : str
        How training rows are hidden.
    level : float
        Share of their cells that is.
    instance : int
        Which population, or which split of a real table.
    label : str
        What is fitted; see `stablemiss.experiments.budgets.LABELS`. The true answers, which only a population
        knows, count as fits too.
    """

    budget: str
    dataset: str
    mechanism: str
    level: float
    instance: int
    label: str

    @property
    def seed(self) -> int:
        """Of everything random."""
        return FIRST_SEED + self.instance

    @property
    def key(self) -> str:
        """One line that tells this cell from all others.

        Examples
        --------
        >>> Cell("quick", "gaussian", "mar", 0.5, 0, "ols").key
        'quick gaussian mar 0.5 0 ols'
        """
        return " ".join(
            map(str, (self.budget, self.dataset, self.mechanism, self.level, self.instance, self.label))
        )


def cells_of(names: Iterable[str], budget: Budget, labels: Iterable[str] = tuple(LABELS)) -> list[Cell]:
    """The fits behind some tables and figures, first instances first.

    Parameters
    ----------
    names : iterable of str
        Of `EXHIBITS`.
    budget : Budget
    labels : iterable of str
        Methods to fit. What an exhibit compares them with is fitted anyway.
    """
    found = set()
    for exhibit in (EXHIBITS[name] for name in names):
        wanted = {*labels, exhibit.reference, LINEAR, "constant"}
        found |= {cell for cell, _ in _fits(exhibit, budget) if cell.label in wanted}
    return sorted(
        found, key=lambda cell: (cell.instance, cell.dataset, cell.mechanism, cell.level, cell.label)
    )


def exams_of(cell: Cell) -> list[Exam]:
    """Where a fit is tested: wherever any table or figure looks at it.

    Examples
    --------
    >>> exams_of(Cell("standard", "gaussian_mix", "mar", 0.1, 0, "ols"))
    [Exam(mechanism='mar', level=0.5), Exam(mechanism='mcar_window', level=0.1)]
    """
    return _all_exams(cell.budget)[cell]


def is_of(row: dict[str, Any], cell: Cell) -> bool:
    """Whether a stored row is this cell's, with a score for all its tests or the reason why there is none."""
    if row["key"] != cell.key:
        return False
    scored = {Exam(score["mechanism"], score["level"]) for score in row["scores"]}
    return row["error"] is not None or scored >= set(exams_of(cell))


@cache
def _all_exams(budget: str) -> dict[Cell, list[Exam]]:
    found: dict[Cell, set[Exam]] = {}
    for exhibit in EXHIBITS.values():
        for cell, test in _fits(exhibit, BUDGETS[budget]):
            found.setdefault(cell, set()).add(test)
    return {cell: sorted(tests) for cell, tests in found.items()}


def _fits(exhibit: Exhibit, budget: Budget) -> Iterator[tuple[Cell, Exam]]:
    for instance in budget.instances(exhibit):
        for column in budget.columns(exhibit):
            test = Exam(exhibit.test_mechanism, column.test_level)
            wanted = [(label, column.train_level) for label in exhibit.methods]
            for label, level in [*wanted, (exhibit.reference, exhibit.reference_level(column))]:
                yield (
                    Cell(budget.name, exhibit.dataset, exhibit.train_mechanism, level, instance, label),
                    test,
                )
