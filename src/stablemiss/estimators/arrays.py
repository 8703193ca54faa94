"""Targets that are arrays, such as images: reading them, and scores pooled over their observed cells."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from stablemiss.data import Floats, MaskedData
from stablemiss.encoding import ArrayRows, SuspiciousDataWarning, is_array, read_array
from stablemiss.estimators.rows import MAX_TARGET
from stablemiss.tasks import Regression


def read_array_target(y: Any, n_rows: int) -> ArrayRows:
    """Read a target that consists of arrays, (n_rows, *shape); NaN where it is not observed.

    Examples
    --------
    >>> read_array_target(np.zeros((3, 4, 4)), n_rows=3).shape
    (4, 4)
    """
    target = read_array(y, "y")
    if target.n_rows != n_rows:
        raise ValueError(
            f"X has {n_rows} rows but y has {target.n_rows}: inconsistent numbers of samples. Pass one "
            "target array per row."
        )
    observed = target.cells[~np.isnan(target.cells)]
    if not observed.size:
        raise ValueError(
            "Input y contains NaN and nothing else: every target is missing. Pass other targets."
        )
    largest = np.abs(observed).max()
    if largest > MAX_TARGET:
        raise ValueError(
            f"The target y must lie between {-MAX_TARGET:g} and {MAX_TARGET:g}, but has the absolute value "
            f"{largest:g}. Rescale it before fit, for instance divide it by {MAX_TARGET:g}."
        )
    return target


def warn_if_copied(cells: Floats, target: Floats) -> None:
    """Warn if targets are the observed values of X and nothing else: a model would only learn to copy them.

    Parameters
    ----------
    cells, target : (n, d)
        X and y, NaN where missing.

    Examples
    --------
    >>> import warnings
    >>> X = np.array([[1.0, np.nan], [2.0, 3.0]])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_if_copied(X, np.array([[1.0, 5.0], [2.0, 3.0]]))
    ...     warn_if_copied(X, X)
    >>> len(caught)
    1
    """
    if cells.shape != target.shape:
        return
    is_target = ~np.isnan(target)
    if np.array_equal(cells[is_target], target[is_target]):
        # Level 3 is the user's call: 1 is this function, 2 `fit`.
        warnings.warn(
            "y has no value that is missing in X, and otherwise equals X: a model learns to copy what it "
            "sees, not to complete arrays, and its validation scores say nothing. Hide further values of X, "
            "or pass more complete arrays as y.",
            SuspiciousDataWarning,
            stacklevel=3,
        )


def array_scores(outputs: Floats, train: MaskedData, valid: MaskedData, task: Regression) -> dict[str, float]:
    """Errors on the validation rows, pooled over all observed cells, beside those of the mean array.

    Parameters
    ----------
    outputs : (n, d_output)
        Raw outputs of the fitted model for the validation rows.
    train, valid : MaskedData
        Encoded rows with targets; the mean array is computed from `train`.
    task : Regression
        Defines the unit of the errors.

    Returns
    -------
    dict
        "rmse", "rmse_constant" and "r2", over all observed cells and in the target's units, and "n_rows".
    """
    seen = np.ones(valid.target.shape) if valid.target_mask is None else valid.target_mask
    weight = valid.weight[:, None] * seen
    error, constant_error, variance = (
        _pooled_error(valid.target, prediction, weight)
        for prediction in (outputs, _cell_means(train), _cell_means(valid))
    )
    unit = float(task.scale.max())
    return {
        "rmse": float(np.sqrt(error)) * unit,
        "rmse_constant": float(np.sqrt(constant_error)) * unit,
        "r2": 1 - error / variance if variance > 0 else float("nan"),
        "n_rows": len(valid),
    }


class ArrayScoreMixin(RegressorMixin):
    """The score of a regressor whose targets may be arrays."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions: 1 is perfect, 0 is as good as the mean of the targets.

        If the targets are arrays, squared errors and variances around the mean array are summed over all
        observed cells.

        Parameters
        ----------
        X : table (n, n_features) or array (n, *shape)
            As in `predict`.
        y : (n,), (n, n_outputs) or array (n, *shape)
            True targets. Cells of arrays that are NaN are left out.
        sample_weight : (n,), default=None
            Weights of the rows; None weights all rows equally.
        """
        if not is_array(y):
            return super().score(X, y, sample_weight)
        prediction = self.predict(X)
        cells = read_array_target(y, len(prediction)).cells
        seen = ~np.isnan(cells)
        weight = (np.ones(len(cells)) if sample_weight is None else np.asarray(sample_weight))[:, None] * seen
        target = np.where(seen, cells, 0.0)
        total = weight.sum(axis=0)
        mean = (weight * target).sum(axis=0) / np.where(total > 0, total, 1.0)
        prediction = prediction.reshape(cells.shape)
        error, variance = (_pooled_error(target, guess, weight) for guess in (prediction, mean))
        return 1 - error / variance if variance > 0 else float("nan")


def _cell_means(data: MaskedData) -> Floats:
    """Weighted mean of each cell of the target over the rows in which it is observed, zero if in none."""
    seen = np.ones(data.target.shape) if data.target_mask is None else data.target_mask
    total = data.weight @ seen
    return (data.weight @ data.target) / np.where(total > 0, total, 1.0)


def _pooled_error(target: Floats, prediction: Floats, weight: Floats) -> float:
    """Weighted mean squared error over all cells; cells of weight zero are not observed."""
    return float(np.average((target - prediction) ** 2, weights=weight))
