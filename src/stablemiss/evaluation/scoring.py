"""Fit a model once and score it under many missingness mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import log_loss, root_mean_squared_error

from stablemiss.data import Floats
from stablemiss.progress import NullProgress, Progress
from stablemiss.results import Score


@dataclass(frozen=True, order=True)
class TestSetting:
    """Missingness of test rows: a mechanism's name, and its missing rate (None if it is not adjustable).

    See Also
    --------
    TestSets : Test rows under several settings.
    """

    # pytest would collect a class with this name as a test.
    __test__: ClassVar[bool] = False

    mechanism: str
    level: float | None = None


@dataclass(frozen=True, eq=False)
class TestSets:
    """The same test rows under several mechanisms.

    See Also
    --------
    fit_and_score : Scores a method on them.
    """

    __test__: ClassVar[bool] = False

    X: Mapping[TestSetting, Floats]  # (n, d) rows, or arrays, NaN where missing
    y: NDArray  # (n,) targets, or arrays, NaN where not observed
    # Further measurements, stored with a score: from a setting and the predictions under it.
    measure: Callable[[TestSetting, NDArray], dict[str, Any]] | None = None


class Scores(NamedTuple):
    """Scores of a fitted model, and the time to fit it and to predict all test rows."""

    scores: tuple[Score, ...]
    metric: str
    fit_seconds: float
    predict_seconds: float


def fit_and_score(
    model: Any, X: NDArray, y: NDArray, tests: TestSets, progress: Progress | None = None
) -> Scores:
    """Fit a model once, then score it on the test rows under each mechanism.

    Parameters
    ----------
    model : estimator
        Any scikit-learn estimator that accepts NaN. It is fitted in place.
    X : (n, d)
        Training rows, NaN where missing.
    y : (n,)
        Their targets.
    tests : TestSets
        The test rows under each mechanism.
    progress : Progress, default=None
        Updated after each test setting.

    Returns
    -------
    Scores
        RMSE for regressors, log loss of the class probabilities for classifiers.

    See Also
    --------
    stress_test : Score estimators under many kinds of missingness.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> missing = np.where([True, False], np.nan, X)
    >>> tests = TestSets({TestSetting("clean"): X, TestSetting("outage"): missing}, X.sum(axis=1))
    >>> model = MissingRegressor("ols", random_state=0, on_unseen_missing="ignore")
    >>> [round(score.error, 1) for score in fit_and_score(model, X, X.sum(axis=1), tests).scores]
    [0.0, 1.0]
    """
    progress = progress or NullProgress()
    start = perf_counter()
    model.fit(X, y)
    fit_seconds = perf_counter() - start
    scores = []
    for done, (setting, rows) in enumerate(tests.X.items(), start=1):
        start = perf_counter()
        prediction = model.predict_proba(rows) if is_classifier(model) else model.predict(rows)
        seconds = perf_counter() - start
        error = _error(model, prediction, tests.y)
        extra = {} if tests.measure is None else tests.measure(setting, prediction)
        scores.append(Score(setting.mechanism, setting.level, error, seconds, extra))
        progress.update(done, f"tested under {setting.mechanism}")
    metric = "log loss" if is_classifier(model) else "rmse"
    return Scores(tuple(scores), metric, fit_seconds, sum(score.predict_seconds or 0.0 for score in scores))


def _error(model: Any, prediction: Floats, y: NDArray) -> float:
    """Log loss of class probabilities, or RMSE of numbers."""
    if is_classifier(model):
        return float(log_loss(y, prediction, labels=model.classes_))
    error = np.inf
    if np.isfinite(prediction).all():
        # The square of a finite prediction can overflow, too.
        with np.errstate(over="ignore"):
            # Arrays: pooled over all cells that are observed.
            error = (
                float(np.sqrt(np.nanmean(np.square(prediction - y))))
                if np.ndim(y) > 2
                else float(root_mean_squared_error(y, prediction))
            )
    if not np.isfinite(error):
        raise FloatingPointError("Some predictions are not finite or too large to compute their RMSE.")
    return error
