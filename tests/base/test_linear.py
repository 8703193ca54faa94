"""Linear models: joined rows, centred columns, and weights equivalent to repetition."""

import numpy as np
import pytest

from stablemiss.base.linear import LinearPredictor, design, join, regress
from stablemiss.data import MaskedData
from stablemiss.methods import DWR, OLS, SRDO
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression


def draw(seed, n=60, d=3):
    rng = to_rng(seed)
    values = rng.normal(1.0, 2.0, size=(n, d))
    mask = rng.uniform(size=(n, d)) < 0.7
    weight = rng.integers(1, 4, size=n).astype(float)
    return rng, MaskedData.of(values, mask, rng.normal(size=(n, 1)), weight)


def test_joined_rows_are_training_rows_followed_by_validation_rows():
    _, data = draw(0)
    joined = join(data.rows(np.arange(40)), data.rows(np.arange(40, 60)))
    for name in ("values", "mask", "target", "weight", "groups"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(data, name))


@pytest.mark.parametrize("seed", range(3))
def test_observed_values_of_the_design_have_weighted_mean_zero(seed):
    _, data = draw(seed)
    columns = design(data.values, data.mask, data.column_means())
    np.testing.assert_allclose(data.weight @ columns, 0.0, atol=1e-9)
    assert (columns[~data.mask] == 0).all()


def test_a_column_never_observed_has_mean_zero():
    _, data = draw(0)
    keep = np.ones_like(data.mask)
    keep[:, 1] = False
    assert data.keep_where(keep).column_means()[1] == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_classification", [False, True])
def test_weights_are_equivalent_to_repeated_rows(seed, is_classification):
    rng, data = draw(seed)
    weight = rng.integers(1, 4, size=len(data))
    if is_classification:
        task, target = Classification(np.arange(3)), rng.integers(3, size=len(data))
    else:
        task, target = Regression.of(data.target[:, 0]), data.target
    repeated = np.repeat(np.arange(len(data)), weight)
    weighted = regress(data.values, target, weight.astype(float), task, ridge=0.1)
    unweighted = regress(data.values[repeated], target[repeated], np.ones(len(repeated)), task, ridge=0.1)
    for actual, expected in zip(weighted, unweighted, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-2, atol=1e-3)


def test_fitted_weights_are_not_part_of_the_archive():
    """They belong to the training rows, which are not archived either."""
    predictor = LinearPredictor(np.zeros(1), np.ones((1, 1)), np.zeros(1), use_mask=False, weight=np.ones(9))
    assert LinearPredictor.from_state(predictor.state(), 1, Regression.of(np.zeros(2))).weight is None


@pytest.mark.parametrize("method", [DWR(), SRDO("logistic")], ids=lambda method: method.name)
def test_the_effective_share_is_that_of_the_fitted_weights(method):
    rng = to_rng(0)
    values = rng.normal(size=(200, 3)) + rng.normal(size=(200, 1))
    data = MaskedData.of(values, np.ones_like(values), values[:, :1])
    task = Regression.of(values[:, 0])
    predictor = method.fit(
        data.rows(np.arange(150)), data.rows(np.arange(150, 200)), task, rng, NullProgress()
    )
    weight = predictor.weight
    # The validation rows are training rows too.
    assert predictor.effective_share == pytest.approx(sum(weight) ** 2 / (200 * sum(weight**2)))
    assert 0.1 < predictor.effective_share < 0.99
    assert LinearPredictor.from_state(predictor.state(), 3, task).effective_share is None


def test_without_fitted_weights_there_is_no_effective_share():
    """Also with sample weights, which are not fitted."""
    _, data = draw(0)
    task = Regression.of(data.target[:, 0])
    assert OLS().fit(data, data.rows(np.arange(0)), task, to_rng(0), NullProgress()).effective_share is None
