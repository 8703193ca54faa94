"""Dependence of each pair on a scale from 0 to 1."""

import itertools

import numpy as np
import pytest

from stablemiss.decorrelation import RandomFeatures
from stablemiss.diagnostics import dependence as module
from stablemiss.diagnostics import dependence_matrix


def make_table(seed, n=200, d=4):
    """Dependent columns with dependent missingness; the last column is never missing."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    mask = rng.random((n, d)) < 0.8
    mask[rng.random(n) < 0.2, :2] = False
    mask[:, -1] = True
    return values, mask, rng.uniform(0.2, 2.0, size=n)


def naive(values, mask, weight, q, rng):
    """From the definition, pair by pair."""
    n, d = values.shape
    features = RandomFeatures.draw(1, q, rng)
    codes = [
        np.sqrt(2) * np.cos(np.outer(table[:, k], features.frequency[0]) + features.phase[0].numpy())
        for table in (values, mask)
        for k in range(d)
    ]
    present = [mask[:, k] for k in range(d)] + [np.ones(n, dtype=bool)] * d
    matrix = np.zeros((2 * d, 2 * d))
    for k, j in itertools.product(range(2 * d), range(2 * d)):
        rows = present[k] & present[j] & (weight > 0)
        if abs(k - j) == d:
            continue
        if rows.sum() < 30:
            matrix[k, j] = np.nan
            continue
        p = weight[rows] / weight[rows].sum()
        left, right = (codes[c][rows] - p @ codes[c][rows] for c in (k, j))
        norms = [np.linalg.norm((x * p[:, None]).T @ x) for x in (left, right)]
        if min(norms) > 1e-12:
            matrix[k, j] = np.linalg.norm((left * p[:, None]).T @ right) ** 2 / (norms[0] * norms[1])
    return matrix


@pytest.mark.parametrize("block", [1, 3, 64])
@pytest.mark.parametrize("seed", range(3))
def test_equals_a_loop_over_pairs_for_any_block_size(seed, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    values, mask, weight = make_table(seed)
    mask[35:, 2] = False  # jointly observed with others in fewer than 30 rows
    weight[::7] = 0.0
    matrix = dependence_matrix(values, mask, weight, q=3, rng=np.random.default_rng(seed))
    expected = naive(values, mask, weight, 3, np.random.default_rng(seed))
    assert np.isnan(expected).any()
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_symmetric_from_zero_to_one_with_ones_on_the_diagonal(seed):
    values, mask, weight = make_table(seed)
    matrix = dependence_matrix(values, mask, weight, rng=np.random.default_rng(seed))
    np.testing.assert_allclose(matrix, matrix.T, rtol=0, atol=1e-14)
    assert (matrix >= 0).all()
    assert (matrix <= 1).all()
    np.testing.assert_allclose(np.diag(matrix), [1, 1, 1, 1, 1, 1, 1, 0])


def test_constants_have_no_dependence():
    """Bits of columns without missing values, constant columns, and a column with its own indicator."""
    values, mask, _ = make_table(0)
    values[:, 1] = 0.3
    matrix = dependence_matrix(values, mask, rng=np.random.default_rng(0))
    d = values.shape[1]
    assert (matrix[2 * d - 1] == 0).all()
    assert (matrix[1] == 0).all()
    assert (np.diag(matrix[:d, d:]) == 0).all()


def test_the_dependence_of_indicators_is_their_squared_correlation():
    values, mask, _ = make_table(1)
    matrix = dependence_matrix(values, mask, rng=np.random.default_rng(0))
    np.testing.assert_allclose(matrix[4:7, 4:7], np.corrcoef(mask[:, :3].T) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_independent_data_have_only_sampling_noise(seed):
    """About 1/N for indicators and at most q/N for columns, N being the effective number of rows compared."""
    rng = np.random.default_rng(seed)
    n, d, q = 4000, 12, 5
    mask = rng.random((n, d)) < 0.5
    weight = rng.exponential(size=n)
    matrix = dependence_matrix(rng.normal(size=(n, d)), mask, weight, q, rng=rng)
    effective = weight.sum() ** 2 / (weight**2).sum()
    upper = np.triu(np.ones((d, d), dtype=bool), 1)
    assert 0.6 < effective * matrix[d:, d:][upper].mean() < 1.5
    assert 1 < effective / 4 * matrix[:d, :d][upper].mean() < q
    assert 1 < effective / 2 * matrix[:d, d:][upper].mean() < q


@pytest.mark.parametrize("seed", range(5))
def test_dependence_without_correlation_is_detected_and_exact_weights_remove_it(seed):
    """X2 is usually positive if X1 is extreme; rows are weighted by the inverse selection probability."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, size=(40000, 2))
    probability = np.where((np.abs(x[:, 0]) > 0.85) == (x[:, 1] > 0), 0.9, 0.1)
    kept = rng.random(len(x)) < probability
    x, weight = x[kept], 1 / probability[kept]
    mask = np.ones(x.shape, dtype=bool)
    before, after = (
        np.mean([dependence_matrix(x, mask, w, rng=np.random.default_rng(draw))[0, 1] for draw in range(8)])
        for w in (None, weight)
    )
    assert abs(np.corrcoef(x.T)[0, 1]) < 0.02
    assert before > 0.05
    assert after < 0.02 * before


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_has_dependence_one_and_weights_on_differing_rows_lower_it(seed):
    rng = np.random.default_rng(seed)
    x, other = rng.normal(size=(2, 3000))
    differs = rng.random(3000) < 0.05
    values = np.stack([x, x, np.where(differs, other, x)], axis=1)
    mask = np.ones(values.shape, dtype=bool)
    before = dependence_matrix(values, mask, rng=np.random.default_rng(seed))
    after = dependence_matrix(values, mask, np.where(differs, 19.0, 1.0), rng=np.random.default_rng(seed))
    assert before[0, 1] == pytest.approx(1.0)
    assert after[0, 1] == pytest.approx(1.0)
    assert before[0, 2] > 0.8
    assert after[0, 2] < 0.5 * before[0, 2]


def test_missing_values_have_no_influence():
    values, mask, weight = make_table(2)
    first, second = (
        dependence_matrix(np.where(mask, values, hidden), mask, weight, rng=np.random.default_rng(0))
        for hidden in (0.0, np.nan)
    )
    np.testing.assert_array_equal(first, second)


def test_only_proportions_of_the_weights_matter():
    values, mask, weight = make_table(3)
    first, second = (
        dependence_matrix(values, mask, scale * weight, rng=np.random.default_rng(0)) for scale in (1, 50)
    )
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-12)


def test_permuting_columns_permutes_the_matrix():
    values, mask, weight = make_table(4)
    order = np.array([2, 0, 3, 1])
    first, second = (
        dependence_matrix(values[:, columns], mask[:, columns], weight, rng=np.random.default_rng(0))
        for columns in (np.arange(4), order)
    )
    both = np.concatenate([order, order + 4])
    np.testing.assert_allclose(second, first[np.ix_(both, both)], rtol=0, atol=1e-12)
