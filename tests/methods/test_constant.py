"""What is specific to the constant predictor: it is the mean, or the class shares."""

from dataclasses import replace

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.methods import Constant
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_weighted_mean_of_all_rows(seed):
    rng = to_rng(seed)
    y, weight = rng.normal(size=(30, 2)), rng.uniform(size=30)
    task = Regression.of(y)
    data = MaskedData.of(np.zeros((30, 1)), np.ones((30, 1)), task.encode(y), weight)
    # With the same rows for training and validation, the weights of both agree.
    predictor = Constant().fit(data, data, task, rng, NullProgress())
    prediction = task.decode(predictor.predict(np.zeros((4, 1)), np.ones((4, 1))))
    np.testing.assert_allclose(prediction, np.tile(np.average(y, axis=0, weights=weight), (4, 1)))


def test_it_is_the_mean_of_the_observed_targets_and_zero_without_any():
    rng = to_rng(0)
    target, weight, seen = rng.normal(size=(40, 6)), rng.uniform(size=40), rng.uniform(size=(40, 6)) < 0.5
    seen[:, 4] = False
    data = MaskedData.of(np.zeros((40, 1)), np.ones((40, 1)), target, weight, None, seen)
    task = Regression(np.zeros(6), np.ones(6), single=False, shape=(2, 3))
    output = Constant().fit(data, data.rows(np.arange(0)), task, rng, NullProgress()).output
    for j in range(6):
        expected = np.average(target[seen[:, j], j], weights=weight[seen[:, j]]) if j != 4 else 0.0
        assert output[j] == pytest.approx(expected, abs=1e-12)
    garbage = replace(data, target=np.where(seen, data.target, np.nan))
    again = Constant().fit(garbage, data.rows(np.arange(0)), task, rng, NullProgress()).output
    np.testing.assert_array_equal(again, output)


def test_outputs_are_the_class_shares_and_finite_for_a_class_without_weight():
    task = Classification(np.array(["a", "b", "c"]))
    data = MaskedData.of(np.zeros((4, 1)), np.ones((4, 1)), [0, 1, 1, 2], [1.0, 1.0, 2.0, 0.0])
    predictor = Constant().fit(data, data, task, to_rng(0), NullProgress())
    output = predictor.predict(np.zeros((1, 1)), np.ones((1, 1)))
    assert np.isfinite(output).all()
    np.testing.assert_allclose(task.probabilities(output), [[0.25, 0.75, 0.0]], atol=1e-9)
