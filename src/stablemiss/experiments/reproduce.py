"""Run what tables and figures need, and keep every row as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stablemiss.datasets import load_house_sales
from stablemiss.experiments.budgets import BUDGETS, LABELS, Budget
from stablemiss.experiments.cells import Cell, cells_of, is_of
from stablemiss.experiments.exhibits import EXHIBITS, LATER
from stablemiss.experiments.patterns import PATTERNS, pattern_rows
from stablemiss.experiments.run_cell import given, run_cell
from stablemiss.experiments.store import Store
from stablemiss.experiments.workers import as_completed, check_backend
from stablemiss.progress import NullProgress, Progress

ALL = "all"


def reproduce(
    names: Sequence[str],
    budget: str = "standard",
    folder: str | Path = "paper/results",
    methods: Sequence[str] | None = None,
    jobs: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Rows of some of the paper's tables and figures, computed unless they are stored already.

    Each row is added to ``<folder>/<budget>.jsonl`` as soon as it is there. Killed and called again, the run
    goes on where it was. Rows that were made with other settings than today's are made again.

    Parameters
    ----------
    names : sequence of str
        Such as "table1" and "figure2", "patterns" (the picture of the missing patterns), or "all".
    budget : "quick", "standard" or "paper"
        What it may cost: minutes, hours, or far more.
    folder : path
        Where rows are kept; it must be there.
    methods : sequence of str, optional
        Only these of `stablemiss.experiments.budgets.LABELS`, and what they are compared with.
    jobs, backend, scheduler
        Who computes; see `stablemiss.experiments.workers.as_completed`.
    retry_failed : bool
        Cells whose stored row is a failure are run again.
    progress : Progress
        Told which cell ended, and how many are left.

    Returns
    -------
    list of dict
        A row for each cell that the names need; see `stablemiss.experiments.run_cell`.

    Examples
    --------
    >>> rows = reproduce(["table1"], budget="quick", folder="results", jobs=2)  # doctest: +SKIP
    """
    progress = progress or NullProgress()
    price = to_budget(budget)
    names = to_exhibits(names)
    cells = cells_of([name for name in names if name != PATTERNS], price, to_labels(methods))
    check_backend(backend, scheduler, jobs)
    store = Store(Path(folder) / f"{budget}.jsonl")
    with store.adding() as add:
        missing = _missing(cells, store, retry_failed)
        if any(cell.dataset == "house_sales" for cell in missing):
            # Absent data are told once, before the first fit, and not by every cell.
            load_house_sales()
        progress.start(f"{len(missing)} of {len(cells)} fits", total=len(missing))
        for done, row in enumerate(as_completed(run_cell, missing, jobs, backend, scheduler), start=1):
            add(row)
            outcome = f"{row['seconds']:.0f} s" if row["error"] is None else f"failed: {row['error']}"
            progress.update(done, f"{row['key']}: {outcome}")
        progress.finish()
        pictures = pattern_rows(budget) if PATTERNS in names else []
        stored = {row["key"] for row in store.rows()}
        for row in pictures:
            if row["key"] not in stored:
                add(row)
    keys = {cell.key for cell in cells} | {row["key"] for row in pictures}
    return [row for row in store.rows() if row["key"] in keys]


def to_exhibits(names: Sequence[str]) -> list[str]:
    """Names of tables, figures and pictures that can be run; "all" stands for every one."""
    known = [*EXHIBITS, PATTERNS]
    if not names:
        raise ValueError(f"Name what to reproduce: {', '.join([*known, ALL])}.")
    for name in names:
        if name in LATER:
            raise ValueError(f"{name} needs {LATER[name]}, which stablemiss cannot run yet.")
        if name not in (*known, ALL):
            raise ValueError(f"There is no {name!r} to reproduce; choose from {', '.join([*known, ALL])}.")
    return known if ALL in names else list(dict.fromkeys(names))


def to_labels(methods: Sequence[str] | None) -> list[str]:
    """What may be fitted: all labels unless some are named."""
    for name in methods or ():
        if name not in LABELS:
            raise ValueError(f"There is no method {name!r} in the tables; choose from {', '.join(LABELS)}.")
    return list(methods or LABELS)


def to_budget(name: str) -> Budget:
    if name not in BUDGETS:
        raise ValueError(f"There is no budget {name!r}; choose from {', '.join(BUDGETS)}.")
    return BUDGETS[name]


def current_rows(store: Store, budget: Budget) -> tuple[list[dict[str, Any]], int]:
    """Stored rows that a run would keep, and how many it would make again: other settings than today's.

    Rows of other settings must not stand beside today's: even the population may be another.
    """
    wanted = {cell.key: cell for cell in cells_of(EXHIBITS, budget)}
    rows = [row for row in store.rows() if row["budget"] == budget.name]
    kept = [
        row
        for row in rows
        if "mask" in row or (row["key"] in wanted and _is_current(row, wanted[row["key"]]))
    ]
    return kept, len(rows) - len(kept)


def _is_current(row: dict[str, Any], cell: Cell) -> bool:
    return is_of(row, cell) and row.get("given") == given(cell)


def _missing(cells: list[Cell], store: Store, retry_failed: bool) -> list[Cell]:
    stored = {row["key"]: row for row in store.rows()}

    def is_done(cell: Cell) -> bool:
        row = stored.get(cell.key)
        if row is None or (retry_failed and row["error"] is not None):
            return False
        return _is_current(row, cell)

    return [cell for cell in cells if not is_done(cell)]
