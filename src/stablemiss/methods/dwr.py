"""DWR: linear regression with row weights under which columns are uncorrelated.

Kuang, Xiong, Cui, Athey and Li, "Stable Prediction with Model Misspecification and Agnostic Distribution
Shift", AAAI 2020 (decorrelated weighting regression):

    min over w, β   Σ_i w_i (y_i − x_iᵀβ)²
    subject to      Σ_j ‖X_jᵀ Σ_w X_{−j} / n − (X_jᵀ w / n) (X_{−j}ᵀ w / n)‖² < λ₂,
                    ‖β‖₁ < λ₁,   Σ w² / n < λ₃,   (Σ w / n − 1)² < λ₄

Deviations: correlations instead of covariances by default; weights are learned before the coefficients, not
jointly; from a random subset of the columns if there are many; a ridge penalty instead of the bound on ‖β‖₁.
One more is in `decorrelation/balancing.py`. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stablemiss.base.linear import LinearPredictor, design, draw_columns, join, regress
from stablemiss.base.method import Method, Predictor
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import check_integer, check_number
from stablemiss.data import MaskedData
from stablemiss.decorrelation.balancing import BalancingDecorrelator, Scale
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


class DWR(Method):
    """Linear regression of mean-imputed columns with weights that make the columns uncorrelated.

    If the target is not exactly linear, the coefficient of a column absorbs part of the non-linear effects of
    correlated columns. This is correct only as long as the correlations stay the same. Without correlations,
    each coefficient depends only on its own column. If columns are strongly correlated, the effective sample
    size is small.

    Parameters
    ----------
    scale : {"correlation", "covariance", "fixed"}, default="correlation"
        What the weights minimise; "covariance" is the published form. See `BalancingDecorrelator`.
    penalty : float, default=10.0
        Penalty on the spread of the weights. A larger value makes them more equal and leaves more
        correlation: of small correlations the fraction penalty / (2 + penalty) remains. Towards zero few rows
        carry all the weight.
    order : int, default=1
        Powers of the columns up to this order are made uncorrelated between columns. A larger value removes
        more kinds of dependence; the cost grows with its square, and the effective sample size falls.
    max_columns : int, default=128
        Maximum number of columns that are made uncorrelated. If there are more, as in images, a random subset
        is drawn. A larger value covers more pairs; the cost grows with its square, and the effective sample
        size falls.
    tolerance : float, default=1e-6
        A sum of squared correlations below this counts as zero. A larger value ends earlier.
    max_steps : int, default=1000
        Maximum number of steps on the weights. A larger value gets closer to the optimum; learning ends
        earlier when the objective stops falling.
    learning_rate : float, default=0.1
        Learning rate of the square roots of the weights, lowered once before the end. A larger value learns
        faster and less reliably.
    ridge : float, default=1e-6
        Penalty on the squared coefficients, per row. A larger value shrinks them towards zero. Logistic
        regression uses scikit-learn's penalty (``C=1``) instead.
    device : str, default="auto"
        "cpu", "cuda" or "auto" (a GPU if there is one), for learning the weights.

    See Also
    --------
    SRDO : Weights from a density ratio, which also remove non-linear dependence.
    StableNet : Weights of each batch for the features of a network.
    OLS : The same regression without fitted weights.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 1]
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=DWR(), random_state=0).fit(X, y)
    >>> model.predict([[1.0, 1.0], [np.nan, 1.0]]).round().tolist()
    [2.0, 1.0]
    """

    name: ClassVar[str] = "dwr"
    predictor_class: ClassVar[type[Predictor]] = LinearPredictor
    reads_arrays: ClassVar[bool] = True
    space: ClassVar[Space] = {
        "scale": Choice("correlation", "covariance", "fixed"),
        "penalty": Range(0.01, 100.0, log=True),
        "ridge": Range(1e-6, 1.0, log=True),
    }

    # DEVIATION: correlations by default, because covariances also shrink when variances do.
    def __init__(
        self,
        scale: Scale = "correlation",
        penalty: float = 10.0,
        order: int = 1,
        max_columns: int = 128,
        tolerance: float = 1e-6,
        max_steps: int = 1000,
        learning_rate: float = 0.1,
        ridge: float = 1e-6,
        device: str = "auto",
    ):
        self.scale = scale
        self.penalty = penalty
        self.order = order
        self.max_columns = max_columns
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.device = device

    @property
    def trains_on_validation(self) -> bool:
        return True

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> LinearPredictor:
        check_integer(self, order=(1, 10), max_columns=2)
        check_number(self, ridge="[0, inf)")
        # No parameter is chosen on validation rows, so they are training rows too.
        data = join(train, valid)
        means = data.column_means()
        inputs = design(data.values, data.mask, means)
        # DEVIATION: from a subset if there are many columns, because cost and sum of squares grow with the
        # square of their number, and with a fixed penalty few rows would carry all the weight.
        columns, groups = draw_columns(inputs, data.groups, self.max_columns, rng)
        # DEVIATION: weights before coefficients, because weights that depend on the target could exclude the
        # rows that a linear function does not fit.
        decorrelator = BalancingDecorrelator(
            self.scale, self.penalty, self.tolerance, self.max_steps, self.learning_rate, self.device
        )
        weight = decorrelator.learn_weights(
            np.hstack([columns**power for power in range(1, self.order + 1)]),
            rng=rng,
            weight=data.weight,
            groups=np.tile(groups, self.order),
            progress=progress,
        )
        # DEVIATION: a ridge penalty instead of the bound on ‖β‖₁, because all methods with row weights then
        # share the same regression and differ only in their weights.
        coefficients, intercept = regress(inputs, data.target, weight, task, self.ridge, data.target_mask)
        return LinearPredictor(means, coefficients, intercept, use_mask=False, weight=weight)
