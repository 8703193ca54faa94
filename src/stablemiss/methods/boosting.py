"""Gradient boosted trees (LightGBM), which take holes as they are; optionally on masked copies of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import lightgbm
import numpy as np
from numpy.typing import NDArray

from stablemiss.base.method import Method, Predictor, check_at_least
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.missingness import MaskAugmentation
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Classification, Task

# Tables of fewer cells use one thread. On them threads bring little, and while other processes keep the cores
# busy, waiting for each other can take a hundred times as long as the work.
MANY_CELLS = 500_000
# Least fall of the validation loss, in variances of the target, for which trees go on from a start.
SMALL_GAIN = 1e-4
# Rows from which LightGBM finds its bins, its own default, and the most cells in them: it holds these at 12
# bytes each beside the table.
MOST_BINNED, MOST_BINNED_CELLS = 200_000, 8_000_000


class BoostingPredictor(Predictor):
    """LightGBM models: one per output, or one alone for all classes.

    `models` are LightGBM's own text, its safe format. Predictions always come from models read from text,
    so a stored predictor and a fresh one are the same thing. Those that went on from another predictor's
    outputs (`goes_on`) need these outputs to predict, too.
    """

    def __init__(self, models: list[str], is_binary: bool, goes_on: bool = False):
        self.models = models
        self.is_binary = is_binary
        self.goes_on = goes_on
        self.boosters = [lightgbm.Booster(model_str=text) for text in models]

    def outputs(self, values: Floats, mask: NDArray, start: Floats | None = None) -> Floats:
        added = self._added(_with_start(values, mask, start))
        return added if start is None else start + added

    def _added(self, holes: Floats) -> Floats:
        n_threads = n_threads_for(holes)
        raw = [
            np.asarray(booster.predict(holes, raw_score=True, num_threads=n_threads))
            for booster in self.boosters
        ]
        raw = [output.reshape(len(holes), -1) for output in raw]
        # One log-odds for two classes: the first class is the reference.
        return np.hstack([np.zeros((len(holes), 1)), *raw] if self.is_binary else raw)

    def state(self) -> dict[str, Any]:
        return {"models": self.models, "is_binary": self.is_binary, "goes_on": self.goes_on}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(state["models"], state["is_binary"], state["goes_on"])


class Boosting(Method):
    """Gradient boosted trees with LightGBM's native treatment of missing cells.

    Each split learns on which side missing cells belong. That is excellent for holes like those in
    training and arbitrary for others: a column that was never missing has no learnt side. MaskAugmentation shows
    the trees many more masks than the data has.

    Parameters
    ----------
    masked_copies : int
        How many masked copies of the rows join the untouched ones. In a augmented copy most rows draw a
        rate between 0 and 1 and hide each observed column with that probability. 0 is plain LightGBM;
        raising it costs time and memory in proportion and buys accuracy when the missingness changes.
        About 6 is enough.
    n_trees : int
        Most boosting rounds. Early stopping usually ends sooner, so raising it mostly costs nothing.
    learning_rate : float
        Share of each tree's answer that is taken. Raising it needs fewer trees and loses some accuracy.
    n_leaves : int
        Leaves per tree. Raising it catches higher interactions and overfits small tables sooner.
    min_rows_per_leaf : int
        Fewest rows in a leaf; small tables use a tenth of their rows instead. Raising it smooths.
    patience : int
        Rounds without a better validation loss after which to stop. Raising it costs time and forgives a
        noisy validation set.

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
    predictor: ClassVar[type[Predictor]] = BoostingPredictor
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
    ):
        self.masked_copies = masked_copies
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.n_leaves = n_leaves
        self.min_rows_per_leaf = min_rows_per_leaf
        self.patience = patience

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> BoostingPredictor:
        return self.fit_from(None, train, valid, task, rng, progress)

    def fit_from(
        self,
        start: Predictor | None,
        train: MaskedData,
        valid: MaskedData,
        task: Task,
        rng: Rng,
        progress: Progress,
        n_threads: int | None = None,
    ) -> BoostingPredictor:
        """`fit`, where the trees add to the outputs of `start`, if there is one, and may also split by them.

        For numbers only: densities of classes know the rows they were fitted to far too well to go on from.
        The trees are the same for any number of threads.
        """
        if start is not None and isinstance(task, Classification):
            raise ValueError(
                "Trees go on from another predictor only for numbers, but the target is a class."
            )
        check_at_least(self, masked_copies=0, n_trees=1, n_leaves=2, min_rows_per_leaf=1, patience=1)
        # Without validation rows the training rows decide when to stop, as in the other methods.
        valid = valid if len(valid) else train
        # A leaf of twenty rows leaves nothing to split in a table of thirty.
        min_rows = max(1, min(self.min_rows_per_leaf, len(train) // 10))
        if self.masked_copies > 0:
            augmentation = MaskAugmentation.of(train.groups)
            train, valid = (augmentation.copies(data, self.masked_copies, rng) for data in (train, valid))
        params: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "num_leaves": self.n_leaves,
            "min_data_in_leaf": min_rows,
            "min_data_in_bin": min(3, min_rows),
            "bin_construct_sample_cnt": min(MOST_BINNED, MOST_BINNED_CELLS // train.n_columns),
            "seed": draw_seed(rng),
            "num_threads": n_threads_for(train.values) or n_threads or 0,
            # Together these make the trees independent of the number of threads.
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        parts = [_Part.of(data, start) for data in (train, valid)]
        if not isinstance(task, Classification):
            params["objective"] = "regression"
            outputs = range(task.d_output)
            models = [self._boost(params, [part.output(k) for part in parts], progress) for k in outputs]
            return BoostingPredictor(models, is_binary=False, goes_on=start is not None)
        is_binary = task.d_output == 2
        # LightGBM counts two classes as one number to predict.
        params |= {
            "objective": "binary" if is_binary else "multiclass",
            "num_class": 1 if is_binary else task.d_output,
        }
        return BoostingPredictor([self._boost(params, parts, progress)], is_binary)

    def _boost(self, params: dict[str, Any], parts: list[_Part], progress: Progress) -> str:
        """Boost on one target until the validation loss no longer falls; the best model's text."""
        train, valid = parts
        data = lightgbm.Dataset(
            train.holes, train.target, weight=train.weight, init_score=train.start, params=params
        )
        held_out = data.create_valid(
            valid.holes, valid.target, weight=valid.weight, init_score=valid.start, params=params
        )

        def report(env: lightgbm.callback.CallbackEnv) -> None:
            assert env.evaluation_result_list is not None
            progress.update(env.iteration + 1, f"validation loss {env.evaluation_result_list[0][2]:.4g}")

        progress.start("boosting", total=self.n_trees)
        booster = lightgbm.train(
            params,
            data,
            num_boost_round=self.n_trees,
            valid_sets=[held_out],
            callbacks=[
                report,
                lightgbm.early_stopping(
                    self.patience,
                    verbose=False,
                    # A good start leaves little; without this, trees would go on for next to nothing.
                    min_delta=0.0 if train.start is None else SMALL_GAIN,
                ),
            ],
        )
        progress.finish()
        return booster.model_to_string(num_iteration=booster.best_iteration)


@dataclass(frozen=True)
class _Part:
    """Training or validation rows as LightGBM takes them."""

    holes: Floats
    target: NDArray
    weight: Floats
    start: Floats | None

    @classmethod
    def of(cls, data: MaskedData, start: Predictor | None) -> _Part:
        outputs = None if start is None else start.outputs(data.values, data.mask)
        return cls(_with_start(data.values, data.mask, outputs), data.target, data.weight, outputs)

    def output(self, k: int) -> _Part:
        """For one of several numbers to predict."""
        start = None if self.start is None else self.start[:, k].copy()
        return replace(self, target=self.target[:, k], start=start)


def _with_start(values: Floats, mask: Bools, start: Floats | None) -> Floats:
    """NaN where hidden, followed by the outputs to start from, if there are any."""
    if start is None:
        return with_nan(values, mask)
    holes = np.hstack([values, start])
    holes[:, : values.shape[1]][~mask] = np.nan
    return holes


def n_threads_for(values: Floats) -> int:
    """Threads for so many cells, as LightGBM counts them: 0 is all that OpenMP may use."""
    return 1 if values.size < MANY_CELLS else 0


def with_nan(values: Floats, mask: Bools) -> Floats:
    """LightGBM's own notation: NaN where hidden."""
    return np.where(mask, values, np.nan)
