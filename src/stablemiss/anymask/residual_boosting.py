"""Residual boosting: boosted trees that start from the mixture's predictions and add a correction.

It is more accurate than plain boosting where the mixture fits well, and less accurate where it does not.
Stacking determines its weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from stablemiss.base.boosted_trees import TreeData, boost, lightgbm_params, min_leaf_rows, raw_scores
from stablemiss.base.lightgbm_text import load_booster
from stablemiss.base.method import Predictor
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.em_mixture import EMMixturePredictor
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.stored import check_stored, stored_list
from stablemiss.tasks import Classification, Task

# Smallest decrease of the validation loss, in units of the variance of the target, that counts as an
# improvement. Without it, boosting would continue for negligible gains after a good initial prediction.
MIN_DELTA = 1e-4
OBJECTIVE = "regression"


class ResidualBoostingPredictor(Predictor):
    """The mixture's predictions plus the outputs of trees, which may also split on the mixture's predictions.

    Attributes
    ----------
    mixture : EMMixturePredictor
        Makes the initial predictions.
    models : list of str
        One LightGBM model per output, in LightGBM's text format.
    n_columns : int
        Number of encoded columns. The trees have one more feature for each output of the mixture.

    See Also
    --------
    stablemiss.base.boosted_trees.BoostingPredictor : Trees that start from a constant.
    """

    def __init__(self, mixture: EMMixturePredictor, models: list[str], n_columns: int):
        self.mixture = mixture
        self.models = models
        self.n_columns = n_columns
        self.boosters = [load_booster(text, n_columns + len(models), OBJECTIVE) for text in models]

    def _predict(self, values: Floats, mask: Bools) -> Floats:
        return self.predict_from(self.mixture.predict(values, mask), values, mask)

    def predict_from(self, init_prediction: Floats, values: Floats, mask: Bools) -> Floats:
        """Like `predict`, for a caller that already has the mixture's predictions.

        Parameters
        ----------
        init_prediction : (n, d_output)
            ``mixture.predict(values, mask)``.
        values, mask : (n, d)
            Encoded rows. Hidden values have no influence: the trees read NaN instead.
        """
        return init_prediction + raw_scores(self.boosters, tree_features(values, mask, init_prediction))

    def state(self) -> dict[str, Any]:
        return {"mixture": self.mixture.state(), "models": self.models}

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        mixture = EMMixturePredictor.from_state(state["mixture"], n_columns, task)
        return cls.from_mixture(mixture, state, n_columns, task)

    @classmethod
    def from_mixture(
        cls, mixture: EMMixturePredictor, state: dict[str, Any], n_columns: int, task: Task
    ) -> Self:
        """Like `from_state`, for a caller that already has the mixture."""
        check_stored(not isinstance(task, Classification), "residual boosting needs a numeric target")
        return cls(mixture, stored_list(state, "models", str, task.d_output), n_columns)


@dataclass(frozen=True)
class ResidualBoosting:
    """Boosted trees fitted to the residuals of a fitted mixture, for numeric targets.

    Not a `Method`, because it needs a fitted mixture, and methods hold no fitted state.

    Parameters
    ----------
    boosting : Boosting
        Hyper-parameters of the trees. `masked_copies` is ignored: the caller augments the rows.
    mixture : EMMixturePredictor
        Makes the initial predictions.

    See Also
    --------
    stablemiss.methods.Boosting : Trees that start from a constant.
    """

    name: ClassVar[str] = "residual_boosting"
    boosting: Boosting
    mixture: EMMixturePredictor

    def fit(
        self,
        train: MaskedData,
        valid: MaskedData,
        task: Task,
        rng: Rng,
        progress: Progress,
        n_threads: int | None = None,
    ) -> ResidualBoostingPredictor:
        """Fit to `train` with early stopping on `valid`.

        Parameters
        ----------
        train, valid, task, rng, progress
            As in `Method.fit`; `valid` must not be empty.
        n_threads : int, default=None
            As in `Boosting.fit`.
        """
        if isinstance(task, Classification):
            # For classes the mixture overfits its training rows: its residuals there are too small to fit.
            raise ValueError("Residual boosting needs a numeric target; got classes. Use Boosting instead.")
        params = lightgbm_params(
            self.boosting, train, min_leaf_rows(self.boosting, len(train)), rng, n_threads
        )
        params["objective"] = OBJECTIVE
        train_rows, valid_rows = self._tree_data(train), self._tree_data(valid)
        models = [
            boost(
                self.boosting,
                params,
                train_rows.for_output(k),
                valid_rows.for_output(k),
                progress,
                MIN_DELTA,
                description="boosted trees on the mixture's residuals",
            )
            for k in range(task.d_output)
        ]
        return ResidualBoostingPredictor(self.mixture, models, train.n_columns)

    def _tree_data(self, data: MaskedData) -> TreeData:
        init_prediction = self.mixture.predict(data.values, data.mask)
        features = tree_features(data.values, data.mask, init_prediction)
        return TreeData(features, data.target, data.weight, init_prediction)


def tree_features(values: Floats, mask: Bools, init_prediction: Floats) -> Floats:
    """Values, NaN where hidden, followed by the initial predictions, (n, d + d_output)."""
    features = np.hstack([values, init_prediction])
    features[:, : values.shape[1]][~mask] = np.nan
    return features
