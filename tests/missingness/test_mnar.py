"""Cells that hide themselves by their own value."""

from __future__ import annotations

import numpy as np
import pytest

from stablemiss.missingness import LEVELS, MNAR

N_ROWS = 4000


def _table(seed: int) -> np.ndarray:
    """Columns: normal, skewed, two-valued, constant, on far scales."""
    rng = np.random.default_rng([seed, 1])
    return np.column_stack(
        [
            rng.normal(size=N_ROWS),
            1e4 * np.exp(rng.normal(size=N_ROWS)),
            rng.random(N_ROWS) < 0.2,
            np.full(N_ROWS, 0.1),
            1e-6 * rng.normal(size=N_ROWS) + 1,
        ]
    )


@pytest.mark.parametrize("seed", range(3))
def test_each_column_has_the_rate_at_every_level(seed: int) -> None:
    X, rng = _table(seed), np.random.default_rng(seed)
    mechanism = MNAR(0.5, spread=0).fit(X, rng)
    for level in LEVELS:
        rates = 1 - mechanism.at(level).draw(X, rng).mean(axis=0)
        assert np.abs(rates - level).max() < 5 * np.sqrt(level * (1 - level) / N_ROWS) + 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_large_values_are_hidden_first_and_small_ones_under_a_negative_slope(seed: int) -> None:
    X, rng = _table(seed), np.random.default_rng(seed)
    for slope in (2.0, -2.0):
        mask = MNAR(0.5, slope=slope).fit(X, rng).draw(X, rng)
        for column in (0, 1, 2, 4):
            values, seen = X[:, column], mask[:, column]
            assert np.sign(values[~seen].mean() - values[seen].mean()) == np.sign(slope)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_slope_values_are_irrelevant(seed: int) -> None:
    X, rng = _table(seed), np.random.default_rng(seed)
    mask = MNAR(0.5, slope=0).fit(X, rng).draw(X, rng)
    assert abs(np.corrcoef(X[:, 0], mask[:, 0])[0, 1]) < 5 / np.sqrt(N_ROWS)


def test_a_steeper_slope_cuts_sharper() -> None:
    X, rng = _table(0), np.random.default_rng(0)
    correlations = []
    for slope in (0.5, 2.0, 20.0):
        mask = MNAR(0.5, slope=slope, spread=0).fit(X, rng).draw(X, rng)
        correlations.append(np.corrcoef(X[:, 0], ~mask[:, 0])[0, 1])
    assert correlations == sorted(correlations)


def test_only_the_cell_itself_decides() -> None:
    X, rng = _table(0), np.random.default_rng(0)
    mechanism = MNAR(0.5).fit(X, rng)
    other = X.copy()
    other[:, 1:] = other[::-1, 1:]
    masks = [mechanism.draw(table, np.random.default_rng(1)) for table in (X, other)]
    np.testing.assert_array_equal(masks[0][:, 0], masks[1][:, 0])
    assert (masks[0][:, 1] != masks[1][:, 1]).any()


def test_a_column_that_was_constant_hides_at_the_rate_whatever_it_becomes() -> None:
    """Rounding noise around a constant is not taken for its scale."""
    X, rng = _table(0), np.random.default_rng(0)
    mechanism = MNAR(0.3, spread=0).fit(X, rng)
    X[:, 3] = rng.normal(size=N_ROWS)
    assert abs(1 - mechanism.draw(X, rng)[:, 3].mean() - 0.3) < 5 * np.sqrt(0.21 / N_ROWS)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_the_rate_is_that_among_cells_which_are_not_missing_already(level: float) -> None:
    X, rng = _table(0), np.random.default_rng(0)
    X[rng.random(X.shape) < 0.8] = np.nan
    mask = MNAR(level, spread=0).fit(X, rng).draw(X, rng)
    for column, seen in zip(X.T, mask.T, strict=True):
        present = ~np.isnan(column)
        assert abs(1 - seen[present].mean() - level) < 5 * np.sqrt(level * (1 - level) / present.sum())


def test_another_level_keeps_the_mechanism() -> None:
    mechanism = MNAR(0.1).fit(_table(0), np.random.default_rng(0))
    assert mechanism.at(0.9).model is mechanism.model


def test_misuse_says_what_to_do() -> None:
    X, rng = _table(0), np.random.default_rng(0)
    with pytest.raises(RuntimeError, match="no mechanism yet"):
        MNAR(0.5).draw(X, rng)
    with pytest.raises(ValueError, match="made for 5 columns, but X has 2"):
        MNAR(0.5).fit(X, rng).draw(X[:, :2], rng)
    with pytest.raises(ValueError, match="X has none"):
        MNAR(0.5).fit(X[:0], rng)
    with pytest.raises(ValueError, match="slope must be a finite number"):
        MNAR(0.5, slope=np.inf)
