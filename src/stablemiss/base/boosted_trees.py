"""Boosted trees (LightGBM) for methods: predictor, training with early stopping, and scores of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.base.lightgbm_text import load_booster, model_text
from stablemiss.base.method import Predictor
from stablemiss.checks import check_integer, check_number
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.stored import stored_list
from stablemiss.tasks import Classification, Task

if TYPE_CHECKING:
    import lightgbm

# Tables with fewer cells use one thread. More threads save little time there, and on a busy machine they can
# wait for each other a hundred times as long as they compute.
MIN_CELLS_FOR_THREADS = 500_000
# Maximum number of rows from which LightGBM builds its histogram bins (LightGBM's default), and of cells in
# these rows, because LightGBM stores each cell in 12 bytes in addition to the table.
MAX_BINNED_ROWS, MAX_BINNED_CELLS = 200_000, 8_000_000
# LightGBM's limit.
MAX_LEAVES = 131_072
# Maximum number of cells in one call of LightGBM's `predict`, which takes about half a second with a thousand
# trees and one thread.
MAX_PREDICTED_CELLS = 200_000

# LightGBM's objective for two classes.
BINARY = "binary sigmoid:1"


class BoostingPredictor(Predictor):
    """LightGBM models: one per output for regression, a single one for classification.

    Parameters
    ----------
    models : list of str
        Models in LightGBM's text format. Predictions always use models read from text, so a loaded predictor
        and a newly fitted one give identical predictions.
    n_columns : int
        Number of encoded columns.
    objective : str
        From `objective_of`.
    """

    def __init__(self, models: list[str], n_columns: int, objective: str):
        self.models = models
        self.is_binary = objective == BINARY
        self.boosters = [load_booster(text, n_columns, objective) for text in models]

    def _predict(self, values: Floats, mask: Bools) -> Floats:
        return self.outputs(with_nan(values, mask))

    def outputs(self, table: Floats) -> Floats:
        """Raw outputs (n, d_output) for the features (n, p) that the trees read, NaN where missing."""
        outputs = raw_scores(self.boosters, table)
        # For two classes LightGBM returns only the log-odds of the second class relative to the first.
        return np.hstack([np.zeros((len(table), 1)), outputs]) if self.is_binary else outputs

    def state(self) -> dict[str, Any]:
        return {"models": self.models}

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        n_models = 1 if isinstance(task, Classification) else task.d_output
        return cls(stored_list(state, "models", str, n_models), n_columns, objective_of(task))


class TreesMethod(Protocol):
    """A method with the hyper-parameters of boosted trees."""

    n_trees: int
    learning_rate: float
    n_leaves: int
    min_rows_per_leaf: int
    patience: int


def check_trees(method: TreesMethod) -> None:
    """Raise ValueError if a hyper-parameter of boosted trees is invalid."""
    check_integer(method, n_trees=1, n_leaves=(2, MAX_LEAVES), min_rows_per_leaf=1, patience=1)
    check_number(method, learning_rate="(0, 1]")


def min_leaf_rows(method: TreesMethod, n_rows: int) -> int:
    """Minimum number of rows in a leaf for a table of `n_rows`.

    With twenty rows per leaf, a table of thirty rows could not be split at all.
    """
    return max(1, min(method.min_rows_per_leaf, n_rows // 10))


def fit_trees(
    method: TreesMethod,
    params: dict[str, Any],
    train: TreeData,
    valid: TreeData,
    task: Task,
    progress: Progress,
    min_delta: float = 0.0,
    description: str = "boosted trees",
) -> BoostingPredictor:
    """Fit the trees of all outputs: one model for each number, a single one for all classes.

    Parameters
    ----------
    method : TreesMethod
        The hyper-parameters.
    params : dict
        From `lightgbm_params`.
    train, valid : TreeData
        `valid` decides when to stop; it must not be empty.
    task : Task
    progress, min_delta, description
        As in `boost`.
    """
    objective = objective_of(task)
    params = {**params, "objective": objective.split()[0]}
    if not isinstance(task, Classification):
        models = [
            boost(method, params, train.for_output(k), valid.for_output(k), progress, min_delta, description)
            for k in range(task.d_output)
        ]
        return BoostingPredictor(models, train.table.shape[1], objective)
    # LightGBM predicts a single score for two classes.
    params["num_class"] = 1 if objective == BINARY else task.d_output
    models = [boost(method, params, train, valid, progress, min_delta, description)]
    return BoostingPredictor(models, train.table.shape[1], objective)


@dataclass(frozen=True)
class TreeData:
    """Training or validation rows in the form that LightGBM expects.

    Attributes
    ----------
    table : (n, p)
        NaN where missing.
    target : (n,) or (n, d_output)
    weight : (n,)
    init_score : (n,) or (n, d_output), default=None
        Initial predictions, to which the outputs of the trees are added; None starts from a constant.
    """

    table: Floats
    target: NDArray
    weight: Floats
    init_score: Floats | None = None

    @classmethod
    def of(cls, data: MaskedData) -> TreeData:
        """Build from encoded rows."""
        return cls(with_nan(data.values, data.mask), data.target, data.weight)

    def for_output(self, k: int) -> TreeData:
        """The same rows with the k-th of the numeric targets."""
        init_score = None if self.init_score is None else self.init_score[:, k].copy()
        return replace(self, target=self.target[:, k], init_score=init_score)


def objective_of(task: Task) -> str:
    """LightGBM's objective for a task, with its parameters, as in the text of a model."""
    if not isinstance(task, Classification):
        return "regression"
    return BINARY if task.d_output == 2 else f"multiclass num_class:{task.d_output}"


def lightgbm_params(
    method: TreesMethod, train: MaskedData, min_rows: int, rng: Rng, n_threads: int | None = None
) -> dict[str, Any]:
    """Parameters of LightGBM that do not depend on the task.

    Parameters
    ----------
    method : TreesMethod
        The hyper-parameters.
    train : MaskedData
        Training rows, including masked copies.
    min_rows : int
        Minimum number of rows in a leaf.
    rng : numpy Generator
    n_threads : int, default=None
        Number of threads for large tables; None uses OpenMP's setting.
    """
    return {
        # LightGBM does not accept the numbers of numpy everywhere.
        "learning_rate": float(method.learning_rate),
        "num_leaves": int(method.n_leaves),
        "min_data_in_leaf": min_rows,
        "min_data_in_bin": min(3, min_rows),
        "bin_construct_sample_cnt": min(MAX_BINNED_ROWS, MAX_BINNED_CELLS // train.n_columns),
        "seed": draw_seed(rng),
        "num_threads": n_threads_for(train.values) or n_threads or 0,
        # Together these make the trees independent of the number of threads.
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }


def boost(
    method: TreesMethod,
    params: dict[str, Any],
    train: TreeData,
    valid: TreeData,
    progress: Progress,
    min_delta: float = 0.0,
    description: str = "boosted trees",
) -> str:
    """Fit boosted trees to one target with early stopping, and return the best model as text.

    Parameters
    ----------
    method : TreesMethod
        Its `n_trees` and `patience` are used.
    params : dict
        Parameters of LightGBM.
    train, valid : TreeData
    progress : Progress
    min_delta : float, default=0.0
        Smallest decrease of the validation loss that counts as an improvement. Raising it stops sooner.
    description : str, default="boosted trees"
        Name of the task in progress reports.
    """
    # Imported late, so that the estimators can be imported quickly.
    import lightgbm

    train_set = lightgbm.Dataset(
        train.table, train.target, weight=train.weight, init_score=train.init_score, params=params
    )
    valid_set = train_set.create_valid(
        valid.table, valid.target, weight=valid.weight, init_score=valid.init_score, params=params
    )
    return train_booster(method, params, train_set, valid_set, progress, min_delta, description)


def train_booster(
    method: TreesMethod,
    params: dict[str, Any],
    train_set: lightgbm.Dataset,
    valid_set: lightgbm.Dataset,
    progress: Progress,
    min_delta: float = 0.0,
    description: str = "boosted trees",
) -> str:
    """Like `boost`, for rows that LightGBM has binned already."""
    import lightgbm

    def report(env: lightgbm.callback.CallbackEnv) -> None:
        assert env.evaluation_result_list is not None
        progress.update(env.iteration + 1, f"validation loss {env.evaluation_result_list[0][2]:.4g}")

    progress.start(description, total=int(method.n_trees))
    early_stopping = lightgbm.early_stopping(int(method.patience), verbose=False, min_delta=min_delta)
    booster = lightgbm.train(
        params,
        train_set,
        num_boost_round=int(method.n_trees),
        valid_sets=[valid_set],
        callbacks=[report, early_stopping],
    )
    progress.finish()
    return model_text(booster, booster.best_iteration)


def raw_scores(boosters: list[lightgbm.Booster], table: Floats) -> Floats:
    """Raw scores of all boosters side by side, (n, n_scores).

    Parameters
    ----------
    boosters : list of lightgbm.Booster
    table : (n, p)
        NaN where missing.
    """
    n_threads = n_threads_for(table)
    # In chunks, so that an interrupt (Ctrl-C) takes effect soon; the score of a row does not depend on them.
    n_rows = max(1, MAX_PREDICTED_CELLS // table.shape[1])
    chunks = [table[first : first + n_rows] for first in range(0, max(1, len(table)), n_rows)]
    scores = [
        np.hstack(
            [
                np.asarray(booster.predict(chunk, raw_score=True, num_threads=n_threads)).reshape(
                    len(chunk), -1
                )
                for booster in boosters
            ]
        )
        for chunk in chunks
    ]
    return scores[0] if len(scores) == 1 else np.vstack(scores)


def n_threads_for(values: Floats) -> int:
    """LightGBM's `num_threads` for a table of this size: 1, or 0 for OpenMP's setting."""
    return 1 if values.size < MIN_CELLS_FOR_THREADS else 0


def with_nan(values: Floats, mask: Bools) -> Floats:
    """`values` with NaN wherever `mask` is False, as LightGBM expects."""
    return np.where(mask, values, np.nan)
