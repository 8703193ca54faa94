"""Execute the runs that tables and figures need, and store each record as soon as it is complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

from stablemiss.datasets import load_house_sales
from stablemiss.experiments.array_tables import ARRAY_TABLES, BERLIN, DIDI, MNIST, ArrayTable
from stablemiss.experiments.budgets import BUDGETS, LABELS, Budget, demo_budget
from stablemiss.experiments.execute import execute
from stablemiss.experiments.image_problem import mnist
from stablemiss.experiments.runs import Run, plan_array_runs, plan_runs
from stablemiss.experiments.sensor_problem import sensor_network
from stablemiss.experiments.tables import TABLES, PaperTable
from stablemiss.experiments.workers import Workers
from stablemiss.progress import NullProgress, Progress
from stablemiss.results import Record, Store

ALL = "all"
# Data set → function that reads it, and raises an error that says how to get it.
LOADERS: dict[str, Callable[[], Any]] = {
    "house_sales": load_house_sales,
    MNIST: mnist,
    **{name: partial(sensor_network, name) for name in (BERLIN, DIDI)},
}


class Reproduction:
    """Tables and figures to run at a budget. Arguments are checked here, before any work.

    Parameters
    ----------
    names : sequence of str
        Such as "table1" and "figure2", or "all".
    budget : "quick", "standard", "paper" or "as_published", default="standard"
        Size of the data and effort per fit: minutes, hours, or far longer in total. "as_published" trains
        three methods as the paper says, without early stopping.
    methods : sequence of str, default=None
        Labels of methods of these tables to fit; tables of gaps need their references too, which are added.
        None means all.

    Examples
    --------
    >>> reproduction = Reproduction(["table1"], budget="quick", methods=["ols"])
    >>> sorted({run.label for run in reproduction.runs})
    ['constant', 'linear', 'ols', 'optimal']
    """

    def __init__(self, names: Sequence[str], budget: str = "standard", methods: Sequence[str] | None = None):
        self.budget = to_budget(budget)
        names = _to_names(names, self.budget)
        self.tables = [TABLES[name] for name in names if name in TABLES]
        self.array_tables = [ARRAY_TABLES[name] for name in names if name in ARRAY_TABLES]
        _check_methods(methods or (), [*self.tables, *self.array_tables], self.budget)
        self.runs = self._plan(methods)

    def _plan(self, methods: Sequence[str] | None) -> list[Run]:
        return [
            *plan_runs([table.name for table in self.tables], self.budget, methods or LABELS),
            *plan_array_runs([table.name for table in self.array_tables], self.budget, methods),
        ]

    def run(
        self,
        store: Store,
        workers: Workers | None = None,
        retry_failed: bool = False,
        progress: Progress | None = None,
    ) -> list[Record]:
        """Execute the runs that are not stored yet; returns all records of the tables, also of other methods.

        Each record is stored as soon as it is complete. After a crash, another call executes only the rest.
        Records that were computed with different settings are computed again.

        Parameters
        ----------
        store : Store
        workers : Workers, default=None
            Where runs are executed. None means this process.
        retry_failed : bool, default=False
            Whether to execute runs again whose stored record is a failure.
        progress : Progress, default=None
            Updated after each run. None reports nothing.
        """
        progress = progress or NullProgress()
        with store.appending() as append:
            pending = self._pending(store, retry_failed)
            for dataset in {run.dataset for run in pending}:
                # Without the data this raises one error before the first fit, not one failure per run.
                if dataset in LOADERS:
                    LOADERS[dataset]()
            progress.start(f"{len(pending)} of {len(self.runs)} fits", total=len(pending))
            for done, record in enumerate((workers or Workers()).map(execute, pending), start=1):
                append(record)
                outcome = f"{record.seconds:.0f} s" if record.failure is None else f"failed: {record.failure}"
                progress.update(done, f"{record.key}: {outcome}")
            progress.finish()
        planned = {run.key: run for run in self._plan(None)}
        return [
            record
            for record in store.records()
            if record.key in planned and planned[record.key].is_done_by(record)
        ]

    def _pending(self, store: Store, retry_failed: bool) -> list[Run]:
        stored = {
            record.key: record
            for record in store.records()
            if not (retry_failed and record.failure is not None)
        }
        return [run for run in self.runs if run.key not in stored or not run.is_done_by(stored[run.key])]


def run_demo(
    table: PaperTable, seed: int = 0, rows: int = 16384, progress: Progress | None = None
) -> tuple[Budget, list[Record]]:
    """Run the demo; returns its budget and its records.

    Parameters
    ----------
    table : PaperTable
        From `stablemiss.experiments.tables.demo_table`.
    seed : int, default=0
        Fixes population, rows, masks and fits.
    rows : int, default=16384
        Number of training rows; there are half as many test rows. Raising it takes longer.
    progress : Progress, default=None
        Shows the method that is being fitted. None shows nothing.
    """
    progress = progress or NullProgress()
    budget = demo_budget(seed, rows)
    runs = {run.label: run for run in plan_runs([table.name], budget, tables={table.name: table})}
    records = []
    for label in (table.reference, *table.methods):
        progress.start(label, total=len(table.columns))
        records.append(execute(runs[label], n_threads=None, progress=progress))
        progress.finish()
    return budget, records


def to_budget(name: str) -> Budget:
    """The budget of this name; raises ValueError if there is none."""
    if name not in BUDGETS:
        raise ValueError(f"budget must be one of {', '.join(BUDGETS)}; got {name!r}.")
    return BUDGETS[name]


def current_records(store: Store, budget: Budget) -> tuple[list[Record], int]:
    """Stored records of a budget that are up to date, and the number of those that are not."""
    arrays = ARRAY_TABLES if budget.has_arrays else ()
    planned = [*plan_runs(TABLES, budget), *plan_array_runs(arrays, budget)]
    runs = {run.key: run for run in planned}
    records = [record for record in store.records() if record.experiment == budget.name]
    current = [record for record in records if record.key in runs and runs[record.key].is_done_by(record)]
    return current, len(records) - len(current)


def _check_methods(methods: Sequence[str], tables: Sequence[PaperTable | ArrayTable], budget: Budget) -> None:
    """Raise ValueError unless every method is one of these tables."""
    labels = list(
        dict.fromkeys(
            label
            for table in tables
            for label in (table.methods if isinstance(table, ArrayTable) else budget.labels(table))
        )
    )
    for name in methods:
        if name not in labels:
            close = get_close_matches(name, labels, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            where = " and ".join(table.name for table in tables)
            raise ValueError(f"Methods of {where} are {', '.join(labels)}; got {name!r}.{hint}")


def _to_names(names: Sequence[str], budget: Budget) -> list[str]:
    choices = ", ".join([*TABLES, *ARRAY_TABLES, ALL])
    if not names:
        raise ValueError(f"Name at least one table or figure to reproduce: {choices}.")
    for name in names:
        if name not in (*TABLES, *ARRAY_TABLES, ALL):
            raise ValueError(f"Tables and figures to reproduce are {choices}; got {name!r}.")
        if name in ARRAY_TABLES and not budget.has_arrays:
            others = ", ".join(one.name for one in BUDGETS.values() if one.has_arrays)
            raise ValueError(f"{name} has no budget {budget.name}; choose one of {others}.")
    if ALL in names:
        arrays = ARRAY_TABLES.values() if budget.has_arrays else ()
        return [*TABLES, *(table.name for table in arrays if table.is_public)]
    return list(dict.fromkeys(names))
