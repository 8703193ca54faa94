"""Residual boosting fits the residuals of initial predictions."""

import numpy as np
import pytest

from stablemiss.anymask.residual_boosting import ResidualBoosting, ResidualBoostingPredictor
from stablemiss.base.method import Predictor
from stablemiss.data import MaskedData
from stablemiss.methods import Boosting, EMMixture
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression


def draw(n_outputs, n=400):
    """Complete rows whose first columns are the targets."""
    values, mask = to_rng(0).normal(size=(n, 2)), np.ones((n, 2), dtype=bool)
    task = Regression.of(values[:, :n_outputs])
    return MaskedData.of(values, mask, task.encode(values[:, :n_outputs])), task


class ShareOfTruth(Predictor):
    """Predicts a share of the true target."""

    def __init__(self, share, task):
        self.share, self.task = share, task

    def _predict(self, values, mask):
        return self.share * self.task.encode(values[:, : self.task.d_output])

    def state(self):
        raise NotImplementedError

    @classmethod
    def from_state(cls, state, n_columns, task):
        raise NotImplementedError


def fit(mixture, data, task):
    return ResidualBoosting(Boosting(), mixture).fit(data, data, task, to_rng(1), NullProgress())


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_trees_fit_the_residuals_of_the_initial_predictions(n_outputs):
    """With half of the truth given they add the other half; with the whole truth they add nothing."""
    data, task = draw(n_outputs)
    for share, tolerance in ((0.5, 0.02), (1.0, 1e-12)):
        outputs = fit(ShareOfTruth(share, task), data, task).predict(data.values, data.mask)
        assert np.mean((outputs - data.target) ** 2) < tolerance


def test_given_initial_predictions_replace_those_of_the_mixture_and_state_restores_the_predictor():
    data, task = draw(1)
    data = data.keep_where(to_rng(2).uniform(size=data.mask.shape) < 0.7)
    mixture = EMMixture(n_components=1).fit(data, data, task, to_rng(0), NullProgress())
    predictor = fit(mixture, data, task)
    outputs = predictor.predict(data.values, data.mask)
    init_prediction = mixture.predict(data.values, data.mask)
    np.testing.assert_array_equal(predictor.predict_from(init_prediction, data.values, data.mask), outputs)
    hidden_garbage = np.where(data.mask, data.values, np.nan)
    np.testing.assert_array_equal(predictor.predict(hidden_garbage, data.mask), outputs)
    restored = ResidualBoostingPredictor.from_state(predictor.state(), 2, task)
    np.testing.assert_array_equal(restored.predict(data.values, data.mask), outputs)


def test_classes_are_rejected():
    task = Classification.of(np.array(["a", "b"]))
    data = MaskedData.of(np.zeros((4, 1)), np.ones((4, 1)), np.array([0, 1, 0, 1]))
    with pytest.raises(ValueError, match=r"numeric target.*class"):
        fit(ShareOfTruth(1.0, task), data, task)
