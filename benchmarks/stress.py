"""How long does a stress test take?

A fitted HistGradientBoostingRegressor is tested on 20,000 rows and 20 columns under all default mechanisms at
nine levels, without each column and without pairs of columns. The time is compared with that of predicting as
many tables of the same rows without missing values, and the memory with that of the table. A second table has
500 columns.

    python benchmarks/stress.py [--jobs 1]
"""

from __future__ import annotations

import argparse
import tracemalloc
from time import perf_counter

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from stablemiss import stress_test

# The longest time and the largest memory, as a multiple of the table, that we accept for the first table.
MAX_SECONDS, MAX_MEMORY = 60.0, 3.0


def measure(n: int, d: int, jobs: int) -> None:
    """Print the time and memory of the stress test of a table of this size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.nan_to_num(X) @ rng.normal(size=d) + rng.normal(size=n)
    with threadpool_limits(1):
        model = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    start = perf_counter()
    result = stress_test(model, X, y, n_jobs=jobs)
    seconds = perf_counter() - start
    n_settings = len(result.scores)
    n_losses = 1 + d + len(result.pairs)
    only_predicting = n_settings * predict_seconds(model, X[: result.n_rows])
    only_predicting += n_losses * predict_seconds(model, X[: result.n_column_rows])
    ratio = seconds / only_predicting
    print(
        f"{n:,} x {d}: {seconds:.1f} s for {n_settings} settings and the loss of {n_losses - 1} columns and "
        f"pairs on {result.n_rows:,} and {result.n_column_rows:,} rows; {ratio:.1f} times as long as only "
        f"predicting; page of {len(result.to_html()) / 1e6:.2f} MB"
    )
    tracemalloc.start()
    stress_test(model, X, y, mechanisms=["MCAR", "MAR", "MNAR"], levels=[0.5])
    memory = tracemalloc.get_traced_memory()[1] / X.nbytes
    tracemalloc.stop()
    print(f"    peak memory {memory:.1f} times the table")
    if d == 20 and (seconds > MAX_SECONDS or memory > MAX_MEMORY):
        raise SystemExit(f"more than {MAX_SECONDS:.0f} s or {MAX_MEMORY:.0f} times the table")


def predict_seconds(model: HistGradientBoostingRegressor, X: np.ndarray) -> float:
    """Median time to predict a table with one thread, as in the stress test of tables of this size."""
    times = []
    with threadpool_limits(1):
        for _ in range(5):
            start = perf_counter()
            model.predict(X)
            times.append(perf_counter() - start)
    return float(np.median(times))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    measure(20_000, 20, arguments.jobs)
    measure(2_000, 500, arguments.jobs)
