"""The stack finds the better member, depending on what is observed."""

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.methods.stack import combine, learn_stack, share_observed
from stablemiss.seeding import to_rng


@pytest.mark.parametrize("seed", range(3))
def test_the_stack_takes_the_better_member_and_lets_the_share_observed_decide(seed):
    """One member is right where all is observed, the other where nothing is."""
    rng = to_rng(seed)
    n = 2000
    mask = np.zeros((n, 10), dtype=bool)
    mask[: n // 2] = True
    target = rng.normal(size=(n, 1))
    noise = rng.normal(size=(n, 1))
    first = target + noise * ~mask[:, :1]
    second = target + noise * mask[:, :1]
    judged = MaskedData.of(np.zeros((n, 10)), mask, target)
    member_weights = learn_stack(np.stack([first, second]), judged, rng, n_copies=1)
    assert member_weights.shape == (2, 2, 1)
    np.testing.assert_allclose(member_weights.sum(axis=1), 1.0)
    assert member_weights[0, 1, 0] > 0.9  # nothing observed: the second
    assert member_weights[1, 0, 0] > 0.9  # everything: the first
    combined = combine(np.stack([first, second]), mask[:, 0], member_weights, is_classes=False)
    assert np.mean((combined - target) ** 2) < 0.05


def test_members_alike_share_the_weight():
    rng = to_rng(0)
    target = rng.normal(size=(500, 1))
    outputs = target + rng.normal(size=(3, 500, 1))
    judged = MaskedData.of(np.zeros((500, 2)), np.ones((500, 2)), target)
    member_weights = learn_stack(outputs, judged, rng, n_copies=1)
    np.testing.assert_allclose(member_weights[1, :, 0], 1 / 3, atol=0.12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_stack_of_classes_lowers_the_log_loss(n_classes):
    rng = to_rng(0)
    labels = rng.integers(n_classes, size=1500)
    right = np.eye(n_classes)[labels] * 0.7 + 0.3 / n_classes
    member_predictions = np.stack([right, rng.dirichlet(np.ones(n_classes), size=1500)])
    judged = MaskedData.of(np.zeros((1500, 2)), np.ones((1500, 2)), labels)
    member_weights = learn_stack(member_predictions, judged, rng, n_copies=1)
    assert member_weights.shape == (2, 2, 1)
    assert member_weights[1, 0, 0] > 0.9


def test_a_column_of_many_cells_counts_once():
    mask = np.array([[True, False, False, False], [False, True, True, True]])
    assert share_observed(mask, np.array([0, 1, 1, 1])).tolist() == [0.5, 0.5]
