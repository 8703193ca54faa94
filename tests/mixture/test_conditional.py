import numpy as np
import pytest
import torch

from stablemiss.mixture import GaussianMixture


def make_mixture(rng, n_components=3, d=6):
    root = rng.normal(size=(n_components, d, d))
    weights = rng.random(n_components) + 0.2
    covariances = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(d)
    return GaussianMixture(weights / weights.sum(), rng.normal(size=(n_components, d)), covariances)


def naive(mixture, row, observed):
    """Textbook formulas for one row: log density, responsibilities, conditional mean."""
    log_joint, means = [], []
    for weight, mean, covariance in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
        gap = row[observed] - mean[observed]
        block = covariance[np.ix_(observed, observed)]
        solved = np.linalg.solve(block, gap)
        log_det = np.linalg.slogdet(block)[1]
        log_joint.append(np.log(weight) - 0.5 * (len(gap) * np.log(2 * np.pi) + log_det + gap @ solved))
        filled = mean.copy()
        filled[observed] = row[observed]
        filled[~observed] += covariance[np.ix_(~observed, observed)] @ solved
        means.append(filled)
    total = np.logaddexp.reduce(log_joint)
    share = np.exp(log_joint - total)
    return total, share, share @ np.array(means)


@pytest.mark.parametrize("seed", range(3))
def test_all_masks_agree_with_the_textbook_formulas(seed):
    rng = np.random.default_rng(seed)
    mixture = make_mixture(rng)
    values = rng.normal(size=(300, 6)) * 2
    mask = rng.random((300, 6)) < rng.random((300, 1))
    mask[:2] = [[False] * 6, [True] * 6]
    density, share, mean = zip(
        *(naive(mixture, v, m) for v, m in zip(values, mask, strict=True)), strict=True
    )
    np.testing.assert_allclose(mixture.log_likelihood(values, mask), density, atol=1e-9)
    np.testing.assert_allclose(mixture.responsibilities(values, mask), share, atol=1e-9)
    np.testing.assert_allclose(mixture.conditional_mean(values, mask), mean, atol=1e-9)
    np.testing.assert_allclose(
        mixture.conditional_mean(values, mask, [4, 1]), np.array(mean)[:, [4, 1]], atol=1e-9
    )


def test_hidden_values_have_no_influence():
    rng = np.random.default_rng(0)
    mixture, values = make_mixture(rng), rng.normal(size=(50, 6))
    mask = rng.random((50, 6)) < 0.5
    with_nan = np.where(mask, values, np.nan)
    np.testing.assert_array_equal(
        mixture.conditional_mean(values, mask), mixture.conditional_mean(with_nan, mask)
    )


def test_the_result_of_a_row_does_not_depend_on_other_rows():
    rng = np.random.default_rng(2)
    mixture, values = make_mixture(rng), rng.normal(size=(200, 6))
    mask = rng.random((200, 6)) < 0.6
    together = mixture.conditional_mean(values, mask)
    for row in (0, 77, 199):
        alone = mixture.conditional_mean(values[[row]], mask[[row]])
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-10)


def test_the_number_of_torch_threads_is_restored():
    before = torch.get_num_threads()
    rng = np.random.default_rng(3)
    mixture = make_mixture(rng)
    mixture.log_likelihood(rng.normal(size=(5000, 6)), rng.random((5000, 6)) < 0.5)
    assert torch.get_num_threads() == before


def test_a_table_without_rows_gives_an_empty_result():
    mixture = make_mixture(np.random.default_rng(4))
    assert mixture.conditional_mean(np.zeros((0, 6)), np.zeros((0, 6), dtype=bool)).shape == (0, 6)
