"""One-hot encoding, and target encoding that never uses a row's own target."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn

from stablemiss.encoding.categories import CategoryEncoder, fit_target_encoding


def strings(*entries: str | None) -> np.ndarray:
    return np.array(entries, dtype=object)


@pytest.mark.parametrize(("n_categories", "width"), [(1, 1), (2, 1), (3, 3), (7, 7)])
def test_one_hot_distinguishes_all_categories(n_categories: int, width: int) -> None:
    categories = [f"category {k}" for k in range(n_categories)]
    encoded = CategoryEncoder.one_hot(categories).encode(strings(*categories))
    assert encoded.shape == (n_categories, width)
    assert len(np.unique(encoded, axis=0)) == n_categories


def test_missing_and_unknown_categories_are_encoded_as_nan() -> None:
    encoded = CategoryEncoder.one_hot(["a", "b"]).encode(strings(None, "c", "", "b"))
    np.testing.assert_array_equal(encoded[:, 0], [np.nan, np.nan, np.nan, 1.0])


def test_missing_and_unknown_entries_have_different_codes() -> None:
    encoder = CategoryEncoder.one_hot(["a", "b"])
    codes = encoder.codes(strings("b", None, "c", "a", ""))
    missing, unknown = encoder.missing_code, encoder.unknown_code
    assert codes.tolist() == [1, missing, unknown, 0, unknown]
    assert len({0, 1, missing, unknown}) == 4


def test_arrays_are_returned_even_if_scikit_learn_is_set_to_return_data_frames() -> None:
    with sklearn.config_context(transform_output="pandas"):
        sample = strings("a", "b", "c", "a")
        encoded = CategoryEncoder.one_hot(["a", "b"]).encode(sample)
        _, cross_fitted = fit_target_encoding(["a", "b", "c"], sample, np.eye(4), np.random.default_rng(0))
    assert type(encoded) is type(cross_fitted) is np.ndarray


def test_target_means_are_the_smoothed_means() -> None:
    """(sum of the category + smoothing · overall mean) / (count + smoothing), computed by hand."""
    rng = np.random.default_rng(0)
    sample = rng.choice(["a", "b", "c"], 60).astype(object)
    sample[::7] = None
    outputs = rng.normal(size=(60, 2))
    encoder, _ = fit_target_encoding(["a", "b", "c"], sample, outputs, rng, smoothing=4.0)
    observed = sample != np.array(None)
    for k, category in enumerate("abc"):
        of_category = outputs[sample == category]
        expected = (of_category.sum(0) + 4.0 * outputs[observed].mean(0)) / (len(of_category) + 4.0)
        np.testing.assert_allclose(encoder.embedding[k], expected)


@pytest.mark.parametrize("seed", range(5))
def test_no_row_is_encoded_with_its_own_target(seed: int) -> None:
    """Changing the target of one row does not change its own encoding, but that of other rows."""
    rng = np.random.default_rng(seed)
    sample = rng.choice(list("abcd"), 40).astype(object)
    outputs = rng.normal(size=(40, 1))
    changed = outputs.copy()
    row = int(rng.integers(40))
    changed[row] += 100.0
    _, before = fit_target_encoding(list("abcd"), sample, outputs, np.random.default_rng(1))
    _, after = fit_target_encoding(list("abcd"), sample, changed, np.random.default_rng(1))
    assert before[row] == after[row]
    assert np.any(before != after)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_target_encoding_works_with_very_few_rows(n: int) -> None:
    categories = [str(k) for k in range(n)]
    encoder, cross_fitted = fit_target_encoding(
        categories, strings(*categories), np.arange(n, dtype=float)[:, None], np.random.default_rng(0)
    )
    assert np.isfinite(encoder.embedding).all()
    assert np.isfinite(cross_fitted).all()


@pytest.mark.parametrize("seed", range(3))
def test_folds_are_shuffled_so_that_rows_may_be_sorted_by_category(seed: int) -> None:
    """With contiguous folds, whole categories would be absent from the training folds."""
    sample = np.repeat(list("abcde"), 20).astype(object)
    outputs = np.repeat(np.arange(5.0), 20)[:, None]
    _, cross_fitted = fit_target_encoding(list("abcde"), sample, outputs, np.random.default_rng(seed))
    assert np.corrcoef(cross_fitted[:, 0], outputs[:, 0])[0, 1] > 0.95
