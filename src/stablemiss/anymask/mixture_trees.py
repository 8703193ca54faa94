"""Boosted trees that read what the mixture expects of the missing values.

Trees alone must learn anew, for every set of missing columns, which other columns stand in for them. The
mixture knows that: it gives the expectation of each missing value given the observed ones. Trees that read
the completed rows beside the rows with NaN can use one split for a value whether it is observed or expected.

Two members read them: boosting, which starts from a constant, and for numeric targets residual boosting,
which starts from the mixture's prediction and adds a correction. The second is more accurate where the
mixture fits well, and less accurate where it does not; stacking determines their weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from stablemiss.anymask.fit_data import FitData
from stablemiss.anymask.plan import BOOSTING, RESIDUAL_BOOSTING
from stablemiss.base.boosted_trees import (
    BoostingPredictor,
    TreeData,
    fit_trees,
    min_leaf_rows,
    objective_of,
    with_nan,
)
from stablemiss.base.method import Predictor
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.em_mixture import CompletedRows, EMMixturePredictor
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.stored import check_stored, stored_bool, stored_list
from stablemiss.tasks import Classification, Task

# Smallest decrease of the validation loss, in units of the variance of the target, that counts as an
# improvement of residual boosting. Without it, boosting would continue for negligible gains after a good
# initial prediction.
MIN_DELTA = 1e-4
RESIDUAL_DESCRIPTION = "boosted trees on the mixture's residuals"


class MixtureTreesPredictor(Predictor):
    """Trees that read the rows with NaN and the rows as the mixture completes them.

    Attributes
    ----------
    mixture : EMMixturePredictor
        Completes the rows.
    trees : BoostingPredictor
        Its features are those of `tree_features`.
    is_residual : bool
        Whether the trees correct the mixture's predictions, which are then further features of theirs.

    See Also
    --------
    stablemiss.base.boosted_trees.BoostingPredictor : Trees that read only the rows.
    """

    name: ClassVar[str] = "mixture_trees"

    def __init__(self, mixture: EMMixturePredictor, trees: BoostingPredictor, is_residual: bool):
        self.mixture = mixture
        self.trees = trees
        self.is_residual = is_residual

    def _predict(self, values: Floats, mask: Bools) -> Floats:
        return self.predict_from(self.mixture.complete(values, mask), values, mask)

    def predict_from(self, completed: CompletedRows, values: Floats, mask: Bools) -> Floats:
        """Like `predict`, for a caller that already has the completed rows.

        Parameters
        ----------
        completed : CompletedRows
            ``mixture.complete(values, mask)``.
        values, mask : (n, d)
            Encoded rows. Hidden values have no influence: the trees read NaN instead.
        """
        outputs = self.trees.outputs(tree_features(completed, values, mask, self.is_residual))
        return outputs + completed.outputs if self.is_residual else outputs

    def state(self) -> dict[str, Any]:
        return {"mixture": self.mixture.state()} | self.state_of_trees()

    def state_of_trees(self) -> dict[str, Any]:
        """The state without that of the mixture."""
        return {"models": self.trees.models, "is_residual": self.is_residual}

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        mixture = EMMixturePredictor.from_state(state["mixture"], n_columns, task)
        return cls.from_mixture(mixture, state, n_columns, task)

    @classmethod
    def from_mixture(
        cls, mixture: EMMixturePredictor, state: dict[str, Any], n_columns: int, task: Task
    ) -> Self:
        """Like `from_state`, for a caller that already has the mixture."""
        is_classes, is_residual = isinstance(task, Classification), stored_bool(state, "is_residual")
        check_stored(not (is_classes and is_residual), "residual boosting needs a numeric target")
        models = stored_list(state, "models", str, 1 if is_classes else task.d_output)
        n_features = 2 * n_columns + (task.d_output if is_residual else 0)
        return cls(mixture, BoostingPredictor(models, n_features, objective_of(task)), is_residual)


def tree_features(completed: CompletedRows, values: Floats, mask: Bools, is_residual: bool) -> Floats:
    """Values, NaN where hidden, then completed values and, for residuals, the mixture's predictions.

    The result is (n, 2 d) or (n, 2 d + d_output).
    """
    predictions = [completed.outputs] if is_residual else []
    return np.hstack([with_nan(values, mask), completed.values, *predictions])


def tree_rows(mixture: EMMixturePredictor, rows: MaskedData, is_residual: bool) -> TreeData:
    """Rows for LightGBM; those for residuals start from the mixture's predictions."""
    return _tree_rows(mixture.complete(rows.values, rows.mask), rows, is_residual)


def _tree_rows(completed: CompletedRows, rows: MaskedData, is_residual: bool) -> TreeData:
    features = tree_features(completed, rows.values, rows.mask, is_residual)
    return TreeData(features, rows.target, rows.weight, completed.outputs if is_residual else None)


@dataclass(frozen=True)
class MixtureTrees:
    """Boosting and, for numeric targets, residual boosting, on rows that a fitted mixture completes.

    Not a `Method`, because it needs a fitted mixture, and methods hold no fitted state.

    Parameters
    ----------
    boosting : Boosting
        Hyper-parameters of the trees. `masked_copies` is ignored: the caller augments the rows.
    mixture : EMMixturePredictor
        Completes the rows.

    See Also
    --------
    stablemiss.methods.Boosting : Trees that read only the rows.
    """

    boosting: Boosting
    mixture: EMMixturePredictor

    def fit(
        self, data: FitData, rng: Rng, report: Callable[[str], Progress], n_threads: int | None = None
    ) -> dict[str, Predictor]:
        """Fit to training rows, with early stopping on validation rows; name of the member → predictor.

        Parameters
        ----------
        data : FitData
            Rows together with their masked copies; its validation rows must not be empty.
        rng : numpy Generator
        report : callable
            From the name of a member to its progress.
        n_threads : int, default=None
            As in `Boosting.fit`.
        """
        min_rows = min_leaf_rows(self.boosting, len(data.train))
        # Both members read the same completed rows.
        completed = [
            (self.mixture.complete(rows.values, rows.mask), rows) for rows in (data.train, data.valid)
        ]
        members: dict[str, Predictor] = {}
        for name in names_of_trees(data.task):
            is_residual = name == RESIDUAL_BOOSTING
            train, valid = (_tree_rows(*pair, is_residual) for pair in completed)
            params = self.boosting.lightgbm_params(data.train, min_rows, rng, n_threads)
            settings = (MIN_DELTA, RESIDUAL_DESCRIPTION) if is_residual else ()
            trees = fit_trees(self.boosting, params, train, valid, data.task, report(name), *settings)
            members[name] = MixtureTreesPredictor(self.mixture, trees, is_residual)
        return members


def names_of_trees(task: Task, has_mixture: bool = True) -> list[str]:
    """The members that are boosted trees: with a mixture and for numeric targets also residual boosting.

    For classes the mixture overfits its training rows: its residuals there are too small to fit.
    """
    is_residual = has_mixture and not isinstance(task, Classification)
    return [BOOSTING, RESIDUAL_BOOSTING] if is_residual else [BOOSTING]
