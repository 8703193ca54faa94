"""SRDO: linear regression on rows weighted as if their columns had been drawn independently.

Shen, Cui, Zhang and Kuang, "Stable Learning via Sample Reweighting", AAAI 2020 (sample reweighted
decorrelation operator): with x̃ the rows after each column was permuted on its own and p(x) the probability,
by a classifier, that a row is a real one,

    w_i = (1 − p(x_i)) / p(x_i),        min over β   Σ_i w_i (y_i − x_iᵀβ)²

Deviations: bounded probabilities of unseen rows over several permutations; learning rate 3e-3; a ridge. One
more in `decorrelation/ratio.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from stablemiss.base.linear import LinearPredictor, design, join, regress
from stablemiss.base.method import Method, Predictor, check_at_least, check_widths
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.data import MaskedData
from stablemiss.decorrelation.ratio import Classifier, RatioDecorrelator
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


class SRDO(Method):
    """Weigh rows by how much likelier they were if mean-imputed columns were independent, then regress.

    Collinear columns make a line's coefficients large and shaky, and whatever the target has beyond a line
    is then magnified by them. On rows weighted as if columns were independent, each coefficient speaks for
    its own column. The price is rows: strongly dependent columns leave few that count.

    Parameters
    ----------
    classifier : "mlp" or "logistic"
        What tells real rows from permuted ones. "mlp" is a small network as published; "logistic" is a
        logistic regression on columns, squares and products, quick for a few columns.
    hidden : sequence of int
        Widths of the network's layers. Wider sees more of the dependence and weighs rows less evenly.
    clip : float
        Probabilities are kept within clip and 1 − clip, so no row gets more than (1 − clip) / clip. Raising
        it towards one half makes weights more equal.
    n_permutations : int
        Weights are averaged over so many permutations. More are steadier, at proportional cost.
    n_folds : int
        A row's weight comes from classifiers that have not learnt from it, one for each fold. More learn
        from more rows and cost more; with 1 a single classifier judges the rows it was made from, as
        published, but for the tenth of them that "mlp" keeps to stop by.
    learning_rate : float
        Step size of the network. Larger learns faster and less surely.
    max_epochs : int
        Most passes of the network over the rows; it ends sooner when held-out rows gain no more.
    ridge : float
        Penalty on the squared coefficients, per row. Raising it shrinks them towards zero. Logistic
        regression has scikit-learn's penalty (``C=1``) instead.

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
    predictor: ClassVar[type[Predictor]] = LinearPredictor
    space: ClassVar[Space] = {
        "hidden": Choice((5, 5), (100, 5), (100, 100)),
        "clip": Range(0.01, 0.4, log=True),
        "learning_rate": Range(1e-4, 1e-2, log=True),
        "ridge": Range(1e-6, 1.0, log=True),
    }

    # DEVIATION: bounded probabilities of rows that the classifier has not seen, averaged over permutations,
    # because a network that knows its rows gives nearly all the weight to a few that it is unsure of.
    # DEVIATION: learning_rate=3e-3, published 1e-3, because it got as far in half the time.
    brief: ClassVar[Mapping[str, Any]] = {"n_permutations": 1, "n_folds": 2}

    def __init__(
        self,
        classifier: Classifier = "mlp",
        hidden: Sequence[int] = (100, 5),
        clip: float = 0.1,
        n_permutations: int = 3,
        n_folds: int = 2,
        learning_rate: float = 3e-3,
        max_epochs: int = 500,
        ridge: float = 1e-6,
    ):
        self.classifier = classifier
        self.hidden = hidden
        self.clip = clip
        self.n_permutations = n_permutations
        self.n_folds = n_folds
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.ridge = ridge

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> LinearPredictor:
        check_at_least(self, n_permutations=1, n_folds=1, max_epochs=1, ridge=0.0)
        check_widths(self, "hidden")
        # Nothing is chosen on the validation rows, so they count as data too.
        data = join(train, valid)
        center = data.column_means()
        inputs = design(data.values, data.mask, center)
        decorrelator = RatioDecorrelator(
            self.classifier,
            self.clip,
            self.hidden,
            self.learning_rate,
            self.max_epochs,
            self.n_permutations,
            self.n_folds,
        )
        weight = decorrelator.weigh(
            inputs, rng=rng, weight=data.weight, groups=data.groups, progress=progress
        )
        # DEVIATION: a slight ridge and an intercept, because collinear columns have no single solution, and
        # under the weights columns and target are not centred.
        coefficients, intercept = regress(inputs, data.target, weight, task, self.ridge)
        return LinearPredictor(center, coefficients, intercept, use_mask=False, weight=weight)
