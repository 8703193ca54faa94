"""Row weights under which complete columns are independent: a density ratio estimated by classification.

The rows x have the density f. If each column is permuted independently, the rows have the density g, the
product of the marginal densities of f. A classifier that separates original from permuted rows estimates the
density ratio; with p(x) its probability that a row is original,

    w(x) = g(x) / f(x) = (1 − p(x)) / p(x)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from stablemiss.checks import check_choice, check_integer, check_number, check_widths
from stablemiss.data import Floats, MaskedData
from stablemiss.decorrelation.permuting import draw_orders, resample_by_weight
from stablemiss.progress import Progress, to_progress
from stablemiss.seeding import Rng, check_rng, draw_seed

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier

Classifier = Literal["mlp", "logistic"]
# The number of rows is divided by this to get the number held out for early stopping of the network.
HELD_OUT_DIVISOR = 10
# Epochs without a lower held-out loss before the network stops.
PATIENCE = 10
# Maximum batch size; small tables get smaller batches.
BATCH_SIZE = 200
MIN_BATCHES = 16
MIN_BATCH_SIZE = 32


@dataclass(frozen=True)
class RatioDecorrelator:
    """Learns row weights that make complete columns independent, not only uncorrelated.

    The exact weights have a finite variance only if the columns are not too dependent: for Gaussian columns,
    if and only if all eigenvalues of their correlation matrix exceed one half. Otherwise `clip` bounds them.

    Parameters
    ----------
    classifier : {"mlp", "logistic"}, default="mlp"
        Separates original from permuted rows. "mlp" is a small network; "logistic" is a logistic regression
        on columns, squares and products, which is exact for Gaussian columns and has about d² / 2 inputs.
    clip : float, default=0.1
        Probabilities are clipped to [clip, 1 − clip], so no weight exceeds (1 − clip) / clip. Towards one
        half the weights become equal; near zero a few rows may take all the weight.
    hidden : sequence of int, default=(100, 5)
        Widths of the hidden layers of the network. Wider layers capture more of the dependence and need more
        rows.
    learning_rate : float, default=3e-3
        Step size of the network. A larger value learns faster and less reliably.
    max_epochs : int, default=500
        Maximum number of epochs of the network; it stops earlier when the loss of held-out rows stops
        falling.
    n_permutations : int, default=3
        Number of permutations over which the weights are averaged. A larger value is less noisy; the cost is
        proportional.
    n_folds : int, default=2
        Number of cross-fitting folds: the weight of a row comes from a classifier not fitted to that row.
        More folds fit each classifier to more rows and cost more. With 1, a single classifier also predicts
        its own training rows, of which "mlp" holds out a tenth for early stopping.

    See Also
    --------
    BalancingDecorrelator : Weights under which complete columns are uncorrelated.
    Decorrelator : Weights for incomplete columns and their mask indicators.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = rng.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], size=2000)
    >>> weight = RatioDecorrelator("logistic").learn_weights(table, rng=rng)
    >>> bool(abs(np.cov(table.T, aweights=weight)[0, 1]) < 0.1)
    True
    """

    classifier: Classifier = "mlp"
    clip: float = 0.1
    hidden: Sequence[int] = (100, 5)
    learning_rate: float = 3e-3
    max_epochs: int = 500
    n_permutations: int = 3
    n_folds: int = 2

    def __post_init__(self) -> None:
        check_choice(self, classifier=get_args(Classifier))
        check_number(self, clip="(0, 0.5)", learning_rate="(0, 1]")
        check_widths(self, "hidden")
        check_integer(self, max_epochs=1, n_permutations=1, n_folds=1)

    def learn_weights(
        self,
        columns: NDArray,
        *,
        rng: Rng,
        weight: NDArray | None = None,
        groups: NDArray | None = None,
        progress: Progress | None = None,
    ) -> Floats:
        """Learn the weights of the rows of a complete table.

        Parameters
        ----------
        columns : (n, d)
            Complete columns, such as mean-imputed ones; they are standardised here.
        rng : numpy Generator
        weight : (n,), default=None
            Weights that the rows already have; the fitted weights multiply them. None for equal weights.
        groups : (d,) int, default=None
            Columns with the same group number encode the same original column and are permuted together. None
            gives every column its own group.
        progress : Progress, default=None
            Updated after each fitted classifier.

        Returns
        -------
        (n,) float64
            Fitted weights times `weight`: mean one, and positive where `weight` is.
        """
        check_rng(rng)
        data = MaskedData.of_complete(columns, weight, groups)
        data.check_has_rows()
        n = len(data)
        progress = to_progress(progress)
        progress.start("row weights", total=self.n_permutations * self.n_folds)
        ratio = np.zeros(n)
        for permutation in range(self.n_permutations):
            for fold, (train, predict) in enumerate(_folds(n, self.n_folds, rng)):
                # The classifiers take no weights, so heavier rows are repeated.
                rows = data.values[train][resample_by_weight(data.weight[train])]
                permuted = np.take_along_axis(rows, draw_orders(len(rows), data.groups, rng), axis=0)
                is_original = np.repeat([1, 0], len(rows))
                model = self._fit_classifier(np.concatenate([rows, permuted]), is_original, rng)
                probability = model.predict_proba(data.values[predict])[:, 1]
                p_original = np.clip(probability, self.clip, 1 - self.clip)
                # PAPER: the density ratio w = (1 − p) / p, with p the probability that a row is original.
                ratio[predict] += (1 - p_original) / p_original
                progress.update(permutation * self.n_folds + fold + 1)
        progress.finish()
        fitted = data.weight * ratio
        return fitted / fitted.mean()

    def _fit_classifier(self, rows: Floats, is_original: NDArray[np.int64], rng: Rng) -> Any:
        """A scikit-learn classifier fitted to separate original (1) from permuted (0) rows."""
        if self.classifier == "mlp":
            return self._fit_network(rows, is_original, rng)
        # Imported late, because only this decorrelator needs it.
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import PolynomialFeatures

        model = make_pipeline(PolynomialFeatures(2, include_bias=False), LogisticRegression(max_iter=1000))
        with warnings.catch_warnings():
            # The estimated ratio is useful even if the fit has not fully converged.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(rows, is_original)

    def _fit_network(self, rows: Floats, is_original: NDArray[np.int64], rng: Rng) -> MLPClassifier:
        from sklearn.neural_network import MLPClassifier

        # DEVIATION: stopped by the log-loss of held-out rows, because 500 epochs on the same rows overfit.
        # scikit-learn's early stopping uses the accuracy, but the weights need calibrated probabilities.
        order = rng.permutation(len(rows))
        n_held_out = max(1, len(rows) // HELD_OUT_DIVISOR)
        held_out, train = order[:n_held_out], order[n_held_out:]
        network = MLPClassifier(
            tuple(self.hidden),
            learning_rate_init=self.learning_rate,
            batch_size=min(len(train), BATCH_SIZE, max(MIN_BATCH_SIZE, len(train) // MIN_BATCHES)),
            random_state=draw_seed(rng),
        )
        best, best_loss, best_epoch = network, np.inf, 0
        for epoch in range(self.max_epochs):
            network.partial_fit(rows[train], is_original[train], classes=[0, 1])
            likelihood = network.predict_proba(rows[held_out])[np.arange(n_held_out), is_original[held_out]]
            loss = -np.log(likelihood.clip(min=1e-12)).mean()
            if loss < best_loss:
                best, best_loss, best_epoch = deepcopy(network), loss, epoch
            elif epoch - best_epoch >= PATIENCE:
                break
        return best


def _folds(n: int, n_folds: int, rng: Rng) -> list[tuple[NDArray, NDArray]]:
    """Training and prediction rows of each fold; the same rows if there is only one fold or one row."""
    n_folds = min(n_folds, n)
    if n_folds == 1:
        return [(np.arange(n), np.arange(n))]
    from sklearn.model_selection import KFold

    return list(KFold(n_folds, shuffle=True, random_state=draw_seed(rng)).split(np.empty(n)))
