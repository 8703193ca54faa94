"""Density-ratio weights make columns independent, and no row takes all the weight."""

import warnings

import numpy as np
import pytest

from stablemiss.decorrelation import RatioDecorrelator
from stablemiss.decorrelation.ratio import _folds


def ratio_weights(table, *settings, rng, weight=None, groups=None, **more):
    return RatioDecorrelator(*settings, **more).learn_weights(table, rng=rng, weight=weight, groups=groups)


def effective_share(weight):
    return weight.sum() ** 2 / (weight**2).sum() / len(weight)


def correlation(table, weight=None):
    covariance = np.cov(table.T, aweights=weight)
    return covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])


def draw_pair(rho, seed, n=20000):
    return np.random.default_rng(seed).multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=n)


def exact_ratio(table, rho):
    """Density of two independent standard normal columns over that of two with correlation rho."""
    x, y = table.T
    quadratic = (x**2 + y**2 - 2 * rho * x * y) / (1 - rho**2)
    return np.sqrt(1 - rho**2) * np.exp((quadratic - x**2 - y**2) / 2)


@pytest.mark.parametrize("seed", range(3))
def test_two_normal_columns_become_uncorrelated_with_the_effective_rows_of_the_theory(seed):
    """Logistic regression on squares and products is exact here; effective share √(1 − 4ρ²) / (1 − ρ²).

    Exact weights have a heavy tail: with 200,000 rows, even they leave a correlation of up to 0.01.
    """
    rho = 0.4
    table = draw_pair(rho, seed, n=200_000)
    weight = ratio_weights(table, "logistic", clip=0.01, rng=np.random.default_rng(seed))
    exact = exact_ratio(table, rho)
    assert correlation(table) == pytest.approx(rho, abs=0.02)
    assert abs(correlation(table, weight)) < 0.02
    assert effective_share(weight) == pytest.approx(np.sqrt(1 - 4 * rho**2) / (1 - rho**2), abs=0.05)
    assert effective_share(weight) == pytest.approx(effective_share(exact), abs=0.03)


@pytest.mark.parametrize("seed", range(2))
def test_logistic_weights_are_close_to_the_ratio_of_the_densities(seed):
    rho = 0.3
    table = draw_pair(rho, seed)
    weight = ratio_weights(table, "logistic", clip=0.01, rng=np.random.default_rng(seed))
    exact = exact_ratio(table, rho)
    assert np.corrcoef(np.log(weight), np.log(exact))[0, 1] > 0.98
    assert np.abs(weight - exact).mean() < 0.08


@pytest.mark.parametrize("seed", range(2))
def test_marginal_variances_are_kept(seed):
    """Unlike balancing weights: the numerator of the density ratio has the same marginals."""
    table = draw_pair(0.4, seed)
    weight = ratio_weights(table, "logistic", clip=0.01, rng=np.random.default_rng(seed))
    np.testing.assert_allclose(np.diag(np.cov(table.T, aweights=weight)), 1.0, atol=0.1)


@pytest.mark.parametrize("seed", range(2))
def test_the_network_lowers_dependence_without_correlation(seed):
    """|x₀| ≈ |x₁| with signs at random: uncorrelated, but far from independent."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(0.5, 2.0, size=(3000, 1))
    table = size * rng.choice([-1.0, 1.0], size=(3000, 2)) + 0.4 * rng.normal(size=(3000, 2))
    weight = ratio_weights(table, rng=rng, learning_rate=0.01, n_permutations=2)
    assert abs(correlation(table)) < 0.1
    assert correlation(np.abs(table)) > 0.5
    assert correlation(np.abs(table), weight) < 0.75 * correlation(np.abs(table))


@pytest.mark.parametrize("seed", range(2))
def test_weights_of_independent_columns_stay_nearly_equal(seed):
    table = np.random.default_rng(seed).normal(size=(2000, 10))
    weight = ratio_weights(table, rng=np.random.default_rng(seed), n_permutations=2)
    assert effective_share(weight) > 0.85


@pytest.mark.parametrize("classifier", ["mlp", "logistic"])
def test_clip_bounds_the_weights(classifier):
    """Two nearly equal columns: permuted rows are easily recognised, and unclipped weights would explode."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(1000, 1)) + 0.01 * rng.normal(size=(1000, 2))
    weight = ratio_weights(table, classifier, clip=0.2, rng=rng, n_permutations=1, max_epochs=10)
    assert weight.mean() == pytest.approx(1.0)
    assert weight.min() > 0
    assert weight.max() / weight.min() <= 16 * (1 + 1e-9)


def test_columns_of_one_group_stay_together():
    """One-hot columns in one group are permuted together, so permuted rows are valid codes."""
    rng = np.random.default_rng(0)
    table = np.hstack([np.eye(2)[rng.integers(2, size=1000)], rng.normal(size=(1000, 2))])
    table[:, 3] += table[:, 2]
    grouped, separate = (
        ratio_weights(table, "logistic", rng=np.random.default_rng(0), groups=np.array(groups))
        for groups in ([0, 0, 1, 1], [0, 0, 1, 2])
    )
    # The last two columns are dependent: ignored as one group, decorrelated as two.
    assert effective_share(grouped) > 0.95
    assert effective_share(separate) < 0.9


def test_fitted_weights_multiply_the_given_weights():
    """Half the rows are dependent but have tiny weights, so the fitted weights stay nearly equal."""
    rng = np.random.default_rng(0)
    dependent = np.repeat(rng.normal(size=(2000, 1)), 2, axis=1)
    table = np.vstack([rng.normal(size=(2000, 2)), dependent])
    base = np.repeat([1.0, 1e-3], 2000)
    weight = ratio_weights(table, "logistic", rng=rng, weight=base, n_permutations=1)
    ratio = weight / base
    assert effective_share(ratio[:2000]) > 0.95
    assert weight[2000:].sum() < 0.01 * weight.sum()


@pytest.mark.parametrize("classifier", ["mlp", "logistic"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_and_constant_columns_work_without_a_warning(classifier, n):
    rng = np.random.default_rng(0)
    table = np.hstack([rng.normal(size=(n, 2)), np.ones((n, 1))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weight = ratio_weights(table, classifier, rng=rng, max_epochs=20)
    assert np.isfinite(weight).all()
    assert weight.mean() == pytest.approx(1.0)


@pytest.mark.parametrize(("n", "n_folds"), [(10, 2), (10, 3), (2, 5)])
def test_every_row_is_predicted_once_by_a_classifier_not_fitted_to_it(n, n_folds):
    folds = _folds(n, n_folds, np.random.default_rng(0))
    assert all(not set(train) & set(predict) for train, predict in folds)
    assert sorted(np.concatenate([predict for _, predict in folds])) == list(range(n))


def test_one_fold_trains_on_all_rows_and_predicts_them():
    [(train, predict)] = _folds(7, 1, np.random.default_rng(0))
    np.testing.assert_array_equal(train, np.arange(7))
    np.testing.assert_array_equal(predict, np.arange(7))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classifier": "forest"}, "classifier must be .* got 'forest'"),
        ({"clip": 0.5}, "clip must be .* got 0.5"),
        ({"clip": 0.0}, "clip must be .* got 0.0"),
        ({"n_folds": 0}, "n_folds must be an integer of at least 1; got 0"),
        ({"max_epochs": 0}, "max_epochs must be an integer of at least 1; got 0"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        RatioDecorrelator(**settings)
