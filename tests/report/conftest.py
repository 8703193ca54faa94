"""Result rows small enough to compute the table by hand."""

from typing import Any

import pytest

from stablemiss.experiments.budgets import BUDGETS, LABELS
from stablemiss.experiments.cells import cells_of, exams_of
from stablemiss.experiments.exhibit import LINEAR
from stablemiss.experiments.exhibit import OPTIMAL as OPTIMAL_LABEL
from stablemiss.experiments.exhibits import EXHIBITS
from stablemiss.experiments.patterns import pattern_rows

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
            "mechanism": "MAR",
            "mechanism_config": {"class": "MAR", "level": 0.1},
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


# One table of the reproduction, partly run: a method that failed, many that are not there yet.
STORED = {
    "optimal": OPTIMAL,
    "constant": (500.0, 500.0, 500.0),
    "neumiss": (140.0, 240.0, 520.0),
    "stablemiss": (150.0, 230.0, 450.0),
    "stablemiss_unweighted": (160.0, 225.0, 455.0),
    "ols": (130.0, 260.0, 480.0),
    "linear": (101.0, 201.0, 401.0),
    "miwae": None,
}


@pytest.fixture
def stored() -> list[dict[str, Any]]:
    """Rows of Table 1 at the budget "quick", and a picture of a missing pattern."""
    fits = [
        {
            "key": f"quick gaussian_mix mar 0.5 0 {label}",
            "budget": "quick",
            "dataset": "gaussian_mix",
            "train_mechanism": "mar",
            "train_level": 0.5,
            "instance": 0,
            "label": label,
            "scores": [],
            "error": "ValueError: <b>no</b> loss | at all\nline 2",
            "seed": 0,
            "peak_memory": 5e8,
            "versions": {"python": "3.11.7"},
            "seconds": 2.0,
            "finished": "2025-01-01T00:00:00+00:00",
        }
        for label in STORED
    ]
    for fit in fits:
        if (scores := STORED[fit["label"]]) is not None:
            fit |= {
                "error": None,
                "scores": [
                    *(
                        {"mechanism": "mar", "level": a, "rmse": b}
                        for a, b in zip(LEVELS, scores, strict=True)
                    ),
                    {"mechanism": "mcar_window", "level": 0.5, "rmse": scores[1]},
                ],
                "config": {"class": fit["label"], "hidden": [128, 128]},
                "n_rows": 1000,
                "n_test_rows": 500,
                "n_features": 12,
                "fit_seconds": 1.5,
            }
    mask = {
        "key": "quick patterns mar",
        "budget": "quick",
        "train_mechanism": "mar",
        "mask": ["10", "11"],
        "scores": [],
        "error": None,
        "finished": "2025-01-02T00:00:00+00:00",
    }
    return [*fits, mask]


@pytest.fixture
def again(stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows with a second instance of every fit, each of whose scores is ten higher but Optimal's."""
    seconds = [
        {
            **row,
            "key": row["key"].replace("0.5 0", "0.5 1"),
            "instance": 1,
            "scores": [
                {**score, "rmse": score["rmse"] + 10 * (row["label"] != "optimal")} for score in row["scores"]
            ],
        }
        for row in stored
        if "label" in row
    ]
    return [*stored, *seconds]


@pytest.fixture(scope="session")
def everything() -> list[dict[str, Any]]:
    """A row for every fit of the budget "standard", with invented scores, and the missing patterns."""
    budget = BUDGETS["standard"]
    rows = []
    for cell in cells_of(EXHIBITS, budget):
        rank = [OPTIMAL_LABEL, LINEAR, *LABELS].index(cell.label)
        unit = 0.01 if cell.dataset == "house_sales" else 1.0
        rows.append(
            {
                "key": cell.key,
                "budget": budget.name,
                "dataset": cell.dataset,
                "train_mechanism": cell.mechanism,
                "train_level": cell.level,
                "instance": cell.instance,
                "label": cell.label,
                "scores": [
                    {
                        "mechanism": exam.mechanism,
                        "level": exam.level,
                        "rmse": unit * (1000 + 500 * exam.level + 20 * rank + 7 * ((rank * cell.seed) % 5)),
                    }
                    for exam in exams_of(cell)
                ],
                "error": None,
                "config": {"class": cell.label, "max_epochs": 100, "patience": 5},
                "n_rows": 16384,
                "n_test_rows": 8192,
                "n_features": 50,
                "fit_seconds": 1.5,
                "predict_seconds": 0.5,
                "seed": cell.seed,
                "peak_memory": 5e8,
                "versions": {"python": "3.11.7"},
                "seconds": 2.0,
                "finished": "2025-01-01T00:00:00+00:00",
            }
        )
    return [*rows, *pattern_rows(budget.name)]
