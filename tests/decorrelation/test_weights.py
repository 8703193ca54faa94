import numpy as np
import pytest
import torch

from stablemiss.datasets import make_gaussian_mix
from stablemiss.decorrelation import Dependence, RandomFeatures, critical_gamma, learn_weights, weigh_rows
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


@pytest.mark.parametrize("form", ["weighted", pytest.param("paper", marks=pytest.mark.slow)])
def test_from_the_critical_penalty_on_weights_are_equal_and_below_it_not(form):
    values, mask = mar_table(0)
    spread = {}
    for strength in (1.2, 0.85, 0.7, 0.3):
        rng = np.random.default_rng(0)
        found = weigh_rows(values, mask, strength=strength, form=form, redraw=False, max_epochs=20, rng=rng)
        spread[strength] = found.weight.std()
        assert found.gamma == pytest.approx(strength * found.critical_gamma)
    assert spread[1.2] < 0.01 < spread[0.7] < spread[0.3]
    if form == "weighted":
        assert spread[0.85] == pytest.approx(0.15, abs=0.06)


@pytest.mark.parametrize("seed", range(3))
def test_independent_columns_are_at_the_sampling_floor_and_keep_nearly_equal_weights(seed):
    """Where there is nothing to undo, all that weights could chase is chance."""
    rng = np.random.default_rng(seed)
    values, mask = rng.normal(size=(4000, 8)), rng.random((4000, 8)) < 0.7
    found = weigh_rows(np.where(mask, values, 0.0), mask, strength=0.1, rng=rng)
    assert found.effective_rows > 0.97 * 4000
    # A pair's squared covariance over N rows has mean Var(u) Var(v) / N ≤ 1 / N for each of 25 pairs of
    # features; columns are seen together in half of the rows, a bit has variance 0.21 |step|².
    n_pairs = 8 * 7 / 2
    assert found.before["xx"] < n_pairs * 25 / (0.49 * 4000)
    assert found.before["xm"] < 2 * n_pairs * 25 / (0.7 * 4000)


@pytest.mark.parametrize("level", [0.1, 0.5])
@pytest.mark.parametrize("seed", range(1))
def test_dependence_under_mar_falls_by_two_fifths_and_a_third_of_the_rows_is_left(level, seed):
    """On features that no step has seen, with the default strength."""
    values, mask = mar_table(seed, n=3000, d=20, level=level)
    found = weigh_rows(values, mask, rng=np.random.default_rng(seed))
    assert sum(found.after.values()) < 0.6 * sum(found.before.values())
    assert found.effective_rows > 0.35 * 3000


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
    """Once to descend on, once for the report; with `redraw` also to judge by, eight times for four columns,
    three times more for the critical penalty, and at each look."""
    draws = []
    original = RandomFeatures.draw.__func__
    monkeypatch.setattr(RandomFeatures, "draw", classmethod(lambda *args: draws.append(1) or original(*args)))
    values, mask = mar_table(0, n=300, d=4)
    for redraw in (False, True):
        draws.clear()
        weigh_rows(
            values, mask, redraw=redraw, batch_size=batch_size, max_epochs=3, rng=np.random.default_rng(0)
        )
        assert len(draws) == (2 if not redraw else 2 + 8 + 3 + 4)


@pytest.mark.parametrize("seed", range(3))
def test_the_critical_penalty_is_the_steepest_gain_per_spread(seed):
    """No direction of small change gains more than γ_c times the spread it causes, and one gains as much."""
    values, mask = mar_table(seed, n=200, d=4)
    rng = np.random.default_rng(seed)
    measure = Dependence(torch.from_numpy(values), torch.from_numpy(mask), RandomFeatures.draw(4, 3, rng))
    base = torch.from_numpy(rng.uniform(0.2, 2.0, size=200))
    base = base / base.mean()

    def gain_per_spread(direction):
        ratio = 1 + 1e-5 * direction / direction.std(correction=0)
        weight = base * ratio
        gained = sum(measure(base)[0].values()) - sum(measure(weight / weight.mean())[0].values())
        return gained / float(ratio.std(correction=0) / ratio.mean())

    critical = critical_gamma(measure, base)
    blind = [gain_per_spread(torch.from_numpy(rng.normal(size=200))) for _ in range(20)]
    _, gradient = measure(base)
    steepest = -base * (gradient - (gradient * base).mean())
    assert max(blind) < critical
    assert gain_per_spread(steepest - steepest.mean()) == pytest.approx(critical, rel=1e-2)


def test_a_wide_table_is_worked_on_by_some_columns_at_a_time():
    """Losses are scaled to all pairs, and weights learnt from parts help the whole."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(600, 40)) + rng.normal(size=(600, 1))
    mask = rng.random((600, 40)) < 0.8
    found = weigh_rows(np.where(mask, values, 0.0), mask, max_columns=10, rng=rng)
    whole = weigh_rows(np.where(mask, values, 0.0), mask, rng=rng)
    # Unscaled they would be off by a factor of 17; features and columns drawn make for the rest.
    assert 0.5 < found.before["xx"] / whole.before["xx"] < 2
    assert 0.5 < found.critical_gamma / whole.critical_gamma < 2
    assert found.after["xx"] < 0.9 * found.before["xx"]


def test_rows_of_weight_zero_stay_out():
    values, mask = mar_table(0, n=400, d=4)
    base = np.repeat([0.0, 1.0], 200)
    found = weigh_rows(values, mask, base=base, rng=np.random.default_rng(0))
    rest = weigh_rows(values[200:], mask[200:], rng=np.random.default_rng(0))
    assert (found.weight[:200] == 0).all()
    np.testing.assert_allclose(found.weight[200:] / 2, rest.weight)


@pytest.mark.parametrize(
    "setting", [{"strength": -1.0}, {"gamma": -1.0}, {"q": 0}, {"batch_size": 0}, {"max_columns": 1}], ids=str
)
def test_what_cannot_be_is_refused(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        weigh_rows(np.zeros((50, 2)), np.ones((50, 2)), rng=np.random.default_rng(0), **setting)
