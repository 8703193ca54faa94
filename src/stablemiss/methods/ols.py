"""Least squares on mean-imputed columns: the plainest answer to holes, the best on independent columns."""

from __future__ import annotations

from typing import ClassVar, Literal

from stablemiss.base.linear import LinearPredictor, design, join, regress
from stablemiss.base.method import Method, Predictor, check_at_least
from stablemiss.data import MaskedData
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


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
    predictor: ClassVar[type[Predictor]] = LinearPredictor

    def __init__(self, inputs: Literal["mean", "mask"] = "mean", ridge: float = 1e-6):
        self.inputs = inputs
        self.ridge = ridge

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> LinearPredictor:
        if self.inputs not in ("mean", "mask"):
            raise ValueError(f'OLS takes inputs="mean" or inputs="mask", but got {self.inputs!r}.')
        check_at_least(self, ridge=0.0)
        # Nothing is chosen on the validation rows, so they count as data too.
        data = join(train, valid)
        center, use_mask = data.column_means(), self.inputs == "mask"
        inputs = design(data.values, data.mask, center, use_mask)
        coefficients, intercept = regress(inputs, data.target, data.weight, task, self.ridge)
        return LinearPredictor(center, coefficients, intercept, use_mask)
