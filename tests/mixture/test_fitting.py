import numpy as np
import pytest

from stablemiss.mixture import MixtureFit, Rows
from stablemiss.mixture.em import expect, maximise
from stablemiss.mixture.workers import Workers
from stablemiss.progress import NullProgress


def make_three(seed, n=3000, d=6, missing=0.3):
    """Three Gaussians with one centre and different shapes, standardised, with holes, and their labels."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(3, d, 3))
    label = rng.choice(3, p=[0.5, 0.3, 0.2], size=n)
    values = np.einsum("nij,nj->ni", roots[label], rng.normal(size=(n, 3))) + 0.1 * rng.normal(size=(n, d))
    values = (values - values.mean(0)) / values.std(0)
    return values, rng.random((n, d)) > missing, label


def make_fit(values, mask, seed=0, n_targets=1, max_steps=150):
    cut = len(values) // 5
    train, valid = (
        Rows(values[part], mask[part], np.ones(len(values[part]))) for part in (slice(cut, None), slice(cut))
    )
    rng = np.random.default_rng(seed)
    return MixtureFit(
        train, valid, n_targets, tolerance=3e-4, max_steps=max_steps, rng=rng, progress=NullProgress()
    )


@pytest.mark.parametrize("seed", range(3))
def test_finds_components_that_share_their_centre(seed):
    values, mask, label = make_three(seed)
    mixture = make_fit(values, mask).fit(n_components=3, max_components=8, ridge=None)
    guess = mixture.responsibilities(values, mask).argmax(axis=1)
    matches = np.array([[np.mean((guess == g) & (label == k)) for g in range(3)] for k in range(3)])
    assert matches.max(axis=1).sum() > 0.8


@pytest.mark.parametrize("seed", range(2))
def test_the_number_of_components_is_found_by_held_out_likelihood(seed):
    values, mask, _ = make_three(seed)
    assert make_fit(values, mask).fit(n_components=None, max_components=6, ridge=None).n_components == 3


def test_one_gaussian_needs_one_component():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1500, 4)) @ rng.normal(size=(4, 4))
    mask = rng.random(values.shape) > 0.3
    values = (values - values.mean(0)) / values.std(0)
    assert make_fit(values, mask).fit(n_components=None, max_components=4, ridge=None).n_components == 1


def test_long_steps_get_further_than_plain_ones():
    """The likelihood after SQUAREM's E-steps is at least that after as many plain EM steps."""
    values, mask, _ = make_three(1, missing=0.5)
    fit = make_fit(values, mask, max_steps=30)
    with Workers() as fit.workers:
        start = fit._start(fit._one_component(0.1), 3)
        climbed = fit._climb(start, "test")
        plain = start
        for _ in range(30):
            plain = maximise(expect(fit.train, plain, fit.workers), plain, 1, fit.ridge)
        assert fit.train.log_likelihood(climbed, fit.workers) > fit.train.log_likelihood(plain, fit.workers)


def test_fewer_rows_than_columns_raise_the_ridge():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 60))
    fit = make_fit(values, np.ones(values.shape, dtype=bool))
    mixture = fit.fit(n_components=None, max_components=4, ridge=None)
    assert fit.ridge > 1
    assert np.isfinite(mixture.covariances).all()


def test_same_seed_same_mixture():
    values, mask, _ = make_three(2, n=800)
    fits = [
        make_fit(values, mask, seed=7).fit(n_components=2, max_components=8, ridge=None) for _ in range(2)
    ]
    np.testing.assert_array_equal(fits[0].covariances, fits[1].covariances)


def test_works_without_rows_and_without_validation_rows():
    empty = Rows(np.zeros((0, 3)), np.zeros((0, 3), dtype=bool), np.zeros(0))
    some = Rows(np.random.default_rng(0).normal(size=(30, 3)), np.ones((30, 3), dtype=bool), np.ones(30))
    for train in (empty, some):
        fit = MixtureFit(train, empty, 0, 1e-3, 50, np.random.default_rng(0), NullProgress())
        assert np.isfinite(fit.fit(None, 3, None).covariances).all()
