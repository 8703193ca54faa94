import numpy as np
import pytest

from stablemiss.mixture import EMRows, MixtureFit
from stablemiss.mixture.em import expect, maximise
from stablemiss.mixture.workers import ThreadWorkers
from stablemiss.progress import NullProgress


def make_three(seed, n=3000, d=6, missing=0.3):
    """Standardised rows of three Gaussians with the same mean and different covariances, masks and labels."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(3, d, 3))
    label = rng.choice(3, p=[0.5, 0.3, 0.2], size=n)
    values = np.einsum("nij,nj->ni", roots[label], rng.normal(size=(n, 3))) + 0.1 * rng.normal(size=(n, d))
    values = (values - values.mean(0)) / values.std(0)
    return values, rng.random((n, d)) > missing, label


def make_fit(values, mask, seed=0, n_targets=1, max_steps=150):
    cut = len(values) // 5
    train, valid = (
        EMRows(values[rows], mask[rows], np.ones(len(values[rows])))
        for rows in (slice(cut, None), slice(cut))
    )
    rng = np.random.default_rng(seed)
    return MixtureFit(
        train, valid, n_targets, tolerance=3e-4, max_steps=max_steps, rng=rng, progress=NullProgress()
    )


@pytest.mark.parametrize("seed", range(3))
def test_components_with_the_same_mean_are_found(seed):
    values, mask, label = make_three(seed)
    mixture = make_fit(values, mask).fit(n_components=3, max_components=8, ridge=None)
    guess = mixture.responsibilities(values, mask).argmax(axis=1)
    matches = np.array([[np.mean((guess == g) & (label == k)) for g in range(3)] for k in range(3)])
    assert matches.max(axis=1).sum() > 0.8


@pytest.mark.parametrize("seed", range(2))
def test_the_number_of_components_is_selected_by_validation_likelihood(seed):
    values, mask, _ = make_three(seed)
    assert make_fit(values, mask).fit(n_components=None, max_components=6, ridge=None).n_components == 3


def test_one_component_is_selected_for_gaussian_data():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1500, 4)) @ rng.normal(size=(4, 4))
    mask = rng.random(values.shape) > 0.3
    values = (values - values.mean(0)) / values.std(0)
    assert make_fit(values, mask).fit(n_components=None, max_components=4, ridge=None).n_components == 1


@pytest.mark.parametrize("seed", range(3))
def test_squarem_converges_faster_than_plain_em(seed):
    """After the same number of E-steps the likelihood is higher."""
    values, mask, _ = make_three(seed, missing=0.5)
    fit = make_fit(values, mask, max_steps=30)
    with ThreadWorkers() as fit.workers:
        start = fit._initialise(fit._fit_one_component(0.1), 3)
        n_before = fit.n_steps
        accelerated = fit._run_em(start, "test")
        plain = start
        # Accelerated EM may have converged before the last step.
        for _ in range(fit.n_steps - n_before):
            plain = maximise(expect(fit.train, plain, fit.workers), plain, 1, fit.ridge)
        likelihoods = [fit.train.log_likelihood(fitted, fit.workers) for fitted in (accelerated, plain)]
    assert likelihoods[0] > likelihoods[1]


def test_a_larger_ridge_is_selected_with_fewer_rows_than_columns():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 60))
    fit = make_fit(values, np.ones(values.shape, dtype=bool))
    mixture = fit.fit(n_components=None, max_components=4, ridge=None)
    assert fit.ridge > 1
    assert np.isfinite(mixture.covariances).all()


def test_the_same_seed_gives_the_same_mixture():
    values, mask, _ = make_three(2, n=800)
    fits = [
        make_fit(values, mask, seed=7).fit(n_components=2, max_components=8, ridge=None) for _ in range(2)
    ]
    np.testing.assert_array_equal(fits[0].covariances, fits[1].covariances)


def test_fitting_works_without_rows_and_without_validation_rows():
    empty = EMRows(np.zeros((0, 3)), np.zeros((0, 3), dtype=bool), np.zeros(0))
    rows = EMRows(np.random.default_rng(0).normal(size=(30, 3)), np.ones((30, 3), dtype=bool), np.ones(30))
    for train in (empty, rows):
        fit = MixtureFit(train, empty, 0, 1e-3, 50, np.random.default_rng(0), NullProgress())
        assert np.isfinite(fit.fit(None, 3, None).covariances).all()
