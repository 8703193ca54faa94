"""Iterative imputation, then boosted trees: scikit-learn's IterativeImputer followed by LightGBM.

Chained equations as in MICE (van Buuren and Groothuis-Oudshoorn, "mice: Multivariate Imputation by Chained
Equations in R", 2011), in the form of scikit-learn. Missing values start at the mean of their column; then,
round after round, each column is regressed on all others, and its missing values are replaced:

    x_j ← a_tj + Σ_{k≠j} b_tjk x_k   where x_j is missing,   for all columns j in order, rounds t = 1, 2, …

A new row passes through the same regressions. Boosted trees predict the target from the completed columns.

Deviations: one imputation by the regressions' means instead of several random ones; sample weights do not
enter the imputation. Each is explained at its DEVIATION comment.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.base.boosted_trees import (
    BoostingPredictor,
    TreeData,
    check_trees,
    fit_trees,
    lightgbm_params,
    min_leaf_rows,
    with_nan,
)
from stablemiss.base.method import Method, Predictor
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import check_bool, check_integer, check_number
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.stored import stored_array, stored_bool
from stablemiss.tasks import Task


@dataclass(frozen=True, eq=False)
class Imputation:
    """The fitted regressions of scikit-learn's IterativeImputer, as arrays.

    Attributes
    ----------
    mean : (d,)
        Initial value of missing values in each column.
    order : (n_steps,) int
        Column that each step imputes; several rounds, one after the other. There may be no step.
    coefficients : (n_steps, d)
        Of each step, zero for the column itself.
    intercepts : (n_steps,)
    """

    mean: Floats
    order: NDArray[np.int64]
    coefficients: Floats
    intercepts: Floats

    @classmethod
    def fit(
        cls, data: MaskedData, max_iter: int, tol: float, n_nearest_features: int | None, seed: int
    ) -> Imputation:
        """Fit IterativeImputer to the values of rows; its parameters, with `seed` for `random_state`."""
        # Imported late, so that the estimators can be imported quickly.
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer as SklearnIterativeImputer

        # A column without values cannot be regressed; it keeps the value zero and has no influence.
        columns = np.flatnonzero(data.mask.any(axis=0))
        imputer = SklearnIterativeImputer(
            max_iter=max_iter, tol=tol, n_nearest_features=n_nearest_features, random_state=seed
        )
        mean = np.zeros(data.n_columns)
        if len(columns):
            table = with_nan(data.values, data.mask)[:, columns]
            with warnings.catch_warnings():
                # Whether the imputed values still change after the last round is no reason to warn: the
                # predictions are what matters, and `max_iter` bounds the time.
                warnings.simplefilter("ignore", ConvergenceWarning)
                imputer.fit(table)
            mean[columns] = imputer.initial_imputer_.statistics_
        steps = imputer.imputation_sequence_ if len(columns) else []
        coefficients = np.zeros((len(steps), data.n_columns))
        for row, step in zip(coefficients, steps, strict=True):
            row[columns[step.neighbor_feat_idx]] = step.estimator.coef_
        return cls(
            mean,
            np.array([columns[step.feat_idx] for step in steps], dtype=np.int64),
            coefficients,
            np.array([step.estimator.intercept_ for step in steps], dtype=np.float64),
        )

    def complete(self, values: Floats, mask: Bools) -> Floats:
        """The columns (n, d) with all missing values imputed."""
        completed = np.where(mask, values, self.mean)
        missing_rows = [np.flatnonzero(~column) for column in mask.T]
        for column, coefficients, intercept in zip(
            self.order, self.coefficients, self.intercepts, strict=True
        ):
            rows = missing_rows[column]
            # Unlike a matrix product, this sum is rounded in the same way for a row alone and in a table. A
            # tree could split between values that differ in the last digit.
            completed[rows, column] = intercept + np.einsum("nd,d->n", completed[rows], coefficients)
        return completed


class IterativeImputerPredictor(Predictor):
    """Stored regressions that impute, and boosted trees on the completed columns.

    Parameters
    ----------
    imputation : Imputation
    trees : BoostingPredictor
        Reads completed columns and, if `add_indicator`, the mask.
    add_indicator : bool
        Whether the mask is part of the features of the trees.
    """

    def __init__(self, imputation: Imputation, trees: BoostingPredictor, add_indicator: bool):
        self.imputation = imputation
        self.trees = trees
        self.add_indicator = add_indicator

    def _predict(self, values: Floats, mask: Bools) -> Floats:
        features = _features(self.imputation, values, mask, self.add_indicator)
        return self.trees.predict(features, np.ones_like(features))

    def state(self) -> dict[str, Any]:
        return {
            "mean": self.imputation.mean,
            "order": self.imputation.order,
            "coefficients": self.imputation.coefficients,
            "intercepts": self.imputation.intercepts,
            "add_indicator": self.add_indicator,
            "trees": self.trees.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        # There may be no step, so the number of steps is read from the array.
        n_steps = len(state["order"])
        imputation = Imputation(
            stored_array(state, "mean", (n_columns,)),
            stored_array(state, "order", (n_steps,), np.int64, lowest=0, highest=n_columns - 1),
            stored_array(state, "coefficients", (n_steps, n_columns)),
            stored_array(state, "intercepts", (n_steps,)),
        )
        add_indicator = stored_bool(state, "add_indicator")
        trees = BoostingPredictor.from_state(state["trees"], n_columns * (1 + add_indicator), task)
        return cls(imputation, trees, add_indicator)


class IterativeImputer(Method):
    """scikit-learn's IterativeImputer (MICE style), then boosted trees (LightGBM).

    The usual way to combine imputation with a strong predictor. The trees see imputed values as if they were
    observed. They are fitted to the imputation errors of the masks in training, and nothing adapts them to
    those of other masks.

    Parameters
    ----------
    max_iter : int, default=10
        Maximum number of rounds, each of which imputes every column once. A larger value gets closer to
        convergence; the cost of fitting and predicting is proportional. 0 is mean imputation.
    tol : float, default=1e-3
        Rounds end when no imputed value changes by more than this fraction of the largest value. A larger
        value ends earlier.
    n_nearest_features : int or None, default=None
        Number of other columns in each regression, drawn in proportion to their correlation. A larger value
        imputes better and takes longer. None uses all columns.
    add_indicator : bool, default=False
        Whether the trees also read the mask. This helps if missingness is informative about the target, and
        lets the trees tell imputed values from observed ones; they then depend on the missingness in
        training.
    n_trees : int, default=2000
        Maximum number of boosting rounds. Early stopping usually ends sooner; raising it then has no effect.
    learning_rate : float, default=0.05
        Shrinkage of each tree. Raising it needs fewer trees and loses some accuracy.
    n_leaves : int, default=31
        Leaves per tree. Raising it captures higher-order interactions and overfits small tables sooner.
    min_rows_per_leaf : int, default=20
        Minimum number of rows in a leaf; small tables use a tenth of their rows instead. Raising it makes
        predictions smoother.
    patience : int, default=50
        Rounds without a better validation loss after which training stops. Raising it costs time and makes
        early stopping less sensitive to a noisy validation set.

    See Also
    --------
    Boosting : The same trees with missing values as they are.
    EMMixture : Imputes and predicts with one model of the columns.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> X[:, 1] = X[:, 0]
    >>> y = X[:, 0].copy()
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=IterativeImputer(), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.0, 1.0], [np.nan, 1.0]]) - 1.0).max() < 0.1)
    True
    """

    name: ClassVar[str] = "iterative_imputer"
    predictor_class: ClassVar[type[Predictor]] = IterativeImputerPredictor
    space: ClassVar[Space] = {
        "max_iter": Choice(0, 3, 10, 30),
        "add_indicator": Choice(False, True),
        "learning_rate": Range(0.01, 0.2, log=True),
        "n_leaves": Range(4, 128, log=True),
        "min_rows_per_leaf": Range(5, 100, log=True),
    }
    brief: ClassVar[Mapping[str, Any]] = {"max_iter": 2}

    def __init__(
        self,
        max_iter: int = 10,
        tol: float = 1e-3,
        n_nearest_features: int | None = None,
        add_indicator: bool = False,
        n_trees: int = 2000,
        learning_rate: float = 0.05,
        n_leaves: int = 31,
        min_rows_per_leaf: int = 20,
        patience: int = 50,
    ):
        self.max_iter = max_iter
        self.tol = tol
        self.n_nearest_features = n_nearest_features
        self.add_indicator = add_indicator
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.n_leaves = n_leaves
        self.min_rows_per_leaf = min_rows_per_leaf
        self.patience = patience

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> IterativeImputerPredictor:
        check_integer(self, max_iter=0)
        check_integer(self, n_nearest_features=1, unless=None)
        check_number(self, tol="[0, inf)")
        check_bool(self, "add_indicator")
        check_trees(self)
        # DEVIATION: imputed values are means of the regressions, a single time, because trees would be fitted
        # to the noise of random draws, and scikit-learn's defaults do the same.
        # DEVIATION: rows count equally in the imputation unless their weight is zero, because scikit-learn's
        # imputer takes no sample weights; the trees use them.
        imputation = Imputation.fit(
            train.rows(np.flatnonzero(train.weight > 0)),
            int(self.max_iter),
            float(self.tol),
            None if self.n_nearest_features is None else int(self.n_nearest_features),
            draw_seed(rng),
        )
        add_indicator = bool(self.add_indicator)
        # Without validation rows the training rows decide when to stop, as in the other methods.
        valid = _completed(valid if len(valid) else train, imputation, add_indicator)
        train = _completed(train, imputation, add_indicator)
        params = lightgbm_params(self, train, min_leaf_rows(self, len(train)), rng)
        trees = fit_trees(self, params, TreeData.of(train), TreeData.of(valid), task, progress)
        return IterativeImputerPredictor(imputation, trees, add_indicator)


def _features(imputation: Imputation, values: Floats, mask: Bools, add_indicator: bool) -> Floats:
    """Features of the trees: completed columns and, if `add_indicator`, the mask."""
    completed = imputation.complete(values, mask)
    return np.hstack([completed, mask]) if add_indicator else completed


def _completed(data: MaskedData, imputation: Imputation, add_indicator: bool) -> MaskedData:
    """The same rows with the features of the trees as columns, all of them observed."""
    features = _features(imputation, data.values, data.mask, add_indicator)
    return replace(
        data,
        values=features,
        mask=np.ones(features.shape, dtype=bool),
        groups=np.tile(data.groups, 1 + add_indicator),
    )
