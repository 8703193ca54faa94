"""Lengths of intervals for rows with missing values, compared with the shortest possible ones.

The synthetic benchmark of Zaffran et al. (Conformal Prediction with Missing Values, ICML 2023): ten Gaussian
columns with correlation 0.8 and mean 1, y = βᵀx + noise of variance one, a fifth of the values missing
completely at random, 500 training and 250 calibration rows. The shortest intervals with coverage 90% are
known for each of the 1,024 masks. Coverage and length are measured for each number of missing columns, on
masks drawn uniformly among those of that size.

- AnyMask: fitted to the 750 rows, of which it holds out a third for calibration.
- CP-MDA-Exact and CP-MDA-Nested: conformalised quantile regression with the authors' two ways of masking
  calibration rows like the test row. Quantiles are linear in the columns, imputed by chained regressions, and
  in the mask. Exact uses the calibration rows whose missing columns are all missing in the test row; Nested
  uses all, and predicts the test row under each of their masks too.

    python benchmarks/interval_lengths.py [--repeats 50] [--methods …] [--only-print]
"""

from __future__ import annotations

import warnings
from time import process_time
from typing import Any

import numpy as np
from common import make_parser, open_store, run_pending, write_docs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import QuantileRegressor

from stablemiss import AnyMaskRegressor
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import provenance

STORE = open_store("interval_lengths")
BETA = np.array([1, 2, -1, 3, -0.5, -1, 0.3, 1.7, 0.4, -0.3])
D, CORRELATION, MEAN, SHARE_MISSING = len(BETA), 0.8, 1.0, 0.2
COVARIANCE = CORRELATION * np.ones((D, D)) + (1 - CORRELATION) * np.eye(D)
N_TRAIN, N_CALIBRATION, N_TEST_PER_SIZE = 500, 250, 100
COVERAGE, NORMAL_QUANTILE = 0.9, 1.6448536269514722
METHODS = ("AnyMask", "AnyMask, fast", "CP-MDA-Exact", "CP-MDA-Nested")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def draw(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    X = MEAN + rng.normal(size=(n, D)) @ np.linalg.cholesky(COVARIANCE).T
    return X, X @ BETA + rng.normal(size=n)


def oracle_length(observed: Bools) -> float:
    """Length of the shortest interval under a mask."""
    o, m = np.flatnonzero(observed), np.flatnonzero(~observed)
    cross = COVARIANCE[np.ix_(m, o)]
    within = COVARIANCE[np.ix_(m, m)] - cross @ np.linalg.solve(COVARIANCE[np.ix_(o, o)], cross.T)
    return 2 * NORMAL_QUANTILE * float(np.sqrt(1 + BETA[m] @ within @ BETA[m]))


def test_masks(rng: np.random.Generator) -> Bools:
    """True = observed; as many rows with each number of missing columns."""
    ranks = rng.random(((D + 1) * N_TEST_PER_SIZE, D)).argsort(axis=1).argsort(axis=1)
    return ranks >= np.repeat(np.arange(D + 1), N_TEST_PER_SIZE)[:, None]


class QuantileRegression:
    """Linear quantile regression on imputed columns and the mask, as the basis of CP-MDA."""

    def __init__(self, X: Floats, y: Floats):
        self.imputer = IterativeImputer(random_state=0).fit(X)
        features = self._features(X)
        self.models = [
            QuantileRegressor(quantile=quantile, alpha=0, solver="highs").fit(features, y)
            for quantile in ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
        ]

    def predict(self, X: Floats) -> Floats:
        """Lower and upper quantile, (n, 2)."""
        features = self._features(X)
        return np.column_stack([model.predict(features) for model in self.models])

    def predict_parts(self, parts: list[Floats]) -> list[Floats]:
        """`predict` for each of several tables; one call for many of them is much faster."""
        results: list[Floats] = []
        for start in range(0, len(parts), N_TEST_PER_SIZE):
            some = parts[start : start + N_TEST_PER_SIZE]
            ends = np.cumsum([len(part) for part in some])[:-1]
            results += np.split(self.predict(np.concatenate(some)), ends)
        return results

    def _features(self, X: Floats) -> Floats:
        return np.column_stack([self.imputer.transform(X), np.isnan(X)])


def cp_mda(X: Floats, y: Floats, X_test: Floats, nested: bool) -> Floats:
    """Intervals of CP-MDA around quantile regression, (n, 2)."""
    quantiles = QuantileRegression(X[:N_TRAIN], y[:N_TRAIN])
    X_calibration, y_calibration = X[N_TRAIN:], y[N_TRAIN:]
    is_missing = np.isnan(X_calibration)
    used = [
        np.ones(len(is_missing), dtype=bool) if nested else ~(is_missing & ~np.isnan(row)).any(axis=1)
        for row in X_test
    ]
    # Calibration rows without what is missing in the test row; for Nested, also the test row without what is
    # missing in each of them.
    bounds = quantiles.predict_parts(
        [np.where(np.isnan(row), np.nan, X_calibration[own]) for row, own in zip(X_test, used, strict=True)]
    )
    views = quantiles.predict_parts(
        [
            np.where(is_missing[own], np.nan, row) if nested else row[None]
            for row, own in zip(X_test, used, strict=True)
        ]
    )
    intervals = np.tile([-np.inf, np.inf], (len(X_test), 1))
    for number, own in enumerate(used):
        low, high = bounds[number].T
        scores = np.maximum(low - y_calibration[own], y_calibration[own] - high)
        rank = int(np.ceil(COVERAGE * (len(scores) + 1)))
        if rank <= len(scores):
            lower = np.sort(scores - views[number][:, 0])[rank - 1]
            upper = np.sort(views[number][:, 1] + scores)[rank - 1]
            intervals[number] = -lower, upper
    return intervals


def make_record(label: str, repeat: int, **fields: Any) -> Record:
    return Record("interval lengths", "zaffran", "mcar", SHARE_MISSING, repeat, label, seed=repeat, **fields)


def measure(label: str, repeat: int) -> Record:
    """One draw of training and test rows: coverage and length for each number of missing columns."""
    rng = np.random.default_rng([repeat, 2023])
    X, y = draw(N_TRAIN + N_CALIBRATION, rng)
    X[rng.random(X.shape) < SHARE_MISSING] = np.nan
    observed = test_masks(rng)
    X_test, y_test = draw(len(observed), rng)
    X_test[~observed] = np.nan
    start = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if label.startswith("AnyMask"):
            held_out = N_CALIBRATION / (N_TRAIN + N_CALIBRATION)
            budget = "fast" if "fast" in label else "default"
            model = AnyMaskRegressor(budget=budget, validation_fraction=held_out, random_state=repeat)
            intervals = model.fit(X, y).predict_interval(X_test, COVERAGE)
        else:
            intervals = cp_mda(X, y, X_test, nested=label.endswith("Nested"))
    seconds = process_time() - start
    low, high = intervals.T
    covered, length = (low <= y_test) & (y_test <= high), high - low
    oracle = np.array([oracle_length(mask) for mask in observed])
    n_missing = (~observed).sum(axis=1)
    scores = []
    for size in range(D + 1):
        rows = n_missing == size
        is_finite = np.isfinite(length[rows])
        extra = {
            "coverage": float(covered[rows].mean()),
            "finite": float(is_finite.mean()),
            "length": float(length[rows][is_finite].sum() / oracle[rows][is_finite].sum())
            if is_finite.any()
            else None,
        }
        scores.append(Score(f"{size} missing", None, None, None, extra))
    return make_record(
        label,
        repeat,
        scores=tuple(scores),
        metric="coverage",
        n_rows=len(y),
        n_test_rows=len(y_test),
        n_features=D,
        extra={"cpu_seconds": seconds},
        **provenance(),
    )


def table(records: list[Record]) -> str:
    """Coverage and length relative to the shortest possible, for each number of missing columns."""
    sizes = [f"{size} missing" for size in range(D + 1)]
    rows = []
    for label in METHODS:
        own = [record for record in records if record.label == label]
        if not own:
            continue
        by_size = {
            size: [score.extra for record in own for score in record.scores if score.mechanism == size]
            for size in sizes
        }
        coverage = [np.mean([one["coverage"] for one in values]) for values in by_size.values()]
        rows.append([f"{label}: coverage", *(f"{value:.3f}" for value in coverage)])
        cells = []
        for values in by_size.values():
            finite = np.mean([one["finite"] for one in values])
            lengths = [one["length"] for one in values if one["length"] is not None]
            shown = f"{np.mean(lengths):.2f}" if lengths else "–"
            cells.append(shown if finite == 1 else f"{shown} ({1 - finite:.0%} infinite)")
        rows.append([f"{label}: length", *cells])
    seconds = {
        label: [one.extra["cpu_seconds"] for one in records if one.label == label] for label in METHODS
    }
    times = "; ".join(
        f"{label} {len(values)}, {np.median(values):.1f} s" for label, values in seconds.items() if values
    )
    text = (
        "Length relative to the shortest possible. Number of repeats, and processor time of one (median): "
        f"{times}."
    )
    return f"{text}\n\n{markdown_table(['', *sizes], rows)}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    jobs = [(label, repeat) for repeat in range(options.repeats) for label in options.methods]
    if not options.only_print:
        run_pending(STORE, jobs, lambda job: make_record(*job).key, lambda job: measure(*job))
    text = table(STORE.records())
    print(text)
    write_docs("docs/methods/anymask.md", "interval lengths", text)


if __name__ == "__main__":
    main()
