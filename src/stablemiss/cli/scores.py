"""Errors of predictions. They are computed from sums over rows, so that rows need not be kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from stablemiss.data import Floats
    from stablemiss.estimators.base import MissingEstimator

# Numbers of missing columns at which a row of the table begins.
BIN_STARTS = (*range(12), 21, 51)
# Adjacent bins that both have fewer rows are combined.
MIN_BIN_ROWS = 20
# A probability of zero would make the log loss infinite.
MIN_PROBABILITY = np.finfo(np.float64).eps


class Scores(ABC):
    """Sums over rows from which errors are computed, separately for each number of missing columns.

    See Also
    --------
    make_scores : Creates the scores for a model.
    """

    # Name of the mean width of intervals, or of the mean size of sets.
    _size_name: str

    def __init__(self) -> None:
        # Number of missing columns → sums over these rows.
        self._sums: dict[int, Floats] = {}
        self.n_without_target = 0

    def add(
        self, target: Floats, n_missing: Floats, output: Floats, covered: Floats | None, size: Floats | None
    ) -> None:
        """Add a batch of rows.

        Parameters
        ----------
        target : (n,)
            Numbers, or positions of classes; rows with NaN are only counted.
        n_missing : (n,)
            Number of missing columns.
        output : (n,) or (n, n_classes)
            Predicted numbers or probabilities.
        covered : (n,) or None
            Whether the interval or set contains the target.
        size : (n,) or None
            Width of the interval or size of the set.
        """
        known = ~np.isnan(target)
        self.n_without_target += int((~known).sum())
        if not known.any():
            return
        none = np.full(known.sum(), np.nan)
        rows = np.column_stack(
            [
                np.ones(known.sum()),
                none if covered is None else covered[known],
                none if size is None else size[known],
                self._row_sums(target[known], output[known]),
            ]
        )
        counts, position = np.unique(n_missing[known].astype(int), return_inverse=True)
        for k, count in enumerate(counts.tolist()):
            self._sums[count] = self._sums.get(count, 0.0) + rows[position == k].sum(axis=0)

    def overall(self) -> dict[str, Any]:
        """Errors over all rows with a target."""
        return self._scores(np.sum(list(self._sums.values()), axis=0))

    @property
    def n_rows(self) -> int:
        """Number of rows with a target."""
        return int(sum(sums[0] for sums in self._sums.values()))

    def by_missing(self) -> list[dict[str, Any]]:
        """Errors by number of missing columns, for example of the rows with 11 to 20 of them."""
        bins: list[tuple[list[int], Floats]] = []
        for start, stop in zip(BIN_STARTS, (*BIN_STARTS[1:], np.inf), strict=True):
            counts = [count for count in sorted(self._sums) if start <= count < stop]
            if not counts:
                continue
            sums = np.sum([self._sums[count] for count in counts], axis=0)
            if bins and max(bins[-1][1][0], sums[0]) < MIN_BIN_ROWS:
                earlier, earlier_sums = bins.pop()
                counts, sums = earlier + counts, earlier_sums + sums
            bins.append((counts, sums))
        return [
            {"missing_columns": {"from": counts[0], "to": counts[-1]}} | self._scores(sums)
            for counts, sums in bins
        ]

    def _scores(self, sums: Floats) -> dict[str, Any]:
        means = sums / sums[0]
        covered, size = (None if np.isnan(mean) else float(mean) for mean in means[1:3])
        shared = {"n_rows": int(sums[0]), "coverage": covered, self._size_name: size}
        return shared | self._errors(means[3:], int(sums[0]))

    @abstractmethod
    def _row_sums(self, target: Floats, output: Floats) -> Floats:
        """Quantities (n, k) of each row whose means determine the errors."""

    @abstractmethod
    def _errors(self, means: Floats, n_rows: int) -> dict[str, Any]:
        """Errors from the means of these quantities."""


class RegressionScores(Scores):
    """RMSE, mean absolute error and R² of predicted numbers.

    They are compared with always predicting the mean of the rows that are evaluated.

    Parameters
    ----------
    mean, scale : float
        Mean and standard deviation of the training target, for accurate sums.

    Examples
    --------
    >>> scores = RegressionScores(mean=0.0, scale=1.0)
    >>> scores.add(np.array([1.0, 3.0]), np.zeros(2), np.array([2.0, 2.0]), None, None)
    >>> {name: scores.overall()[name] for name in ("rmse", "mae", "r2")}
    {'rmse': 1.0, 'mae': 1.0, 'r2': 0.0}
    """

    _size_name = "mean_width"

    def __init__(self, mean: float, scale: float):
        super().__init__()
        self._mean, self._scale = mean, scale

    def _row_sums(self, target: Floats, output: Floats) -> Floats:
        # In standard deviations, so that sums of squares are accurate.
        target, error = (target - self._mean) / self._scale, (output - target) / self._scale
        return np.column_stack([error**2, np.abs(error), target, target**2])

    def _errors(self, means: Floats, n_rows: int) -> dict[str, Any]:
        squared, absolute, target, target_squared = means.tolist()
        variance = target_squared - target**2
        return {
            "rmse": self._scale * squared**0.5,
            "mae": self._scale * absolute,
            "r2": 1 - squared / variance if n_rows > 1 and variance > 1e-12 else None,
            "rmse_constant": self._scale * max(variance, 0.0) ** 0.5,
        }


class ClassificationScores(Scores):
    """Log loss, accuracy and Brier score of predicted probabilities.

    They are compared with always predicting the class frequencies of the rows that are evaluated.

    Examples
    --------
    >>> scores = ClassificationScores()
    >>> scores.add(np.array([0.0, 1.0]), np.zeros(2), np.array([[1.0, 0.0], [0.5, 0.5]]), None, None)
    >>> scores.overall()["brier"]
    0.25
    """

    _size_name = "mean_size"

    def _row_sums(self, target: Floats, output: Floats) -> Floats:
        position = target.astype(int)
        truth = np.eye(output.shape[1])[position]
        probability = np.clip(output[np.arange(len(output)), position], MIN_PROBABILITY, None)
        is_hit = output.argmax(axis=1) == position
        brier = ((output - truth) ** 2).sum(axis=1)
        return np.column_stack([-np.log(probability), is_hit, brier, truth])

    def _errors(self, means: Floats, n_rows: int) -> dict[str, Any]:
        frequency = means[3:]
        observed = frequency[frequency > 0]
        return {
            "log_loss": float(means[0]),
            "accuracy": float(means[1]),
            "brier": float(means[2]),
            "log_loss_constant": float(-(observed * np.log(observed)).sum()),
            "accuracy_constant": float(frequency.max()),
        }


def make_scores(estimator: MissingEstimator) -> Scores:
    """Scores for a fitted model."""
    from stablemiss.tasks import Regression

    task = estimator.task_
    if isinstance(task, Regression):
        return RegressionScores(float(task.mean[0]), float(task.scale[0]))
    return ClassificationScores()
