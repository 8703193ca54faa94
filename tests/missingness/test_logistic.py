"""Calibrated chances: whatever the scores, their mean is the wanted rate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from stablemiss.missingness.logistic import deviations_from, find_intercepts, to_points


def _scores(n: int) -> np.ndarray:
    """Columns: gentle, sharp, heavy-tailed, two-valued, lopsided, constant, saturated."""
    rng = np.random.default_rng(0)
    return np.column_stack(
        [
            rng.normal(size=n),
            10 * rng.normal(size=n),
            5 * rng.standard_cauchy(size=n),
            rng.choice([-3.0, 3.0], size=n),
            np.exp(2 * rng.normal(size=n)),
            np.full(n, 4.0),
            500 * rng.normal(size=n) + 300,
        ]
    )


@pytest.mark.parametrize("rate", [1e-4, 0.05, 0.1, 0.5, 0.77, 0.9, 0.999])
def test_the_mean_chance_is_the_rate(rate: float) -> None:
    scores = _scores(1500)
    chances = expit(scores + find_intercepts(scores, rate))
    np.testing.assert_allclose(chances.mean(axis=0), rate, atol=1e-9)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_intercepts_are_those_of_a_scalar_root_finder(rate: float) -> None:
    scores = _scores(400)[:, :3]
    expected = [
        brentq(lambda b, column=column: expit(column + b).mean() - rate, -1e4, 1e4) for column in scores.T
    ]
    np.testing.assert_allclose(find_intercepts(scores, rate), expected, atol=1e-6)


def test_rates_zero_and_one_are_certain() -> None:
    scores = _scores(10)
    assert (expit(scores + find_intercepts(scores, 0.0)) == 0).all()
    assert (expit(scores + find_intercepts(scores, 1.0)) == 1).all()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_points_stand_for_all_rows(rate: float) -> None:
    """Intercepts found on a thousand points give the rate on twenty thousand rows."""
    scores = _scores(20_000)
    points = to_points(scores)
    assert len(points) <= 1024
    chances = expit(scores + find_intercepts(points, rate))
    np.testing.assert_allclose(chances.mean(axis=0), rate, atol=1e-3)


def test_the_points_are_the_middles_of_equal_steps() -> None:
    """Points at the edges of the steps would lie half a step too low on average."""
    scores = np.arange(1024.0 * 64)[:, None]
    assert to_points(scores).mean() == pytest.approx(scores.mean(), abs=1)


@pytest.mark.parametrize("n", [50, 5000])
def test_only_present_scores_stand_for_a_column(n: int) -> None:
    scores = np.random.default_rng(0).normal(size=(n, 3))
    holed = scores.copy()
    holed[::2, 1] = np.nan
    holed[:, 2] = np.nan
    points = to_points(holed)
    chances = expit(scores[1::2, 1] + find_intercepts(points, 0.3)[1])
    assert chances.mean() == pytest.approx(0.3, abs=1e-3)
    assert (points[:, 2] == 0).all()


def test_a_missing_cell_lies_on_the_centre() -> None:
    columns = np.array([[1.0, np.nan], [np.nan, 5.0]])
    np.testing.assert_array_equal(deviations_from(np.array([2.0, 4.0]), columns), [[-1.0, 0.0], [0.0, 1.0]])
