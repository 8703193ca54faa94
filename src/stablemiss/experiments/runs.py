"""The runs that tables and figures need. A run that several of them need is executed once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from stablemiss.evaluation import TestSetting
from stablemiss.experiments.array_methods import REFERENCES, array_settings
from stablemiss.experiments.array_tables import ARRAY_DATASETS, ARRAY_TABLES, MNIST
from stablemiss.experiments.budgets import LABELS, Budget, settings_of
from stablemiss.experiments.image_problem import draw_image_problem, image_settings
from stablemiss.experiments.problem import POPULATIONS, Problem, draw_problem
from stablemiss.experiments.sensor_problem import draw_sensor_problem, sensor_settings
from stablemiss.experiments.tables import CONSTANT, LINEAR, OPTIMAL, TABLES, PaperTable
from stablemiss.methods import METHODS
from stablemiss.results import Record
from stablemiss.results.provenance import describe, is_described_by


class _Fit(NamedTuple):
    """What identifies a run within a budget."""

    dataset: str
    mechanism: str
    level: float | None
    instance: int
    label: str


@dataclass(frozen=True)
class Run:
    """One fit and its tests."""

    budget: Budget
    dataset: str
    mechanism: str  # of the training rows, or their period
    level: float | None  # its missing rate; None if it is natural
    instance: int  # number of the random population, or of the random split of a real table
    label: str  # one of LABELS, or an exact predictor of a synthetic population, "optimal" or "linear"
    tests: tuple[TestSetting, ...] = ()  # every test that any table or figure asks for

    @property
    def seed(self) -> int:
        return self.budget.first_seed + self.instance

    @property
    def is_real(self) -> bool:
        """Whether the rows come from a real table, whose best predictor is not known."""
        return self.dataset not in POPULATIONS

    @property
    def is_array(self) -> bool:
        """Whether rows are images or windows of sensors."""
        return self.dataset in ARRAY_DATASETS

    def problem(self) -> Problem:
        """Training and test rows."""
        if self.dataset == MNIST:
            return draw_image_problem(self)
        return draw_sensor_problem(self) if self.is_array else draw_problem(self)

    def method(self) -> Any:
        """The method, or the reference estimator; None for the exact predictors of a population.

        An architecture for sensors has no graph yet, because it belongs to the data.
        """
        if self.label in (OPTIMAL, LINEAR):
            return None
        if self.is_array:
            name, settings = array_settings(self.label, self.dataset, self.mechanism, self.budget.is_brief)
            if name in REFERENCES:
                return REFERENCES[name](**settings)
            brief = METHODS[name].brief if self.budget.is_brief else {}
            return METHODS[name](**{**brief, **settings})
        name, settings = settings_of(self.label, self.mechanism, self.is_real, self.budget)
        method = METHODS[name]
        return method(**{**(method.brief if self.budget.is_brief else {}), **settings})

    def settings(self) -> dict[str, Any]:
        """Everything that determines the scores and is not already in the key of the record."""
        method = self.method()
        if self.is_array:
            problem = image_settings if self.dataset == MNIST else sensor_settings
            return {"method": describe(method), **problem(self.budget), "seed": self.seed}
        return {
            "method": None if method is None else describe(method),
            "n_features": self.budget.n_features,
            "n_rows": self.budget.n_rows,
            "n_test_rows": self.budget.n_test_rows,
            "n_real_rows": self.budget.n_real_rows,
            "n_trials": self.budget.n_trials,
            "n_validation_rows": self.budget.n_validation_rows,
            "seed": self.seed,
        }

    def record(self, **fields: Any) -> Record:
        """A record of this run with further fields."""
        return Record(
            experiment=self.budget.name,
            dataset=self.dataset,
            mechanism=self.mechanism,
            level=self.level,
            instance=self.instance,
            label=self.label,
            seed=self.seed,
            settings=self.settings(),
            **fields,
        )

    @property
    def key(self) -> str:
        """The key of the run's record."""
        return Record(self.budget.name, *self._fit(), seed=self.seed).key

    def is_done_by(self, record: Record) -> bool:
        """Whether a record has the key and settings of this run, and either all its scores or a failure."""
        stored, settings = {**record.settings}, self.settings()
        has_method = is_described_by(self.method(), stored.pop("method", None))
        settings.pop("method")
        if record.key != self.key or not has_method or stored != settings:
            return False
        scored = {TestSetting(score.mechanism, score.level) for score in record.scores}
        return record.failure is not None or scored >= set(self.tests)

    def _fit(self) -> _Fit:
        return _Fit(self.dataset, self.mechanism, self.level, self.instance, self.label)


def plan_runs(
    names: Iterable[str],
    budget: Budget,
    labels: Iterable[str] = tuple(LABELS),
    tables: Mapping[str, PaperTable] = TABLES,
) -> list[Run]:
    """The runs that some tables and figures need, sorted by instance.

    Parameters
    ----------
    names : iterable of str
        Names in `tables`.
    budget : Budget
    labels : iterable of str, default=tuple(LABELS)
        Labels to fit. References and the constant are always added.
    tables : dict, default=TABLES
        Name → table. A run is tested as all of these tables require, so that its record serves all of them.

    Examples
    --------
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> run = plan_runs(["table2"], BUDGETS["standard"], labels=["ols"])[1]
    >>> run.label, run.level, len(run.tests)
    ('linear', 0.1, 2)
    """
    names, labels = set(names), set(labels)
    tests: dict[_Fit, set[TestSetting]] = {}
    needed: set[_Fit] = set()
    for table in tables.values():
        references = {table.reference, LINEAR, CONSTANT}
        for fit, test in _fits_and_tests(table, budget):
            tests.setdefault(fit, set()).add(test)
            if table.name in names and fit.label in (labels & set(budget.labels(table))) | references:
                needed.add(fit)
    order = sorted(needed, key=lambda fit: (fit.instance, fit.dataset, fit.mechanism, fit.level, fit.label))
    return [Run(budget, *fit, tests=tuple(sorted(tests[fit]))) for fit in order]


def plan_array_runs(names: Iterable[str], budget: Budget, labels: Iterable[str] | None = None) -> list[Run]:
    """The runs that tables of images and sensor networks need, sorted by instance.

    Parameters
    ----------
    names : iterable of str
        Names in `ARRAY_TABLES`.
    budget : Budget
    labels : iterable of str, default=None
        Labels to fit. None: all.

    Examples
    --------
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> [run.level for run in plan_array_runs(["table4"], BUDGETS["quick"], ["stablemiss"])]
    [0.1, 0.5, 0.9]
    """
    tests: dict[_Fit, set[TestSetting]] = {}
    for name in names:
        table = ARRAY_TABLES[name]
        for instance in budget.instances(table):
            for column in budget.array_columns(table):
                fits = [(label, column.train) for label in table.methods]
                if table.retrains(column):
                    fits += [(label, column.test) for label in table.retrained]
                for label, train in fits:
                    if labels is None or label in labels:
                        fit = _Fit(table.dataset, train.mechanism, train.level, instance, label)
                        tests.setdefault(fit, set()).add(TestSetting(*column.test))
    order = sorted(
        tests, key=lambda fit: (fit.instance, fit.dataset, fit.mechanism, fit.level or 0.0, fit.label)
    )
    return [Run(budget, *fit, tests=tuple(sorted(tests[fit], key=str))) for fit in order]


def _fits_and_tests(table: PaperTable, budget: Budget) -> Iterator[tuple[_Fit, TestSetting]]:
    """Every fit of a table, once for each test of it."""
    for instance in budget.instances(table):
        for column in budget.columns(table):
            test = TestSetting(table.test_mechanism, column.test_level)
            fits = [(label, column.train_level) for label in table.methods]
            for label, level in [*fits, (table.reference, table.reference_level(column))]:
                yield _Fit(table.dataset, table.train_mechanism, level, instance, label), test
