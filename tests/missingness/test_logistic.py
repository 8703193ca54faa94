"""Calibrated probabilities: for any scores, their mean is the required rate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from stablemiss.missingness.logistic import deviations_from, find_intercepts, to_quantiles


def _scores(n: int) -> np.ndarray:
    """Columns: moderate, large, heavy-tailed, binary, skewed, constant, saturated."""
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
def test_the_mean_probability_is_the_rate(rate: float) -> None:
    scores = _scores(1500)
    probabilities = expit(scores + find_intercepts(scores, rate))
    np.testing.assert_allclose(probabilities.mean(axis=0), rate, atol=1e-9)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_intercepts_agree_with_a_scalar_root_finder(rate: float) -> None:
    scores = _scores(400)[:, :3]
    expected = [
        brentq(lambda b, column=column: expit(column + b).mean() - rate, -1e4, 1e4) for column in scores.T
    ]
    np.testing.assert_allclose(find_intercepts(scores, rate), expected, atol=1e-6)


def test_rates_zero_and_one_give_probabilities_zero_and_one() -> None:
    scores = _scores(10)
    assert (expit(scores + find_intercepts(scores, 0.0)) == 0).all()
    assert (expit(scores + find_intercepts(scores, 1.0)) == 1).all()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_points_represent_all_rows(rate: float) -> None:
    """Intercepts computed on a thousand quantiles give the rate on twenty thousand rows."""
    scores = _scores(20_000)
    quantiles = to_quantiles(scores)
    assert len(quantiles) <= 1024
    probabilities = expit(scores + find_intercepts(quantiles, rate))
    np.testing.assert_allclose(probabilities.mean(axis=0), rate, atol=1e-3)


def test_the_points_are_quantiles_at_the_midpoints_of_equal_steps() -> None:
    """Quantiles at the lower ends of the steps would be half a step too low on average."""
    scores = np.arange(1024.0 * 64)[:, None]
    assert to_quantiles(scores).mean() == pytest.approx(scores.mean(), abs=1)


@pytest.mark.parametrize("n", [50, 5000])
def test_the_points_ignore_missing_scores(n: int) -> None:
    scores = np.random.default_rng(0).normal(size=(n, 3))
    with_missing = scores.copy()
    with_missing[::2, 1] = np.nan
    with_missing[:, 2] = np.nan
    quantiles = to_quantiles(with_missing)
    probabilities = expit(scores[1::2, 1] + find_intercepts(quantiles, 0.3)[1])
    assert probabilities.mean() == pytest.approx(0.3, abs=1e-3)
    assert (quantiles[:, 2] == 0).all()


def test_the_deviation_of_a_missing_value_is_zero() -> None:
    columns = np.array([[1.0, np.nan], [np.nan, 5.0]])
    np.testing.assert_array_equal(deviations_from(np.array([2.0, 4.0]), columns), [[-1.0, 0.0], [0.0, 1.0]])
