"""Weights that balance: columns become uncorrelated, at no more cost in rows than that takes."""

import numpy as np
import pytest

from stablemiss.decorrelation import balance_weights

SCALES = ["correlation", "covariance", "fixed"]


def share_of_rows(weight):
    return weight.sum() ** 2 / (weight**2).sum() / len(weight)


def covariance(table, weight=None):
    return np.cov(table.T, aweights=weight, ddof=0)


def correlations(table, weight=None):
    """Σ of squared correlations over all ordered pairs."""
    found = covariance(table, weight)
    scale = np.sqrt(np.diag(found))
    found = found / np.outer(scale, scale)
    return (found**2).sum() - np.trace(found**2)


def draw_equicorrelated(rho, seed, n=2000, d=5):
    rng = np.random.default_rng(seed)
    return np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, d))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", range(3))
def test_chance_correlations_of_independent_columns_vanish_at_the_cost_of_few_rows(seed, scale):
    """2000 × 5: a sum of squares of about 20 / 2000 falls below 1e-5, and over 98% of the rows are left."""
    table = np.random.default_rng(seed).normal(size=(2000, 5))
    weight = balance_weights(table, scale, penalty=0.01, rng=np.random.default_rng(seed))
    assert correlations(table) > 4e-3
    assert correlations(table, weight) < 1e-5
    assert share_of_rows(weight) > 0.98


@pytest.mark.parametrize("penalty", [1.0, 10.0])
def test_of_small_correlations_the_share_remains_that_the_penalty_says(penalty):
    table = np.random.default_rng(0).normal(size=(4000, 5))
    weight = balance_weights(table, penalty=penalty, rng=np.random.default_rng(0))
    share = np.sqrt(correlations(table, weight) / correlations(table))
    assert share == pytest.approx(penalty / (2 + penalty), rel=0.1)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", range(2))
def test_correlated_columns_become_uncorrelated(seed, scale):
    """Five columns, all pairs at 0.4, so a sum of squares of 3.2."""
    table = draw_equicorrelated(0.4, seed)
    weight = balance_weights(table, scale, penalty=0.01, rng=np.random.default_rng(seed), max_steps=400)
    assert correlations(table) > 2.5
    assert correlations(table, weight) < 1e-3
    assert share_of_rows(weight) > (0.35 if scale == "fixed" else 0.55)


def test_variances_shrink_unless_they_are_fixed():
    """The trap: rows far out carry much of the correlation, so the cheapest weights leave them out."""
    table = draw_equicorrelated(0.4, seed=0)
    variance = {}
    for scale in SCALES:
        weight = balance_weights(table, scale, 0.01, rng=np.random.default_rng(0), max_steps=400)
        variance[scale] = np.mean(np.diag(covariance(table, weight)) / table.var(axis=0))
    assert variance["covariance"] < 0.75
    assert variance["correlation"] < 0.75
    assert variance["fixed"] > 0.95


def test_small_covariances_may_hide_correlations_that_are_left():
    """All pairs at 0.95: variances fall below a tenth, and covariances with them, but not correlations."""
    table = draw_equicorrelated(0.95, seed=0)
    by_covariance, by_correlation = (
        balance_weights(table, scale, 0.01, rng=np.random.default_rng(0), max_steps=600)
        for scale in ("covariance", "correlation")
    )
    left = covariance(table, by_covariance)
    assert np.diag(left).max() < 0.12
    assert np.abs(left - np.diag(np.diag(left))).max() < 0.05
    assert correlations(table, by_covariance) > 0.5
    assert correlations(table, by_correlation) < 0.01


@pytest.mark.parametrize("scale", SCALES)
def test_weights_are_not_negative_and_have_mean_one(scale):
    weight = balance_weights(draw_equicorrelated(0.6, 0, n=300), scale, rng=np.random.default_rng(0))
    assert (weight >= 0).all()
    assert weight.mean() == pytest.approx(1.0)


def test_a_dearer_spread_leaves_more_rows_and_more_correlation():
    table = draw_equicorrelated(0.5, seed=0, n=500)
    weights = [balance_weights(table, penalty=p, rng=np.random.default_rng(0)) for p in (0.01, 1.0, 100.0)]
    assert np.all(np.diff([share_of_rows(weight) for weight in weights]) > 0.01)
    assert np.all(np.diff([correlations(table, weight) for weight in weights]) > 0.01)


@pytest.mark.parametrize("scale", SCALES)
def test_columns_of_one_group_may_stay_correlated(scale):
    """A code of three categories: its columns exclude each other, which no weights could change."""
    rng = np.random.default_rng(0)
    coded = np.eye(3)[rng.integers(3, size=1000)]
    number = rng.normal(size=(1000, 1)) + coded[:, :1]
    table = np.hstack([coded, number])
    weight = balance_weights(table, scale, 0.01, rng=rng, groups=np.array([0, 0, 0, 1]), max_steps=400)
    found = np.abs(np.corrcoef(table.T))[3, :3], np.abs(covariance(table, weight))[3, :3]
    assert found[0].max() > 0.2
    assert found[1].max() < 0.01
    assert (weight @ coded / 1000 > 0.2).all()
    assert share_of_rows(weight) > 0.6


def test_learnt_weights_multiply_those_that_rows_have():
    """With base weights it is the product that balances, and equal ratios that cost nothing."""
    table = draw_equicorrelated(0.4, seed=1)
    base = np.random.default_rng(1).uniform(0.2, 2.0, size=2000)
    weight = balance_weights(table, penalty=0.01, rng=np.random.default_rng(0), base=base, max_steps=400)
    assert correlations(table, weight) < 1e-3
    alone = balance_weights(table[:, :1], rng=np.random.default_rng(0), base=base)
    np.testing.assert_allclose(alone, base / base.mean(), rtol=1e-4)


@pytest.mark.parametrize("scale", SCALES)
def test_constant_columns_and_few_rows_work(scale):
    rng = np.random.default_rng(0)
    few = balance_weights(rng.normal(size=(6, 12)), scale, rng=rng)
    constant = balance_weights(np.hstack([draw_equicorrelated(0.4, 0), np.ones((2000, 1))]), scale, rng=rng)
    assert np.isfinite(few).all()
    assert np.isfinite(constant).all()
    assert share_of_rows(constant) > 0.3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"scale": "rank"}, "scale='rank' is unknown; choose among 'correlation', 'covariance', 'fixed'"),
        ({"penalty": -1.0}, "penalty=-1.0 and tolerance=1e-06 must be zero or positive"),
        ({"max_steps": 0}, "max_steps=0 is too small"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        balance_weights(np.eye(3), rng=np.random.default_rng(0), **wrong)
