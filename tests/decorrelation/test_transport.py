"""Sliced optimal transport: the distance, and the weights that lower it."""

import numpy as np
import pytest
import torch
from scipy.stats import wasserstein_distance

from stablemiss.datasets import make_gaussian_mix
from stablemiss.decorrelation.permuting import permute_columns
from stablemiss.decorrelation.transport import (
    SlicedDistance,
    TransportDecorrelator,
    draw_directions,
    sliced_distance,
)
from stablemiss.missingness import MAR


def transport_weights(values, mask, *, rng, weight=None, groups=None, **settings):
    return TransportDecorrelator(**settings).learn_weights(
        values, mask, rng=rng, weight=weight, groups=groups
    )


def mar_table(seed, n=800, d=8, level=0.5):
    rng = np.random.default_rng(seed)
    X, _ = make_gaussian_mix(n_features=d, random_state=seed).draw(n, rng)
    X = MAR(level).fit(X, rng).hide(X, rng)
    values = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    return np.nan_to_num(values), ~np.isnan(X)


def gaussian_pair(n, correlation, seed):
    """Two standard normal columns, all observed, and the exact ratio of independent to joint density."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n))
    y = correlation * x + np.sqrt(1 - correlation**2) * z
    unexplained = 1 - correlation**2
    log_joint = -(x**2 - 2 * correlation * x * y + y**2) / (2 * unexplained) - 0.5 * np.log(unexplained)
    table = np.column_stack([x, y])
    return table, np.ones_like(table, dtype=bool), np.exp(-(x**2 + y**2) / 2 - log_joint)


def distance_to_permuted(values, mask, weight=None, seed=0, n_directions=100):
    rng = np.random.default_rng(seed)
    permuted = permute_columns(values, mask, rng)
    return sliced_distance(values, mask, *permuted, weight, n_directions, rng=rng)


@pytest.mark.parametrize("seed", range(3))
def test_a_permuted_table_has_distance_zero_and_weight_two_equals_a_repeated_row(seed):
    rng = np.random.default_rng(seed)
    values, mask = mar_table(seed, n=200, d=4)
    order = rng.permutation(200)
    assert sliced_distance(values, mask, values[order], mask[order], rng=rng) == pytest.approx(0, abs=1e-12)
    copies = rng.integers(1, 4, size=200)
    repeated = np.repeat(values, copies, axis=0), np.repeat(mask, copies, axis=0)
    assert sliced_distance(values, mask, *repeated, copies, rng=rng) == pytest.approx(0, abs=1e-12)
    assert sliced_distance(values, mask, *repeated, rng=rng) > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_the_distance_is_the_mean_of_scipys_distance_over_directions(seed):
    rng = np.random.default_rng(seed)
    values, mask = mar_table(seed, n=150, d=3)
    other_values, other_mask = mar_table(seed + 10, n=90, d=3)
    weight = rng.exponential(size=150)
    directions = draw_directions(3, 8, np.random.default_rng(seed))
    here, there = np.hstack([values, mask]) @ directions, np.hstack([other_values, other_mask]) @ directions
    expected = np.mean([wasserstein_distance(u, v, weight) for u, v in zip(here.T, there.T, strict=True)])
    rng = np.random.default_rng(seed)
    distance = sliced_distance(values, mask, other_values, other_mask, weight, n_directions=8, rng=rng)
    assert distance == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_equals_finite_differences(seed):
    """Where distribution functions do not touch the distance is linear in the weights, so it is exact."""
    rng = np.random.default_rng(seed)
    here, there = (torch.from_numpy(rng.normal(size=(rows, 6))) for rows in (12, 9))
    weight = torch.from_numpy(rng.exponential(size=12))
    weight /= weight.mean()
    measure = SlicedDistance(here, there)
    _, gradient = measure(weight)
    for i in range(12):
        step = torch.zeros(12, dtype=torch.float64)
        step[i] = 1e-6
        up, down = (measure(weight + sign * step)[0]["sliced"] for sign in (1, -1))
        assert float(gradient[i]) == pytest.approx((up - down) / 2e-6, abs=1e-8)


def test_permuting_columns_keeps_pairs_of_value_and_indicator_and_groups_together():
    values, mask = mar_table(0, n=400, d=4)
    coded = np.where(mask, values, 99.0)
    permuted, permuted_mask = permute_columns(coded, mask, np.random.default_rng(0))
    np.testing.assert_array_equal(permuted == 99.0, ~permuted_mask)
    np.testing.assert_array_equal(np.sort(permuted, axis=0), np.sort(coded, axis=0))
    assert (permuted != coded).mean(axis=0).min() > 0.2
    grouped, _ = permute_columns(coded, mask, np.random.default_rng(0), groups=np.array([0, 1, 1, 2]))
    rows = {tuple(row) for row in coded[:, 1:3]}
    assert all(tuple(row) in rows for row in grouped[:, 1:3])
    assert not all(tuple(row) in {tuple(row) for row in coded[:, :2]} for row in grouped[:, :2])


@pytest.mark.parametrize("seed", range(3))
def test_dependence_between_columns_is_detected(seed):
    """The distance is far above its noise of 1 / √n; distances of single columns could not detect this."""
    values, mask, _ = gaussian_pair(3000, correlation=0.6, seed=seed)
    floor = distance_to_permuted(*permute_columns(values, mask, np.random.default_rng(seed)), seed=seed + 1)
    assert distance_to_permuted(values, mask, seed=seed) > 3 * floor
    assert floor < 2 / np.sqrt(3000)


@pytest.mark.parametrize("seed", range(3))
def test_dependence_between_mask_indicators_alone_is_detected(seed):
    rng = np.random.default_rng(seed)
    mask = np.repeat(rng.random((3000, 1)) < 0.5, 3, axis=1)
    values = np.where(mask, rng.normal(size=(3000, 3)), 0.0)
    floor = distance_to_permuted(*permute_columns(values, mask, rng), seed=seed)
    assert distance_to_permuted(values, mask, seed=seed) > 2 * floor


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_density_ratio_lowers_the_distance_to_near_its_noise_floor(seed):
    values, mask, ratio = gaussian_pair(5000, correlation=0.4, seed=seed)
    equal, weighted = distance_to_permuted(values, mask), distance_to_permuted(values, mask, ratio)
    floor = distance_to_permuted(*permute_columns(values, mask, np.random.default_rng(seed)))
    assert weighted < 0.5 * equal
    # The effective sample size is 0.7 n, and weighted marginals match only up to noise.
    assert weighted < 3 * floor


@pytest.mark.parametrize("seed", range(2))
def test_fitted_weights_lower_the_distance_along_new_directions_and_the_dependence(seed):
    values, mask = mar_table(seed)
    weighting = transport_weights(values, mask, rng=np.random.default_rng(seed))
    assert (weighting.weight > 0).all()
    assert weighting.weight.mean() == pytest.approx(1.0)
    assert weighting.effective_rows == pytest.approx(
        weighting.weight.sum() ** 2 / (weighting.weight**2).sum()
    )
    assert weighting.effective_rows > 0.35 * len(values)
    assert weighting.gamma == pytest.approx(0.15 * weighting.critical_gamma)
    fresh = [distance_to_permuted(values, mask, w, seed=seed + 100) for w in (None, weighting.weight)]
    assert fresh[1] < 0.93 * fresh[0]
    assert sum(weighting.after.values()) < 0.93 * sum(weighting.before.values())


def test_fitted_weights_remove_the_correlation_of_two_columns_and_keep_their_variances():
    values, mask, ratio = gaussian_pair(1200, correlation=0.4, seed=0)
    weighting = transport_weights(values, mask, rng=np.random.default_rng(0))
    covariance = np.cov(values.T, aweights=weighting.weight)
    assert abs(covariance[0, 1]) < 0.1
    np.testing.assert_allclose(np.diag(covariance), np.var(values, axis=0), rtol=0.1)
    assert np.corrcoef(np.log(weighting.weight), np.log(ratio))[0, 1] > 0.7


def test_weights_stay_equal_above_the_critical_penalty():
    values, mask = mar_table(0)
    weighting = transport_weights(values, mask, strength=1.5, max_epochs=60, rng=np.random.default_rng(0))
    np.testing.assert_allclose(weighting.weight, 1.0, atol=0.01)


def test_weights_are_reproducible_by_seed_and_torchs_random_state_does_not_change():
    values, mask = mar_table(1, n=300, d=4)
    before = torch.get_rng_state()
    first, second = (
        transport_weights(values, mask, max_epochs=15, rng=np.random.default_rng(0)) for _ in range(2)
    )
    np.testing.assert_array_equal(first.weight, second.weight)
    assert first.weight.std() > 0.1
    assert first.after == second.after
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("seed", range(2))
def test_independent_columns_keep_nearly_equal_weights(seed):
    rng = np.random.default_rng(seed)
    values, mask = rng.normal(size=(1000, 5)), rng.random((1000, 5)) < 0.8
    weighting = transport_weights(np.where(mask, values, 0.0), mask, rng=rng)
    assert weighting.effective_rows > 0.9 * 1000


def test_missing_values_have_no_influence():
    values, mask = mar_table(2, n=300, d=4)
    other = np.where(mask, values, np.nan)
    first, second = (
        transport_weights(v, mask, max_epochs=15, rng=np.random.default_rng(0)) for v in (values, other)
    )
    np.testing.assert_array_equal(first.weight, second.weight)
    assert first.weight.std() > 0.1
    assert (first.before, first.after) == (second.before, second.after)
    assert distance_to_permuted(values, mask) == distance_to_permuted(other, mask)


def test_rows_of_weight_zero_are_ignored():
    """Up to rounding, because they change the order of summation."""
    values, mask = mar_table(3, n=400, d=4)
    base = np.tile([0.0, 1.0, 2.0, 1.0], 100)
    other = np.where(base[:, None] > 0, values, 7.0)
    first, second = (
        transport_weights(v, mask, weight=base, max_epochs=15, rng=np.random.default_rng(0))
        for v in (values, other)
    )
    np.testing.assert_array_equal(first.weight > 0, base > 0)
    np.testing.assert_allclose(first.weight, second.weight, rtol=0.05)
    assert (first.weight / first.weight.sum() - base / base.sum()).std() * len(base) > 0.1


def test_fitted_weights_multiply_the_given_weights_and_keep_their_marginals():
    """Doubled weights of rows with a positive first column raise its mean, which learning must keep."""
    values, mask, _ = gaussian_pair(1200, correlation=0.4, seed=0)
    base = 1.0 + (values[:, 0] > 0)
    weighting = transport_weights(values, mask, weight=base, max_epochs=80, rng=np.random.default_rng(0))
    assert (weighting.weight / base).std() > 0.1
    expected = np.average(values[:, 0], weights=base)
    assert expected > 0.2
    assert np.average(values[:, 0], weights=weighting.weight) == pytest.approx(expected, abs=0.05)


def test_columns_of_one_group_may_stay_dependent():
    """Weights cannot remove the dependence of two one-hot columns."""
    rng = np.random.default_rng(0)
    is_first = rng.random(2000) < 0.5
    values = np.column_stack([is_first, ~is_first]) * 2.0 - 1.0
    mask = np.ones_like(values, dtype=bool)
    weighting = transport_weights(values, mask, groups=np.array([0, 0]), max_epochs=60, rng=rng)
    np.testing.assert_allclose(weighting.weight, 1.0)


@pytest.mark.parametrize(("rows", "columns"), [(1, 3), (2, 2), (50, 1)])
def test_tables_without_dependence_get_equal_weights(rows, columns):
    weighting = transport_weights(
        np.ones((rows, columns)), np.ones((rows, columns)), rng=np.random.default_rng(0)
    )
    np.testing.assert_array_equal(weighting.weight, 1.0)


def test_tables_with_different_numbers_of_columns_raise():
    with pytest.raises(ValueError, match="the first has 2 and the second 3"):
        sliced_distance(
            np.ones((4, 2)), np.ones((4, 2)), np.ones((4, 3)), np.ones((4, 3)), rng=np.random.default_rng(0)
        )
