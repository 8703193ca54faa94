"""Linear models of mean-imputed columns: design matrix, weighted regression, and predictor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.base.method import Predictor
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.stored import stored_array, stored_bool
from stablemiss.tasks import Classification, Task

# Log-odds of a class without training rows: a probability of about 1e-13.
ABSENT_CLASS_LOG_ODDS = -30.0


class LinearPredictor(Predictor):
    """Linear function of the centred columns (zero where missing) and, if `use_mask`, of the mask.

    Parameters
    ----------
    means : (d,)
        Column means.
    coefficients : (d, d_output), or (2 d, d_output) with the mask
    intercept : (d_output,)
    use_mask : bool
        Whether the mask is part of the inputs.
    weight : (n,), default=None
        Fitted row weights of mean one: training rows first, then validation rows. None if the method learns
        no weights, or if the predictor was loaded.
    """

    def __init__(
        self,
        means: Floats,
        coefficients: Floats,
        intercept: Floats,
        use_mask: bool,
        weight: Floats | None = None,
    ):
        self.means = means
        self.coefficients = coefficients
        self.intercept = intercept
        self.use_mask = use_mask
        self.weight = weight

    @property
    def effective_share(self) -> float | None:
        if self.weight is None:
            return None
        return float(self.weight.sum() ** 2 / (self.weight**2).sum() / len(self.weight))

    def _predict(self, values: Floats, mask: NDArray) -> Floats:
        return self.intercept + design(values, mask, self.means, self.use_mask) @ self.coefficients

    def state(self) -> dict[str, Any]:
        return {
            "center": self.means,
            "coefficients": self.coefficients,
            "intercept": self.intercept,
            "use_mask": self.use_mask,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        use_mask = stored_bool(state, "use_mask")
        return cls(
            stored_array(state, "center", (n_columns,)),
            stored_array(state, "coefficients", (n_columns * (1 + use_mask), task.d_output)),
            stored_array(state, "intercept", (task.d_output,)),
            use_mask,
        )


def join(train: MaskedData, valid: MaskedData) -> MaskedData:
    """Training rows followed by validation rows, for methods that need no validation."""
    return replace(
        train,
        values=np.concatenate([train.values, valid.values]),
        mask=np.concatenate([train.mask, valid.mask]),
        target=np.concatenate([train.target, valid.target]),
        weight=np.concatenate([train.weight, valid.weight]),
    )


def design(values: Floats, mask: Bools, means: Floats, use_mask: bool = False) -> Floats:
    """Design matrix: centred columns, zero (their mean) where missing, and optionally the mask.

    Parameters
    ----------
    values, mask : (n, d)
        Columns, and their mask with True = observed.
    means : (d,)
        Column means.
    use_mask : bool, default=False
        Append the mask, which doubles the number of columns.

    Returns
    -------
    (n, d) or (n, 2 d)

    See Also
    --------
    regress : Linear model of the design matrix.
    """
    columns = np.where(mask, values - means, 0.0)
    return np.hstack([columns, mask]) if use_mask else columns


def regress(
    inputs: Floats, target: NDArray, weight: Floats, task: Task, ridge: float
) -> tuple[Floats, Floats]:
    """Coefficients (p, d_output) and intercept (d_output,) of a weighted linear or logistic regression.

    Parameters
    ----------
    inputs : (n, p)
    target : (n, d_output), or (n,) class codes
    weight : (n,)
    task : Task
        Least squares for regression, logistic regression for classification.
    ridge : float
        Penalty on squared coefficients, for least squares only. A larger value shrinks them towards zero.

    See Also
    --------
    least_squares, logistic_regression : The two regressions.
    """
    if isinstance(task, Classification):
        return logistic_regression(inputs, target, weight, task.d_output)
    return least_squares(inputs, target, weight, ridge)


def least_squares(inputs: Floats, target: Floats, weight: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Coefficients (p, d_output) and intercept (d_output,) of weighted ridge regression.

    See Also
    --------
    logistic_regression : The same for classification.
    """
    normalised = weight / weight.sum()
    input_mean, target_mean = normalised @ inputs, normalised @ target
    centred = inputs - input_mean
    # Normal equations: the cost is linear in the rows, and the penalty bounds their condition number.
    gram = centred.T @ (normalised[:, None] * centred) + ridge * np.eye(inputs.shape[1])
    moments = centred.T @ (normalised[:, None] * (target - target_mean))
    coefficients = np.linalg.lstsq(gram, moments, rcond=None)[0]
    return coefficients, target_mean - input_mean @ coefficients


def logistic_regression(
    inputs: Floats, target: NDArray, weight: Floats, n_classes: int
) -> tuple[Floats, Floats]:
    """Coefficients (p, n_classes) and intercept (n_classes,) of the log-odds of each class.

    Classes without training rows get a constant probability near zero.

    See Also
    --------
    least_squares : The same for numeric targets.
    """
    from sklearn.linear_model import LogisticRegression

    coefficients = np.zeros((inputs.shape[1], n_classes))
    intercept = np.full(n_classes, ABSENT_CLASS_LOG_ODDS)
    present = np.unique(target)
    intercept[present[0]] = 0.0
    if len(present) > 1:
        model = LogisticRegression(max_iter=2000).fit(inputs, target, sample_weight=weight)
        # With two classes, scikit-learn fits coefficients only for the second, relative to the first.
        fitted = present[1:] if len(present) == 2 else present
        coefficients[:, fitted] = model.coef_.T
        intercept[fitted] = model.intercept_
    return coefficients, intercept
