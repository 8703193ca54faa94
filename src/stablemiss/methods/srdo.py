"""SRDO: linear regression with row weights under which columns are independent.

Shen, Cui, Zhang and Kuang, "Stable Learning via Sample Reweighting", AAAI 2020 (sample reweighted
decorrelation operator). A classifier separates the rows x from rows x̃ in which each column was permuted
independently; with p(x) its probability that a row is original,

    w_i = (1 − p(x_i)) / p(x_i),        min over β   Σ_i w_i (y_i − x_iᵀβ)²

Deviations: weights come from clipped probabilities of held-out rows, averaged over permutations, and from a
random subset of the columns if there are many; a larger learning rate, 3e-3; a ridge penalty and an
intercept. One more is in `decorrelation/ratio.py`. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from stablemiss.base.linear import LinearPredictor, design, draw_columns, join, regress
from stablemiss.base.method import Method, Predictor
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import check_integer, check_number
from stablemiss.data import MaskedData
from stablemiss.decorrelation.ratio import Classifier, RatioDecorrelator
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


class SRDO(Method):
    """Linear regression of mean-imputed columns with weights that make the columns independent.

    Collinear columns make the coefficients large and unstable, which amplifies any non-linear part of the
    target. Under weights that make columns independent, each coefficient depends only on its own column. If
    columns are strongly dependent, the effective sample size is small.

    Parameters
    ----------
    classifier : {"mlp", "logistic"}, default="mlp"
        Separates original from permuted rows. "mlp" is a small network as published; "logistic" is a logistic
        regression on columns, squares and products, which is fast for few columns.
    hidden : sequence of int, default=(100, 5)
        Widths of the hidden layers of the network. Wider layers capture more of the dependence and make the
        weights more uneven.
    clip : float, default=0.3
        Probabilities are clipped to [clip, 1 − clip], so no weight exceeds (1 − clip) / clip. Towards one
        half the weights become equal.
    n_permutations : int, default=3
        Number of permutations over which the weights are averaged. A larger value is less noisy; the cost is
        proportional.
    n_folds : int, default=2
        Number of cross-fitting folds: the weight of a row comes from a classifier not fitted to that row.
        More folds fit each classifier to more rows and cost more. With 1, a single classifier predicts its
        own training rows, as published, except that "mlp" holds out a tenth of them for early stopping.
    max_columns : int, default=128
        Maximum number of columns that are made independent. If there are more, as in images, a random subset
        is drawn. A larger value covers more of the dependence; the cost is proportional for "mlp" and grows
        with its square for "logistic".
    learning_rate : float, default=3e-3
        Learning rate of the network. A larger value trains faster and less reliably.
    max_epochs : int, default=500
        Maximum number of epochs of the network; it stops earlier when the loss of held-out rows stops
        falling.
    ridge : float, default=1e-6
        Penalty on the squared coefficients, per row. A larger value shrinks them towards zero. Logistic
        regression uses scikit-learn's penalty (``C=1``) instead.

    See Also
    --------
    DWR : Weights that make columns uncorrelated.
    StableNet : Weights of each batch for the features of a network.
    OLS : The same regression without fitted weights.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 1]
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=SRDO("logistic"), random_state=0).fit(X, y)
    >>> model.predict([[1.0, 1.0], [np.nan, 1.0]]).round().tolist()
    [2.0, 1.0]
    """

    name: ClassVar[str] = "srdo"
    predictor_class: ClassVar[type[Predictor]] = LinearPredictor
    reads_arrays: ClassVar[bool] = True
    space: ClassVar[Space] = {
        "hidden": Choice((5, 5), (100, 5), (100, 100)),
        "clip": Range(0.01, 0.4, log=True),
        "learning_rate": Range(1e-4, 1e-2, log=True),
        "ridge": Range(1e-6, 1.0, log=True),
    }

    brief: ClassVar[Mapping[str, Any]] = {"n_permutations": 1, "n_folds": 2}

    # DEVIATION: clipped probabilities of held-out rows, averaged over permutations, because a network that
    # overfits its rows gives nearly all the weight to a few uncertain ones.
    # DEVIATION: learning_rate=3e-3, published 1e-3, because it gave the same result in half the time.
    def __init__(
        self,
        classifier: Classifier = "mlp",
        hidden: Sequence[int] = (100, 5),
        clip: float = 0.3,
        n_permutations: int = 3,
        n_folds: int = 2,
        max_columns: int = 128,
        learning_rate: float = 3e-3,
        max_epochs: int = 500,
        ridge: float = 1e-6,
    ):
        self.classifier = classifier
        self.hidden = hidden
        self.clip = clip
        self.n_permutations = n_permutations
        self.n_folds = n_folds
        self.max_columns = max_columns
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.ridge = ridge

    @property
    def trains_on_validation(self) -> bool:
        return True

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> LinearPredictor:
        check_integer(self, max_columns=2)
        check_number(self, ridge="[0, inf)")
        # No parameter is chosen on validation rows, so they are training rows too.
        data = join(train, valid)
        means = data.column_means()
        inputs = design(data.values, data.mask, means)
        # DEVIATION: from a subset if there are many columns, because from all of them a classifier recognises
        # nearly every row; the probabilities are then clipped, and the weights equal.
        columns, groups = draw_columns(inputs, data.groups, self.max_columns, rng)
        decorrelator = RatioDecorrelator(
            self.classifier,
            self.clip,
            self.hidden,
            self.learning_rate,
            self.max_epochs,
            self.n_permutations,
            self.n_folds,
        )
        weight = decorrelator.learn_weights(
            columns, rng=rng, weight=data.weight, groups=groups, progress=progress
        )
        # DEVIATION: a small ridge penalty and an intercept, because collinear columns have no unique
        # solution, and columns and target are not centred under the weights.
        coefficients, intercept = regress(inputs, data.target, weight, task, self.ridge, data.target_mask)
        return LinearPredictor(means, coefficients, intercept, use_mask=False, weight=weight)
