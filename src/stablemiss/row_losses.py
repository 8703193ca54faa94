"""Losses of the rows that a model predicts, errors, and their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from stablemiss.data import Floats, missing_cells

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


def choose_metric(models: Mapping[str, Any]) -> Metric:
    """RMSE for regressors, log loss for classifiers, or error rate if one of them has no probabilities."""
    classifiers = [name for name, model in models.items() if is_classifier(model)]
    if not classifiers:
        return Metric(RMSE)
    if len(classifiers) < len(models):
        regressor = next(name for name in models if name not in classifiers)
        raise ValueError(
            f"models must be all regressors or all classifiers, because their errors are compared; "
            f"{classifiers[0]!r} is a classifier and {regressor!r} is not. Test them separately."
        )
    has_probabilities = all(hasattr(model, "predict_proba") for model in models.values())
    return Metric(LOG_LOSS if has_probabilities else ERROR_RATE)


def read_target(y: Any, n_rows: int, is_classification: bool) -> NDArray:
    """The target as an array; raises ValueError if models cannot be tested on it.

    Parameters
    ----------
    y : array-like, (n,) or (n, n_outputs)
    n_rows : int
        Number of rows of the table.
    is_classification : bool
        Whether y holds class labels, which then must be in one dimension.
    """
    target = np.asarray(y)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim not in ((1,) if is_classification else (1, 2)) or len(target) != n_rows:
        raise ValueError(
            f"y must have one entry for each of the {n_rows:,} rows of X; got shape {target.shape}."
        )
    if n_rows < 2:
        raise ValueError(f"Errors are compared over rows, so at least 2 rows are needed; got {n_rows}.")
    if not is_classification:
        try:
            target = target.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "y must be numeric for regressors, but some entries are not numbers. Use classifiers for "
                "class labels."
            ) from error
    missing = missing_cells(target if target.dtype.kind in "fiub" else target.astype(object))
    if missing.any() or (target.dtype.kind == "f" and np.isinf(target).any()):
        raise ValueError(
            "y must be known and finite in all rows, but some entries are missing or infinite. Drop these "
            "rows of X and y."
        )
    return target
