"""Gradient boosted trees (LightGBM) with native missing values, optionally with mask augmentation."""

from __future__ import annotations

from typing import Any, ClassVar

from stablemiss.base.boosted_trees import (
    BoostingPredictor,
    TreeData,
    check_trees,
    fit_trees,
    lightgbm_params,
    min_leaf_rows,
)
from stablemiss.base.method import Method, Predictor
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import check_integer, check_number
from stablemiss.data import MaskedData
from stablemiss.missingness import MaskAugmentation
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


class Boosting(Method):
    """Gradient boosted trees with LightGBM's native treatment of missing values.

    For each split LightGBM chooses the side to which missing values are sent. This works very well if the
    missingness is the same as in training. If a column was never missing in training, the side is arbitrary.
    Mask augmentation trains the trees on many more masks than the data contain.

    Parameters
    ----------
    masked_copies : int, default=0
        Number of masked copies of the rows to add to the original ones. In a masked copy most rows draw a
        rate between 0 and 1 and hide each observed column with that probability. 0 is plain LightGBM. Raising
        it improves accuracy when the missingness changes; time and memory grow in proportion. About 6 is
        enough.
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
    max_features : float, default=1.0
        Share of the columns that each tree may use, drawn at random. Lowering it makes trees differ, so that
        they rely less on single columns, and faster; too low a value underfits.

    See Also
    --------
    stablemiss.anymask.AnyMask : Combines boosting with a mixture and a network.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import MissingRegressor
    >>> X = np.tile([[0.0], [1.0], [np.nan]], (50, 1))
    >>> y = np.tile([5.0, 9.0, 1.0], 50)
    >>> model = MissingRegressor(method=Boosting(n_trees=200), random_state=0).fit(X, y)
    >>> model.predict([[0.0], [1.0], [np.nan]]).round(1)
    array([5., 9., 1.])
    """

    name: ClassVar[str] = "boosting"
    predictor_class: ClassVar[type[Predictor]] = BoostingPredictor
    space: ClassVar[Space] = {
        "masked_copies": Choice(0, 3, 6),
        "learning_rate": Range(0.01, 0.2, log=True),
        "n_leaves": Range(4, 128, log=True),
        "min_rows_per_leaf": Range(5, 100, log=True),
    }

    def __init__(
        self,
        masked_copies: int = 0,
        n_trees: int = 2000,
        learning_rate: float = 0.05,
        n_leaves: int = 31,
        min_rows_per_leaf: int = 20,
        patience: int = 50,
        max_features: float = 1.0,
    ):
        self.masked_copies = masked_copies
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.n_leaves = n_leaves
        self.min_rows_per_leaf = min_rows_per_leaf
        self.patience = patience
        self.max_features = max_features

    @property
    def hides_values(self) -> bool:
        return self.masked_copies > 0

    def fit(
        self,
        train: MaskedData,
        valid: MaskedData,
        task: Task,
        rng: Rng,
        progress: Progress,
        n_threads: int | None = None,
    ) -> BoostingPredictor:
        """Fit to `train`; see `Method.fit`.

        Parameters
        ----------
        train, valid, task, rng, progress
            As in `Method.fit`.
        n_threads : int, default=None
            Number of threads for large tables; None uses OpenMP's setting. The trees do not depend on it.
        """
        check_integer(self, masked_copies=(0, 1000))
        check_trees(self)
        check_number(self, max_features="(0, 1]")
        # Without validation rows the training rows decide when to stop, as in the other methods.
        valid = valid if len(valid) else train
        # Computed before the masked copies are added, because copies are not independent rows.
        min_rows = min_leaf_rows(self, len(train))
        if self.masked_copies > 0:
            augmentation = MaskAugmentation.of(train.groups)
            train, valid = (augmentation.copies(data, self.masked_copies, rng) for data in (train, valid))
        params = self.lightgbm_params(train, min_rows, rng, n_threads)
        return fit_trees(self, params, TreeData.of(train), TreeData.of(valid), task, progress)

    def lightgbm_params(
        self, train: MaskedData, min_rows: int, rng: Rng, n_threads: int | None = None
    ) -> dict[str, Any]:
        """Parameters of LightGBM that do not depend on the task; see `boosted_trees.lightgbm_params`."""
        return lightgbm_params(self, train, min_rows, rng, n_threads) | {
            "feature_fraction": float(self.max_features)
        }
