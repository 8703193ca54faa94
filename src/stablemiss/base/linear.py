"""What methods that end in a linear regression share: their columns, the weighted fit, and the predictor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from stablemiss.base.method import Predictor
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.tasks import Classification, Task

# The log-odds of a class that no row shows: about one in 10^13.
ABSENT = -30.0


class LinearPredictor(Predictor):
    """Outputs linear in the centred columns (zero where hidden) and, if `use_mask`, in the mask.

    Attributes
    ----------
    center : (d,)
    coefficients : (d, d_output), or (2 d, d_output) with the mask
    intercept : (d_output,)
    use_mask : bool
    weight : (n,) or None
        The row weights, of mean one, that the method learnt: training rows first, then validation rows. None
        if it learnt none, or if the predictor was loaded.
    """

    def __init__(
        self,
        center: Floats,
        coefficients: Floats,
        intercept: Floats,
        use_mask: bool,
        weight: Floats | None = None,
    ):
        self.center = center
        self.coefficients = coefficients
        self.intercept = intercept
        self.use_mask = use_mask
        self.weight = weight

    def _predict(self, values: Floats, mask: NDArray) -> Floats:
        return self.intercept + design(values, mask, self.center, self.use_mask) @ self.coefficients

    def state(self) -> dict[str, Any]:
        return {
            "center": self.center,
            "coefficients": self.coefficients,
            "intercept": self.intercept,
            "use_mask": self.use_mask,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(state["center"], state["coefficients"], state["intercept"], state["use_mask"])


def join(train: MaskedData, valid: MaskedData) -> MaskedData:
    """Training rows, then validation rows: for methods that choose nothing on the latter."""
    return replace(
        train,
        values=np.concatenate([train.values, valid.values]),
        mask=np.concatenate([train.mask, valid.mask]),
        target=np.concatenate([train.target, valid.target]),
        weight=np.concatenate([train.weight, valid.weight]),
    )


def design(values: Floats, mask: Bools, center: Floats, use_mask: bool = False) -> Floats:
    """The regressors: centred columns, zero (their mean) where hidden, then perhaps the mask itself."""
    columns = np.where(mask, values - center, 0.0)
    return np.hstack([columns, mask]) if use_mask else columns


def regress(
    inputs: Floats, target: NDArray, weight: Floats, task: Task, ridge: float
) -> tuple[Floats, Floats]:
    """Coefficients (p, d_output) and intercept (d_output,): least squares, or for classes log-odds."""
    if isinstance(task, Classification):
        return logistic_regression(inputs, target, weight, task.d_output)
    return least_squares(inputs, target, weight, ridge)


def least_squares(inputs: Floats, target: Floats, weight: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Coefficients (p, d_output) and intercept (d_output,) of the weighted, slightly penalised regression."""
    share = weight / weight.sum()
    input_mean, target_mean = share @ inputs, share @ target
    centred = inputs - input_mean
    # The normal equations of p columns: linear in the rows, and the penalty bounds their condition.
    gram = centred.T @ (share[:, None] * centred) + ridge * np.eye(inputs.shape[1])
    moments = centred.T @ (share[:, None] * (target - target_mean))
    coefficients = np.linalg.lstsq(gram, moments, rcond=None)[0]
    return coefficients, target_mean - input_mean @ coefficients


def logistic_regression(
    inputs: Floats, target: NDArray, weight: Floats, n_classes: int
) -> tuple[Floats, Floats]:
    """Coefficients (p, n_classes) and intercept (n_classes,) of the log-odds; absent classes are unlikely."""
    coefficients = np.zeros((inputs.shape[1], n_classes))
    intercept = np.full(n_classes, ABSENT)
    present = np.unique(target)
    intercept[present[0]] = 0.0
    if len(present) > 1:
        model = LogisticRegression(max_iter=2000).fit(inputs, target, sample_weight=weight)
        # With two classes scikit-learn holds the log-odds of the second against the first only.
        described = present[1:] if len(present) == 2 else present
        coefficients[:, described] = model.coef_.T
        intercept[described] = model.intercept_
    return coefficients, intercept
