"""Stacking finds the better member, depending on the share of columns that is observed."""

import numpy as np
import pytest

from stablemiss.anymask.stacking import (
    combine,
    keep_constant,
    learn_member_weights,
    observed_fraction,
    output_bounds,
    predict_members,
)
from stablemiss.data import MaskedData
from stablemiss.methods.constant import ConstantPredictor
from stablemiss.seeding import to_rng


@pytest.mark.parametrize("seed", range(3))
def test_the_better_member_gets_the_weight_depending_on_the_share_observed(seed):
    """One member is right where everything is observed, the other where nothing is."""
    rng = to_rng(seed)
    n = 2000
    mask = np.zeros((n, 10), dtype=bool)
    mask[: n // 2] = True
    target = rng.normal(size=(n, 1))
    noise = rng.normal(size=(n, 1))
    first = target + noise * ~mask[:, :1]
    second = target + noise * mask[:, :1]
    calibration = MaskedData.of(np.zeros((n, 10)), mask, target)
    member_weights = learn_member_weights(np.stack([first, second]), calibration, rng, n_copies=1)
    assert member_weights.shape == (2, 2, 1)
    np.testing.assert_allclose(member_weights.sum(axis=1), 1.0)
    assert member_weights[0, 1, 0] > 0.9  # nothing observed: the second
    assert member_weights[1, 0, 0] > 0.9  # everything: the first
    combined = combine(np.stack([first, second]), mask[:, 0], member_weights, is_classes=False)
    assert np.mean((combined - target) ** 2) < 0.05


def test_equally_good_members_share_the_weight():
    rng = to_rng(0)
    target = rng.normal(size=(500, 1))
    outputs = target + rng.normal(size=(3, 500, 1))
    calibration = MaskedData.of(np.zeros((500, 2)), np.ones((500, 2)), target)
    member_weights = learn_member_weights(outputs, calibration, rng, n_copies=1)
    np.testing.assert_allclose(member_weights[1, :, 0], 1 / 3, atol=0.12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_member_with_the_lower_log_loss_gets_the_weight(n_classes):
    rng = to_rng(0)
    labels = rng.integers(n_classes, size=1500)
    right = np.eye(n_classes)[labels] * 0.7 + 0.3 / n_classes
    member_predictions = np.stack([right, rng.dirichlet(np.ones(n_classes), size=1500)])
    calibration = MaskedData.of(np.zeros((1500, 2)), np.ones((1500, 2)), labels)
    member_weights = learn_member_weights(member_predictions, calibration, rng, n_copies=1)
    assert member_weights.shape == (2, 2, 1)
    assert member_weights[1, 0, 0] > 0.9


def test_encoded_columns_of_one_group_count_once():
    mask = np.array([[True, False, False, False], [False, True, True, True]])
    assert observed_fraction(mask, np.array([0, 1, 1, 1])).tolist() == [0.5, 0.5]


def test_members_predict_at_most_slightly_outside_the_range_of_the_training_targets():
    """The bounds are those of each output, and wider for small tables."""
    target = np.column_stack([np.linspace(0, 1, 2500), np.linspace(-100, 100, 2500)])
    train = MaskedData.of(np.zeros((2500, 1)), np.ones((2500, 1)), target)
    bounds = output_bounds(train)
    np.testing.assert_allclose(bounds, [[-0.1, -120], [1.1, 120]])
    small_low, small_high = output_bounds(train.rows(np.linspace(0, 2499, 25).astype(int)))
    assert (small_low < bounds[0]).all()
    assert (small_high > bounds[1]).all()
    members = {"low": ConstantPredictor(np.array([-5.0, 0])), "high": ConstantPredictor(np.array([0.5, 999]))}
    predictions = predict_members(members, np.zeros((1, 1)), np.ones((1, 1), dtype=bool), bounds)
    np.testing.assert_allclose(predictions[:, 0], [[-0.1, 0], [0.5, 120]])


def test_classes_have_no_bounds():
    assert output_bounds(MaskedData.of(np.zeros((3, 1)), np.ones((3, 1)), np.arange(3))) is None


@pytest.mark.parametrize("n_rows", [1, 5, 19])
def test_the_constant_keeps_some_weight_if_there_are_few_rows(n_rows):
    weights = np.array([[[0.0], [0.4], [0.6]], [[1.0], [0.0], [0.0]]])
    kept = keep_constant(weights, n_rows)
    np.testing.assert_allclose(kept.sum(axis=1), 1.0)
    assert kept[0, 0, 0] == pytest.approx(1 / (n_rows + 2))
    assert kept[0, 2, 0] / kept[0, 1, 0] == pytest.approx(1.5)
    np.testing.assert_array_equal(kept[1], weights[1])
    np.testing.assert_array_equal(keep_constant(weights, 20), weights)
