"""How long does a fitted AnyMask take to predict a single row?

AnyMask with its default budget is fitted to King County house sales under the mechanism "train" of the shift
suite (17,290 rows, 18 columns), and then predicts single rows with half of their values missing, given as
numpy arrays and as pandas frames. Times are medians over the rows, after a warm-up: the processor time of all
threads, which other processes affect less, and the elapsed time. They are compared with LightGBM (500 trees,
one thread) in the same process. The table is read from the data folder (STABLEMISS_DATA).

    python benchmarks/latency.py [--repeats 3] [--rows 300] [--again] [--only-print]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import perf_counter, process_time
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from common import in_new_process, make_parser, open_store

from stablemiss import AnyMaskRegressor
from stablemiss.datasets import load_house_sales
from stablemiss.evaluation.regret import TRAIN, ShiftedTable
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance

STORE = open_store("latency")
LIGHTGBM, PREDICT, INTERVAL = "LightGBM", "AnyMask.predict", "AnyMask.predict_interval"
N_WARM_UP = 50
# The highest processor times that we accept for AnyMask.predict, in milliseconds.
LIMITS = {"numpy": 3.0, "pandas": 5.0}


def measure(repeat: int, n_rows: int) -> list[Record]:
    """Fit both models and return a record for each function; to be called in a new process."""
    house = load_house_sales(n_features=18)
    table = ShiftedTable(house.X, house.y, is_classification=False, seed=repeat)
    # Both models are fitted to a frame; LightGBM is fitted again to an array, because it warns otherwise.
    names = [f"column {j}" for j in range(house.X.shape[1])]
    X = table.X_train()
    frame = pd.DataFrame(X, columns=names)
    ours = AnyMaskRegressor(random_state=repeat).fit(frame, table.y_train)
    trees = {
        kind: lightgbm.LGBMRegressor(n_estimators=500, n_jobs=1, random_state=repeat, verbosity=-1).fit(
            train, table.y_train
        )
        for kind, train in (("numpy", X), ("pandas", frame))
    }
    (new,) = table.tests(["all 50"]).X.values()
    rows: dict[str, list] = {"numpy": [new[i : i + 1] for i in range(n_rows)]}
    rows["pandas"] = [pd.DataFrame(row, columns=names) for row in rows["numpy"]]
    functions = {
        LIGHTGBM: {kind: model.predict for kind, model in trees.items()},
        PREDICT: dict.fromkeys(rows, ours.predict),
        INTERVAL: dict.fromkeys(rows, ours.predict_interval),
    }
    return [
        Record(
            experiment="latency",
            dataset="house",
            mechanism=TRAIN,
            level=None,
            instance=repeat,
            label=label,
            seed=repeat,
            scores=tuple(
                Score(kind, None, None, None, seconds(function, rows[kind]))
                for kind, function in by_kind.items()
            ),
            metric="seconds",
            config=describe(trees["numpy"] if label == LIGHTGBM else ours),
            n_rows=len(X),
            n_test_rows=n_rows,
            n_features=X.shape[1],
            extra={"n_cpus": os.cpu_count(), "load": os.getloadavg()[0]},
            **provenance(),
        )
        for label, by_kind in functions.items()
    ]


def seconds(function: Callable[[Any], Any], rows: Sequence[Any]) -> dict[str, float]:
    """Median processor time and elapsed time of a call, over all rows."""
    for row in rows[:N_WARM_UP]:
        function(row)
    times = []
    for row in rows:
        start, start_cpu = perf_counter(), process_time()
        function(row)
        times.append((process_time() - start_cpu, perf_counter() - start))
    cpu, elapsed = np.median(times, axis=0)
    return {"cpu_seconds": float(cpu), "elapsed_seconds": float(elapsed)}


def table(records: list[Record]) -> str:
    """Medians over the repeats, and the ratio to LightGBM in the same repeat."""
    reference = {
        (record.instance, score.mechanism): score.extra["cpu_seconds"]
        for record in records
        if record.label == LIGHTGBM
        for score in record.scores
    }
    rows = []
    for label in (LIGHTGBM, PREDICT, INTERVAL):
        for kind, limit in LIMITS.items():
            results = [
                (score.extra, reference[record.instance, kind])
                for record in records
                for score in record.scores
                if (record.label, score.mechanism) == (label, kind)
            ]
            cpu = 1e3 * np.median([result["cpu_seconds"] for result, _ in results])
            elapsed = 1e3 * np.median([result["elapsed_seconds"] for result, _ in results])
            ratio = np.median([result["cpu_seconds"] / base for result, base in results])
            allowed = f"{limit:g} ms" if label == PREDICT else "–"
            rows.append([label, kind, f"{cpu:.2f} ms", allowed, f"{elapsed:.2f} ms", f"{ratio:.1f}×"])
    header = ["function", "row", "CPU time", "limit", "elapsed", "CPU time / LightGBM"]
    return f"{len({record.instance for record in records})} repeats\n\n" + markdown_table(header, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=300, help="number of rows, predicted one by one")
    parser.add_argument("--again", action="store_true", help="measure stored repeats again")
    options = parser.parse_args()
    for repeat in [] if options.only_print else range(options.repeats):
        if options.again or repeat not in {record.instance for record in STORE.records()}:
            print(f"repeat {repeat}", flush=True)
            records = in_new_process(measure, repeat, options.rows)
            with STORE.appending() as append:
                for record in records:
                    append(record)
    print(table(STORE.records()))


if __name__ == "__main__":
    main()
