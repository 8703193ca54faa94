"""How often `diagnose` finds a shift, names it, and raises a false alarm, over many simulations.

500 reference rows and 500 current rows of ten correlated columns, of which 30% are missing completely at
random (the first column is complete). Each scenario changes one thing in the current rows; three more change
nothing in tables of another kind. Beside it, on the
same rows: a classifier on raw rows as drift monitors use it (LightGBM, cross-validated in five folds, alarm
above an area under the ROC curve of 0.65), which cannot say what moved.

    python benchmarks/shift_power.py [--simulations 500] [--only-print]
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from common import make_parser, open_store, run_pending, write_docs
from joblib import Parallel, delayed
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from stablemiss import diagnose
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import provenance

STORE = open_store("shift_power")
N_ROWS, N_COLUMNS, RATE = 500, 10, 0.3
# Alarm of monitors that use a classifier.
AUC_ALARM = 0.65
# Simulations of one record.
CHUNK = 100
# Changes of values (n, d) and of what is missing (n, d) of the current rows, in place.
Change = Callable[[NDArray, NDArray, np.random.Generator], None]


def nothing(values: NDArray, missing: NDArray, rng: np.random.Generator) -> None:
    pass


def rate_45(values: NDArray, missing: NDArray, rng: np.random.Generator) -> None:
    missing[:, 3] = rng.random(N_ROWS) < 0.45


def rate_40(values: NDArray, missing: NDArray, rng: np.random.Generator) -> None:
    missing[:, 3] = rng.random(N_ROWS) < 0.40


def pair(values: NDArray, missing: NDArray, rng: np.random.Generator) -> None:
    """Half of the rows lose both columns or none."""
    missing[:, 5] = np.where(rng.random(N_ROWS) < 0.5, missing[:, 2], missing[:, 5])


def driver(values: NDArray, missing: NDArray, rng: np.random.Generator) -> None:
    """The missing rate stays 30%, but rises with the value of the first column."""
    missing[:, 4] = rng.random(N_ROWS) < 1 / (1 + np.exp(0.97 - 1.1 * values[:, 0]))


def value(values: NDArray, missing: NDArray, rng: np.random.Generator) -> None:
    values[:, 1] += 0.5


def all_values(values: NDArray, missing: NDArray, rng: np.random.Generator) -> None:
    values += 0.5


def draw_driven(seed: int) -> tuple[NDArray, NDArray]:
    """Missingness depends on the first column, before and now."""
    tables = draw(nothing, seed)
    rng = np.random.default_rng([seed, 1])
    for table in tables:
        table[rng.random(N_ROWS) < 1 / (1 + np.exp(1 - 1.5 * table[:, 0])), 4] = np.nan
    return tables


def draw_rare(seed: int) -> tuple[NDArray, NDArray]:
    """5,000 and 200 rows, 2% missing; half of the columns are categories, some of them rare."""
    rng = np.random.default_rng(seed)
    tables = []
    for n in (5000, 200):
        values = rng.normal(size=(n, N_COLUMNS))
        values[:, ::2] = rng.choice(4, size=(n, N_COLUMNS // 2), p=[0.6, 0.35, 0.045, 0.005])
        tables.append(np.where(rng.random(values.shape) < 0.02, np.nan, values))
    return tables[0], tables[1]


def draw_runs(seed: int) -> tuple[NDArray, NDArray]:
    """2,000 rows each, in which columns are missing for 25 rows at a time."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(2):
        dark = np.repeat(rng.random((80, N_COLUMNS)) < 0.2, 25, axis=0)
        tables.append(np.where(dark, np.nan, rng.normal(size=dark.shape)))
    return tables[0], tables[1]


# Scenarios without any change, in which alarms would be false.
UNCHANGED: dict[str, Callable[[int], tuple[NDArray, NDArray]]] = {
    "nothing; driven by a value": draw_driven,
    "nothing; rare, unequal sizes": draw_rare,
    "nothing; missing in runs of rows": draw_runs,
}
# Scenario → change, kind and columns of the finding that names it, and whether masks and values moved.
SCENARIOS: dict[str, tuple[Change, str | None, tuple[str, ...], bool, bool]] = {
    "nothing changed": (nothing, None, (), False, False),
    "rate 30% → 45%": (rate_45, "rate", ("3",), True, False),
    "rate 30% → 40%": (rate_40, "rate", ("3",), True, False),
    "missing together, equal rates": (pair, "pair", ("2", "5"), True, False),
    "driven by a value, equal rates": (driver, "link", ("4", "0"), True, False),
    "values of one column": (value, "value", ("1",), False, True),
    "values of all columns": (all_values, None, (), False, True),
}


def draw(change: Change, seed: int) -> tuple[NDArray, NDArray]:
    """Reference and current rows."""
    rng = np.random.default_rng(seed)
    tables = []
    for is_current in (False, True):
        values = np.sqrt(0.5) * (rng.normal(size=(N_ROWS, 1)) + rng.normal(size=(N_ROWS, N_COLUMNS)))
        missing = rng.random(values.shape) < RATE
        missing[:, 0] = False
        if is_current:
            change(values, missing, rng)
        tables.append(np.where(missing, np.nan, values))
    return tables[0], tables[1]


def simulate(scenario: str, seed: int) -> dict[str, bool]:
    """What was found in one simulation."""
    change, kind, columns, masks_moved, values_moved = SCENARIOS.get(
        scenario, (nothing, None, (), False, False)
    )
    reference, current = UNCHANGED[scenario](seed) if scenario in UNCHANGED else draw(change, seed)
    result = diagnose(reference, current, random_state=seed)
    masks, values = result.verdict == "shift", result.values_verdict == "shift"
    findings = [finding for finding in result.findings if finding.kind == kind]
    rows = np.concatenate([reference, current])
    labels = np.repeat([0, 1], [len(reference), len(current)])
    model = LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1, random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    scores = cross_val_predict(model, _frame(rows), labels, cv=folds, method="predict_proba")[:, 1]
    return {
        "masks": masks,
        "values": values,
        "named": bool(findings) and findings[0].columns == columns,
        "right": (masks, values) == (masks_moved, values_moved),
        "classifier": bool(roc_auc_score(labels, scores) > AUC_ALARM),
    }


def _frame(rows: NDArray) -> object:
    """With column names, because LightGBM's estimator warns without them."""
    import pandas

    return pandas.DataFrame(rows, columns=[str(j) for j in range(rows.shape[1])])


def run(job: tuple[str, int]) -> Record:
    scenario, chunk = job
    start = perf_counter()
    seeds = range(CHUNK * chunk, CHUNK * (chunk + 1))
    outcomes = Parallel(n_jobs=2)(delayed(simulate)(scenario, seed) for seed in seeds)
    counts = {name: sum(outcome[name] for outcome in outcomes) for name in outcomes[0]}
    return Record(
        experiment="shift_power",
        dataset=scenario,
        mechanism="mcar_independent",
        level=RATE,
        instance=chunk,
        label="diagnose",
        seed=seeds[0],
        scores=(Score("current", None, None, None, {**counts, "simulations": CHUNK}),),
        metric="count",
        n_rows=N_ROWS,
        n_features=N_COLUMNS,
        seconds=perf_counter() - start,
        **provenance(),
    )


def best_possible(rate: float) -> float:
    """Power of a test of the changed column alone, at the level that remains for one of ten columns."""
    spread = np.sqrt(RATE * (1 - RATE) / N_ROWS + rate * (1 - rate) / N_ROWS)
    return float(norm.cdf((rate - RATE) / spread - norm.isf(0.05 / N_COLUMNS / 2)))


def table(records: list[Record]) -> str:
    """Shares of the simulations, one row per scenario."""
    rows = []
    for scenario in (*SCENARIOS, *UNCHANGED):
        scores = [record.scores[0].extra for record in records if record.dataset == scenario]
        if not scores:
            continue
        n = sum(score["simulations"] for score in scores)
        share = {name: sum(score[name] for score in scores) / n for name in scores[0]}
        is_named = scenario in SCENARIOS and SCENARIOS[scenario][1] is not None
        named = f"{share['named']:.1%}" if is_named else ""
        cells = [f"{share[name]:.1%}" for name in ("masks", "values", "right", "classifier")]
        rows.append([scenario, f"{n:,}", cells[0], cells[1], named, cells[2], cells[3]])
    header = [
        "changed",
        "simulations",
        "masks shifted",
        "values moved",
        "right one named first",
        "both verdicts right",
        "classifier alarms",
    ]
    return markdown_table(header, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--simulations", type=int, default=500, help="of each scenario, in hundreds")
    options = parser.parse_args()
    if not options.only_print:
        names = (*SCENARIOS, *UNCHANGED)
        jobs = [(name, chunk) for chunk in range(options.simulations // CHUNK) for name in names]
        run_pending(
            STORE, jobs, lambda job: f"shift_power {job[0]} mcar_independent {RATE} {job[1]} diagnose", run
        )
    text = table(STORE.records())
    print(text)
    print(f"Best possible power for 30% → 40% after correction for ten columns: {best_possible(0.4):.2f}")
    write_docs("docs/diagnose.md", "power", text)


if __name__ == "__main__":
    main()
