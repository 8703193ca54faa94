"""DWR: linear regression on rows weighted so that columns are uncorrelated.

Kuang, Xiong, Cui, Athey and Li, "Stable Prediction with Model Misspecification and Agnostic Distribution
Shift", AAAI 2020 (decorrelated weighting regression):

    min over w, β   Σ_i w_i (y_i − x_iᵀβ)²
    subject to      Σ_j ‖X_jᵀ Σ_w X_{−j} / n − (X_jᵀ w / n) (X_{−j}ᵀ w / n)‖² < λ₂,
                    ‖β‖₁ < λ₁,   Σ w² / n < λ₃,   (Σ w / n − 1)² < λ₄

Deviations: correlations by default; weights first; a ridge. One more in `decorrelation/balancing.py`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stablemiss.base.linear import LinearPredictor, design, join, regress
from stablemiss.base.method import Method, Predictor, check_at_least
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.data import MaskedData
from stablemiss.decorrelation.balancing import BalancingDecorrelator, Scale
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


class DWR(Method):
    """Weigh rows until mean-imputed columns are uncorrelated, then regress.

    If the target is not quite linear, the coefficients of correlated columns take over from each other what
    the line leaves out, and that is right only as long as the correlations stay. Without correlations each
    coefficient speaks for its own column. The price is rows: strongly correlated columns leave few that
    count.

    Parameters
    ----------
    scale : "correlation", "covariance" or "fixed"
        What the weights make small; "covariance" as published. See `BalancingDecorrelator`.
    penalty : float
        The price of uneven weights. Raising it makes them more equal and leaves more correlation: of small
        ones the share penalty / (2 + penalty). Towards zero few rows carry all the weight.
    order : int
        Also powers of the columns up to this one are made uncorrelated between columns. More removes more
        kinds of dependence and costs time with its square, and rows.
    tolerance : float
        A sum of squared correlations below this counts as none. Raising it ends sooner.
    max_steps : int
        Most steps on the weights. More find weights nearer the best; it ends sooner once nothing is gained.
    learning_rate : float
        Step size on the square roots of the weights, lowered once before the end. Larger is quicker.
    ridge : float
        Penalty on the squared coefficients, per row. Raising it shrinks them towards zero. Logistic
        regression has scikit-learn's penalty (``C=1``) instead.
    device : str
        "cpu", "cuda" or "auto" (a GPU if there is one), for learning the weights.

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
    predictor: ClassVar[type[Predictor]] = LinearPredictor
    space: ClassVar[Space] = {
        "scale": Choice("correlation", "covariance", "fixed"),
        "penalty": Range(0.01, 100.0, log=True),
        "ridge": Range(1e-6, 1.0, log=True),
    }

    # DEVIATION: correlations by default because covariances also vanish where variances do.
    def __init__(
        self,
        scale: Scale = "correlation",
        penalty: float = 1.0,
        order: int = 1,
        tolerance: float = 1e-6,
        max_steps: int = 1000,
        learning_rate: float = 0.1,
        ridge: float = 1e-6,
        device: str = "auto",
    ):
        self.scale = scale
        self.penalty = penalty
        self.order = order
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.device = device

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> LinearPredictor:
        check_at_least(self, order=1, max_steps=1, ridge=0.0)
        # Nothing is chosen on the validation rows, so they count as data too.
        data = join(train, valid)
        center = data.column_means()
        inputs = design(data.values, data.mask, center)
        # DEVIATION: weights first, coefficients afterwards, because weights that know the target can hide
        # the rows that a line does not fit.
        decorrelator = BalancingDecorrelator(
            self.scale, self.penalty, self.tolerance, self.max_steps, self.learning_rate, self.device
        )
        weight = decorrelator.weigh(
            np.hstack([inputs**power for power in range(1, self.order + 1)]),
            rng=rng,
            weight=data.weight,
            groups=np.tile(data.groups, self.order),
            progress=progress,
        )
        # DEVIATION: a ridge instead of the bound on ‖β‖₁, because the same regression then ends all methods
        # that weigh rows, and differences between them are those of the weights.
        coefficients, intercept = regress(inputs, data.target, weight, task, self.ridge)
        return LinearPredictor(center, coefficients, intercept, use_mask=False, weight=weight)
