"""Least squares on mean-imputed columns: the plainest answer to holes, the best on independent columns."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.methods.base import Method, Predictor
from stablemiss.progress import Silence
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task

# The log-odds of a class that no row shows: about one in 10^13.
ABSENT = -30.0


class OLSPredictor(Predictor):
    """Outputs linear in the centred columns (zero where hidden) and, if `use_mask`, in the mask.

    `center` is (d,); `coefficients` is (d, d_output), or (2 d, d_output) with the mask; `intercept` is
    (d_output,).
    """

    def __init__(self, center: Floats, coefficients: Floats, intercept: Floats, use_mask: bool):
        self.center = center
        self.coefficients = coefficients
        self.intercept = intercept
        self.use_mask = use_mask

    def outputs(self, values: Floats, mask: NDArray) -> Floats:
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


class OLS(Method):
    """Weighted least squares after mean imputation; for classes, multinomial logistic regression.

    Where the columns are independent this is the best possible predictor of a linear target under every
    mask, so whatever a clever method loses to it there is the price of the cleverness. Where columns are
    correlated, one coefficient per column has to serve every mask, and does so badly once the missingness
    changes.

    Parameters
    ----------
    inputs : "mean" or "mask"
        "mean" sees the columns alone, hidden cells at their column's mean. "mask" sees the mask beside
        them: each column gets its own best constant to impute, which helps if being hidden tells something
        about the target and hurts when the missingness changes.
    ridge : float
        Penalty on the squared coefficients, per row. Raising it shrinks them towards zero; the default
        only makes collinear columns, and more columns than rows, solvable. Logistic regression has
        scikit-learn's penalty (``C=1``) instead, since separable classes have no finite optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0], [np.nan]])
    >>> model = MissingRegressor(method=OLS(inputs="mean")).fit(X, [2.0, 4.0, 6.0, 8.0, 5.0])
    >>> model.predict([[5.0], [np.nan]]).round(3)
    array([10.,  5.])
    """

    name: ClassVar[str] = "ols"
    predictor: ClassVar[type[Predictor]] = OLSPredictor

    def __init__(self, inputs: Literal["mean", "mask"] = "mean", ridge: float = 1e-6):
        self.inputs = inputs
        self.ridge = ridge

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Silence
    ) -> OLSPredictor:
        if self.inputs not in ("mean", "mask"):
            raise ValueError(f'OLS takes inputs="mean" or inputs="mask", but got {self.inputs!r}.')
        # Nothing is chosen on the validation rows, so they count as data too.
        values = np.concatenate([train.values, valid.values])
        mask = np.concatenate([train.mask, valid.mask])
        target = np.concatenate([train.target, valid.target])
        weight = np.concatenate([train.weight, valid.weight])
        use_mask = self.inputs == "mask"

        # A column never observed has no mean; its cells are zero in any case.
        seen = weight @ mask
        center = (weight @ values) / np.where(seen > 0, seen, 1.0)
        inputs = design(values, mask, center, use_mask)
        if isinstance(task, Classification):
            coefficients, intercept = logistic_regression(inputs, target, weight, task.d_output)
        else:
            coefficients, intercept = least_squares(inputs, target, weight, self.ridge)
        return OLSPredictor(center, coefficients, intercept, use_mask)


def design(values: Floats, mask: Bools, center: Floats, use_mask: bool) -> Floats:
    """The regressors: centred columns, zero (their mean) where hidden, then perhaps the mask itself."""
    columns = np.where(mask, values - center, 0.0)
    return np.hstack([columns, mask]) if use_mask else columns


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
