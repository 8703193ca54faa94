"""Feature importance: how informative each column is about the target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from stablemiss.base.boosted_trees import n_threads_for, with_nan
from stablemiss.data import Floats, MaskedData
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Classification, Task

# Maximum number of rows from which importance is estimated.
MAX_ROWS = 20_000


def feature_importance(train: MaskedData, task: Task, rng: Rng) -> Floats:
    """Importance of each column of the user's table, (n_groups,); only proportions matter.

    The mean of the column's gain in a small LightGBM model and its `univariate_importance`. Gain alone is not
    enough: trees use only one of several redundant columns, but all of them may be missing at once.

    Parameters
    ----------
    train : MaskedData
    task : Task
    rng : numpy Generator
        Draws a subset of the rows if there are very many, and seeds the trees.

    See Also
    --------
    univariate_importance : Importance of each column on its own.
    """
    # Imported late, so that the estimators can be imported quickly.
    import lightgbm

    n_rows = min(len(train), MAX_ROWS)
    rows = train.rows(np.sort(rng.permutation(len(train))[:n_rows]))
    is_classes = isinstance(task, Classification)
    targets = [rows.target] if is_classes else list(rows.target.T)
    params = {
        "objective": "multiclass" if is_classes else "regression",
        "num_class": task.d_output if is_classes else 1,
        "num_leaves": 15,
        "min_data_in_leaf": max(1, min(20, n_rows // 10)),
        "seed": draw_seed(rng),
        "num_threads": n_threads_for(rows.values),
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }
    table = with_nan(rows.values, rows.mask)
    importance = np.zeros(train.n_columns)
    for target in targets:
        data = lightgbm.Dataset(table, target, weight=rows.weight)
        booster = lightgbm.train(params, data, num_boost_round=max(5, 40 // max(1, task.d_output)))
        gain = booster.feature_importance("gain")
        for shares in (gain, univariate_importance(table, target, is_classes)):
            importance += shares / max(shares.sum(), 1e-12)
    return np.array([importance[train.groups == column].sum() for column in np.unique(train.groups)])


def univariate_importance(table: Floats, target: NDArray, is_classes: bool) -> Floats:
    """Fraction of the variance of each column's ranks that the target explains, (d,), between 0 and 1.

    Unlike the gain of a model, it does not divide the importance between redundant columns.

    Parameters
    ----------
    table : (n, d)
        NaN where missing; missing values are ignored.
    target : (n,)
        Numbers (the squared rank correlation with the column is computed), or class labels (the mean ranks of
        the column within the classes are compared).
    is_classes : bool
        Whether the target holds classes.

    Examples
    --------
    >>> table = np.array([[1.0, 4.0], [2.0, 4.0], [3.0, 4.0], [np.nan, 4.0]])
    >>> univariate_importance(table, np.array([10.0, 20.0, 30.0, 0.0]), is_classes=False).round(6).tolist()
    [1.0, 0.0]
    """
    importance = np.zeros(table.shape[1])
    for column, values in enumerate(table.T):
        observed = ~np.isnan(values)
        column_target = np.asarray(target)[observed]
        if observed.sum() < 3 or np.ptp(values[observed]) == 0 or len(np.unique(column_target)) < 2:
            continue
        ranks = rankdata(values[observed])
        if not is_classes:
            importance[column] = np.corrcoef(ranks, rankdata(column_target))[0, 1] ** 2
        else:
            _, codes = np.unique(column_target, return_inverse=True)
            means = np.bincount(codes, ranks) / np.bincount(codes)
            importance[column] = np.var(means[codes]) / np.var(ranks)
    return importance
