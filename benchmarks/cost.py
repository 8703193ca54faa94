"""Time and memory of AnyMask compared with LightGBM, and how they grow with the number of rows.

The first table shows King County house sales under the mechanism "train" of the shift suite (17,290 rows,
18 columns; a synthetic table of that shape if STABLEMISS_DATA is not set), with times as ratios to LightGBM
with early stopping in the same repeat. CPU time excludes other processes. The second table shows
synthetic tables of 18 columns and growing numbers of rows. Each fit runs in a new process. The memory of a
fit is the peak memory of the process minus its memory after imports; it includes the table. The limit is
four times the size of the table plus 1 GiB.

Each record is stored as soon as it is complete. Stored runs are not repeated unless --again is given.

    python benchmarks/cost.py [--repeats 3] [--rows 10000 100000 1000000] [--models …] [--only-print]
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from common import in_new_process, make_parser, open_store, run_pending, write_docs

from stablemiss import AnyMaskRegressor, MissingRegressor
from stablemiss.data import Floats
from stablemiss.datasets import load_house_sales
from stablemiss.evaluation.regret import TRAIN, shift_suite
from stablemiss.methods import Boosting
from stablemiss.missingness import MCARIndependent, Only
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record
from stablemiss.results.provenance import describe, peak_memory, provenance

STORE = open_store("cost")
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
    """One fit of one model to one table."""

    table: str
    n_rows: int
    model: str
    repeat: int

    def record(self, **fields: Any) -> Record:
        return Record(
            experiment="cost",
            dataset=f"{self.table} {self.n_rows}",
            mechanism="train",
            level=None,
            instance=self.repeat,
            label=self.model,
            seed=self.repeat,
            n_rows=self.n_rows,
            metric="seconds",
            **fields,
        )


def write_table(table: str, n_rows: int, folder: str) -> None:
    """Write the training rows (X.npy, y.npy) and rows to predict (new.npy) to a folder."""
    rng = np.random.default_rng(n_rows)
    if table == HOUSE and "STABLEMISS_DATA" in os.environ:
        house = load_house_sales(n_features=N_COLUMNS)
        rows = rng.permutation(len(house.X))[:n_rows]
        X, y = house.X[rows], house.y[rows]
        mechanism = shift_suite(X, y, rng)[TRAIN]
    else:
        # Correlated columns, some skewed or discrete, and a non-linear target with interactions.
        factors = rng.normal(size=(n_rows, 6))
        X = factors @ rng.normal(size=(6, N_COLUMNS)) / 2 + rng.normal(size=(n_rows, N_COLUMNS)) / 2
        X[:, :4] = np.exp(X[:, :4])
        X[:, 4:8] = np.round(X[:, 4:8])
        y = X[:, 8] * (X[:, 4] > 0) + np.sin(2 * X[:, 9]) + np.log1p(X[:, 0]) + X[:, 10:] @ rng.normal(size=8)
        y += 0.5 * rng.normal(size=n_rows)
        mechanism = Only(MCARIndependent(0.3, spread=0), range(0, N_COLUMNS, 2))
    masked = mechanism.hide(X, rng)
    np.save(f"{folder}/X.npy", masked)
    np.save(f"{folder}/y.npy", y)
    # Rows to predict have masks that did not occur in training.
    new = X[rng.integers(n_rows, size=N_PREDICTED)]
    np.save(f"{folder}/new.npy", MCARIndependent(0.5).hide(new, rng))


def measure(job: Job, folder: str) -> Record:
    """Times in seconds and memory in bytes of one fit; to be called in a new process."""
    model = MODELS[job.model](job.repeat)
    after_imports = peak_memory()
    X, y = np.load(f"{folder}/X.npy"), np.load(f"{folder}/y.npy")
    start, start_cpu = perf_counter(), process_time()
    model.fit(X, y)
    fit_seconds, cpu_seconds = perf_counter() - start, process_time() - start_cpu
    fit_memory = peak_memory() - after_imports
    new = np.load(f"{folder}/new.npy")
    single_rows = [seconds_to_predict(model, new[row : row + 1]) for row in range(50)]
    # The minimum is the least affected by other processes, which can only add time.
    predict_seconds = min(seconds_to_predict(model, new) for _ in range(3))
    return job.record(
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        peak_memory=fit_memory,
        config=describe(model),
        extra={
            "fit_work_seconds": cpu_seconds,
            "row_seconds": float(np.median(single_rows)),
            "table_memory": X.nbytes,
            "n_cpus": os.cpu_count(),
            "load": os.getloadavg()[0],
        },
        **provenance(),
    )


def run(job: Job) -> Record:
    """Draw the table and measure the fit, each in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        in_new_process(write_table, job.table, job.n_rows, folder)
        return in_new_process(measure, job, folder)


def seconds_to_predict(model: Any, X: Floats) -> float:
    start = perf_counter()
    model.predict(X)
    return perf_counter() - start


def compare_with_lightgbm(records: list[Record]) -> str:
    """Median ratios to LightGBM in the same repeat."""
    records = [record for record in records if record.dataset.startswith(HOUSE)]
    lightgbm = {record.instance: record for record in records if record.label == LIGHTGBM}
    rows = []
    for model in dict.fromkeys(record.label for record in records):
        pairs = [
            (record, lightgbm[record.instance])
            for record in records
            if record.label == model and record.instance in lightgbm
        ]
        if not pairs:
            continue
        fit = np.median([ours.fit_seconds / light.fit_seconds for ours, light in pairs])
        cpu = np.median(
            [ours.extra["fit_work_seconds"] / light.extra["fit_work_seconds"] for ours, light in pairs]
        )
        predict = np.median([ours.predict_seconds / light.predict_seconds for ours, light in pairs])
        one_row = 1000 * np.median([ours.extra["row_seconds"] for ours, _ in pairs])
        times = [f"{len(pairs)}", f"{fit:.1f}×", f"{cpu:.1f}×", f"{predict:.1f}×", f"{one_row:.1f} ms"]
        rows.append(
            [model, *times, memory(max((ours for ours, _ in pairs), key=lambda one: one.peak_memory))]
        )
    header = ["model", "repeats", "fit", "CPU time of fit", f"predict {N_PREDICTED:,} rows", "one row"]
    return markdown_table([*header, "memory of fit (limit)"], rows)


def by_rows(records: list[Record]) -> str:
    """Time per row and memory for growing tables."""
    records = [one for one in records if one.dataset.startswith(SYNTHETIC)]
    rows = [
        [
            one.label,
            f"{one.n_rows:,}",
            f"{one.fit_seconds:.0f} s",
            f"{1e6 * one.extra['fit_work_seconds'] / one.n_rows:.0f} µs",
            memory(one),
        ]
        for one in sorted(records, key=lambda one: (one.label, one.n_rows, one.instance))
    ]
    return markdown_table(["model", "rows", "fit", "CPU time per row", "memory of fit (limit)"], rows)


def memory(record: Record) -> str:
    """Memory of a fit and, in brackets, its limit."""
    limit = 4 * record.extra["table_memory"] + 2**30
    return f"{(record.peak_memory or 0) / 2**20:,.0f} MiB ({limit / 2**20:,.0f} MiB)"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="fits of each model to the first table")
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--again", action="store_true", help="measure stored runs again")
    options = parser.parse_args()
    jobs = [Job(HOUSE, HOUSE_ROWS, model, n) for n in range(options.repeats) for model in options.models]
    jobs += [Job(SYNTHETIC, n_rows, model, 0) for n_rows in options.rows for model in options.models]
    if not options.only_print:
        run_pending(STORE, jobs, lambda job: job.record().key, run, again=options.again)
    text = f"{compare_with_lightgbm(STORE.records())}\n\n{by_rows(STORE.records())}"
    print(f"\n{text}")
    write_docs("docs/methods/anymask.md", "cost", text)


if __name__ == "__main__":
    main()
