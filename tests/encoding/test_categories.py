"""Levels and their numbers: exact codes, and target means that never show a row its own target."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn

from stablemiss.encoding.categories import Categories, learn_target_means


def strings(*entries: str | None) -> np.ndarray:
    return np.array(entries, dtype=object)


@pytest.mark.parametrize(("n_levels", "width"), [(1, 1), (2, 1), (3, 3), (7, 7)])
def test_one_hot_tells_every_level_apart(n_levels: int, width: int) -> None:
    levels = [f"level {k}" for k in range(n_levels)]
    encoded = Categories.one_hot(levels).encode(strings(*levels))
    assert encoded.shape == (n_levels, width)
    assert len(np.unique(encoded, axis=0)) == n_levels


def test_missing_and_unknown_levels_have_no_numbers() -> None:
    encoded = Categories.one_hot(["a", "b"]).encode(strings(None, "c", "", "b"))
    np.testing.assert_array_equal(encoded[:, 0], [np.nan, np.nan, np.nan, 1.0])


def test_scikit_learns_wish_for_data_frames_does_not_reach_inside() -> None:
    with sklearn.config_context(transform_output="pandas"):
        sample = strings("a", "b", "c", "a")
        encoded = Categories.one_hot(["a", "b"]).encode(sample)
        _, crossed = learn_target_means(["a", "b", "c"], sample, np.eye(4), np.random.default_rng(0))
    assert type(encoded) is type(crossed) is np.ndarray


def test_target_means_are_the_smoothed_means() -> None:
    """(sum of the level + smoothing · mean of all) / (count + smoothing), computed by hand."""
    rng = np.random.default_rng(0)
    sample = rng.choice(["a", "b", "c"], 60).astype(object)
    sample[::7] = None
    outputs = rng.normal(size=(60, 2))
    categories, _ = learn_target_means(["a", "b", "c"], sample, outputs, rng, smoothing=4.0)
    observed = sample != np.array(None)
    for k, level in enumerate("abc"):
        own = outputs[sample == level]
        expected = (own.sum(0) + 4.0 * outputs[observed].mean(0)) / (len(own) + 4.0)
        np.testing.assert_allclose(categories.embedding[k], expected)


@pytest.mark.parametrize("seed", range(5))
def test_no_row_is_told_its_own_target(seed: int) -> None:
    """Changing one row's target leaves that row's training numbers as they were, and moves others'."""
    rng = np.random.default_rng(seed)
    sample = rng.choice(list("abcd"), 40).astype(object)
    outputs = rng.normal(size=(40, 1))
    changed = outputs.copy()
    row = int(rng.integers(40))
    changed[row] += 100.0
    _, before = learn_target_means(list("abcd"), sample, outputs, np.random.default_rng(1))
    _, after = learn_target_means(list("abcd"), sample, changed, np.random.default_rng(1))
    assert before[row] == after[row]
    assert np.any(before != after)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_handful_of_rows_is_enough_for_target_means(n: int) -> None:
    levels = [str(k) for k in range(n)]
    categories, crossed = learn_target_means(
        levels, strings(*levels), np.arange(n, dtype=float)[:, None], np.random.default_rng(0)
    )
    assert np.isfinite(categories.embedding).all()
    assert np.isfinite(crossed).all()


@pytest.mark.parametrize("seed", range(3))
def test_rows_sorted_by_category_still_find_their_category_in_other_folds(seed: int) -> None:
    """Folds cut from sorted rows as they lie would leave whole categories without a mean."""
    sample = np.repeat(list("abcde"), 20).astype(object)
    outputs = np.repeat(np.arange(5.0), 20)[:, None]
    _, crossed = learn_target_means(list("abcde"), sample, outputs, np.random.default_rng(seed))
    assert np.corrcoef(crossed[:, 0], outputs[:, 0])[0, 1] > 0.95
