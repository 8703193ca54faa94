"""Losses of rows, errors, and their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats

RMSE, LOG_LOSS, ERROR_RATE = "RMSE", "log loss", "error rate"
# The smallest probability of the true class, so that a single row cannot make the log loss infinite. It is
# also that of classes that a model does not know.
MIN_PROBABILITY = 1e-15
# Standard errors from the middle of a 95% interval to its ends.
Z = 1.96


@dataclass(frozen=True)
class Metric:
    """An error, made from the losses of rows.

    Attributes
    ----------
    name : str
        "RMSE": the root of the mean of squared errors (mean over the outputs if there are several).
        "log loss": the mean of minus the log probability of the true class.
        "error rate": the share of wrong classes, if a classifier has no probabilities.
    """

    name: str

    @property
    def is_classification(self) -> bool:
        return self.name != RMSE

    def row_losses(self, model: Any, X: Any, y: NDArray) -> Floats:
        """Losses (n,) of a fitted model; raises ValueError if its predictions are unusable.

        Parameters
        ----------
        model : estimator
        X : table, (n, d)
        y : (n,) or (n, n_outputs)
        """
        if self.name == LOG_LOSS:
            return _log_losses(np.asarray(model.predict_proba(X), dtype=np.float64), model.classes_, y)
        prediction = np.asarray(model.predict(X))
        if prediction.size != y.size:
            raise ValueError(f"Its predictions have shape {prediction.shape}, but the target {y.shape}.")
        if self.name == ERROR_RATE:
            return (prediction.reshape(y.shape) != y).astype(np.float64)
        errors = (prediction.astype(np.float64).reshape(y.shape) - y).reshape(len(y), -1)
        # The square of a finite prediction can overflow, too.
        with np.errstate(over="ignore"):
            losses = np.mean(np.square(errors), axis=1)
        if not np.isfinite(losses).all():
            raise ValueError("Some of its predictions are not finite or too large.")
        return losses

    def error(self, losses: Floats) -> float:
        """The error of rows with these losses."""
        mean = float(np.mean(losses))
        return float(np.sqrt(mean)) if self.name == RMSE else mean

    def influence(self, losses: Floats) -> Floats:
        """Influence (n,) of each row on the error, with mean zero (delta method).

        The standard error of a difference of errors on the same rows is the standard deviation of the
        difference of their influences, divided by the root of the number of rows.
        """
        deviations = losses - np.mean(losses)
        if self.name != RMSE:
            return deviations
        error = self.error(losses)
        return deviations / (2 * error) if error > 0 else deviations

    def standard_error(self, losses: Floats, other: Floats | None = None) -> float:
        """Standard error of an error, or of the difference of two errors on the same rows.

        Examples
        --------
        >>> losses = np.random.default_rng(0).exponential(size=100)
        >>> metric = Metric(LOG_LOSS)
        >>> metric.standard_error(losses, losses + 1.0) < 1e-12 < metric.standard_error(losses)
        True
        """
        influence = self.influence(losses)
        if other is not None:
            influence = influence - self.influence(other)
        return float(np.std(influence, ddof=1) / np.sqrt(len(influence)))

    def difference(self, losses: Floats, other: Floats) -> tuple[float, float, float]:
        """Error minus another error on the same rows, and its 95% interval."""
        difference = self.error(losses) - self.error(other)
        width = Z * self.standard_error(losses, other)
        return difference, difference - width, difference + width

    def constant_losses(self, y: NDArray) -> Floats:
        """Losses (n,) of always predicting the mean of y, its class frequencies, or its most frequent class.

        Examples
        --------
        >>> metric = Metric(RMSE)
        >>> metric.error(metric.constant_losses(np.array([1.0, 3.0])))
        1.0
        """
        if self.name == RMSE:
            return np.mean(np.square(y - y.mean(axis=0)).reshape(len(y), -1), axis=1)
        _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        frequency = counts[codes] / len(y)
        return -np.log(frequency) if self.name == LOG_LOSS else (codes != counts.argmax()).astype(np.float64)


def _log_losses(probability: Floats, classes: NDArray, y: NDArray) -> Floats:
    position = {label: j for j, label in enumerate(np.asarray(classes).tolist())}
    column = np.array([position.get(label, -1) for label in y.tolist()])
    if (column < 0).all():
        raise ValueError(
            f"None of the classes in y is among those that it knows, {', '.join(map(str, position))}."
        )
    true_class = np.where(column < 0, 0.0, probability[np.arange(len(y)), column])
    if not np.isfinite(true_class).all():
        raise ValueError("Some of its probabilities are not finite.")
    return -np.log(np.clip(true_class, MIN_PROBABILITY, 1.0))
