"""Result rows small enough to compute the table by hand."""

from typing import Any

import pytest

LEVELS = (0.1, 0.5, 0.9)
OPTIMAL = (100.0, 200.0, 400.0)
RMSE = {
    "optimal": OPTIMAL,
    "linear": (110.0, 230.0, 410.0),
    "constant": (500.0, 500.0, 500.0),
    "ols": (150.0, 260.0, 480.0),
    "boosting": (120.0, 300.0, 620.0),
    "em_mixture": (101.0, 202.0, 404.0),
}


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """Three methods and three references at three levels, trained at the first."""
    return [
        {
            "dataset": "Gaussian-Mix",
            "law": "MAR",
            "law_config": {"class": "MAR", "level": 0.1},
            "train_level": 0.1,
            "test_level": level,
            "method": method,
            "role": "reference" if method in ("optimal", "linear", "constant") else "method",
            "config": {"class": method},
            "rmse": rmse,
            "optimal_rmse": optimal,
            "linear_rmse": linear,
            "gap": rmse - optimal,
            "gap_share": (rmse - optimal) / optimal,
            "seed": 0,
            "n_features": 50,
            "n_rows": 16384,
            "n_test_rows": 8192,
            "fit_seconds": None if method in ("optimal", "linear") else 1.5,
            "versions": {"python": "3.11.2", "numpy": "2.4.6"},
            "finished": "2025-01-01T00:00:00+00:00",
        }
        for method, scores in RMSE.items()
        for level, rmse, optimal, linear in zip(LEVELS, scores, OPTIMAL, RMSE["linear"], strict=True)
    ]
