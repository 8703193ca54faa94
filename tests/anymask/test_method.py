"""Specific to AnyMask: members, intervals and sets, and columns that may be missing."""

import numpy as np
import pytest

from stablemiss.anymask import AnyMask, AnyMaskPredictor
from stablemiss.anymask.plan import RESIDUAL_BOOSTING
from stablemiss.data import MaskedData
from stablemiss.methods.boosting import Boosting
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression
from stablemiss.torch_state import torch_threads


def fit(method, values, mask, y, task=None, seed=0):
    task = task or Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y))
    n = len(data) - len(data) // 5
    train, valid = data.rows(np.arange(n)), data.rows(np.arange(n, len(data)))
    return method.fit(train, valid, task, to_rng(seed), NullProgress()), task


def draw(seed, n=1000):
    """Complete rows in which x₀ determines most of y and x₁ is nearly a copy of x₀."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, 4))
    values[:, 1] = values[:, 0] + 0.3 * values[:, 1]
    return values, np.ones((n, 4), dtype=bool), 3 * values[:, 0] + values[:, 2]


@pytest.mark.parametrize("seed", range(2))
def test_a_missing_sensor_increases_the_error_far_less_than_for_plain_trees(seed):
    values, mask, y = draw(seed)
    new, new_mask, new_y = draw(seed + 100)
    new_mask[:, 0] = False

    def error(method):
        predictor, task = fit(method, values, mask, y, seed=seed)
        return np.sqrt(np.mean((task.decode(predictor.predict(new, new_mask)) - new_y) ** 2))

    # With x₀ known only through x₁ the best possible error is 3 · 0.3 / √1.09 ≈ 0.86.
    assert error(AnyMask("fast")) < 1.1 < 1.5 < error(Boosting())


@pytest.mark.parametrize("members", [["mixture"], ["mixture", "boosting"]], ids=str)
def test_a_value_far_outside_the_training_range_does_not_give_a_prediction_far_outside_it(members):
    """The mixture alone would extrapolate to about -3000."""
    values, mask, y = draw(0)
    predictor, task = fit(AnyMask("fast", members=members), values, mask, y)
    for restored in (predictor, AnyMaskPredictor.from_state(predictor.state(), values.shape[1], task)):
        low, high = task.decode(restored.predict(np.array([[-999.0, 0, 0, 0], [999.0, 0, 0, 0]]), mask[:2]))
        assert y.min() - 0.25 * np.ptp(y) < low < high < y.max() + 0.25 * np.ptp(y)


@pytest.mark.slow
def test_leaving_out_a_member_does_not_change_the_others():
    values, mask, y = draw(0, n=200)
    predictions = [
        fit(AnyMask("fast", members=members), values, mask, y)[0].members["net"].predict(values, mask)
        for members in (("mixture", "boosting", "net"), ["net"])
    ]
    np.testing.assert_array_equal(*predictions)


@pytest.mark.slow
def test_the_number_of_threads_has_no_influence():
    """With one thread members are fitted in turn, with more the network is fitted in parallel."""
    values, mask, y = draw(0, n=300)
    predictions = []
    for n_threads in (1, 2, 3):
        with torch_threads(n_threads):
            predictions.append(fit(AnyMask("fast"), values, mask, y)[0].predict(values, mask))
    np.testing.assert_array_equal(predictions[0], predictions[1])
    np.testing.assert_array_equal(predictions[0], predictions[2])


def test_members_can_be_left_out():
    values, mask, y = draw(0, n=200)
    predictor, _ = fit(AnyMask("fast", members=["boosting"]), values, mask, y)
    assert set(predictor.members) <= {"constant", "boosting"}
    predictor, _ = fit(AnyMask(members=["mixture"]), values, mask, y)
    assert set(predictor.members) <= {"constant", "mixture"}


def test_hidden_values_have_no_influence_on_intervals_sets_and_expected_errors_also_after_restoring():
    """Trees share the mixture with the ensemble and find it again in the stored state."""
    values, mask, y = draw(0, n=300)
    mask = to_rng(1).uniform(size=mask.shape) < 0.7
    garbage = np.where(mask, values, np.nan)
    regressor, task = fit(AnyMask("fast", members=["mixture", "boosting"]), values, mask, y)
    assert RESIDUAL_BOOSTING in regressor.members
    arguments = np.arange(4), np.ones(1)
    for predictor in (regressor, AnyMaskPredictor.from_state(regressor.state(), 4, task)):
        np.testing.assert_array_equal(predictor.predict(garbage, mask), regressor.predict(values, mask))
        np.testing.assert_array_equal(
            predictor.predict_interval(garbage, mask, 0.9), regressor.predict_interval(values, mask, 0.9)
        )
        np.testing.assert_array_equal(
            predictor.expected_error(garbage, mask, *arguments).error,
            regressor.expected_error(values, mask, *arguments).error,
        )
    task = Classification(np.arange(2))
    classifier, _ = fit(AnyMask("fast", members=["mixture"]), values, mask, (y > 0).astype(int), task)
    np.testing.assert_array_equal(
        classifier.predict_set(garbage, mask, task, 0.9), classifier.predict_set(values, mask, task, 0.9)
    )


@pytest.mark.slow
def test_columns_that_are_never_missing_are_relied_upon():
    """If x₀ is declared as never missing, predictions are better where it is observed."""
    values, mask, y = draw(1, n=600)
    new, new_mask, new_y = draw(101)

    def error(**settings):
        predictor, task = fit(AnyMask("fast", members=["net"], **settings), values, mask, y)
        return np.sqrt(np.mean((task.decode(predictor.predict(new, new_mask)) - new_y) ** 2))

    assert error(never_missing=[0, 1, 2, 3]) < error()
    assert error(never_missing=[0, 1]) == error(may_vanish=[2, 3])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"budget": "huge"}, r"budget must be .*got 'huge'"),
        ({"members": ["trees"]}, r"members must be a non-empty subset of 'mixture'.*got \['trees'\]"),
        ({"members": []}, r"members must be a non-empty subset of .*got \[\]"),
        ({"may_vanish": [0], "never_missing": [1]}, "may_vanish and never_missing must not both"),
        ({"may_vanish": [7]}, r"may_vanish must be .*positions of columns from 0 to 3.* got \[7\]"),
    ],
    ids=str,
)
def test_invalid_parameters_raise(settings, reason):
    with pytest.raises(ValueError, match=reason):
        fit(AnyMask(**settings), *draw(0, n=60))
