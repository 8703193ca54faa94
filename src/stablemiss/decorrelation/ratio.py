"""Row weights under which complete columns are independent: the ratio of two densities, by classification.

With each column in an order of its own, rows come from the product Q of the margins of their distribution P.
A classifier that tells rows of P (probability p) from rows of Q knows the ratio of the two:

    w(x) = q(x) / p(x) = (1 − p(x)) / p(x)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from stablemiss.data import Floats, MaskedData, centre_and_scale
from stablemiss.decorrelation.permuting import draw_orders, rows_in_proportion
from stablemiss.progress import NullProgress, Progress
from stablemiss.seeding import Rng, draw_seed

Classifier = Literal["mlp", "logistic"]
# One row in so many decides when the network has learnt enough, after so many epochs without a gain.
HELD_OUT = 10
PATIENCE = 10
# Batches in an epoch are at most so large, and smaller in small tables.
BATCH_SIZE = 200
MIN_BATCHES = 16
MIN_BATCH_SIZE = 32


def ratio_weights(
    columns: NDArray,
    classifier: Classifier = "mlp",
    clip: float = 0.1,
    *,
    rng: Rng,
    base: NDArray | None = None,
    groups: NDArray | None = None,
    hidden: Sequence[int] = (100, 5),
    learning_rate: float = 3e-3,
    max_epochs: int = 500,
    n_permutations: int = 3,
    n_folds: int = 2,
    progress: Progress | None = None,
) -> Floats:
    """Learn row weights that make columns independent, not only uncorrelated.

    Weights of finite variance exist only if columns are not too dependent: for normal ones if and only if all
    eigenvalues of their correlations are above one half. Beyond, `clip` decides how far to go.

    Parameters
    ----------
    columns : (n, d)
        Complete columns, such as mean-imputed ones; standardised here.
    classifier : "mlp" or "logistic"
        What tells rows from permuted ones. "mlp" is a small network; "logistic" is a logistic regression on
        columns, squares and products, exact for normal columns and of a size that grows with d².
    clip : float
        Probabilities are kept within clip and 1 − clip, so no row gets more than (1 − clip) / clip. Raising
        it towards one half makes weights equal; near zero a few rows may take all the weight.
    rng : numpy Generator
    base : (n,), optional
        Weights that the rows have already. What is learnt multiplies them; equal by default.
    groups : (d,) int, optional
        Columns with the same number are parts of one and stay together.
    hidden : sequence of int
        Widths of the network's layers. Wider sees more of the dependence, and needs more rows.
    learning_rate : float
        Step size of the network. Larger learns faster and less surely.
    max_epochs : int
        Most passes of the network over the rows; it ends sooner when held-out rows gain no more.
    n_permutations : int
        Weights are averaged over so many: more are steadier, at proportional cost.
    n_folds : int
        A row's weight comes from classifiers that have not learnt from it, one for each fold. More learn
        from more rows and cost more; with 1 a single classifier judges the rows it was made from, of which
        "mlp" keeps a tenth to stop by.
    progress : Progress, optional

    Returns
    -------
    (n,) float64
        Learnt weights times `base`: mean one, and positive where `base` is.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = rng.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], size=2000)
    >>> weight = ratio_weights(table, "logistic", rng=rng)
    >>> bool(abs(np.cov(table.T, aweights=weight)[0, 1]) < 0.1)
    True
    """
    _check(classifier, clip, n_permutations, n_folds, max_epochs)
    columns = np.asarray(columns, dtype=np.float64)
    n, d = columns.shape
    centre, scale = centre_and_scale(columns, base)
    data = MaskedData.of((columns - centre) / scale, np.ones((n, d)), np.zeros(n), base, groups)
    progress = progress or NullProgress()
    progress.start("row weights", total=n_permutations * n_folds)

    ratio = np.zeros(n)
    for permutation in range(n_permutations):
        for fold, (learn, judge) in enumerate(_folds(n, n_folds, rng)):
            # Classifiers count rows alike.
            rows = data.values[learn][rows_in_proportion(data.weight[learn])]
            apart = np.take_along_axis(rows, draw_orders(len(rows), data.groups, rng), axis=0)
            is_real = np.repeat([1, 0], len(rows))
            probability = _learn(
                classifier, np.concatenate([rows, apart]), is_real, hidden, learning_rate, max_epochs, rng
            )
            real = np.clip(probability(data.values[judge]), clip, 1 - clip)
            # PAPER: the ratio of the densities, w = (1 − p) / p with p the probability of a real row.
            ratio[judge] += (1 - real) / real
            progress.update(permutation * n_folds + fold + 1)
    progress.finish()
    weight = data.weight * ratio
    return weight / weight.mean()


def _folds(n: int, n_folds: int, rng: Rng) -> list[tuple[NDArray, NDArray]]:
    """Rows to learn from and rows to judge, which are the same if there is one fold, or one row."""
    n_folds = min(n_folds, n)
    if n_folds == 1:
        return [(np.arange(n), np.arange(n))]
    return list(KFold(n_folds, shuffle=True, random_state=draw_seed(rng)).split(np.empty(n)))


def _learn(
    classifier: str,
    rows: Floats,
    is_real: NDArray[np.int64],
    hidden: Sequence[int],
    learning_rate: float,
    max_epochs: int,
    rng: Rng,
) -> Callable[[Floats], Floats]:
    """Rows → the probability that they are real."""
    if classifier == "logistic":
        model: Any = make_pipeline(
            PolynomialFeatures(2, include_bias=False), LogisticRegression(max_iter=1000)
        )
        with warnings.catch_warnings():
            # A ratio that is not yet at its optimum is still a ratio.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows, is_real)
    else:
        model = _learn_network(rows, is_real, hidden, learning_rate, max_epochs, rng)
    return lambda new: model.predict_proba(new)[:, 1]


def _learn_network(
    rows: Floats,
    is_real: NDArray[np.int64],
    hidden: Sequence[int],
    learning_rate: float,
    max_epochs: int,
    rng: Rng,
) -> MLPClassifier:
    # DEVIATION: stopped by the log-loss of rows held out, because 500 epochs on the same rows learn them by
    # heart. Not by scikit-learn itself, which looks at the accuracy: that says little about how far
    # probabilities are from a half, and they are what counts.
    order = rng.permutation(len(rows))
    n_stop = max(1, len(rows) // HELD_OUT)
    stop, learn = order[:n_stop], order[n_stop:]
    network = MLPClassifier(
        tuple(hidden),
        learning_rate_init=learning_rate,
        batch_size=min(len(learn), BATCH_SIZE, max(MIN_BATCH_SIZE, len(learn) // MIN_BATCHES)),
        random_state=draw_seed(rng),
    )
    best, best_loss, best_epoch = network, np.inf, 0
    for epoch in range(max_epochs):
        network.partial_fit(rows[learn], is_real[learn], classes=[0, 1])
        right = network.predict_proba(rows[stop])[np.arange(n_stop), is_real[stop]]
        loss = -np.log(right.clip(min=1e-12)).mean()
        if loss < best_loss:
            best, best_loss, best_epoch = deepcopy(network), loss, epoch
        elif epoch - best_epoch >= PATIENCE:
            break
    return best


def _check(classifier: str, clip: float, n_permutations: int, n_folds: int, max_epochs: int) -> None:
    if classifier not in get_args(Classifier):
        raise ValueError(f'classifier={classifier!r} is unknown; choose "mlp" or "logistic".')
    if not 0 < clip < 0.5:
        raise ValueError(
            f"clip={clip!r} must lie between 0 and 0.5; 1e-6 is as good as none, and towards 0.5 weights "
            "become equal."
        )
    if min(n_permutations, n_folds, max_epochs) < 1:
        raise ValueError(
            f"n_permutations={n_permutations!r}, n_folds={n_folds!r} and max_epochs={max_epochs!r} must be "
            "at least 1 each."
        )
