"""What AnyMask costs: time to fit and to predict beside LightGBM, memory, and how both grow with rows.

The first table is about King County house sales under the suite's train mechanism (17,290 rows, 18 columns; a
synthetic table of that shape if STABLEMISS_DATA is not set): times as ratios to LightGBM with early stopping
in the same repeat. Processor time leaves out what other processes took meanwhile. The second table is about
synthetic tables of 18 columns and ever more rows. Each fit has a process of its own, so that the peak of its
memory is its own, too: the most that it ever held, less what it held after its imports; the table it was
given is part of it. The bar is 4 × the table + 1 GiB.

Measurements are stored line by line; what is there is not measured again unless --again is given.

    python benchmarks/anymask_cost.py [--repeats 3] [--rows 10000 100000 1000000] [--models …] [--only-print]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from pages import fill
from processes import in_own_process, peak_memory
from rows import stored

from stablemiss import AnyMaskRegressor, MissingRegressor
from stablemiss.data import Floats
from stablemiss.datasets import load_house_sales
from stablemiss.evaluation.provenance import describe, versions
from stablemiss.evaluation.suite import TRAIN_MECHANISM, shift_suite
from stablemiss.methods import Boosting
from stablemiss.missingness import MCARIndependent, Only

RESULTS = Path(__file__).parent / "results" / "anymask_cost.jsonl"
HOUSE, SYNTHETIC = "house", "synthetic"
HOUSE_ROWS, N_COLUMNS = 17_290, 18
N_PREDICTED = 100_000
LIGHTGBM = "LightGBM"
MODELS: dict[str, Callable[[int], Any]] = {
    LIGHTGBM: lambda seed: MissingRegressor(Boosting(), random_state=seed, on_unseen_missing="ignore"),
    "AnyMask, fast": lambda seed: AnyMaskRegressor(budget="fast", random_state=seed),
    "AnyMask": lambda seed: AnyMaskRegressor(random_state=seed),
}


class Job(NamedTuple):
    """One model on one table, once."""

    table: str
    n_rows: int
    model: str
    repeat: int


def write_table(table: str, n_rows: int, folder: str) -> None:
    """X.npy and y.npy with holes, and rows to predict; in a process of its own, whose memory goes with it."""
    rng = np.random.default_rng(n_rows)
    if table == HOUSE and "STABLEMISS_DATA" in os.environ:
        house = load_house_sales(n_features=N_COLUMNS)
        rows = rng.permutation(len(house.X))[:n_rows]
        X, y = house.X[rows], house.y[rows]
        mechanism = shift_suite(X, y, rng)[TRAIN_MECHANISM]
    else:
        # Correlated columns, some of them skewed or in steps, and a target that bends and interacts.
        factors = rng.normal(size=(n_rows, 6))
        X = factors @ rng.normal(size=(6, N_COLUMNS)) / 2 + rng.normal(size=(n_rows, N_COLUMNS)) / 2
        X[:, :4] = np.exp(X[:, :4])
        X[:, 4:8] = np.round(X[:, 4:8])
        y = X[:, 8] * (X[:, 4] > 0) + np.sin(2 * X[:, 9]) + np.log1p(X[:, 0]) + X[:, 10:] @ rng.normal(size=8)
        y += 0.5 * rng.normal(size=n_rows)
        mechanism = Only(MCARIndependent(0.3, spread=0), range(0, N_COLUMNS, 2))
    hidden = mechanism.hide(X, rng)
    np.save(f"{folder}/X.npy", hidden)
    np.save(f"{folder}/y.npy", y)
    # Predicted under masks that training did not have.
    some = X[rng.integers(n_rows, size=N_PREDICTED)]
    np.save(f"{folder}/new.npy", MCARIndependent(0.5).hide(some, rng))


def measure(job: Job, folder: str) -> dict[str, Any]:
    """Times in seconds and memory in bytes of one fit, in the process that calls it."""
    model = MODELS[job.model](job.repeat)
    after_imports = peak_memory()
    X, y = np.load(f"{folder}/X.npy"), np.load(f"{folder}/y.npy")
    start, start_work = perf_counter(), process_time()
    model.fit(X, y)
    fit_seconds, fit_work = perf_counter() - start, process_time() - start_work
    fit_memory = peak_memory() - after_imports
    new = np.load(f"{folder}/new.npy")
    alone = [seconds_to_predict(model, new[row : row + 1]) for row in range(50)]
    # The quickest of a few: whatever else the machine does only ever adds to it.
    predict_seconds = min(seconds_to_predict(model, new) for _ in range(3))
    return {
        **job._asdict(),
        "fit_seconds": fit_seconds,
        "fit_work_seconds": fit_work,
        "predict_seconds": predict_seconds,
        "row_seconds": float(np.median(alone)),
        "fit_memory": fit_memory,
        "table_memory": X.nbytes,
        "config": describe(model),
        "versions": versions(),
        "n_cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def seconds_to_predict(model: Any, X: Floats) -> float:
    start = perf_counter()
    model.predict(X)
    return perf_counter() - start


def is_of(row: dict, job: Job) -> bool:
    return all(row[name] == value for name, value in job._asdict().items())


def keep(new: dict, job: Job) -> None:
    """Store a measurement in place of an earlier one of the same job."""
    rows = [row for row in stored(RESULTS) if not is_of(row, job)] + [new]
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows))


def lines_of(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads), *rows])


def beside_lightgbm(rows: list[dict]) -> str:
    """Ratios to LightGBM in the same repeat, their medians."""
    rows = [row for row in rows if row["table"] == HOUSE]
    plain = {row["repeat"]: row for row in rows if row["model"] == LIGHTGBM}
    found = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model and row["repeat"] in plain]
        if not own:
            continue
        fit, work, predict = (
            np.median([row[key] / plain[row["repeat"]][key] for row in own])
            for key in ("fit_seconds", "fit_work_seconds", "predict_seconds")
        )
        alone = 1000 * np.median([row["row_seconds"] for row in own])
        times = [f"{len(own)}", f"{fit:.1f}×", f"{work:.1f}×", f"{predict:.1f}×", f"{alone:.1f} ms"]
        found.append([model, *times, memory(max(own, key=lambda row: row["fit_memory"]))])
    heads = ["model", "repeats", "fit", "its processor time", f"predict {N_PREDICTED:,} rows", "one row"]
    return lines_of([*heads, "memory of fit (bar)"], found)


def against_rows(rows: list[dict]) -> str:
    """Time per row and memory, which should both stay level beside the table's size."""
    rows = [row for row in rows if row["table"] == SYNTHETIC]
    found = [
        [
            row["model"],
            f"{row['n_rows']:,}",
            f"{row['fit_seconds']:.0f} s",
            f"{1e6 * row['fit_work_seconds'] / row['n_rows']:.0f} µs",
            memory(row),
        ]
        for row in sorted(rows, key=lambda row: (row["model"], row["n_rows"], row["repeat"]))
    ]
    return lines_of(["model", "rows", "fit", "processor time per row", "memory of fit (bar)"], found)


def memory(row: dict) -> str:
    bar = 4 * row["table_memory"] + 2**30
    return f"{row['fit_memory'] / 2**20:,.0f} MiB ({bar / 2**20:,.0f} MiB)"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="fits of each model to the first table")
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--again", action="store_true", help="measure what is stored, too")
    parser.add_argument("--only-print", action="store_true", help="measure nothing, print what is stored")
    options = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    jobs = [Job(HOUSE, HOUSE_ROWS, model, n) for n in range(options.repeats) for model in options.models]
    jobs += [Job(SYNTHETIC, n_rows, model, 0) for n_rows in options.rows for model in options.models]
    for job in [] if options.only_print else jobs:
        if not options.again and any(is_of(row, job) for row in stored(RESULTS)):
            continue
        print(f"{job.table}, {job.n_rows:,} rows: {job.model}, repeat {job.repeat}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            in_own_process(write_table, job.table, job.n_rows, folder)
            keep(in_own_process(measure, job, folder), job)
    text = f"{beside_lightgbm(stored(RESULTS))}\n\n{against_rows(stored(RESULTS))}"
    print(f"\n{text}")
    fill("docs/methods/anymask.md", "cost", text)


if __name__ == "__main__":
    main()
