"""MNAR: whether a value is hidden depends on the value itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from stablemiss.missingness import LEVELS, MNAR

N_ROWS = 4000


def _table(seed: int) -> np.ndarray:
    """Columns: normal, skewed, binary, constant, on very different scales."""
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
            values, observed = X[:, column], mask[:, column]
            assert np.sign(values[~observed].mean() - values[observed].mean()) == np.sign(slope)


@pytest.mark.parametrize("seed", range(3))
def test_with_slope_zero_values_have_no_influence(seed: int) -> None:
    X, rng = _table(seed), np.random.default_rng(seed)
    mask = MNAR(0.5, slope=0).fit(X, rng).draw(X, rng)
    assert abs(np.corrcoef(X[:, 0], mask[:, 0])[0, 1]) < 5 / np.sqrt(N_ROWS)


def test_a_larger_slope_increases_the_correlation_of_values_and_mask() -> None:
    X, rng = _table(0), np.random.default_rng(0)
    correlations = []
    for slope in (0.5, 2.0, 20.0):
        mask = MNAR(0.5, slope=slope, spread=0).fit(X, rng).draw(X, rng)
        correlations.append(np.corrcoef(X[:, 0], ~mask[:, 0])[0, 1])
    assert correlations == sorted(correlations)


def test_other_columns_have_no_influence() -> None:
    X, rng = _table(0), np.random.default_rng(0)
    mechanism = MNAR(0.5).fit(X, rng)
    changed = X.copy()
    changed[:, 1:] = changed[::-1, 1:]
    masks = [mechanism.draw(table, np.random.default_rng(1)) for table in (X, changed)]
    np.testing.assert_array_equal(masks[0][:, 0], masks[1][:, 0])
    assert (masks[0][:, 1] != masks[1][:, 1]).any()


def test_values_of_a_column_that_was_constant_at_fit_have_no_influence() -> None:
    """Rounding errors around a constant are not taken for its scale."""
    X, rng = _table(0), np.random.default_rng(0)
    mechanism = MNAR(0.3, spread=0).fit(X, rng)
    X[:, 3] = rng.normal(size=N_ROWS)
    assert abs(1 - mechanism.draw(X, rng)[:, 3].mean() - 0.3) < 5 * np.sqrt(0.21 / N_ROWS)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_the_rate_refers_to_values_that_are_not_already_missing(level: float) -> None:
    X, rng = _table(0), np.random.default_rng(0)
    X[rng.random(X.shape) < 0.8] = np.nan
    mask = MNAR(level, spread=0).fit(X, rng).draw(X, rng)
    for column, observed in zip(X.T, mask.T, strict=True):
        present = ~np.isnan(column)
        assert abs(1 - observed[present].mean() - level) < 5 * np.sqrt(level * (1 - level) / present.sum())


def test_changing_the_level_keeps_the_parameters() -> None:
    mechanism = MNAR(0.1).fit(_table(0), np.random.default_rng(0))
    assert mechanism.at(0.9).model is mechanism.model


def test_invalid_use_raises() -> None:
    X, rng = _table(0), np.random.default_rng(0)
    with pytest.raises(NotFittedError, match="MNAR must be fitted"):
        MNAR(0.5).draw(X, rng)
    with pytest.raises(ValueError, match="fitted on 5 columns, but X has 2"):
        MNAR(0.5).fit(X, rng).draw(X[:, :2], rng)
    with pytest.raises(ValueError, match="no rows"):
        MNAR(0.5).fit(X[:0], rng)
    with pytest.raises(ValueError, match=r"slope must be a number .*got inf"):
        MNAR(0.5, slope=np.inf)
