"""A cell in, its row out: the one function that workers call, wherever they are."""

from __future__ import annotations

import platform
import resource
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from stablemiss.base.search_space import Choice, Space
from stablemiss.data import Floats
from stablemiss.estimators import MissingRegressor
from stablemiss.estimators.missing import to_method_with
from stablemiss.evaluation.provenance import describe, source_digest, versions
from stablemiss.experiments.budgets import BENT, BUDGETS, LABELS, Budget, settings_of
from stablemiss.experiments.cells import Cell
from stablemiss.experiments.exhibit import LINEAR, OPTIMAL
from stablemiss.experiments.problems import POPULATIONS, Problem, draw_problem
from stablemiss.methods import METHODS, Method
from stablemiss.torch_state import torch_threads

# What these parameters are where a predictor is linear.
STRAIGHT: dict[str, Any] = {"hidden": (), "architecture": "linear"}
# What a row says about the run rather than about the result: it differs from run to run.
MEASURED = ("seconds", "fit_seconds", "predict_seconds", "peak_memory", "finished")


def run_cell(cell: Cell) -> dict[str, Any]:
    """Fit and test; whatever goes wrong becomes the row's `error`.

    Returns
    -------
    dict
        The cell; ``scores`` (a list of mechanism, level and rmse); ``error`` (None or the reason why there are
        none); ``config`` of what was fitted; rows and columns; seconds, bytes, versions and the time.
    """
    start = datetime.now(UTC)
    row: dict[str, Any] = {
        "key": cell.key,
        "budget": cell.budget,
        "dataset": cell.dataset,
        "train_mechanism": cell.mechanism,
        "train_level": cell.level,
        "instance": cell.instance,
        "label": cell.label,
        "given": given(cell),
        "scores": [],
        "error": None,
    }
    _forget_peak()
    try:
        # One thread each: cells run side by side, and a score must not depend on how many do.
        with threadpool_limits(1), torch_threads(1):
            row |= _score(cell, BUDGETS[cell.budget])
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"
    return row | {
        "seed": cell.seed,
        "peak_memory": _peak_memory(),
        "versions": versions(),
        "source": source_digest(),
        "seconds": (datetime.now(UTC) - start).total_seconds(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def given(cell: Cell) -> dict[str, Any]:
    """What a row depends on besides its cell's key; a row that was given something else is out of date."""
    budget = BUDGETS[cell.budget]
    return {
        "method": None if cell.label in (OPTIMAL, LINEAR) else describe(_method(cell, budget)),
        "n_features": budget.n_features,
        "n_rows": budget.n_rows,
        "n_test_rows": budget.n_test_rows,
        "n_real_rows": budget.n_real_rows,
        "n_trials": budget.n_trials,
        "seed": cell.seed,
    }


def searched(label: str, space: Space, is_real: bool) -> Space:
    """The part of a method's search space that leaves a label what it is.

    Examples
    --------
    >>> space = {"hidden": Choice((), (128,), (512,))}
    >>> searched("stablenet", space, is_real=True)
    {'hidden': Choice(values=((128,), (512,)))}
    >>> searched("stablenet", space, is_real=False)
    {}
    """
    name, own = LABELS[label]
    # PAPER: predictors are linear on synthetic data, networks on real data; NeuMiss may be either everywhere.
    bent = set() if name == "neumiss" else {*BENT.get(name, {})}
    found: Space = {}
    for key, choice in space.items():
        if key in own:
            continue
        if key in bent and isinstance(choice, Choice):
            values = [value for value in choice.values if value != STRAIGHT[key]]
            if is_real and len(values) > 1:
                found[key] = Choice(*values)
        else:
            found[key] = choice
    return found


def _method(cell: Cell, budget: Budget) -> Method:
    name, settings = settings_of(cell.label, cell.mechanism, cell.dataset not in POPULATIONS, budget)
    kind = METHODS[name]
    return kind(**{**(kind.brief if budget.is_brief else {}), **settings})


def _score(cell: Cell, budget: Budget) -> dict[str, Any]:
    problem = draw_problem(cell, budget)
    start = perf_counter()
    predict, config = _learn(cell, budget, problem)
    fit_seconds = perf_counter() - start
    start = perf_counter()
    scores = [
        {"mechanism": test.mechanism, "level": test.level, "rmse": _rmse(predict(hidden), problem.y_test)}
        for test, hidden in problem.tests.items()
    ]
    return {
        "scores": scores,
        "config": config,
        "n_rows": len(problem.y),
        "n_test_rows": len(problem.y_test),
        "n_features": problem.X.shape[1],
        "fit_seconds": fit_seconds,
        "predict_seconds": perf_counter() - start,
    }


def _learn(cell: Cell, budget: Budget, problem: Problem) -> tuple[Any, dict[str, Any]]:
    """What predicts, and how it was set."""
    if cell.label in (OPTIMAL, LINEAR):
        if problem.population is None:
            raise ValueError(f"The truth behind {cell.dataset} is not known.")
        known = problem.population
        return (known.bayes if cell.label == OPTIMAL else known.linear_bayes), {}
    method = _method(cell, budget)
    model = MissingRegressor(
        method,
        random_state=cell.seed,
        validation_fraction=problem.validation_fraction,
        # The shift is what is measured here; a warning about it would be no news.
        on_unseen_missing="ignore",
    )
    # What makes the label what it is stays; all else may be searched.
    space = searched(cell.label, method.space, is_real=problem.population is None)
    if budget.n_trials and space:
        # Optuna is installed for those who search.
        from stablemiss.tuning import tune

        tuned = tune(
            model,
            problem.X,
            problem.y,
            n_trials=budget.n_trials,
            space=space,
            random_state=cell.seed,
        )
        model = tuned.estimator()
    model.fit(problem.X, problem.y)
    return model.predict, describe(to_method_with(model.method, model.params))


def _rmse(prediction: Floats, target: Floats) -> float:
    rmse = float(np.sqrt(np.mean((prediction - target) ** 2)))
    if not np.isfinite(rmse):
        raise FloatingPointError("Some predictions are no finite numbers.")
    return rmse


def _forget_peak() -> None:
    """Let the peak of this process's memory count from now on, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int:
    """The most bytes this process held since `_forget_peak`, or ever."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
