"""Test models under many settings, and reduce the losses of their rows to errors with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from stablemiss.data import Floats
from stablemiss.evaluation.stress.models import StressedModel, losses_under
from stablemiss.evaluation.stress.result import ModelComparison, StressScore
from stablemiss.evaluation.stress.rows import TestRows
from stablemiss.evaluation.stress.settings import ALL, AS_GIVEN, Setting
from stablemiss.progress import Progress
from stablemiss.row_losses import Metric

# Settings whose losses are in memory at the same time.
BATCH = 8


class Losses(NamedTuple):
    """Losses of the rows under one setting.

    Attributes
    ----------
    setting : Setting
    missing_share : float
        Share of values that are missing.
    by_model : list of (n,) float64, or str
        For each model, the losses, or why it failed.
    """

    setting: Setting
    missing_share: float
    by_model: list[Floats | str]


@dataclass(frozen=True, eq=False)
class Bench:
    """Models, the rows on which they are tested, and how.

    Attributes
    ----------
    rows : TestRows
    models : list of StressedModel
    metric : Metric
    n_jobs : int or None
        Number of parallel jobs.
    progress : Progress
    """

    rows: TestRows
    models: list[StressedModel]
    metric: Metric
    n_jobs: int | None
    progress: Progress

    def at_rows(self, index: NDArray) -> Bench:
        """The same models on a selection of the rows."""
        models = [model.at_rows(index) for model in self.models]
        return Bench(self.rows.rows(index), models, self.metric, self.n_jobs, self.progress)

    def test(self, settings: Sequence[Setting], description: str) -> Iterator[Losses]:
        """Losses under each setting; a few settings at a time, so that memory does not grow with them.

        Parameters
        ----------
        settings : sequence of Setting
        description : str
            What is tested, for the progress bar.
        """
        batch = max(BATCH, 2 * effective_n_jobs(self.n_jobs))
        self.progress.start(description, len(settings))
        with Parallel(n_jobs=self.n_jobs) as parallel:
            for start in range(0, len(settings), batch):
                part = settings[start : start + batch]
                results = parallel(
                    delayed(losses_under)(self.rows, self.models, self.metric, setting) for setting in part
                )
                for setting, (share, by_model) in zip(part, results, strict=True):
                    yield Losses(setting, share, by_model)
                self.progress.update(start + len(part))
        self.progress.finish()


@dataclass(frozen=True)
class Tested:
    """Scores of all models under all settings.

    Attributes
    ----------
    order : list of str
        Names of the models, the lowest error over all settings first.
    scores : list of StressScore
    comparisons : list of ModelComparison
    notes : list of str
        Which predictions failed.
    """

    order: list[str]
    scores: list[StressScore]
    comparisons: list[ModelComparison]
    notes: list[str]


def score_settings(bench: Bench, settings: Sequence[Setting]) -> Tested:
    """Score the models under all settings, of which the first is the table as given."""
    metric, names = bench.metric, [model.name for model in bench.models]
    constant = metric.error(metric.constant_losses(bench.rows.y))
    baseline: list[Floats] = []
    scores: list[StressScore] = []
    # Sums of the losses of each row over the levels of a mechanism.
    pools: dict[str, list[Floats]] = {}
    counts: dict[str, int] = {}
    notes: list[str] = []
    for setting, share, by_model in bench.test(settings, "stress test"):
        losses = [_or_nan(loss, len(bench.rows)) for loss in by_model]
        baseline = baseline or losses
        for name, loss, given, result in zip(names, losses, baseline, by_model, strict=True):
            scores.append(_score(metric, setting, name, share, loss, given, constant))
            if isinstance(result, str):
                level = "" if setting.level is None else f" at level {setting.level:g}"
                notes.append(f"{name!r} could not predict under {setting.mechanism}{level}: {result}")
        for pool in {setting.mechanism, AS_GIVEN if setting.hides is None else ALL}:
            sums = pools.get(pool)
            pools[pool] = losses if sums is None else [a + b for a, b in zip(sums, losses, strict=True)]
            counts[pool] = counts.get(pool, 0) + 1
    means = {pool: [total / counts[pool] for total in sums] for pool, sums in pools.items()}
    # Models that failed under some setting come last.
    order = np.argsort([np.nan_to_num(metric.error(mean), nan=np.inf) for mean in means[ALL]], kind="stable")
    ordered = [names[i] for i in order]
    comparisons = [
        _comparison(metric, names, means[pool], order[0], other, pool)
        for other in order[1:]
        for pool in (ALL, *(pool for pool in means if pool != ALL))
    ]
    scores.sort(key=lambda score: ordered.index(score.model))
    return Tested(ordered, scores, comparisons, notes)


def _score(
    metric: Metric,
    setting: Setting,
    name: str,
    share: float,
    losses: Floats,
    baseline: Floats,
    constant: float,
) -> StressScore:
    error, given = metric.error(losses), metric.error(baseline)
    increase, low, high = metric.difference(losses, baseline)
    return StressScore(
        model=name,
        mechanism=setting.mechanism,
        level=setting.level,
        missing_share=share,
        error=error,
        standard_error=metric.standard_error(losses),
        increase=increase,
        low=low,
        high=high,
        relative_increase=increase / given if given > 0 else float("nan"),
        worse_than_constant=error > constant,
        n_rows=len(losses),
    )


def _comparison(
    metric: Metric, names: list[str], losses: list[Floats], first: int, other: int, pool: str
) -> ModelComparison:
    difference, low, high = metric.difference(losses[first], losses[other])
    return ModelComparison(
        names[first],
        names[other],
        pool,
        metric.error(losses[first]),
        metric.error(losses[other]),
        difference,
        low,
        high,
    )


def _or_nan(loss: Floats | str, n: int) -> Floats:
    return np.full(n, np.nan) if isinstance(loss, str) else loss
