"""Masks that do not depend on the values."""

from __future__ import annotations

import numpy as np
import pytest

from stablemiss.missingness import MCARIndependent, MCARWindow


def _mean_correlation(mask: np.ndarray) -> float:
    correlation = np.corrcoef(mask.T.astype(float))
    return float(correlation[~np.eye(len(correlation), dtype=bool)].mean())


@pytest.mark.parametrize(("level", "expected"), [(0.1, 0.279), (0.3, 0.097), (0.5, 0.060), (0.9, 0.279)])
def test_the_spread_of_rates_makes_mask_values_of_a_row_correlate(level: float, expected: float) -> None:
    """Two mask values share the rate of their row. Their correlation is Var(rate) / (mean · (1 − mean))."""
    mask = MCARIndependent(level).draw(np.zeros((20_000, 20)), np.random.default_rng(0))
    assert _mean_correlation(mask) == pytest.approx(expected, abs=0.015)


@pytest.mark.parametrize("seed", range(3))
def test_without_spread_mask_values_are_independent(seed: int) -> None:
    mask = MCARIndependent(0.3, spread=0).draw(np.zeros((20_000, 20)), np.random.default_rng(seed))
    assert abs(_mean_correlation(mask)) < 5 / np.sqrt(20_000 * 190)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("d", [1, 7, 50])
def test_hidden_columns_form_one_window_that_may_wrap_around(level: float, d: int) -> None:
    hidden = ~MCARWindow(level).draw(np.zeros((2000, d)), np.random.default_rng(0))
    is_window_start = hidden & ~np.roll(hidden, 1, axis=1)
    assert is_window_start.sum(axis=1).max() <= 1
    # Some windows must wrap around, otherwise the first and last columns would be hidden too rarely.
    if d > 1 and level > 0.1:
        assert (hidden[:, 0] & hidden[:, -1] & ~hidden.all(axis=1)).any()


@pytest.mark.parametrize(
    ("level", "d", "length"), [(0.3, 10, 3), (0.29, 100, 29), (0.7, 10, 7), (0.5, 7, 3), (0.1, 5, 0)]
)
def test_the_length_of_the_window_is_rate_times_columns_rounded_down(
    level: float, d: int, length: int
) -> None:
    mask = MCARWindow(level, spread=0).draw(np.zeros((20, d)), np.random.default_rng(0))
    assert ((~mask).sum(axis=1) == length).all()


@pytest.mark.parametrize("seed", range(3))
def test_every_column_is_hidden_equally_often(seed: int) -> None:
    n = 10_000
    mask = MCARWindow(0.3).draw(np.zeros((n, 10)), np.random.default_rng(seed))
    rate = 0.1125 + 0.775 * 0.3
    assert np.abs(1 - mask.mean(axis=0) - rate).max() < 5 * np.sqrt(rate * (1 - rate) / n)
