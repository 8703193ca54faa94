"""MIWAE as a method; its bound is tested with its network."""

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.methods import MIWAE
from stablemiss.methods.miwae import importance_bound, label_bound
from stablemiss.progress import NullProgress
from stablemiss.tasks import Regression


def test_the_bound_is_the_logarithm_of_the_mean_ratio():
    ratio = torch.tensor([[0.0, 1.0, 2.0], [-800.0, -801.0, -802.0]], dtype=torch.float64)
    expected = [np.log(np.mean(np.exp([0.0, 1.0, 2.0]))), np.log(np.mean(np.exp([2.0, 1.0, 0.0]))) - 802.0]
    assert np.allclose(importance_bound(ratio), expected)


def test_a_label_of_weight_one_counts_as_any_column():
    ratio, label = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 5, 7)))
    assert torch.allclose(label_bound(ratio, label, 1.0), importance_bound(ratio + label))


def test_a_label_that_the_columns_explain_is_not_paid_for_copies():
    """Of draws that explain the columns alike, some hit the label: only their share counts, at any weight."""
    ratio, label = torch.zeros(1, 4), torch.tensor([[5.0, -50.0, -50.0, -50.0]])
    likelihood = 5.0 - np.log(4)
    for weight in (1.0, 20.0):
        assert float(label_bound(ratio, label, weight)) == pytest.approx(weight * likelihood, rel=1e-5)


def test_a_label_without_weight_is_refused():
    data = MaskedData.of(np.zeros((4, 1)), np.ones((4, 1)), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="label_weight=0"):
        MIWAE(label_weight=0).fit(
            data, data, Regression.of(np.zeros(4)), np.random.default_rng(0), NullProgress()
        )
