"""Least squares on mean-imputed columns: the simplest baseline, and optimal for independent columns."""

from __future__ import annotations

from typing import ClassVar, Literal

from stablemiss.base.linear import LinearPredictor, design, join, regress
from stablemiss.base.method import Method, Predictor
from stablemiss.checks import check_choice, check_number
from stablemiss.data import MaskedData
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


class OLS(Method):
    """Weighted least squares after mean imputation; for classes, multinomial logistic regression.

    If the columns are independent, this is the best predictor of a linear target under every mask. On such
    data, the difference between another method and OLS shows the cost of its flexibility. If the columns are
    correlated, the best coefficients depend on the mask; a single set of coefficients becomes inaccurate when
    the missingness changes.

    Parameters
    ----------
    inputs : {"mean", "mask"}, default="mean"
        "mean": mean-imputed columns; "mask": mean-imputed columns and mask indicators (like
        ``SimpleImputer(add_indicator=True)``). Adding the indicators is equivalent to estimating the imputed
        value of each column instead of using the mean. They help if the missingness is informative about the
        target, and hurt when the missingness changes.
    ridge : float, default=1e-6
        Penalty on the squared coefficients, per row. A larger value shrinks them towards zero; the default
        only makes problems with collinear columns, or more columns than rows, solvable. Logistic regression
        uses scikit-learn's penalty (``C=1``) instead, because separable classes have no finite optimum.

    See Also
    --------
    DWR, SRDO : The same regression with fitted row weights.

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
    predictor_class: ClassVar[type[Predictor]] = LinearPredictor
    reads_arrays: ClassVar[bool] = True

    def __init__(self, inputs: Literal["mean", "mask"] = "mean", ridge: float = 1e-6):
        self.inputs = inputs
        self.ridge = ridge

    @property
    def trains_on_validation(self) -> bool:
        return True

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> LinearPredictor:
        check_choice(self, inputs=("mean", "mask"))
        check_number(self, ridge="[0, inf)")
        # No parameter is chosen on validation rows, so they are training rows too.
        data = join(train, valid)
        means, use_mask = data.column_means(), self.inputs == "mask"
        inputs = design(data.values, data.mask, means, use_mask)
        coefficients, intercept = regress(
            inputs, data.target, data.weight, task, self.ridge, data.target_mask
        )
        return LinearPredictor(means, coefficients, intercept, use_mask)
