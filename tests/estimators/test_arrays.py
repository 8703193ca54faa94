"""Targets that are arrays, and their scores."""

import numpy as np
import pytest
from sklearn.metrics import r2_score

from stablemiss.data import MaskedData
from stablemiss.estimators.arrays import ArrayScoreMixin, array_scores, read_array_target
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression


class Fixed(ArrayScoreMixin):
    """Predicts given arrays."""

    def __init__(self, prediction):
        self.prediction = prediction

    def predict(self, X):
        return self.prediction


def draw(seed=0, missing=0.3):
    rng = to_rng(seed)
    y = rng.normal(size=(20, 3, 3)) + rng.normal(size=(3, 3))
    y[rng.uniform(size=y.shape) < missing] = np.nan
    return y, rng.normal(size=y.shape), rng.uniform(size=20)


def test_the_score_is_r2_pooled_over_observed_cells():
    y, prediction, weight = draw()
    seen = ~np.isnan(y)
    cell_weight = weight[:, None, None] * seen
    mean = np.nansum(cell_weight * y, axis=0) / cell_weight.sum(axis=0)
    expected = 1 - np.nansum(cell_weight * (y - prediction) ** 2) / np.nansum(cell_weight * (y - mean) ** 2)
    assert Fixed(prediction).score(None, y, weight) == pytest.approx(expected)
    assert Fixed(np.where(seen, y, 1e6)).score(None, y) == 1.0
    assert Fixed(np.broadcast_to(np.nanmean(y, axis=0), y.shape)).score(None, y) == pytest.approx(0.0)


def test_the_score_of_tables_is_that_of_scikit_learn():
    y, prediction, weight = draw(missing=0.0)
    y, prediction = y[:, 0], prediction[:, 0]
    assert Fixed(prediction).score(None, y, weight) == pytest.approx(
        r2_score(y, prediction, sample_weight=weight)
    )


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_scores_are_pooled_over_observed_cells_in_the_units_of_the_target(missing):
    y, outputs, weight = draw(missing=missing)
    y = 255.0 * y
    task = Regression.of(y, common_scale=True, shape=(3, 3))
    target = task.encode(y)
    seen = ~np.isnan(target)
    data = MaskedData.of(seen, seen, target, weight, target_mask=seen if missing else None)
    train, valid = data.rows(np.arange(12)), data.rows(np.arange(12, 20))
    scores = array_scores(outputs[12:].reshape(8, 9), train, valid, task)
    errors = (task.decode(outputs.reshape(20, 9)) - y)[12:].reshape(8, 9)
    expected = np.sqrt(np.average(np.nan_to_num(errors) ** 2, weights=weight[12:, None] * seen[12:]))
    assert scores["rmse"] == pytest.approx(expected)
    assert scores["n_rows"] == 8
    assert scores["rmse_constant"] > 0
    assert scores["r2"] < 1


@pytest.mark.parametrize(
    ("y", "fact"),
    [
        (np.zeros((4, 3, 3)), "X has 5 rows but y has 4"),
        (np.full((5, 3, 3), np.nan), "every target is missing"),
        (np.full((5, 3, 3), -1e305), "1e\\+305"),
        (np.full((5, 3, 3), np.inf), "y contains infinite"),
        (np.full((5, 3, 3), "a"), "y must contain"),
    ],
    ids=["rows", "missing", "large", "infinite", "text"],
)
def test_targets_that_cannot_be_used_are_refused(y, fact):
    with pytest.raises(ValueError, match=fact):
        read_array_target(y, 5)
