import numpy as np
import pytest

from stablemiss.data import MaskedData, hide


def make_data(n=6, d=3, seed=0):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((n, d)) < 0.5, np.nan, rng.normal(size=(n, d)))
    return MaskedData.of(values, ~np.isnan(values), rng.normal(size=(n, 1)), rng.random(n) + 0.1)


def test_hidden_cells_become_zero_whatever_stood_there():
    values = np.array([[np.nan, np.inf, 3.0]])
    assert hide(values, np.array([[False, False, True]])).tolist() == [[0.0, 0.0, 3.0]]


def test_weights_have_mean_one_also_for_chosen_rows():
    data = make_data()
    assert data.weight.mean() == pytest.approx(1.0)
    assert data.rows(np.array([0, 3])).weight.mean() == pytest.approx(1.0)


def test_hiding_more_never_reveals():
    data = make_data()
    thinner = data.hidden_where(np.random.default_rng(1).random(data.mask.shape) < 0.5)
    assert not (thinner.mask & ~data.mask).any()
    assert (thinner.values[~thinner.mask] == 0).all()
    np.testing.assert_array_equal(thinner.values[thinner.mask], data.values[thinner.mask])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"mask": np.ones((6, 2))}, "must agree"),
        ({"target": np.zeros(5)}, "must agree"),
        ({"weight": np.zeros(6)}, "not all be zero"),
        ({"values": np.full((6, 3), np.inf)}, "must be finite"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, sentence):
    parts = {"values": np.zeros((6, 3)), "mask": np.ones((6, 3)), "target": np.zeros(6), **change}
    with pytest.raises(ValueError, match=sentence):
        MaskedData.of(**parts)
