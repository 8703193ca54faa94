"""NeuMiss as a method."""

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.methods import NeuMiss
from stablemiss.methods.neumiss import pairwise_covariance
from stablemiss.progress import NullProgress
from stablemiss.tasks import Regression


def test_the_covariance_is_over_the_rows_that_have_both_columns():
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(60, 3)), rng.uniform(size=(60, 3)) < 0.7
    weight = rng.uniform(0.5, 2.0, size=60)
    data = MaskedData.of(values, mask, np.zeros(60), weight=weight)
    found = pairwise_covariance(data)
    centre = [np.average(values[seen, k], weights=weight[seen]) for k, seen in enumerate(mask.T)]
    for k in range(3):
        for l in range(3):  # noqa: E741
            both = mask[:, k] & mask[:, l]
            product = (values[both, k] - centre[k]) * (values[both, l] - centre[l])
            assert found[k, l] == pytest.approx(np.average(product, weights=weight[both]))


@pytest.mark.parametrize("seed", range(3))
def test_it_predicts_better_from_correlated_columns_than_mean_imputation_allows(seed):
    """y = x₁ where x₂ is a copy of it: with x₁ hidden the answer is x₂, not half of it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(600, 1))
    values = np.hstack([x, x + 0.1 * rng.normal(size=(600, 1))])
    mask = rng.uniform(size=values.shape) < 0.5
    task = Regression.of(x[:, 0])
    data = MaskedData.of(values, mask, task.encode(x[:, 0]))
    rows = np.arange(600)
    fitted = NeuMiss().fit(data.rows(rows[:450]), data.rows(rows[450:]), task, rng, NullProgress())
    only_second = fitted.predict(np.array([[0.0, 1.0]]), np.array([[False, True]]))
    both = fitted.predict(np.ones((1, 2)), np.ones((1, 2), dtype=bool))
    expected = task.encode(np.array([1.0]))[0, 0]
    assert only_second[0, 0] == pytest.approx(expected, abs=0.15)
    assert both[0, 0] == pytest.approx(expected, abs=0.15)


def test_an_unknown_start_is_refused():
    data = MaskedData.of(np.zeros((4, 1)), np.ones((4, 1)), np.zeros((4, 1)))
    with pytest.raises(ValueError, match='choose "data" or "random"'):
        NeuMiss(start="warm").fit(
            data, data, Regression.of(np.zeros(4)), np.random.default_rng(0), NullProgress()
        )
