"""The shift suite: any table, ten missingness mechanisms, and how much a model that was not retrained loses.

A model is fitted once, under a mechanism that hides cells in half of the columns. It is then tested under that mechanism
and nine others, against LightGBM fitted afresh to rows hidden by each. **Regret** is the model's error over
that of the retrained LightGBM, less one: 0 is as good as retraining, below 0 better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from stablemiss.anymask import univariate_importance
from stablemiss.data import Floats, to_table
from stablemiss.estimators import MissingClassifier, MissingRegressor
from stablemiss.evaluation.provenance import describe, versions
from stablemiss.methods import Boosting
from stablemiss.missingness import (
    MAR,
    MCARIndependent,
    MCARWindow,
    Mechanism,
    Only,
    Outage,
)
from stablemiss.progress import NullProgress, Progress
from stablemiss.seeding import Rng

TRAIN_MECHANISM = "train mechanism"
REFERENCE = "LightGBM, retrained"


class RegretRow(TypedDict):
    """One model under one mechanism, and all it takes to get the number again."""

    dataset: str
    mechanism: str
    mechanism_config: dict[str, Any]
    model: str
    config: Any
    metric: str
    error: float
    reference_error: float
    regret: float
    seed: int
    n_rows: int
    n_test_rows: int
    n_features: int
    fit_seconds: float
    predict_seconds: float
    versions: dict[str, str]
    finished: str


def shift_suite(X: NDArray, y: NDArray, rng: Rng, is_classes: bool = False) -> dict[str, Mechanism]:
    """Ten mechanisms for a table, the first of them, "train mechanism", to be trained under.

    Half of the columns, A, drawn at random, go missing in training; the others, B, never do. Cells that are
    missing anyway stay so under all mechanisms.

    Parameters
    ----------
    X : (n, d) numbers
        Training rows before anything is hidden; NaN where missing anyway.
    y : (n,)
        Their targets, by which the most importance columns are found.
    rng : numpy Generator
        Draws the halves and the mechanism of MAR.
    is_classes : bool
        Whether y holds classes rather than numbers.

    Returns
    -------
    dict
        "train mechanism": 30% of the cells of A. "clean": nothing. "heavier": 80% of A. "unseen light" and "unseen
        heavy": 30% and 80% of B. "all 50" and "all 80": of all cells. "MAR": half of the cells of most
        columns, hidden by others' values. "window": runs of half of the columns. "informative outage": the
        fifth of the columns that tell most about the target, all dark.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mechanisms = shift_suite(rng.normal(size=(50, 4)), rng.normal(size=50), rng)
    >>> len(mechanisms), next(iter(mechanisms))
    (10, 'train mechanism')
    """
    table = to_table(X)
    d = table.shape[1]
    order = rng.permutation(d)
    seen, unseen = sorted(order[: (d + 1) // 2].tolist()), sorted(order[(d + 1) // 2 :].tolist())

    def some(level: float, columns: Sequence[int]) -> Mechanism:
        return Only(MCARIndependent(level, spread=0), columns)

    importance = np.argsort(-univariate_importance(table, y, is_classes), kind="stable")[
        : max(1, round(d / 5))
    ]
    return {
        TRAIN_MECHANISM: some(0.3, seen),
        "clean": MCARIndependent(0.0),
        "heavier": some(0.8, seen),
        "unseen light": some(0.3, unseen),
        "unseen heavy": some(0.8, unseen),
        "all 50": MCARIndependent(0.5, spread=0),
        "all 80": MCARIndependent(0.8, spread=0),
        "MAR": MAR(0.5, spread=0).fit(table, rng),
        "window": MCARWindow(0.5, spread=0),
        "informative outage": Outage(sorted(importance.tolist())),
    }


def regret_under_shift(
    X: NDArray,
    y: NDArray,
    models: Mapping[str, Any],
    *,
    dataset: str,
    mechanisms: Sequence[str] | None = None,
    test_size: float = 0.2,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[RegretRow]:
    """Fit each model once under the train mechanism and score it under every mechanism of the suite.

    Errors are RMSE, or the log loss of class probabilities. All models see the same rows and the same holes.

    Parameters
    ----------
    X : (n, d) numbers
        The table, as complete as it is; NaN where missing.
    y : (n,)
        Floats to predict, or labels if the models are classifiers.
    models : dict
        Name → estimator with scikit-learn's interface that takes NaN; fitted copies are scored.
    dataset : str
        The table's name in the rows.
    mechanisms : sequence of str, optional
        Some of the suite's mechanisms; all by default.
    test_size : float
        Share of the rows to test on. More gives steadier scores and leaves fewer to learn from.
    seed : int
        Fixes split, mechanisms and holes.
    progress : Progress, optional

    Returns
    -------
    list of RegretRow
        For each mechanism the retrained reference (regret 0), then the models.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4))
    >>> rows = regret_under_shift(
    ...     X, X.sum(axis=1), {"ols": MissingRegressor("ols", on_unseen_missing="ignore")},
    ...     dataset="toy", mechanisms=["clean", "all 50"])
    >>> [(row["mechanism"], row["model"]) for row in rows][:2]
    [('clean', 'LightGBM, retrained'), ('clean', 'ols')]
    """
    progress = progress or NullProgress()
    table, y = to_table(X), np.asarray(y)
    classify = {is_classifier(model) for model in models.values()}
    if len(classify) > 1:
        raise ValueError("The models must be all regressors or all classifiers, but both came.")
    is_classes = classify == {True}
    split_seed, mechanism_seed, train_seed, test_seed = np.random.SeedSequence(seed).spawn(4)
    train, test = train_test_split(
        np.arange(len(table)),
        test_size=test_size,
        random_state=int(split_seed.generate_state(1)[0]),
        stratify=y if is_classes else None,
    )
    suite = shift_suite(table[train], y[train], np.random.default_rng(mechanism_seed), is_classes)
    unknown = set(mechanisms or ()) - set(suite)
    if unknown:
        raise ValueError(
            f"The suite has the mechanisms {', '.join(suite)}, but not {', '.join(sorted(unknown))}."
        )
    X_train = suite[TRAIN_MECHANISM].hide(table[train], np.random.default_rng(train_seed))
    fitted: dict[str, tuple[Any, float]] = {}
    for name, model in models.items():
        progress.start(f"{dataset}: {name}")
        start = perf_counter()
        fitted[name] = clone(model).fit(X_train, y[train]), perf_counter() - start
        progress.finish()

    estimator = MissingClassifier if is_classes else MissingRegressor
    rows: list[RegretRow] = []
    for name in mechanisms or list(suite):
        mechanism = suite[name]
        hidden = mechanism.hide(table[test], np.random.default_rng(test_seed))
        reference = estimator(Boosting(), random_state=seed, on_unseen_missing="ignore")
        progress.start(f"{dataset}: {REFERENCE} under {name}")
        start = perf_counter()
        reference.fit(mechanism.hide(table[train], np.random.default_rng(train_seed)), y[train])
        retrained = reference, perf_counter() - start
        reference_error = None
        for label, (model, fit_seconds) in {REFERENCE: retrained, **fitted}.items():
            start = perf_counter()
            error = _error(model, hidden, y[test], is_classes)
            seconds = perf_counter() - start
            reference_error = error if reference_error is None else reference_error
            rows.append(
                RegretRow(
                    dataset=dataset,
                    mechanism=name,
                    mechanism_config=describe(mechanism),
                    model=label,
                    config=describe(model),
                    metric="log loss" if is_classes else "rmse",
                    error=error,
                    reference_error=reference_error,
                    regret=error / reference_error - 1,
                    seed=seed,
                    n_rows=len(train),
                    n_test_rows=len(test),
                    n_features=table.shape[1],
                    fit_seconds=fit_seconds,
                    predict_seconds=seconds,
                    versions=versions(),
                    finished=datetime.now(UTC).isoformat(timespec="seconds"),
                )
            )
        progress.finish()
    return rows


def _error(model: Any, X: Floats, y: NDArray, is_classes: bool) -> float:
    if is_classes:
        return float(log_loss(y, model.predict_proba(X), labels=model.classes_))
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
