"""Masks drawn from those of an existing table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from stablemiss.missingness import Resampled

N_ROWS = 5000


def _table_with_missing(seed: int) -> np.ndarray:
    """Six columns that go missing in pairs, at rates that differ between rows."""
    rng = np.random.default_rng([seed, 1])
    X = rng.normal(size=(300, 6))
    X[np.repeat(rng.random((300, 3)) < rng.random((300, 1)) ** 2, 2, axis=1)] = np.nan
    return X


def _patterns(masks: np.ndarray) -> set[tuple[bool, ...]]:
    return {tuple(row) for row in masks.tolist()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("level", [None, 0.1, 0.5, 0.9])
def test_only_masks_of_the_table_are_drawn(seed: int, level: float | None) -> None:
    table, rng = _table_with_missing(seed), np.random.default_rng(seed)
    mechanism = Resampled(level=level).fit(table, rng)
    drawn = mechanism.draw(np.zeros((N_ROWS, 6)), rng)
    assert _patterns(drawn) <= _patterns(~np.isnan(table))
    assert len(_patterns(drawn)) > 1


@pytest.mark.parametrize("seed", range(3))
def test_without_a_level_masks_have_the_same_frequency_as_in_the_table(seed: int) -> None:
    table, rng = _table_with_missing(seed), np.random.default_rng(seed)
    masks = ~np.isnan(table)
    drawn = Resampled().fit(table, rng).draw(np.zeros((N_ROWS, 6)), rng)
    for pattern in _patterns(masks):
        expected = (masks == pattern).all(axis=1).mean()
        share = (drawn == pattern).all(axis=1).mean()
        assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / N_ROWS)


@pytest.mark.parametrize("level", [0.05, 0.3, 0.6, 0.95])
def test_the_level_is_the_mean_share_of_hidden_values(level: float) -> None:
    rng = np.random.default_rng(0)
    mechanism = Resampled().fit(_table_with_missing(0), rng)
    hidden_share = 1 - mechanism.at(level).draw(np.zeros((N_ROWS, 6)), rng).mean(axis=1)
    assert abs(hidden_share.mean() - level) < 5 * hidden_share.std() / np.sqrt(N_ROWS)


def test_at_the_mean_level_of_the_masks_all_are_equally_likely() -> None:
    masks = ~np.isnan(_table_with_missing(0))
    X = np.zeros((N_ROWS, 6))
    drawn = [
        mechanism.draw(X, np.random.default_rng(0))
        for mechanism in (Resampled(masks, 1 - masks.mean()), Resampled(masks))
    ]
    assert np.abs(drawn[0].mean(axis=0) - drawn[1].mean(axis=0)).max() < 0.04


def test_extreme_levels_draw_the_most_and_the_least_complete_masks() -> None:
    masks = np.array([[True, True], [True, False], [False, False]])
    X, rng = np.zeros((100, 2)), np.random.default_rng(0)
    assert Resampled(masks, level=0).draw(X, rng).all()
    assert not Resampled(masks, level=1).draw(X, rng).any()
    assert Resampled(masks[:1], level=0).draw(X, rng).all()


@pytest.mark.parametrize("d", range(2, 40))
def test_a_level_with_a_rounding_error_is_accepted(d: int) -> None:
    rng = np.random.default_rng(0)
    for k in range(d + 1):
        masks = np.arange(d)[None, :] >= k
        for level in (k / d, 1 - (d - k) / d, 1 - masks.mean()):
            assert (Resampled(masks, level).draw(np.zeros((2, d)), rng) == masks).all()


def test_a_level_outside_the_range_of_the_masks_raises() -> None:
    mechanism, rng = Resampled([[True, True], [True, False]]), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"0 and 0\.5; got 0\.9"):
        mechanism.at(0.9).draw(np.zeros((5, 2)), rng)


def test_fitting_does_not_replace_given_masks() -> None:
    rng = np.random.default_rng(0)
    mechanism = Resampled([[True, False]]).fit(np.zeros((5, 2)), rng)
    np.testing.assert_array_equal(mechanism.draw(np.zeros((2, 2)), rng), [[True, False]] * 2)


def test_refitting_uses_the_masks_of_the_new_table() -> None:
    rng = np.random.default_rng(0)
    mechanism = Resampled().fit([[1.0, np.nan]], rng).fit([[np.nan, 1.0]], rng)
    np.testing.assert_array_equal(mechanism.draw(np.zeros((1, 2)), rng), [[False, True]])


def test_the_table_may_have_columns_of_any_type() -> None:
    rng = np.random.default_rng(0)
    for table in (
        [["a", None], ["b", np.nan]],
        pd.DataFrame({"a": ["x", "y"], "b": pd.to_datetime([None, None])}),
        pd.DataFrame({"a": [1, 2], "b": pd.array([None, None], dtype="Int64")}),
        np.ma.masked_array([[1, 2], [3, 4]], [[False, True], [False, True]]),
    ):
        mechanism = Resampled().fit(table, rng)
        np.testing.assert_array_equal(mechanism.draw(np.zeros((1, 2)), rng), [[True, False]])


def test_the_masks_are_copied() -> None:
    masks = np.ones((3, 2), dtype=bool)
    mechanism = Resampled(masks)
    masks[:] = False
    assert mechanism.draw(np.zeros((5, 2)), np.random.default_rng(0)).all()


def test_invalid_use_raises() -> None:
    X, rng = np.zeros((5, 2)), np.random.default_rng(0)
    with pytest.raises(NotFittedError, match="Resampled must be fitted"):
        Resampled().draw(X, rng)
    with pytest.raises(ValueError, match="X has no rows"):
        Resampled().fit(X[:0], rng)
    with pytest.raises(ValueError, match="fitted on 3 columns, but X has 2"):
        Resampled(np.ones((1, 3), dtype=bool)).draw(X, rng)
    for masks in (X, np.ones(3, dtype=bool), np.ones((0, 2), dtype=bool)):
        with pytest.raises(ValueError, match="masks must be a boolean table"):
            Resampled(masks)
