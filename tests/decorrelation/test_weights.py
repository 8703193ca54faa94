import numpy as np
import pytest

from stablemiss.datasets import make_gaussian_mix
from stablemiss.decorrelation import RandomFeatures, learn_weights, weigh_rows
from stablemiss.missingness import MAR


def mar_table(seed, n=1500, d=10, level=0.5):
    rng = np.random.default_rng(seed)
    X, _ = make_gaussian_mix(n_features=d, random_state=seed).draw(n, rng)
    X = MAR(level).fit(X, rng).hide(X, rng)
    values = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    return np.nan_to_num(values), ~np.isnan(X)


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_positive_with_mean_one_and_lower_the_dependence(seed):
    values, mask = mar_table(seed)
    found = weigh_rows(values, mask, rng=np.random.default_rng(seed))
    assert (found.weight > 0).all()
    assert found.weight.mean() == pytest.approx(1.0)
    assert sum(found.after.values()) < 0.9 * sum(found.before.values())
    assert found.effective_rows == pytest.approx(found.weight.sum() ** 2 / (found.weight**2).sum())


@pytest.mark.parametrize("form", ["weighted", "paper"])
def test_from_the_critical_penalty_on_weights_are_equal_and_below_it_not(form):
    values, mask = mar_table(0)
    spread = {}
    for strength in (1.2, 0.7, 0.3):
        rng = np.random.default_rng(0)
        found = weigh_rows(values, mask, strength=strength, form=form, redraw=False, max_epochs=20, rng=rng)
        spread[strength] = found.weight.std()
        assert found.gamma == pytest.approx(strength * found.critical_gamma)
    assert spread[1.2] < 0.01 < spread[0.7] < spread[0.3]


def test_independent_columns_keep_nearly_equal_weights():
    """Where there is nothing to undo, what the weights chase is sampling noise, and fresh features say so."""
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(6000, 5)), rng.random((6000, 5)) < 0.8
    found = weigh_rows(np.where(mask, values, 0.0), mask, strength=0.6, rng=rng)
    assert found.effective_rows > 0.9 * 6000


def test_only_the_terms_asked_for_are_lowered_most():
    values, mask = mar_table(1)
    intra = weigh_rows(values, mask, terms=("mm",), rng=np.random.default_rng(0))
    assert intra.after["mm"] < 0.7 * intra.before["mm"]


def test_hidden_values_have_no_influence():
    values, mask = mar_table(2, n=300, d=4)
    other = np.where(mask, values, 99.0)
    first, second = (learn_weights(v, mask, rng=np.random.default_rng(0)) for v in (values, other))
    np.testing.assert_array_equal(first, second)


def test_small_batches_of_rows_work_too():
    values, mask = mar_table(3)
    found = weigh_rows(values, mask, batch_size=500, rng=np.random.default_rng(0))
    assert sum(found.after.values()) < sum(found.before.values())


def test_an_absolute_penalty_is_taken_as_it_is():
    values, mask = mar_table(0, n=300, d=4)
    found = weigh_rows(values, mask, gamma=1e6, rng=np.random.default_rng(0))
    assert found.gamma == 1e6
    np.testing.assert_allclose(found.weight, 1.0)


@pytest.mark.parametrize("batch_size", [None, 100])
def test_features_are_drawn_again_only_if_asked(batch_size, monkeypatch):
    """Once to descend on, once for the report; with `redraw` also to judge by, three times more for the
    critical penalty, and at each look."""
    draws = []
    original = RandomFeatures.draw.__func__
    monkeypatch.setattr(RandomFeatures, "draw", classmethod(lambda *args: draws.append(1) or original(*args)))
    values, mask = mar_table(0, n=300, d=4)
    for redraw in (False, True):
        draws.clear()
        weigh_rows(
            values, mask, redraw=redraw, batch_size=batch_size, max_epochs=3, rng=np.random.default_rng(0)
        )
        assert len(draws) == (2 if not redraw else 6 + 4)
