"""Balancing weights make columns uncorrelated and keep as many effective rows as possible."""

import numpy as np
import pytest

from stablemiss.decorrelation import BalancingDecorrelator

SCALES = ["correlation", "covariance", "fixed"]


def balance(table, *settings, rng, weight=None, groups=None, **more):
    return BalancingDecorrelator(*settings, **more).learn_weights(
        table, rng=rng, weight=weight, groups=groups
    )


def effective_share(weight):
    return weight.sum() ** 2 / (weight**2).sum() / len(weight)


def covariance(table, weight=None):
    return np.cov(table.T, aweights=weight, ddof=0)


def correlations(table, weight=None):
    """Σ of squared correlations over all ordered pairs."""
    matrix = covariance(table, weight)
    scale = np.sqrt(np.diag(matrix))
    matrix = matrix / np.outer(scale, scale)
    return (matrix**2).sum() - np.trace(matrix**2)


def draw_equicorrelated(rho, seed, n=2000, d=5):
    rng = np.random.default_rng(seed)
    return np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, d))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", range(3))
def test_chance_correlations_of_independent_columns_vanish_at_little_cost(seed, scale):
    """2000 × 5: a sum of squares of about 20 / 2000 falls below 1e-5 with over 98% effective rows."""
    table = np.random.default_rng(seed).normal(size=(2000, 5))
    weight = balance(table, scale, penalty=0.01, rng=np.random.default_rng(seed))
    assert correlations(table) > 4e-3
    assert correlations(table, weight) < 1e-5
    assert effective_share(weight) > 0.98


@pytest.mark.parametrize("penalty", [1.0, 10.0])
def test_small_correlations_are_reduced_to_the_documented_fraction(penalty):
    table = np.random.default_rng(0).normal(size=(4000, 5))
    weight = balance(table, penalty=penalty, rng=np.random.default_rng(0))
    share = np.sqrt(correlations(table, weight) / correlations(table))
    assert share == pytest.approx(penalty / (2 + penalty), rel=0.1)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", range(2))
def test_correlated_columns_become_uncorrelated(seed, scale):
    """Five columns, all pairs at 0.4, so a sum of squares of 3.2."""
    table = draw_equicorrelated(0.4, seed)
    weight = balance(table, scale, penalty=0.01, rng=np.random.default_rng(seed), max_steps=400)
    assert correlations(table) > 2.5
    assert correlations(table, weight) < 1e-3
    assert effective_share(weight) > (0.35 if scale == "fixed" else 0.55)


def test_variances_shrink_unless_they_are_fixed():
    """Outlying rows contribute much of the correlation, so the least uneven weights exclude them."""
    table = draw_equicorrelated(0.4, seed=0)
    variance = {}
    for scale in SCALES:
        weight = balance(table, scale, 0.01, rng=np.random.default_rng(0), max_steps=400)
        variance[scale] = np.mean(np.diag(covariance(table, weight)) / table.var(axis=0))
    assert variance["covariance"] < 0.75
    assert variance["correlation"] < 0.75
    assert variance["fixed"] > 0.95


def test_small_covariances_can_hide_remaining_correlations():
    """All pairs at 0.95: variances fall below a tenth, and covariances with them, but not correlations."""
    table = draw_equicorrelated(0.95, seed=0)
    by_covariance, by_correlation = (
        balance(table, scale, 0.01, rng=np.random.default_rng(0), max_steps=600)
        for scale in ("covariance", "correlation")
    )
    after = covariance(table, by_covariance)
    assert np.diag(after).max() < 0.12
    assert np.abs(after - np.diag(np.diag(after))).max() < 0.05
    assert correlations(table, by_covariance) > 0.5
    assert correlations(table, by_correlation) < 0.01


@pytest.mark.parametrize("scale", SCALES)
def test_weights_are_not_negative_and_have_mean_one(scale):
    weight = balance(draw_equicorrelated(0.6, 0, n=300), scale, rng=np.random.default_rng(0))
    assert (weight >= 0).all()
    assert weight.mean() == pytest.approx(1.0)


def test_a_larger_penalty_leaves_more_effective_rows_and_more_correlation():
    table = draw_equicorrelated(0.5, seed=0, n=500)
    weights = [balance(table, penalty=p, rng=np.random.default_rng(0)) for p in (0.01, 1.0, 100.0)]
    assert np.all(np.diff([effective_share(weight) for weight in weights]) > 0.01)
    assert np.all(np.diff([correlations(table, weight) for weight in weights]) > 0.01)


@pytest.mark.parametrize("scale", SCALES)
def test_columns_of_one_group_may_stay_correlated(scale):
    """One-hot columns of three categories exclude each other, which no weights can change."""
    rng = np.random.default_rng(0)
    one_hot = np.eye(3)[rng.integers(3, size=1000)]
    number = rng.normal(size=(1000, 1)) + one_hot[:, :1]
    table = np.hstack([one_hot, number])
    weight = balance(table, scale, 0.01, rng=rng, groups=np.array([0, 0, 0, 1]), max_steps=400)
    before, after = np.abs(np.corrcoef(table.T))[3, :3], np.abs(covariance(table, weight))[3, :3]
    assert before.max() > 0.2
    assert after.max() < 0.01
    assert (weight @ one_hot / 1000 > 0.2).all()
    assert effective_share(weight) > 0.6


def test_fitted_weights_multiply_the_given_weights():
    """The product of given and fitted weights balances; a single column keeps its given weights."""
    table = draw_equicorrelated(0.4, seed=1)
    base = np.random.default_rng(1).uniform(0.2, 2.0, size=2000)
    weight = balance(table, penalty=0.01, rng=np.random.default_rng(0), weight=base, max_steps=400)
    assert correlations(table, weight) < 1e-3
    alone = balance(table[:, :1], rng=np.random.default_rng(0), weight=base)
    np.testing.assert_allclose(alone, base / base.mean(), rtol=1e-4)


@pytest.mark.parametrize("scale", SCALES)
def test_constant_columns_and_few_rows_work(scale):
    rng = np.random.default_rng(0)
    few_rows = balance(rng.normal(size=(6, 12)), scale, rng=rng)
    constant = balance(np.hstack([draw_equicorrelated(0.4, 0), np.ones((2000, 1))]), scale, rng=rng)
    assert np.isfinite(few_rows).all()
    assert np.isfinite(constant).all()
    assert effective_share(constant) > 0.3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": "rank"}, "scale must be 'correlation', 'covariance' or 'fixed'; got 'rank'"),
        ({"penalty": -1.0}, "penalty must be a number from 0 .* got -1.0"),
        ({"max_steps": 0}, "max_steps must be an integer of at least 1; got 0"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        BalancingDecorrelator(**settings)
