from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from stablemiss.datasets import Population, make_gaussian, make_gaussian_ind, make_gaussian_mix
from stablemiss.datasets import population as population_module

MAKERS = [make_gaussian, make_gaussian_ind, make_gaussian_mix]


def small_mixture(n_features: int, n_components: int, seed: int) -> Population:
    """Overlapping components with different covariances and weights, smooth enough for a coarse grid."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n_components, n_features, n_features))
    return Population(
        weights=rng.dirichlet(np.full(n_components, 3.0)),
        means=2.0 * rng.standard_normal((n_components, n_features)),
        covariances=factors @ factors.transpose(0, 2, 1) + 0.6 * np.eye(n_features),
        coef=rng.standard_normal(n_features) + 1.0,
        intercept=float(rng.standard_normal()),
        noise_sd=0.3,
    )


def expectation_by_integration(population: Population, row: np.ndarray) -> float:
    """E[y | observed values] by numerical integration over a grid of the missing values."""
    sd = np.sqrt(np.diagonal(population.covariances, axis1=1, axis2=2))
    low, high = (population.means - 7.5 * sd).min(axis=0), (population.means + 7.5 * sd).max(axis=0)
    # All conditional standard deviations are at least √0.6, so that with steps of 0.4 the sum over the grid
    # is exact up to rounding errors.
    axes = [
        np.arange(low[j], high[j], 0.4) if np.isnan(value) else np.array([value])
        for j, value in enumerate(row)
    ]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(row))
    density = sum(
        weight * multivariate_normal(mean, covariance).pdf(points)
        for weight, mean, covariance in zip(
            population.weights, population.means, population.covariances, strict=True
        )
    )
    return float(np.average(population.intercept + points @ population.coef, weights=np.atleast_1d(density)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_features", "n_components"), [(2, 2), (2, 3), (3, 2)])
def test_bayes_equals_brute_force_integration_for_every_mask(n_features, n_components, seed):
    population = small_mixture(n_features, n_components, seed)
    X, _ = population.draw(2**n_features, np.random.default_rng(seed))
    X[~np.array(list(product([False, True], repeat=n_features)))] = np.nan
    expected = [expectation_by_integration(population, row) for row in X]
    np.testing.assert_allclose(population.bayes(X), expected, rtol=1e-7, atol=1e-7)


def test_the_optimal_prediction_of_the_mixtures_is_not_linear():
    """Otherwise the comparison with integration could not distinguish `bayes` from `linear_bayes`."""
    population = small_mixture(2, 3, seed=0)
    X, _ = population.draw(200, np.random.default_rng(0))
    X[:, 1] = np.nan
    assert np.abs(population.bayes(X) - population.linear_bayes(X)).max() > 0.3


@pytest.mark.parametrize("seed", range(3))
def test_bayes_of_one_gaussian_agrees_with_the_textbook_formula(seed):
    rng = np.random.default_rng(seed)
    population = make_gaussian(n_features=12, random_state=seed)
    mean, covariance = population.means[0], population.covariances[0]
    X, _ = population.draw(50, rng)
    X[rng.random(X.shape) < rng.random((50, 1))] = np.nan
    X[0] = np.nan
    expected = []
    for row in X:
        o, m = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        filled = row.copy()
        regression = covariance[np.ix_(m, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
        filled[m] = mean[m] + regression @ (row[o] - mean[o])
        expected.append(population.intercept + population.coef @ filled)
    np.testing.assert_allclose(population.bayes(X), expected, rtol=1e-8, atol=1e-8 * population.signal_sd)


@pytest.mark.parametrize("make", [make_gaussian, make_gaussian_ind])
def test_bayes_and_linear_bayes_are_equal_for_one_component(make):
    population = make(n_features=8, random_state=0)
    X, _ = population.draw(100, np.random.default_rng(0))
    X[np.random.default_rng(1).random(X.shape) < 0.5] = np.nan
    np.testing.assert_allclose(population.bayes(X), population.linear_bayes(X), rtol=1e-9)


@pytest.mark.parametrize("make", MAKERS)
def test_only_noise_remains_for_complete_rows_and_empty_rows_get_the_mean(make):
    population = make(n_features=10, random_state=3)
    X, y = population.draw(5000, np.random.default_rng(0))
    line = population.intercept + X @ population.coef
    np.testing.assert_allclose(population.bayes(X), line, atol=1e-8 * population.signal_sd)
    assert np.std(y - line) == pytest.approx(population.noise_sd, rel=0.05)
    empty = population.bayes(np.full((1, 10), np.nan))[0]
    assert empty == pytest.approx(population.intercept + population.coef @ population.mean)


def test_bayes_is_better_than_linear_bayes_which_is_better_than_the_mean():
    """Mean squared errors of 8 mixtures with values missing completely at random, on 4000 rows."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        population = make_gaussian_mix(n_features=10, random_state=rng)
        X, y = population.draw(4000, rng)
        X[rng.random(X.shape) < rng.uniform(0.1, 0.6, (4000, 1))] = np.nan
        bayes, linear = (np.mean((y - p) ** 2) for p in (population.bayes(X), population.linear_bayes(X)))
        assert bayes < 0.98 * linear
        assert linear < 0.9 * np.var(y)


def test_bayes_errors_are_unbiased_and_uncorrelated_with_the_prediction():
    """This characterises a conditional expectation; checked on new rows within four standard errors."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        population = make_gaussian_mix(n_features=10, random_state=rng)
        X, y = population.draw(4000, rng)
        X[rng.random(X.shape) < 0.4] = np.nan
        prediction = population.bayes(X)
        error = y - prediction
        for factor in (np.ones(4000), prediction - prediction.mean()):
            products = error * factor
            assert abs(products.mean()) < 4 * products.std() / np.sqrt(4000)


def test_scales_agree_with_the_paper():
    """For 50 features: standard deviation of a feature 5.9, eigenvalues of Σ from 0.03 to 157, of the signal
    about 1700."""
    populations = [make_gaussian(random_state=seed) for seed in range(30)]
    feature_sd = np.mean([np.sqrt(np.diag(p.covariance)).mean() for p in populations])
    eigenvalues = np.array([np.linalg.eigvalsh(p.covariance)[[0, -1]] for p in populations])
    assert feature_sd == pytest.approx(5.9, abs=0.1)
    assert eigenvalues[:, 1].mean() == pytest.approx(157, rel=0.05)
    assert eigenvalues[:, 0].mean() == pytest.approx(0.03, abs=0.01)
    assert np.mean([p.signal_sd for p in populations]) == pytest.approx(1710, abs=4 * 310 / np.sqrt(30))
    independent = [make_gaussian_ind(random_state=seed).signal_sd for seed in range(30)]
    assert np.mean(independent) == pytest.approx(1750, abs=4 * 180 / np.sqrt(30))


@pytest.mark.parametrize("make", MAKERS)
def test_signal_to_noise_is_ten(make):
    for seed in range(3):
        population = make(random_state=seed)
        X, y = population.draw(8000, np.random.default_rng(seed))
        signal = X @ population.coef + population.intercept
        assert np.var(signal) == pytest.approx(population.signal_sd**2, rel=0.1)
        assert np.var(signal) / np.var(y - signal) == pytest.approx(10, rel=0.15)


@pytest.mark.parametrize("make", MAKERS)
def test_drawn_rows_have_the_mean_and_covariance_of_the_population(make):
    population = make(n_features=4, random_state=1)
    X, _ = population.draw(40_000, np.random.default_rng(0))
    sd = np.sqrt(np.diag(population.covariance))
    assert np.abs((X.mean(axis=0) - population.mean) / sd).max() < 5 / np.sqrt(40_000)
    assert np.abs((np.cov(X.T) - population.covariance) / np.outer(sd, sd)).max() < 0.05


def test_components_are_in_random_order_with_frequencies_equal_to_their_weights():
    """The components are far apart, so the values identify the component."""
    population = Population(
        np.array([0.2, 0.8]), np.array([[-50.0], [50.0]]), np.ones((2, 1, 1)), np.ones(1), 0.0, 1.0
    )
    X, _ = population.draw(10_000, np.random.default_rng(0))
    component = (X[:, 0] > 0).astype(float)
    assert component.mean() == pytest.approx(0.8, abs=0.02)
    assert abs(np.corrcoef(component[1:], component[:-1])[0, 1]) < 0.05
    assert component[:5000].mean() == pytest.approx(component[5000:].mean(), abs=0.04)


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_seed_gives_the_same_population_and_data(make):
    first, second, different = (make(n_features=5, random_state=seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.coef, second.coef)
    np.testing.assert_array_equal(first.covariances, second.covariances)
    assert not np.array_equal(first.coef, different.coef)
    rng = np.random.default_rng(1)
    X, y = first.draw(20, rng)
    same_X, same_y = second.draw(20, np.random.default_rng(1))
    np.testing.assert_array_equal(X, same_X)
    np.testing.assert_array_equal(y, same_y)
    assert not np.array_equal(X, first.draw(20, rng)[0])


def test_the_global_random_state_is_unchanged():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is tested
    make_gaussian_mix(n_features=4).draw(10, np.random.default_rng())
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_independent_features_have_zero_covariance_and_components_have_different_covariances():
    covariance = make_gaussian_ind(random_state=0).covariance
    np.testing.assert_array_equal(covariance, np.diag(np.diag(covariance)))
    mix = make_gaussian_mix(n_features=10, n_components=4, random_state=0)
    assert mix.weights.sum() == pytest.approx(1)
    assert mix.means.shape == (4, 10)
    assert not np.allclose(mix.covariances[0], mix.covariances[1])


@pytest.mark.parametrize("make", MAKERS)
def test_one_and_two_features_work_and_zero_raises(make):
    for n_features in (1, 2):
        X, y = make(n_features=n_features, random_state=0).draw(10, np.random.default_rng(0))
        assert X.shape == (10, n_features)
        assert np.isfinite(y).all()
    with pytest.raises(ValueError, match=r"n_features must be an integer from 1 .* got 0"):
        make(n_features=0)


def test_zero_components_raise():
    with pytest.raises(ValueError, match="n_components must be an integer of at least 1; got 0"):
        make_gaussian_mix(n_components=0)


def test_rows_with_another_number_of_features_raise():
    population = make_gaussian(n_features=3, random_state=0)
    with pytest.raises(ValueError, match="3 features"):
        population.bayes(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="table of rows and columns"):
        population.bayes(np.zeros(3))


def test_all_markers_of_missing_values_work_and_infinity_raises():
    population = make_gaussian(n_features=2, random_state=0)
    expected = population.bayes(np.array([[1.0, np.nan]]))
    for marker in (None, pd.NA):
        np.testing.assert_array_equal(population.bayes(np.array([[1.0, marker]], dtype=object)), expected)
    with pytest.raises(ValueError, match="infinite"):
        population.bayes(np.array([[1.0, np.inf]]))


def test_the_weights_of_a_mixture_are_normalised_uniform_numbers():
    """For two components the smaller weight is u / (u + v) with u < v, and its mean is 1 - log 2."""
    weights = [make_gaussian_mix(1, n_components=2, random_state=seed).weights.min() for seed in range(400)]
    assert np.mean(weights) == pytest.approx(1 - np.log(2), abs=4 * np.std(weights) / 20)


def test_the_means_of_a_mixture_have_half_the_standard_deviation_of_those_of_one_gaussian():
    mix = np.ravel([make_gaussian_mix(5, random_state=seed).means for seed in range(60)])
    one = np.ravel([make_gaussian(5, random_state=seed).means for seed in range(180)])
    assert mix.std() == pytest.approx(0.5, rel=4 / np.sqrt(2 * len(mix)))
    assert one.std() == pytest.approx(1.0, rel=4 / np.sqrt(2 * len(one)))


@pytest.mark.parametrize("make", MAKERS)
def test_the_last_covariance_determines_the_scale_of_the_coefficients(make, monkeypatch):
    """If 1ᵀΣ1 = 9, their standard deviation is 3. In a mixture this Σ belongs to no component."""
    n_components = 3 if make is make_gaussian_mix else 0
    sums = iter([100.0] * n_components + [9.0])
    monkeypatch.setattr(population_module, "_draw_covariance", lambda d, rng: np.eye(d) * next(sums) / d)
    population = make(n_features=400, random_state=0)
    assert population.coef.mean() == pytest.approx(2.0, abs=4 * 3 / 20)
    assert population.coef.std() == pytest.approx(3.0, rel=4 / np.sqrt(800))
    assert population.intercept == 1.0


def test_covariances_have_low_rank_plus_a_diagonal_between_0_01_and_0_1():
    """With one feature Σ = b² + D, so the smallest draws are close to the minimum of D."""
    covariances = [make_gaussian(1, random_state=seed).covariance[0, 0] for seed in range(2000)]
    assert 0.01 <= min(covariances) < 0.015
    smallest = [np.linalg.eigvalsh(make_gaussian(10, random_state=seed).covariance)[:3] for seed in range(50)]
    assert np.min(smallest) >= 0.01
    assert 0.08 < np.max(smallest) <= 0.1
