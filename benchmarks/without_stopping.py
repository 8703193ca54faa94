"""What StableMiss's network becomes when nothing stops it: small batches, no decay, training loss alone.

So the paper trains, for 1000 epochs. The rows of its tables 6 and 1, as the reproduction draws them, trained
and tested at 50% missing, after more and more epochs; beside it our own settings with early stopping. Rows
are stored as they come; what is there is not run again.

    python benchmarks/without_stopping.py [--instances 0 1 2] [--only-print]
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from pages import fill

from stablemiss.data import MaskedData
from stablemiss.evaluation.provenance import describe, source_digest, versions
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.cells import Cell, Exam
from stablemiss.experiments.problems import draw_problem
from stablemiss.methods import StableMiss
from stablemiss.progress import Silence
from stablemiss.tasks import Regression
from stablemiss.torch_state import torch_threads

RESULTS = Path(__file__).parent / "results" / "without_stopping.jsonl"
SETTINGS = {
    "Gaussian-Ind, MCAR-Ind": ("gaussian_ind", "mcar_independent"),
    "Gaussian-Mix, MAR": ("gaussian_mix", "mar"),
}
EPOCHS = (1, 3, 10, 30, 100)
LEVEL = 0.5


def measure(setting: str, n_epochs: int | None, instance: int) -> dict[str, Any]:
    """Fit once, for so many epochs or, with None, until the validation rows say stop."""
    dataset, law = SETTINGS[setting]
    cell = Cell("standard", dataset, law, LEVEL, instance, "stablemiss_unweighted")
    problem = draw_problem(cell, BUDGETS[cell.budget])
    hidden, hidden_test = problem.X, problem.tests[Exam(law, LEVEL)]
    center, scale = np.nanmean(hidden, axis=0), np.nanstd(hidden, axis=0)
    task = Regression.of(problem.y)
    # Validation rows, if there are any, are the last: all rows were drawn alike.
    n_train = round(len(hidden) * (1 - problem.validation_fraction)) if n_epochs is None else len(hidden)
    target = task.encode(problem.y)
    train, valid, test = (
        MaskedData.of((part - center) / scale, ~np.isnan(part), y)
        for part, y in (
            (hidden[:n_train], target[:n_train]),
            (hidden[n_train:], target[n_train:]),
            (hidden_test, task.encode(problem.y_test)),
        )
    )
    if n_epochs is None:
        method = StableMiss()
    else:
        # Without validation rows the training loss decides which epoch is best.
        method = StableMiss(batch_size=64, weight_decay=0.0, max_epochs=n_epochs, patience=n_epochs)
    with torch_threads(1):
        predictor = method.fit(train, valid, task, np.random.default_rng(cell.seed), Silence())
        error, train_error = (
            rmse(task.decode(predictor.outputs(part.values, part.mask)), y)
            for part, y in ((test, problem.y_test), (train, problem.y[:n_train]))
        )
    return {
        "setting": setting,
        "n_epochs": n_epochs,
        "instance": instance,
        "seed": cell.seed,
        "rmse": error,
        "train_rmse": train_error,
        "optimal_rmse": rmse(problem.population.bayes(hidden_test), problem.y_test),
        "constant_rmse": rmse(np.full_like(problem.y_test, problem.y.mean()), problem.y_test),
        "config": describe(method),
        "versions": versions(),
        "source": source_digest(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def rmse(prediction: np.ndarray, target: np.ndarray) -> float:
    return float(np.sqrt(np.mean((prediction - target) ** 2)))


def stored() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table(rows: list[dict[str, Any]]) -> str:
    """RMSE above Optimal's, mean over instances, on test rows and (in brackets) on the rows learnt from."""
    lines = [["after so many epochs", *map(str, EPOCHS), "stopped early", "constant"], ["---"] + ["--:"] * 7]
    for setting in SETTINGS:
        cells = [setting]
        for n_epochs in (*EPOCHS, None):
            found = [row for row in rows if (row["setting"], row["n_epochs"]) == (setting, n_epochs)]
            gaps = [
                [row[key] - row["optimal_rmse"] for key in ("rmse", "train_rmse", "constant_rmse")]
                for row in found
            ]
            test, train, constant = np.mean(gaps, axis=0) if gaps else [np.nan] * 3
            cells.append(f"{test:.0f} ({train:.0f})".replace("-", "−"))
        lines.append([*cells, f"{constant:.0f}"])
    n_instances = len({row["instance"] for row in rows})
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\nMean over {n_instances} instances."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only-print", action="store_true")
    asked = parser.parse_args()
    done = {(row["setting"], row["n_epochs"], row["instance"]) for row in stored()}
    wanted = [(s, n, instance) for instance in asked.instances for s in SETTINGS for n in (*EPOCHS, None)]
    for setting, n_epochs, instance in [] if asked.only_print else wanted:
        if (setting, n_epochs, instance) not in done:
            row = measure(setting, n_epochs, instance)
            with RESULTS.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(setting, n_epochs, instance, f"{row['rmse'] - row['optimal_rmse']:.0f}", flush=True)
    text = table(stored())
    print(text)
    fill("docs/methods/stablemiss.md", "without stopping", text)


if __name__ == "__main__":
    main()
