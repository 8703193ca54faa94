import numpy as np
import pytest

from stablemiss.mixture import ClassDensities, GaussianMixture


def draw_mixture(rng, k, d=4):
    roots = rng.normal(size=(k, d, d))
    return GaussianMixture(
        rng.dirichlet(np.ones(k)), rng.normal(size=(k, d)), roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(d)
    )


@pytest.mark.parametrize("seed", range(3))
def test_one_pass_gives_the_densities_of_each_mixture(seed):
    """Classes may have different numbers of components; weights of the tied mixture do not count."""
    rng = np.random.default_rng(seed)
    tied, separate = draw_mixture(rng, 3), [draw_mixture(rng, k) for k in (1, 3, 2)]
    values, mask = rng.normal(size=(50, 4)), rng.random((50, 4)) < 0.6
    densities = ClassDensities([tied, *separate]).log_densities(values, mask)
    assert densities.shape == (2, 50, 3)
    np.testing.assert_allclose(densities[0], tied.log_joint(values, mask) - np.log(tied.weights))
    expected = np.stack([mixture.log_likelihood(values, mask) for mixture in separate], axis=1)
    np.testing.assert_allclose(densities[1], expected, atol=1e-12)
    np.testing.assert_allclose(densities[:, ~mask.any(axis=1)], 0.0, atol=1e-12)
