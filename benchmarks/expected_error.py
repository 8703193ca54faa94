"""Is the error that AnyMask promises the error that comes out, when the missingness changes?

AnyMask is fitted once per table and seed, under the mechanism "train" of the shift suite. For test rows under
its ten mechanisms, the RMSE that `explain_missing` promises, the root of the mean of the squares of "error",
is divided by the RMSE that comes out. "covered" is the share of mechanisms and seeds in which the RMSE is
within the interval from "error_low" to "error_high". King County prices and air quality are read from the
data folder (STABLEMISS_DATA). The synthetic targets have heavy tails: noise with Student's t distribution of
three degrees of freedom, and a log-normal target with a kurtosis of 31, about that of the prices. The number
in the name of a table is the number of rows in `fit`. Records are stored as soon as they are complete.

    python benchmarks/expected_error.py [--tables …] [--seeds 0 1 2] [--only-print]
"""

from __future__ import annotations

import numpy as np
from common import make_parser, open_store, write_docs
from numpy.typing import NDArray

from stablemiss import AnyMaskRegressor
from stablemiss.datasets import load_air_quality, load_house_sales
from stablemiss.evaluation.regret import TRAIN, ShiftedTable
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance

STORE = open_store("expected_error")
# Name of the table → number of rows in `fit`; None means 80% of the table.
TABLES = {
    "house": None,
    "house 2000": 2000,
    "air": None,
    "student t 10000": 10_000,
    "student t 2000": 2000,
    "log-normal 10000": 10_000,
    "log-normal 2000": 2000,
}
N_SYNTHETIC_TEST_ROWS = 20_000
TOLERANCE = 0.15
# Columns of `explain_missing` that are compared with the RMSE.
PROMISED = ("error", "error_low", "error_high")


def draw_heavy_tailed(name: str, n: int, seed: int) -> tuple[NDArray, NDArray]:
    """Eight correlated columns and a non-linear target with a heavy tail."""
    loadings = np.random.default_rng(7).normal(size=(4, 8)) / 2
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) @ loadings + 0.6 * rng.normal(size=(n, 8))
    signal = X[:, 0] + 0.7 * X[:, 1] * (X[:, 2] > 0) + np.sin(2 * X[:, 3]) + 0.5 * X[:, 4]
    # Standardised, so that the tail of the target is that of its distribution.
    signal = (signal - signal.mean()) / signal.std()
    if name.startswith("student t"):
        return X, signal + rng.standard_t(3, size=n)
    return X, np.exp(0.6 * signal + 0.5 * rng.normal(size=n))


def load(name: str, seed: int) -> ShiftedTable:
    """The table, split into training and test rows."""
    n_train = TABLES[name]
    if name.startswith(("house", "air")):
        table = load_house_sales(n_features=18) if name.startswith("house") else load_air_quality()
        test_size = 0.2 if n_train is None else 1 - n_train / len(table.X)
        return ShiftedTable(table.X, table.y, is_classification=False, seed=seed, test_size=test_size)
    assert n_train is not None
    X, y = draw_heavy_tailed(name, n_train + N_SYNTHETIC_TEST_ROWS, seed)
    test_size = N_SYNTHETIC_TEST_ROWS / len(X)
    return ShiftedTable(X, y, is_classification=False, seed=seed, test_size=test_size)


def run(name: str, seed: int) -> Record:
    """Fit once, and compare promised and actual errors under all mechanisms."""
    table = load(name, seed)
    X = table.X_train()
    model = AnyMaskRegressor(random_state=seed).fit(X, table.y_train)
    scores = []
    for setting, rows in table.tests(table.mechanisms).X.items():
        rmse = root_mean_square(model.predict(rows) - table.y_test)
        explanation = model.explain_missing(rows)
        promised = {column: root_mean_square(explanation[column]) for column in PROMISED}
        scores.append(Score(setting.mechanism, None, rmse, None, promised))
    return Record(
        experiment="expected_error",
        dataset=name,
        mechanism=TRAIN,
        level=None,
        instance=seed,
        label="AnyMask",
        seed=seed,
        scores=tuple(scores),
        settings={"mechanisms": describe(table.mechanisms)},
        config=describe(model),
        n_rows=len(X),
        n_test_rows=len(table.y_test),
        n_features=X.shape[1],
        extra={"validation_rmse": model.validation_loss_},
        **provenance(),
    )


def root_mean_square(numbers: NDArray) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))


def table(records: list[Record]) -> str:
    """Promised divided by actual RMSE: lowest and highest over the seeds; one column per table."""
    names = [name for name in TABLES if any(record.dataset == name for record in records)]
    by_name = {name: [record for record in records if record.dataset == name] for name in names}
    rows = []
    for number, mechanism in enumerate(score.mechanism for score in records[0].scores):
        ratios = [
            [one.scores[number].extra["error"] / one.scores[number].error for one in by_name[name]]
            for name in names
        ]
        rows.append([mechanism, *(f"{min(values):.2f}–{max(values):.2f}" for values in ratios)])
    scores = {name: [score for record in by_name[name] for score in record.scores] for name in names}
    close = {
        name: np.mean([abs(s.extra["error"] / s.error - 1) <= TOLERANCE for s in scores[name]])
        for name in names
    }
    covered = {
        name: np.mean([s.extra["error_low"] <= s.error <= s.extra["error_high"] for s in scores[name]])
        for name in names
    }
    width = {
        name: np.mean([s.extra["error_high"] / s.extra["error"] - 1 for s in scores[name]]) for name in names
    }
    rows.append(["within 15%", *(f"{close[name]:.0%}" for name in names)])
    rows.append(["covered", *(f"{covered[name]:.0%}" for name in names)])
    rows.append(["upper bound / promised", *(f"+{width[name]:.0%}" for name in names)])
    header = ["mechanism", *(f"{name} ({len(by_name[name])})" for name in names)]
    return markdown_table(header, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    for seed in [] if options.only_print else options.seeds:
        for name in options.tables:
            if (name, seed) in {(record.dataset, record.seed) for record in STORE.records()}:
                continue
            print(f"{name}, seed {seed}", flush=True)
            record = run(name, seed)
            with STORE.appending() as append:
                append(record)
    text = table(STORE.records())
    print(text)
    write_docs("docs/methods/anymask.md", "expected_error", text)


if __name__ == "__main__":
    main()
