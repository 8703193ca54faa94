"""All methods side by side: accuracy where the best possible is known, time, memory and parameters.

Three settings, each trained and tested at 50% missing on 16,384 rows of 50 columns: Gaussian-Mix under MAR,
Gaussian under MCAR windows, Gaussian-Ind under independent MCAR. Each fit has a process of its own. Rows are
stored as they come; what is there is not run again.

    python benchmarks/methods.py [--methods …] [--settings …] [--seeds 0 1 2] [--only-print]
"""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from pages import fill
from processes import in_own_process, peak_memory
from rows import add, stored
from sklearn.metrics import root_mean_squared_error
from threadpoolctl import threadpool_limits

from stablemiss import MissingRegressor
from stablemiss.datasets import make_gaussian, make_gaussian_ind, make_gaussian_mix
from stablemiss.evaluation.provenance import describe, versions
from stablemiss.methods import METHODS
from stablemiss.missingness import MECHANISMS
from stablemiss.torch_state import torch_threads

RESULTS = Path(__file__).parent / "results" / "methods.jsonl"
SETTINGS = {
    "Gaussian-Mix, MAR": (make_gaussian_mix, "mar"),
    "Gaussian, MCAR": (make_gaussian, "mcar_window"),
    "Gaussian-Ind, MCAR-Ind": (make_gaussian_ind, "mcar_independent"),
}
N_ROWS, N_TEST_ROWS, N_COLUMNS, LEVEL = 16_384, 8_192, 50, 0.5


def measure(setting: str, name: str, seed: int) -> dict[str, Any]:
    """One method fitted once, in the process that calls it."""
    make, mechanism_name = SETTINGS[setting]
    population = make(random_state=seed)
    train_rng, test_rng = (np.random.default_rng(part) for part in np.random.SeedSequence(seed).spawn(2))
    X, y = population.draw(N_ROWS, train_rng)
    mechanism = MECHANISMS[mechanism_name](LEVEL).fit(X, train_rng)
    hidden = mechanism.hide(X, train_rng)
    X_test, y_test = population.draw(N_TEST_ROWS, test_rng)
    hidden_test = mechanism.hide(X_test, test_rng)
    best = root_mean_squared_error(population.bayes(hidden_test), y_test)
    model = MissingRegressor(name, random_state=seed, on_unseen_missing="ignore")
    # One thread each, so that methods can be compared whatever else runs beside them.
    with threadpool_limits(1), torch_threads(1):
        before = peak_memory()
        start = perf_counter()
        model.fit(hidden, y)
        fit_seconds = perf_counter() - start
        memory = peak_memory() - before
        start = perf_counter()
        prediction = model.predict(hidden_test)
        predict_seconds = perf_counter() - start
    # What NeuMiss multiplies, in the same run, on the rows that are left to learn from.
    n_learnt = round(N_ROWS * (1 - model.validation_fraction))
    history = getattr(model.predictor_, "history", [])
    error = root_mean_squared_error(prediction, y_test)
    return {
        "setting": setting,
        "method": name,
        "seed": seed,
        "rmse": error,
        "optimal_rmse": best,
        "gap_share": error / best - 1,
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "memory": memory,
        "n_numbers": count_numbers(model.predictor_.state()),
        "n_epochs": sum(len(stage.losses) for stage in history),
        "bare_epoch_seconds": bare_epoch(model.get_params()["method"], n_learnt),
        "config": describe(METHODS[name]()),
        "versions": versions(),
        "n_cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def count_numbers(state: Any) -> int:
    """How many numbers a predictor holds; trees, which are text, count by their leaves and splits."""
    if isinstance(state, dict):
        return sum(map(count_numbers, state.values()))
    if isinstance(state, list | tuple):
        return sum(map(count_numbers, state))
    if isinstance(state, str):
        found = [line for line in state.splitlines() if line.startswith(("threshold=", "leaf_value="))]
        return sum(line.count(" ") + 1 for line in found)
    return state.size if isinstance(state, np.ndarray) else 0


def bare_epoch(name: str, n_rows: int) -> float | None:
    """Seconds of nothing but the matrix products of one epoch of NeuMiss: three for each term and batch."""
    if name != "neumiss":
        return None
    method = METHODS[name]()
    left, right = torch.randn(method.batch_size, N_COLUMNS), torch.randn(N_COLUMNS, N_COLUMNS)
    with torch_threads(1):
        torch.mm(left, right)
        start = perf_counter()
        for _ in range(3000):
            torch.mm(left, right)
        return (perf_counter() - start) / 3000 * 3 * method.depth * n_rows / method.batch_size


def lines_of(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads), *rows])


def accuracy(rows: list[dict]) -> str:
    """Gap to the best possible prediction, as a share of its error: mean and range over seeds."""
    found = []
    for name in METHODS:
        cells = [name]
        for setting in SETTINGS:
            gaps = [row["gap_share"] for row in rows if row["method"] == name and row["setting"] == setting]
            cells.append(
                f"{np.mean(gaps):.1%} ({min(gaps):.1%} to {max(gaps):.1%}; {len(gaps)})" if gaps else "–"
            )
        found.append(cells)
    return lines_of(["method", *SETTINGS], found)


def costs(rows: list[dict]) -> str:
    """What a fit to Gaussian-Mix under MAR costs, first seed."""
    found = []
    for row in rows:
        if row["setting"] == next(iter(SETTINGS)) and row["seed"] == 0:
            found.append(
                [
                    row["method"],
                    f"{row['fit_seconds']:.1f} s",
                    f"{row['n_epochs']}",
                    f"{1e6 * row['predict_seconds'] / N_TEST_ROWS:.0f} µs",
                    f"{row['memory'] / 2**20:,.0f} MiB",
                    f"{row['n_numbers']:,}",
                ]
            )
    order = list(METHODS)
    found.sort(key=lambda cells: order.index(cells[0]))
    return lines_of(["method", "fit", "epochs", "predict a row", "memory of fit", "numbers learnt"], found)


def neumiss_ratio(rows: list[dict]) -> str:
    own = [row for row in rows if row["method"] == "neumiss" and row["setting"] == next(iter(SETTINGS))]
    if not own:
        return ""
    epochs = [row["fit_seconds"] / row["n_epochs"] for row in own]
    ratios = [epoch / row["bare_epoch_seconds"] for epoch, row in zip(epochs, own, strict=True)]
    return (
        f"NeuMiss: an epoch takes {np.median(epochs):.2f} s, {np.median(ratios):.1f} times its bare matrix "
        "products in the same run."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only-print", action="store_true", help="fit nothing, print what is stored")
    options = parser.parse_args()
    jobs = [
        (setting, name, seed)
        for seed in options.seeds
        for setting in options.settings
        for name in options.methods
    ]
    for job in [] if options.only_print else jobs:
        if job in {(row["setting"], row["method"], row["seed"]) for row in stored(RESULTS)}:
            continue
        print(*job, sep=", ", flush=True)
        row = in_own_process(measure, *job)
        add(RESULTS, [row])
    rows = stored(RESULTS)
    text = [accuracy(rows), costs(rows), neumiss_ratio(rows)]
    print("\n\n".join(text))
    for name, part in zip(("accuracy", "costs", "neumiss"), text, strict=True):
        fill("docs/methods/README.md", name, part)


if __name__ == "__main__":
    main()
