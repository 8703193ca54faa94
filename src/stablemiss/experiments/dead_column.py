"""The first part of the demo: a column of a table dies. What happens to two models, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from stablemiss.data import Floats
from stablemiss.datasets import Dataset, make_flats
from stablemiss.diagnostics import Diagnosis, diagnose
from stablemiss.estimators import AnyMaskRegressor, MissingRegressor
from stablemiss.estimators.frames import make_frame
from stablemiss.evaluation import StressResult, stress_test
from stablemiss.evaluation.stress.plots import column_plot, curve_plot
from stablemiss.progress import NullProgress, Progress
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance

COLUMN = "area"
BEFORE, NOW = "before", "now"
LIGHTGBM, ANYMASK, ADAPTED = "LightGBM", "AnyMask", "AnyMask, adapted"
RETRAINED, CONSTANT = "LightGBM, retrained without it", "constant"
COVERAGE = 0.9
# Mechanisms and levels of the stress test.
MECHANISMS, LEVELS = ("MCAR", "MAR"), (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class DeadColumn:
    """What happened when a column died.

    Attributes
    ----------
    data : Dataset
        All flats; rows before the change are complete.
    column : str
        The column that died.
    records : dict
        Label → record, with the RMSE on rows before and after the change. For AnyMask, the scores have the
        coverage and mean width of intervals, too.
    actual : (n,)
        Rents of the rows after the change.
    predictions : dict
        LightGBM and AnyMask → (n,) predictions of these rows, without the column.
    intervals : dict
        "before" and "now" → (n, 2) intervals for these rows, with and without the column.
    diagnosis : Diagnosis
        Of the rows before and after the change, with a forecast for LightGBM.
    stress : StressResult
        LightGBM and AnyMask on rows before the change.
    """

    data: Dataset
    column: str
    records: Mapping[str, Record]
    actual: Floats
    predictions: Mapping[str, Floats]
    intervals: Mapping[str, Floats]
    diagnosis: Diagnosis
    stress: StressResult

    def score(self, label: str, when: str) -> Score | None:
        """Score of a model before or after the change; None if it was not made for that."""
        scores = {score.mechanism: score for score in self.records[label].scores}
        return scores.get(when)

    def r2(self, label: str, when: str) -> float | None:
        """Share of the variance of the rents that a model explains."""
        score, constant = self.score(label, when), self.score(CONSTANT, when)
        if score is None or score.error is None or constant is None or constant.error is None:
            return None
        return 1 - (score.error / constant.error) ** 2

    def stress_plots(self) -> tuple[dict[str, str], str]:
        """Errors of both models for each mechanism, and costs of losing columns, as ``<svg>`` elements."""
        models = (LIGHTGBM, ANYMASK)
        curves = {
            mechanism: curve_plot(
                self.stress,
                [(model, mechanism, model) for model in models],
                f"stress-{mechanism}",
                f"RMSE of both models against the share of values missing, {mechanism}",
            )
            for mechanism in self.stress.mechanisms
        }
        return curves, column_plot(self.stress, models, "stress-columns")


def run_dead_column(seed: int = 0, rows: int = 4000, progress: Progress | None = None) -> DeadColumn:
    """Fit LightGBM and AnyMask to flats to let, let a column die, and do what a user would do then.

    Parameters
    ----------
    seed : int, default=0
        Fixes the table and the fits.
    rows : int, default=4000
        Number of training rows; there are a quarter as many before and after the change. Raising it takes
        longer and makes both models more accurate.
    progress : Progress, default=None
        Shows the current step. None shows nothing.
    """
    steps = _Steps(progress or NullProgress())
    n_test = max(rows // 4, 40)
    data = make_flats(rows + 2 * n_test, seed)
    train, before, now = (
        slice(start, stop) for start, stop in ((0, rows), (rows, rows + n_test), (rows + n_test, None))
    )
    y = data.y
    X_train, X_before, complete = (_frame(data, part) for part in (train, before, now))
    X_now = _frame(data, now, without=(COLUMN,))
    lightgbm = MissingRegressor("boosting", random_state=seed, on_unseen_missing="ignore")
    anymask = AnyMaskRegressor(budget="fast", random_state=seed)
    with steps("LightGBM"):
        lightgbm.fit(X_train, y[train])
    with steps("AnyMask, budget fast"):
        anymask.fit(X_train, y[train])
    with steps("diagnosis"):
        diagnosis = diagnose(X_before, X_now, lightgbm, y[before])
    with steps("adaptation"):
        adapted = anymask.adapt(X_now, X_train, y[train])
    with steps("LightGBM, retrained"):
        others = [name for name in data.feature_names if name != COLUMN]
        retrained = MissingRegressor("boosting", random_state=seed).fit(
            _frame(data, train, names=others), y[train]
        )
    with steps("stress test"):
        stress = stress_test(
            {LIGHTGBM: lightgbm, ANYMASK: anymask}, X_before, y[before], MECHANISMS, LEVELS, random_state=seed
        )

    predictions = {LIGHTGBM: lightgbm.predict(X_now), ANYMASK: anymask.predict(X_now)}
    intervals = {
        BEFORE: anymask.predict_interval(complete, coverage=COVERAGE),
        NOW: anymask.predict_interval(X_now, coverage=COVERAGE),
    }
    mean = np.average(y[train])
    before_intervals = anymask.predict_interval(X_before, coverage=COVERAGE)
    scores = {
        LIGHTGBM: (
            _score(BEFORE, lightgbm.predict(X_before), y[before]),
            _score(NOW, predictions[LIGHTGBM], y[now]),
        ),
        ANYMASK: (
            _score(BEFORE, anymask.predict(X_before), y[before], before_intervals),
            _score(NOW, predictions[ANYMASK], y[now], intervals[NOW]),
        ),
        ADAPTED: (
            _score(NOW, adapted.predict(X_now), y[now], adapted.predict_interval(X_now, coverage=COVERAGE)),
        ),
        RETRAINED: (_score(NOW, retrained.predict(_frame(data, now, names=others)), y[now]),),
        CONSTANT: (_score(BEFORE, mean, y[before]), _score(NOW, mean, y[now])),
    }
    seconds = {
        LIGHTGBM: steps.seconds["LightGBM"],
        ANYMASK: steps.seconds["AnyMask, budget fast"],
        ADAPTED: steps.seconds["adaptation"],
        RETRAINED: steps.seconds["LightGBM, retrained"],
    }
    models: dict[str, Any] = {LIGHTGBM: lightgbm, ANYMASK: anymask, ADAPTED: adapted, RETRAINED: retrained}
    records = {
        label: Record(
            experiment="demo",
            dataset="flats",
            mechanism="none",
            level=0.0,
            instance=0,
            label=label,
            seed=seed,
            scores=of_label,
            settings={"column": COLUMN},
            config=describe(models[label]) if label in models else {},
            n_rows=rows,
            n_test_rows=n_test,
            n_features=len(data.feature_names),
            fit_seconds=seconds.get(label),
            **provenance(),
        )
        for label, of_label in scores.items()
    }
    return DeadColumn(data, COLUMN, records, y[now], predictions, intervals, diagnosis, stress)


class _Steps:
    """Reports each step to `progress` and measures its seconds."""

    def __init__(self, progress: Progress):
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self._start = 0.0

    def __call__(self, name: str) -> _Steps:
        self._name = name
        return self

    def __enter__(self) -> None:
        self.progress.start(self._name, total=None)
        self._start = perf_counter()

    def __exit__(self, *exception: object) -> None:
        self.seconds[self._name] = perf_counter() - self._start
        self.progress.finish()


def _frame(data: Dataset, rows: slice, without: Sequence[str] = (), names: Sequence[str] = ()) -> Any:
    """Rows as a data frame, with NaN in the columns of `without`, or only with the columns of `names`."""
    columns = dict(zip(data.feature_names, data.X[rows].T, strict=True))
    dead = {name: np.full(len(columns[name]), np.nan) for name in without}
    columns = {name: np.ascontiguousarray(column) for name, column in {**columns, **dead}.items()}
    return make_frame({name: columns[name] for name in names or columns}, {}, like=None)


def _score(when: str, prediction: Any, y: Floats, intervals: Floats | None = None) -> Score:
    error = float(np.sqrt(np.mean((prediction - y) ** 2)))
    if intervals is None:
        return Score(when, None, error)
    low, high = intervals.T
    covered = float(np.mean((low <= y) & (y <= high)))
    return Score(when, None, error, extra={"coverage": covered, "width": float(np.mean(high - low))})
