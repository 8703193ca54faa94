"""What StableMiss's network becomes when nothing stops it, and whether weights help it then.

The paper trains for 1000 epochs in batches of 64, and tells of neither early stopping nor decay. The rows of
its tables 6 and 1 and of figure 2, as the reproduction draws them, after more and more such epochs;
beside it our own settings with early stopping. Weights are those of the reproduction. Rows are stored as they
come; what is there is not run again, and several calls with other instances may run side by side.

    python benchmarks/without_stopping.py [--instances 0 1 2] [--only-print]
"""

from __future__ import annotations

import argparse
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from pages import fill
from rows import add, stored
from sklearn.metrics import root_mean_squared_error

from stablemiss.data import Floats, MaskedData
from stablemiss.evaluation.provenance import describe, source_digest, versions
from stablemiss.experiments.budgets import BUDGETS, settings_of
from stablemiss.experiments.cells import Cell, Exam
from stablemiss.experiments.exhibit import ABLATION
from stablemiss.experiments.problems import draw_problem
from stablemiss.methods import StableMiss
from stablemiss.progress import NullProgress
from stablemiss.report.comparison import number, title_of
from stablemiss.tasks import Regression
from stablemiss.torch_state import torch_threads

RESULTS = Path(__file__).parent / "results" / "without_stopping.jsonl"
EPOCHS = (1, 3, 10, 30, 100, 1000)


class Setting(NamedTuple):
    """What is trained on, where it is tested, and the variants of StableMiss that learn it."""

    name: str
    dataset: str
    mechanism: str
    level: float
    test_levels: tuple[float, ...]
    labels: tuple[str, ...]


SETTINGS = (
    Setting(
        "Gaussian-Ind, MCAR-Ind", "gaussian_ind", "mcar_independent", 0.5, (0.5,), ("stablemiss_unweighted",)
    ),
    Setting("Gaussian-Mix, MAR", "gaussian_mix", "mar", 0.5, (0.5,), ("stablemiss_unweighted",)),
    Setting(
        "Gaussian-Mix, MAR",
        "gaussian_mix",
        "mar",
        0.1,
        (0.1, 0.3, 0.5, 0.7, 0.9),
        ABLATION,
    ),
)


def measure(setting: Setting, label: str, n_epochs: int | None, instance: int) -> dict[str, Any]:
    """Fit once, for so many epochs or, with None, until the validation rows say stop."""
    budget = BUDGETS["standard"]
    cell = Cell(budget.name, setting.dataset, setting.mechanism, setting.level, instance, label)
    problem = draw_problem(cell, budget)
    center, scale = np.nanmean(problem.X, axis=0), np.nanstd(problem.X, axis=0)
    task = Regression.of(problem.y)
    target = task.encode(problem.y)

    def scaled(rows: Floats, target: Floats) -> MaskedData:
        return MaskedData.of((rows - center) / scale, ~np.isnan(rows), target)

    # Validation rows, if there are any, are the last: all rows were drawn alike.
    n = round(len(problem.X) * (1 - problem.validation_fraction)) if n_epochs is None else len(problem.X)
    train, valid = scaled(problem.X[:n], target[:n]), scaled(problem.X[n:], target[n:])
    _, parameters = settings_of(label, setting.mechanism, is_real=False, budget=budget)
    if n_epochs is not None:
        # Without validation rows the training loss decides which epoch is best.
        parameters |= {"batch_size": 64, "weight_decay": 0.0, "max_epochs": n_epochs, "patience": n_epochs}
    method = StableMiss(**parameters)
    tests = {level: problem.tests[Exam(setting.mechanism, level)] for level in setting.test_levels}
    with torch_threads(1):
        predictor = method.fit(train, valid, task, np.random.default_rng(cell.seed), NullProgress())

        def error(rows: Floats, y: Floats) -> float:
            part = scaled(rows, task.encode(y))
            return root_mean_squared_error(task.decode(predictor.predict(part.values, part.mask)), y)

        return {
            **key_of(setting, label, n_epochs, instance),
            "seed": cell.seed,
            "train_rmse": error(problem.X[:n], problem.y[:n]),
            "scores": [
                {
                    "level": level,
                    "rmse": error(rows, problem.y_test),
                    "optimal_rmse": root_mean_squared_error(problem.population.bayes(rows), problem.y_test),
                }
                for level, rows in tests.items()
            ],
            "constant_rmse": root_mean_squared_error(
                np.full_like(problem.y_test, problem.y.mean()), problem.y_test
            ),
            "config": describe(method),
            "versions": versions(),
            "source": source_digest(),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def key_of(setting: Setting, label: str, n_epochs: int | None, instance: int) -> dict[str, Any]:
    """What tells one row from another."""
    return {
        "setting": setting.name,
        "train_level": setting.level,
        "label": label,
        "n_epochs": n_epochs,
        "instance": instance,
    }


def by_epochs(rows: list[dict[str, Any]]) -> str:
    """RMSE above Optimal's on test rows for the settings without weights, a column for each number of epochs.

    Training rows are held against the same Optimal: they are drawn alike.
    """
    settings = [setting for setting in SETTINGS if len(setting.labels) == 1]
    lines = [
        [
            f"{setting.name}, {on}",
            *(gap(rows, setting, setting.labels[0], n_epochs, 0, key) for n_epochs in (*EPOCHS, None)),
            gap(rows, setting, setting.labels[0], None, 0, "constant_rmse"),
        ]
        for setting in settings
        for on, key in (("test rows", "rmse"), ("training rows", "train_rmse"))
    ]
    return markdown(["after so many epochs", *map(str, EPOCHS), "stopped early", "constant"], lines, rows)


def by_weights(rows: list[dict[str, Any]]) -> str:
    """RMSE above Optimal's on test rows, with and without weights, a column for each test level."""
    setting = SETTINGS[-1]
    places = range(len(setting.test_levels))
    lines = [
        [
            "stopped early" if n_epochs is None else str(n_epochs),
            title_of(label),
            *(gap(rows, setting, label, n_epochs, i) for i in places),
        ]
        for n_epochs in (10, 30, 100, 1000, None)
        for label in setting.labels
    ]
    constant = [gap(rows, setting, setting.labels[0], None, i, "constant_rmse") for i in places]
    head = ["epochs", "", *(f"{level:.0%}" for level in setting.test_levels)]
    return markdown(head, [*lines, ["", title_of("constant"), *constant]], rows)


def gap(
    rows: list[dict[str, Any]],
    setting: Setting,
    label: str,
    n_epochs: int | None,
    place: int,
    key: str = "rmse",
) -> str:
    """Mean over instances of an error less Optimal's at a test level."""
    gaps = [
        {**row, **row["scores"][place]}[key] - row["scores"][place]["optimal_rmse"]
        for row in rows
        if key_of(setting, label, n_epochs, row["instance"]).items() <= row.items()
    ]
    return number(fmean(gaps) if gaps else None, 0)


def markdown(head: list[str], lines: list[list[str]], rows: list[dict[str, Any]]) -> str:
    every = [head, ["---"] + ["--:"] * (len(head) - 1), *lines]
    n_instances = len({row["instance"] for row in rows})
    return "\n".join(f"| {' | '.join(line)} |" for line in every) + f"\n\nMean over {n_instances} instances."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only-print", action="store_true")
    asked = parser.parse_args()
    wanted = [
        (setting, label, n_epochs, instance)
        for instance in asked.instances
        for setting in SETTINGS
        for label in setting.labels
        for n_epochs in (*EPOCHS, None)
    ]
    done = [{name: row[name] for name in key_of(*wanted[0])} for row in stored(RESULTS)]
    for one in [] if asked.only_print else wanted:
        if key_of(*one) not in done:
            row = measure(*one)
            add(RESULTS, [row])
            print(*key_of(*one).values(), [round(score["rmse"]) for score in row["scores"]], flush=True)
    rows = stored(RESULTS)
    # An instance that is not through would shift the means of some cells and not of others.
    n_rows = Counter(row["instance"] for row in rows)
    rows = [row for row in rows if n_rows[row["instance"]] == max(n_rows.values())]
    for page, text in (
        ("docs/methods/stablemiss.md", by_epochs(rows)),
        ("docs/decorrelation.md", by_weights(rows)),
    ):
        print(text)
        fill(page, "without stopping", text)


if __name__ == "__main__":
    main()
