"""Execute a run and return its record: the function that workers call, on this machine or a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import PredefinedSplit
from threadpoolctl import threadpool_limits

from stablemiss.architectures import GraphTemporal
from stablemiss.base.method import Method
from stablemiss.base.search_space import Choice, Space
from stablemiss.data import Floats
from stablemiss.datasets import Graph
from stablemiss.estimators import MissingRegressor, OutOfRangeWarning
from stablemiss.estimators.missing import method_with_params
from stablemiss.evaluation import fit_and_score
from stablemiss.experiments.array_methods import WITHOUT_GRAPH
from stablemiss.experiments.budgets import LABELS, PAPER_SPACE
from stablemiss.experiments.problem import Problem
from stablemiss.experiments.runs import Run
from stablemiss.experiments.tables import OPTIMAL
from stablemiss.progress import Progress
from stablemiss.results import Record
from stablemiss.results.provenance import describe, peak_memory, provenance, reset_peak_memory
from stablemiss.torch_state import torch_threads

# Values of these parameters with which a predictor is linear.
LINEAR_VALUES: dict[str, Any] = {"hidden": (), "architecture": "linear"}
# Methods with such a parameter. PAPER: they are linear on synthetic data, networks on real data; NeuMiss may
# be either on both.
LINEAR_OR_NOT = {"stablenet": "hidden", "stablemiss": "architecture"}


def execute(run: Run, n_threads: int | None = 1, progress: Progress | None = None) -> Record:
    """Fit and test a model. An exception becomes the record's `failure`.

    Parameters
    ----------
    run : Run
    n_threads : int, default=1
        Threads of a fit. The default is one, because runs are executed in parallel and a score must not
        depend on the number of threads. None leaves the choice to the libraries.
    progress : Progress, default=None
        Updated after each test.
    """
    start = perf_counter()
    reset_peak_memory()
    outcome: dict[str, Any]
    try:
        with threadpool_limits(n_threads) if n_threads else nullcontext(), torch_threads(n_threads):
            outcome = _score(run, progress)
    except Exception as error:
        outcome = {"failure": f"{type(error).__name__}: {error}"}
    seconds = perf_counter() - start
    return run.record(**outcome, peak_memory=peak_memory(), seconds=seconds, **provenance())


class KnownPredictor(RegressorMixin, BaseEstimator):
    """The exact predictor of a population as an estimator; `fit` does nothing."""

    def __init__(self, predictor: Callable[[Floats], Floats]):
        self.predictor = predictor

    def fit(self, X: Floats, y: Floats) -> KnownPredictor:
        return self

    def predict(self, X: Floats) -> Floats:
        return self.predictor(X)


def _score(run: Run, progress: Progress | None) -> dict[str, Any]:
    problem = run.problem()
    start = perf_counter()
    with warnings.catch_warnings():
        # A few test rows lie far outside the range of the training rows; all methods receive the same rows.
        warnings.simplefilter("ignore", OutOfRangeWarning)
        method = with_graph(run.method(), None if run.label in WITHOUT_GRAPH else problem.graph)
        model, config = _model(run, method, problem)
        search_seconds = perf_counter() - start
        X, y = problem.X, problem.y
        if getattr(method, "trains_on_validation", method is not None):
            # A method without choices, and a reference, is trained on all rows that it gets.
            X, y = X[~problem.is_validation], y[~problem.is_validation]
        result = fit_and_score(model, X, y, problem.tests, progress)
    return {
        **result._asdict(),
        "extra": _measurements(model),
        # A search is part of what the fit costs.
        "fit_seconds": search_seconds + result.fit_seconds,
        "config": config,
        # Without validation rows that were drawn in addition.
        "n_rows": len(problem.y) - (run.budget.n_validation_rows or 0 if not run.is_real else 0),
        "n_test_rows": len(problem.tests.y),
        "n_features": int(np.prod(problem.X.shape[1:])),
    }


def with_graph(method: Any, graph: Graph | None) -> Any:
    """The method with the graph of the sensors, if it uses one."""
    if graph is None:
        return method
    parameters = method.get_params()
    for name in ("architecture", "network__architecture"):
        if isinstance(architecture := parameters.get(name), GraphTemporal):
            return method.set_params(**{name: replace(architecture, graph=graph)})
    return method.set_params(graph=graph) if "graph" in parameters else method


def _model(run: Run, method: Any, problem: Problem) -> tuple[Any, dict[str, Any]]:
    """The estimator of a run, after a search if the budget asks for one, and its parameters."""
    if method is not None and not isinstance(method, Method):
        seeds = [name for name in method.get_params() if name.split("__")[-1] == "random_state"]
        method.set_params(**dict.fromkeys(seeds, run.seed))
        return method, describe(method)
    if method is None:
        if problem.population is None:
            raise ValueError(f"The best predictor for {run.dataset} is not known.")
        known = problem.population
        return KnownPredictor(known.bayes if run.label == OPTIMAL else known.linear_bayes), {}
    model = MissingRegressor(
        method,
        random_state=run.seed,
        # The shift is intended, so a warning about it is redundant.
        on_unseen_missing="ignore",
    )
    whole_space = PAPER_SPACE.get(method.name, method.space)
    space = {} if run.is_array else searched_space(run.label, whole_space, run.is_real)
    if run.budget.n_trials and space:
        # optuna is an optional dependency.
        from stablemiss.tuning import tune

        is_training = ~problem.is_validation
        tuned = tune(
            model,
            problem.X[is_training],
            problem.y[is_training],
            n_trials=run.budget.n_trials,
            space=space,
            random_state=run.seed,
        )
        model = tuned.estimator()
    if not method.trains_on_validation:
        # The same validation rows for all methods.
        model.set_params(validation_split=PredefinedSplit(np.where(problem.is_validation, 0, -1)))
    return model, describe(method_with_params(model.method, model.params))


def _measurements(model: Any) -> dict[str, Any]:
    """What is known about the training of a fitted model: row weights, chosen γ, epochs."""
    predictor = getattr(model, "predictor_", None)
    history = getattr(predictor, "history", [])
    weighting = getattr(predictor, "weighting", None)
    measured = {
        "effective_share": getattr(predictor, "effective_share", None),
        "gamma": None if weighting is None else weighting.gamma,
        "critical_gamma": None if weighting is None else weighting.critical_gamma,
        "n_epochs": sum(len(stage.losses) for stage in history) or None,
        "best_epoch": history[-1].best_epoch if history else None,
    }
    return {name: value for name, value in measured.items() if value is not None}


def searched_space(label: str, space: Space, is_real: bool) -> Space:
    """The search space of a method without the parameters that define the label.

    Examples
    --------
    >>> space = {"hidden": Choice((), (128,), (512,))}
    >>> searched_space("stablenet", space, is_real=True)
    {'hidden': Choice(values=((128,), (512,)))}
    >>> searched_space("stablenet", space, is_real=False)
    {}
    """
    name, defining = LABELS[label]
    has_strength = "gamma" not in defining and defining.get("decorrelate") != "none"
    searched: Space = {}
    for key, choice in space.items():
        # A linear g has no hidden layers.
        is_without_effect = (key == "strength" and not has_strength) or (key == "g_hidden" and not is_real)
        if key in defining or is_without_effect:
            continue
        if key == LINEAR_OR_NOT.get(name) and isinstance(choice, Choice):
            values = [value for value in choice.values if value != LINEAR_VALUES[key]]
            if is_real and len(values) > 1:
                searched[key] = Choice(*values)
        else:
            searched[key] = choice
    return searched
