"""All methods compared: accuracy where the best possible error is known, time, memory and size.

Three settings, each trained and tested at 50% missing on 16,384 rows of 50 columns: Gaussian-Mix under MAR,
Gaussian under MCAR windows, Gaussian-Ind under independent MCAR. Each fit runs in a new process. Each
record is stored as soon as it is complete; a stopped run continues from them.

    python benchmarks/methods.py [--methods …] [--settings …] [--seeds 0 1 2] [--only-print]
"""

from __future__ import annotations

import os
from time import perf_counter
from typing import Any

import numpy as np
import torch
from common import in_new_process, make_parser, open_store, run_pending, write_docs
from sklearn.metrics import root_mean_squared_error
from threadpoolctl import threadpool_limits

from stablemiss import MissingRegressor
from stablemiss.experiments.problem import POPULATIONS
from stablemiss.methods import METHODS
from stablemiss.missingness import MECHANISMS
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, peak_memory, provenance
from stablemiss.torch_state import torch_threads

STORE = open_store("methods")
SETTINGS = {
    "Gaussian-Mix, MAR": ("gaussian_mix", "mar"),
    "Gaussian, MCAR": ("gaussian", "mcar_window"),
    "Gaussian-Ind, MCAR-Ind": ("gaussian_ind", "mcar_independent"),
}
N_ROWS, N_TEST_ROWS, N_COLUMNS, LEVEL = 16_384, 8_192, 50, 0.5


def make_record(setting: str, name: str, seed: int, **fields: Any) -> Record:
    dataset, mechanism = SETTINGS[setting]
    return Record("methods", dataset, mechanism, LEVEL, seed, name, seed=seed, **fields)


def measure(setting: str, name: str, seed: int) -> Record:
    """Fit one method once; to be called in a new process."""
    dataset, mechanism_name = SETTINGS[setting]
    population = POPULATIONS[dataset](random_state=seed)
    train_rng, test_rng = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
    X, y = population.draw(N_ROWS, train_rng)
    mechanism = MECHANISMS[mechanism_name](LEVEL).fit(X, train_rng)
    masked = mechanism.hide(X, train_rng)
    X_test, y_test = population.draw(N_TEST_ROWS, test_rng)
    masked_test = mechanism.hide(X_test, test_rng)
    best = root_mean_squared_error(population.bayes(masked_test), y_test)
    model = MissingRegressor(name, random_state=seed, on_unseen_missing="ignore")
    # With one thread, times of methods are comparable while other processes are running.
    with threadpool_limits(1), torch_threads(1):
        before = peak_memory()
        start = perf_counter()
        model.fit(masked, y)
        fit_seconds = perf_counter() - start
        memory = peak_memory() - before
        start = perf_counter()
        prediction = model.predict(masked_test)
        predict_seconds = perf_counter() - start
    n_train = round(N_ROWS * (1 - model.validation_fraction))
    history = getattr(model.predictor_, "history", [])
    error = root_mean_squared_error(prediction, y_test)
    return make_record(
        setting,
        name,
        seed,
        scores=(Score(mechanism_name, LEVEL, error, predict_seconds, {"optimal": best}),),
        config=describe(METHODS[name]()),
        n_rows=N_ROWS,
        n_test_rows=N_TEST_ROWS,
        n_features=N_COLUMNS,
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        peak_memory=memory,
        extra={
            "n_numbers": count_parameters(model.predictor_.state()),
            "n_epochs": sum(len(stage.losses) for stage in history),
            "bare_epoch_seconds": seconds_of_products(name, n_train),
            "n_cpus": os.cpu_count(),
            "load": os.getloadavg()[0],
        },
        **provenance(),
    )


def count_parameters(state: Any) -> int:
    """Number of parameters in the state of a predictor; for trees, their thresholds and leaf values."""
    if isinstance(state, dict):
        return sum(map(count_parameters, state.values()))
    if isinstance(state, list | tuple):
        return sum(map(count_parameters, state))
    if isinstance(state, str):
        lines = [line for line in state.splitlines() if line.startswith(("threshold=", "leaf_value="))]
        return sum(line.count(" ") + 1 for line in lines)
    return state.size if isinstance(state, np.ndarray) else 0


def seconds_of_products(name: str, n_rows: int) -> float | None:
    """Seconds of the matrix products alone in one epoch of NeuMiss: three for each term and batch."""
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


def accuracy(records: list[Record]) -> str:
    """Gap to the optimal error, relative to it: mean and range over seeds."""
    rows = []
    for name in METHODS:
        cells = [name]
        for dataset, _ in SETTINGS.values():
            scores = [one.scores[0] for one in records if (one.label, one.dataset) == (name, dataset)]
            gaps = [score.error / score.extra["optimal"] - 1 for score in scores]
            cells.append(
                f"{np.mean(gaps):.1%} ({min(gaps):.1%} to {max(gaps):.1%}; {len(gaps)})" if gaps else "–"
            )
        if set(cells[1:]) != {"–"}:
            rows.append(cells)
    return markdown_table(["method", *SETTINGS], rows)


def costs(records: list[Record]) -> str:
    """Cost of a fit to Gaussian-Mix under MAR, first seed."""
    by_method = {one.label: one for one in records if (one.dataset, one.seed) == ("gaussian_mix", 0)}
    rows = [
        [
            name,
            f"{by_method[name].fit_seconds:.1f} s",
            f"{by_method[name].extra['n_epochs']}",
            f"{1e6 * by_method[name].predict_seconds / N_TEST_ROWS:.0f} µs",
            f"{by_method[name].peak_memory / 2**20:,.0f} MiB",
            f"{by_method[name].extra['n_numbers']:,}",
        ]
        for name in METHODS
        if name in by_method
    ]
    return markdown_table(["method", "fit", "epochs", "predict a row", "memory of fit", "parameters"], rows)


def neumiss_ratio(records: list[Record]) -> str:
    """Time of an epoch of NeuMiss compared with that of its matrix products."""
    fits = [one for one in records if (one.label, one.dataset) == ("neumiss", "gaussian_mix")]
    if not fits:
        return ""
    epochs = [fit.fit_seconds / fit.extra["n_epochs"] for fit in fits]
    ratios = [epoch / fit.extra["bare_epoch_seconds"] for epoch, fit in zip(epochs, fits, strict=True)]
    return (
        f"NeuMiss: an epoch takes {np.median(epochs):.2f} s, {np.median(ratios):.1f} times its bare matrix "
        "products in the same run."
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    jobs = [
        (setting, name, seed)
        for seed in options.seeds
        for setting in options.settings
        for name in options.methods
    ]
    if not options.only_print:
        run_pending(STORE, jobs, lambda job: make_record(*job).key, lambda job: in_new_process(measure, *job))
    records = STORE.records()
    text = [accuracy(records), costs(records), neumiss_ratio(records)]
    print("\n\n".join(text))
    for name, block in zip(("accuracy", "costs", "neumiss"), text, strict=True):
        write_docs("docs/methods/README.md", name, block)


if __name__ == "__main__":
    main()
