"""Trees read the rows as the mixture completes them, and for residuals start from its predictions."""

import numpy as np
import pytest

from stablemiss.anymask.fit_data import FitData
from stablemiss.anymask.mixture_trees import MixtureTrees, MixtureTreesPredictor, names_of_trees
from stablemiss.anymask.plan import BOOSTING, RESIDUAL_BOOSTING
from stablemiss.base.method import Predictor
from stablemiss.data import MaskedData
from stablemiss.methods import Boosting, EMMixture
from stablemiss.methods.em_mixture import CompletedRows
from stablemiss.missingness import MaskAugmentation
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

    def complete(self, values, mask):
        return CompletedRows(self._predict(values, mask), values)

    def state(self):
        raise NotImplementedError

    @classmethod
    def from_state(cls, state, n_columns, task):
        raise NotImplementedError


def fit(mixture, data, task):
    """The members that read completed rows, by name."""
    fit_data = FitData(data, data, task, MaskAugmentation.of(data.groups))
    return MixtureTrees(Boosting(), mixture).fit(fit_data, to_rng(1), lambda name: NullProgress())


def fit_mixture(data, task):
    return EMMixture(n_components=1).fit(data, data, task, to_rng(0), NullProgress())


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_trees_fit_the_residuals_of_the_initial_predictions(n_outputs):
    """With half of the truth given they add the other half; with the whole truth they add nothing."""
    data, task = draw(n_outputs)
    for share, tolerance in ((0.5, 0.02), (1.0, 1e-12)):
        member = fit(ShareOfTruth(share, task), data, task)[RESIDUAL_BOOSTING]
        outputs = member.predict(data.values, data.mask)
        assert np.mean((outputs - data.target) ** 2) < tolerance


@pytest.mark.parametrize("name", [BOOSTING, RESIDUAL_BOOSTING])
def test_given_completed_rows_replace_those_of_the_mixture_and_state_restores_the_predictor(name):
    data, task = draw(1)
    data = data.keep_where(to_rng(2).uniform(size=data.mask.shape) < 0.7)
    mixture = fit_mixture(data, task)
    predictor = fit(mixture, data, task)[name]
    outputs = predictor.predict(data.values, data.mask)
    completed = mixture.complete(data.values, data.mask)
    np.testing.assert_array_equal(predictor.predict_from(completed, data.values, data.mask), outputs)
    hidden_garbage = np.where(data.mask, data.values, np.nan)
    np.testing.assert_array_equal(predictor.predict(hidden_garbage, data.mask), outputs)
    restored = MixtureTreesPredictor.from_state(predictor.state(), 2, task)
    np.testing.assert_array_equal(restored.predict(data.values, data.mask), outputs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_trees_use_columns_that_stand_in_for_a_missing_one(seed):
    """The target depends on the first column in steps; ten others measure it with noise.

    The first is missing in few training rows. Trees that read only the rows must learn from these alone how
    the others together replace it, which the mixture knows.
    """
    rng = to_rng(seed)
    first = rng.normal(size=(2000, 1))
    values = np.hstack([first, first + 0.5 * rng.normal(size=(2000, 10))])
    y = np.round(2 * first)
    task = Regression.of(y)
    mask = np.ones(values.shape, bool)
    mask[rng.uniform(size=len(mask)) < 0.01, 0] = False
    data = MaskedData.of(values, mask, task.encode(y))
    members = fit(fit_mixture(data, task), data, task)
    plain = Boosting().fit(data, data, task, to_rng(1), NullProgress())
    new = np.flatnonzero(mask[:, 0])  # rows that had all columns in training
    dead = np.tile(np.arange(11) > 0, (len(new), 1))

    def error(member):
        return np.mean((member.predict(values[new], dead) - data.target[new]) ** 2)

    assert error(members[BOOSTING]) < error(plain)
    assert error(members[RESIDUAL_BOOSTING]) < 0.6 * error(plain)


def test_classes_have_no_residuals():
    """For classes only boosting reads completed rows; without a mixture nothing has residuals."""
    classes = Classification.of(np.array(["a", "b"]))
    assert names_of_trees(classes) == [BOOSTING]
    assert names_of_trees(Regression.of(np.arange(3.0)), has_mixture=False) == [BOOSTING]
    rng = to_rng(0)
    target = rng.integers(2, size=300)
    values = rng.normal(size=(300, 2)) + target[:, None]
    data = MaskedData.of(values, rng.uniform(size=values.shape) < 0.8, target)
    members = fit(fit_mixture(data, classes), data, classes)
    assert set(members) == {BOOSTING}
    assert (members[BOOSTING].predict(values, data.mask).argmax(axis=1) == target).mean() > 0.7
    state = members[BOOSTING].state()
    with pytest.raises(ValueError, match="numeric target"):
        MixtureTreesPredictor.from_state(state | {"is_residual": True}, 2, classes)
