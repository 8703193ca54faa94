"""Missing rates of the rows, and the tables that a mechanism accepts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from stablemiss.missingness import LEVELS, MCARIndependent
from stablemiss.missingness.mechanism import draw_row_rates

N_ROWS = 40_000


@pytest.mark.parametrize("level", LEVELS)
def test_80_percent_of_rows_have_the_level_and_2_5_percent_each_other_level(level: float) -> None:
    rates = draw_row_rates(N_ROWS, level, 0.2, np.random.default_rng(0))
    distinct, counts = np.unique(rates, return_counts=True)
    np.testing.assert_array_equal(distinct, LEVELS)
    expected = np.where(distinct == level, 0.8, 0.025)
    error = np.sqrt(expected * (1 - expected) / N_ROWS)
    assert (np.abs(counts / N_ROWS - expected) < 5 * error).all()


@pytest.mark.parametrize("seed", range(3))
def test_rates_do_not_depend_on_the_order_of_the_rows(seed: int) -> None:
    rates = draw_row_rates(N_ROWS, 0.5, 0.2, np.random.default_rng(seed))
    assert abs(np.corrcoef(rates, np.arange(N_ROWS))[0, 1]) < 5 / np.sqrt(N_ROWS)
    assert abs(np.corrcoef(rates[1:], rates[:-1])[0, 1]) < 5 / np.sqrt(N_ROWS)


def test_without_spread_every_row_has_the_level() -> None:
    np.testing.assert_array_equal(draw_row_rates(50, 0.37, 0.0, np.random.default_rng(0)), 0.37)


def test_a_level_other_than_the_nine_spreads_over_all_nine() -> None:
    rates = draw_row_rates(N_ROWS, 0.37, 0.2, np.random.default_rng(0))
    assert set(rates) == {0.37, *LEVELS}
    assert np.mean(rates == 0.37) == pytest.approx(0.8, abs=0.01)


def test_a_level_with_a_rounding_error_is_still_one_of_the_nine() -> None:
    """0.1 · 3 is not exactly 0.3 in floating point."""
    rates = draw_row_rates(N_ROWS, 0.1 * 3, 0.2, np.random.default_rng(0))
    assert len(set(rates)) == 9


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_levels_zero_and_one_have_no_spread(level: float) -> None:
    np.testing.assert_array_equal(draw_row_rates(1000, level, 0.2, np.random.default_rng(0)), level)


def test_data_frames_integers_booleans_and_none_are_accepted() -> None:
    mechanism, rng = MCARIndependent(0.0), np.random.default_rng(0)
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, None], "c": [True, False]})
    np.testing.assert_array_equal(mechanism.hide(frame, rng), [[1, 0.5, 1], [2, np.nan, 0]])
    np.testing.assert_array_equal(mechanism.hide([[1, None]], rng), [[1, np.nan]])


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([True, None], dtype="boolean")}),
        pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, pd.NaT]}, dtype=object),
        np.ma.masked_array([[1, 1], [2, 9]], [[False, False], [False, True]]),
    ],
    ids=["nullable", "NaT", "masked"],
)
def test_values_that_are_already_missing_stay_missing(table: object) -> None:
    hidden = MCARIndependent(0.0).hide(table, np.random.default_rng(0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(hidden, [[1, 1], [2, np.nan]])


def test_an_invalid_spread_raises() -> None:
    with pytest.raises(ValueError, match="spread must be a number from 0 to 1; got 2"):
        MCARIndependent(0.5, spread=2)
