"""Row weights that lower the dependence between columns and mask indicators."""

import numpy as np
import pytest
import torch

from stablemiss.datasets import make_gaussian_mix
from stablemiss.decorrelation import Decorrelator, RandomFeatures, learn_weights
from stablemiss.decorrelation import weights as module
from stablemiss.missingness import MAR
from stablemiss.progress import NullProgress
from stablemiss.training import minimise


def mar_table(seed, n=1500, d=10, level=0.5):
    rng = np.random.default_rng(seed)
    X, _ = make_gaussian_mix(n_features=d, random_state=seed).draw(n, rng)
    X = MAR(level).fit(X, rng).hide(X, rng)
    values = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    return np.nan_to_num(values), ~np.isnan(X)


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_positive_with_mean_one_and_lower_the_dependence(seed):
    values, mask = mar_table(seed)
    weighting = Decorrelator().learn_weights(values, mask, rng=np.random.default_rng(seed))
    assert (weighting.weight > 0).all()
    assert weighting.weight.mean() == pytest.approx(1.0)
    assert sum(weighting.after.values()) < 0.9 * sum(weighting.before.values())
    assert weighting.effective_rows == pytest.approx(
        weighting.weight.sum() ** 2 / (weighting.weight**2).sum()
    )


@pytest.mark.parametrize("form", ["weighted", pytest.param("paper", marks=pytest.mark.slow)])
def test_weights_are_uniform_above_the_critical_penalty_and_not_below(form):
    values, mask = mar_table(0)
    spread = {}
    for strength in (1.2, 0.85, 0.7, 0.3):
        rng = np.random.default_rng(0)
        decorrelator = Decorrelator(form=form, strength=strength, redraw=False, max_epochs=20)
        weighting = decorrelator.learn_weights(values, mask, rng=rng)
        spread[strength] = weighting.weight.std()
        assert weighting.gamma == pytest.approx(strength * weighting.critical_gamma)
    assert spread[1.2] < 0.01 < spread[0.7] < spread[0.3]
    if form == "weighted":
        assert spread[0.85] == pytest.approx(0.15, abs=0.06)


@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_single_draw_of_features_is_fitted_at_least_as_well_as_by_many_steps_of_adam(
    seed, gamma, monkeypatch
):
    """Both minimise the same objective from the same start; Adam with three learning rates."""
    objectives = {}

    def compare(loss, theta, *arguments, **options):
        start = theta.detach().clone()
        objectives["start"] = loss().item()
        for learning_rate in (0.1, 0.03, 0.01):
            adam = torch.optim.Adam([theta], lr=learning_rate)
            for _ in range(60):
                (theta.grad,) = torch.autograd.grad(loss(), [theta])
                adam.step()
        objectives["adam"] = loss().item()
        with torch.no_grad():
            theta.copy_(start)
        minimise(loss, theta, *arguments, **options)
        objectives["result"] = loss().item()

    monkeypatch.setattr(module, "minimise", compare)
    values, mask = mar_table(seed, n=300, d=5)
    decorrelator = Decorrelator(form="paper", gamma=gamma, redraw=False)
    weighting = decorrelator.learn_weights(values, mask, rng=np.random.default_rng(seed))
    assert objectives["adam"] < 0.95 * objectives["start"]  # otherwise the test would be vacuous
    assert objectives["result"] < 1.001 * objectives["adam"]
    assert (weighting.weight > 0).all()
    assert weighting.weight.mean() == pytest.approx(1.0)
    assert 0.5 * 300 < weighting.effective_rows < 0.999 * 300


@pytest.mark.parametrize("seed", range(2))
def test_with_a_single_draw_a_smaller_penalty_gives_more_uneven_weights(seed):
    """All of these penalties are far below the critical one."""
    values, mask = mar_table(seed)
    weightings = [
        Decorrelator(form="paper", gamma=gamma, redraw=False).learn_weights(
            values, mask, rng=np.random.default_rng(seed)
        )
        for gamma in (0.1, 1.0, 10.0)
    ]
    assert weightings[0].critical_gamma > 3 * 10.0
    spreads = [weighting.weight.std() for weighting in weightings]
    assert 0.2 > spreads[0] > 0.99 * spreads[1] > 0.99 * spreads[2] > 0.05


@pytest.mark.parametrize("form", ["weighted", "paper"])
def test_with_a_single_draw_weights_stay_equal_far_above_the_critical_penalty(form):
    values, mask = mar_table(0, n=300, d=5)
    weighting = Decorrelator(form=form, strength=5.0, redraw=False).learn_weights(
        values, mask, rng=np.random.default_rng(0)
    )
    np.testing.assert_array_equal(weighting.weight, 1.0)
    assert weighting.effective_rows == pytest.approx(300)


@pytest.mark.parametrize(
    ("redraw", "batch_size", "is_fixed"),
    [(False, None, True), (False, 300, True), (False, 100, False), (True, None, False)],
)
def test_only_a_fixed_objective_is_minimised_without_early_stopping(
    redraw, batch_size, is_fixed, monkeypatch
):
    """New features and batches change the objective from step to step."""
    calls = []
    monkeypatch.setattr(module, "minimise", lambda *arguments, **_: calls.append(arguments[2]))
    values, mask = mar_table(0, n=300, d=4)
    decorrelator = Decorrelator(redraw=redraw, batch_size=batch_size, max_epochs=2)
    decorrelator.learn_weights(values, mask, rng=np.random.default_rng(0))
    assert calls == [2 * module.STEPS_PER_EPOCH] * is_fixed


def test_a_progress_report_can_stop_the_minimisation_of_a_fixed_objective():
    class Cancelled(NullProgress):
        def update(self, done, note=""):
            raise KeyboardInterrupt

    values, mask = mar_table(0, n=300, d=4)
    with pytest.raises(KeyboardInterrupt):
        Decorrelator(form="paper", redraw=False).learn_weights(
            values, mask, rng=np.random.default_rng(0), progress=Cancelled()
        )


@pytest.mark.parametrize("seed", range(3))
def test_independent_columns_have_only_sampling_noise_and_keep_nearly_equal_weights(seed):
    """Without dependence, weights could only fit noise."""
    rng = np.random.default_rng(seed)
    values, mask = rng.normal(size=(4000, 8)), rng.random((4000, 8)) < 0.7
    weighting = Decorrelator(strength=0.1).learn_weights(np.where(mask, values, 0.0), mask, rng=rng)
    assert weighting.effective_rows > 0.97 * 4000
    # A pair's squared covariance over N rows has mean Var(u) Var(v) / N ≤ 1 / N for each of 25 pairs of
    # features; columns are jointly observed in half of the rows, an indicator has variance 0.21 |step|².
    n_pairs = 8 * 7 / 2
    assert weighting.before["xx"] < n_pairs * 25 / (0.49 * 4000)
    assert weighting.before["xm"] < 2 * n_pairs * 25 / (0.7 * 4000)


@pytest.mark.parametrize("level", [0.1, 0.5])
@pytest.mark.parametrize("seed", range(1))
def test_dependence_under_mar_falls_by_two_fifths_and_a_third_of_the_rows_is_effective(level, seed):
    """With features that were not used for learning, at the default strength."""
    values, mask = mar_table(seed, n=3000, d=20, level=level)
    weighting = Decorrelator().learn_weights(values, mask, rng=np.random.default_rng(seed))
    assert sum(weighting.after.values()) < 0.6 * sum(weighting.before.values())
    assert weighting.effective_rows > 0.35 * 3000


def test_a_single_term_can_be_lowered():
    values, mask = mar_table(1)
    weighting = Decorrelator(terms=("mm",)).learn_weights(values, mask, rng=np.random.default_rng(0))
    assert weighting.after["mm"] < 0.7 * weighting.before["mm"]


def test_missing_values_have_no_influence():
    values, mask = mar_table(2, n=300, d=4)
    other = np.where(mask, values, 99.0)
    first, second = (learn_weights(v, mask, rng=np.random.default_rng(0)) for v in (values, other))
    np.testing.assert_array_equal(first, second)


def test_weights_can_be_fitted_in_batches():
    values, mask = mar_table(3)
    weighting = Decorrelator(batch_size=500).learn_weights(values, mask, rng=np.random.default_rng(0))
    assert sum(weighting.after.values()) < sum(weighting.before.values())


def test_gamma_is_used_unchanged():
    values, mask = mar_table(0, n=300, d=4)
    weighting = Decorrelator(gamma=1e6).learn_weights(values, mask, rng=np.random.default_rng(0))
    assert weighting.gamma == 1e6
    np.testing.assert_allclose(weighting.weight, 1.0)


@pytest.mark.parametrize("batch_size", [None, 100])
def test_features_are_redrawn_only_on_request(batch_size, monkeypatch):
    """One draw for the loss and one for the report; with `redraw` also eight for the score of four columns,
    three for the critical penalty, and one for each score."""
    draws = []
    original = RandomFeatures.draw.__func__
    monkeypatch.setattr(RandomFeatures, "draw", classmethod(lambda *args: draws.append(1) or original(*args)))
    values, mask = mar_table(0, n=300, d=4)
    for redraw in (False, True):
        draws.clear()
        decorrelator = Decorrelator(redraw=redraw, batch_size=batch_size, max_epochs=3)
        decorrelator.learn_weights(values, mask, rng=np.random.default_rng(0))
        assert len(draws) == (2 if not redraw else 2 + 8 + 3 + 4)


def test_a_wide_table_is_processed_by_random_subsets_of_columns():
    """Losses are scaled to all pairs, and weights fitted from subsets lower the dependence of the table."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(600, 40)) + rng.normal(size=(600, 1))
    mask = rng.random((600, 40)) < 0.8
    values = np.where(mask, values, 0.0)
    weighting = Decorrelator(max_columns=10).learn_weights(values, mask, rng=rng)
    whole = Decorrelator().learn_weights(values, mask, rng=rng)
    # Unscaled losses would differ by a factor of 17; random features and columns explain the rest.
    assert 0.5 < weighting.before["xx"] / whole.before["xx"] < 2
    assert 0.5 < weighting.critical_gamma / whole.critical_gamma < 2
    assert weighting.after["xx"] < 0.9 * weighting.before["xx"]


def test_rows_of_weight_zero_are_ignored():
    values, mask = mar_table(0, n=400, d=4)
    base = np.repeat([0.0, 1.0], 200)
    weighting = Decorrelator().learn_weights(values, mask, weight=base, rng=np.random.default_rng(0))
    rest = Decorrelator().learn_weights(values[200:], mask[200:], rng=np.random.default_rng(0))
    assert (weighting.weight[:200] == 0).all()
    np.testing.assert_allclose(weighting.weight[200:] / 2, rest.weight)


@pytest.mark.parametrize(
    "setting", [{"strength": -1.0}, {"gamma": -1.0}, {"q": 0}, {"batch_size": 0}, {"max_columns": 1}], ids=str
)
def test_invalid_settings_raise(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        Decorrelator(**setting)
