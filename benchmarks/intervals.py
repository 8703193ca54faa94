"""Do AnyMask's intervals keep their coverage when the missingness changes, and how wide are they?

AnyMask is fitted once per table and seed, under the mechanism "train" of the shift suite, and predicts 90%
intervals under its ten mechanisms. Coverage is computed overall and by the number of missing columns, in
groups of at least 200 rows; the standard error of a group of 200 is two points. The baseline is plain split
conformal prediction around the same predictions: one margin for all rows, from the same held-out rows with
the masks that they have. Records are stored as soon as they are complete. King County and air quality are
read from the data folder (STABLEMISS_DATA).

    python benchmarks/intervals.py [--tables house air] [--seeds 0 1] [--only-print]
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from common import make_parser, open_store, write_docs

from stablemiss import AnyMaskRegressor
from stablemiss.data import Bools, Floats
from stablemiss.datasets import load_air_quality, load_house_sales
from stablemiss.estimators.rows import split_rows
from stablemiss.evaluation.regret import TRAIN, ShiftedTable
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance
from stablemiss.seeding import to_rng

STORE = open_store("intervals")
TABLES: dict[str, Callable] = {"house": lambda: load_house_sales(n_features=18), "air": load_air_quality}
COVERAGE = 0.9
MIN_GROUP = 200
OURS, PLAIN = "AnyMask", "split conformal"


def run(name: str, seed: int) -> list[Record]:
    """Fit once, and return a record for each type of interval."""
    data = TABLES[name]()
    table = ShiftedTable(data.X, data.y, is_classification=False, seed=seed)
    X = table.X_train()
    model = AnyMaskRegressor(random_state=seed)
    start = perf_counter()
    model.fit(X, table.y_train)
    fit_seconds = perf_counter() - start
    # The rows that `fit` held out, so that both types of intervals are calibrated on the same rows.
    _, held_out = split_rows(np.zeros(len(X)), model.validation_fraction, to_rng(seed))
    margin = plain_margin(np.abs(model.predict(X[held_out]) - table.y_train[held_out]))
    scores: dict[str, list[Score]] = {OURS: [], PLAIN: []}
    for setting, rows in table.tests(table.mechanisms).X.items():
        start = perf_counter()
        ours = model.predict_interval(rows, COVERAGE)
        seconds = perf_counter() - start
        centre = model.predict(rows)
        plain = np.column_stack([centre - margin, centre + margin])
        n_missing = np.isnan(rows).sum(axis=1)
        for label, bounds in ((OURS, ours), (PLAIN, plain)):
            covered = (bounds[:, 0] <= table.y_test) & (table.y_test <= bounds[:, 1])
            extra = {
                "coverage": float(covered.mean()),
                "width": float(np.diff(bounds).mean()),
                "groups": by_n_missing(covered, n_missing),
            }
            scores[label].append(Score(setting.mechanism, None, None, seconds, extra))
    return [
        Record(
            experiment="intervals",
            dataset=name,
            mechanism=TRAIN,
            level=None,
            instance=seed,
            label=label,
            seed=seed,
            scores=tuple(scores[label]),
            metric="coverage",
            settings={"mechanisms": describe(table.mechanisms)},
            config=describe(model),
            n_rows=len(X),
            n_test_rows=len(table.y_test),
            n_features=X.shape[1],
            fit_seconds=fit_seconds,
            **provenance(),
        )
        for label in (OURS, PLAIN)
    ]


def plain_margin(errors: Floats) -> float:
    """Split conformal: the quantile of the held-out errors, with the correction for the new row."""
    rank = int(np.ceil(COVERAGE * (len(errors) + 1)))
    return float(np.sort(errors)[min(rank, len(errors)) - 1])


def by_n_missing(covered: Bools, n_missing: np.ndarray) -> dict[str, list[int]]:
    """Number of missing columns → number of covered rows, and of all rows."""
    return {
        str(number): [int(covered[n_missing == number].sum()), int((n_missing == number).sum())]
        for number in np.unique(n_missing)
    }


def extremes(groups: list[dict[str, list[int]]]) -> str:
    """Lowest and highest coverage of the groups that are large enough, and the number of groups."""
    shares = [hit / n for group in groups for hit, n in group.values() if n >= MIN_GROUP]
    return f"{min(shares):.3f}–{max(shares):.3f} ({len(shares)})" if shares else "–"


def pooled(groups: list[dict[str, list[int]]]) -> dict[str, list[int]]:
    """The groups of all seeds, by their number of missing columns."""
    numbers = dict.fromkeys(number for group in groups for number in group)
    return {
        number: [sum(group.get(number, [0, 0])[i] for group in groups) for i in (0, 1)] for number in numbers
    }


def table(records: list[Record]) -> str:
    """One row per mechanism, over all seeds; the number of groups in brackets."""
    header = ["mechanism", "coverage", "groups of all seeds", "groups of single seeds", "width"]
    header += ["plain: coverage", "groups of all seeds", "width", "width / plain"]
    rows = []
    for mechanism in [score.mechanism for score in records[0].scores]:
        cells, widths = [mechanism], []
        for label in (OURS, PLAIN):
            results = [
                score.extra
                for record in records
                for score in record.scores
                if (record.label, score.mechanism) == (label, mechanism)
            ]
            groups = [result["groups"] for result in results]
            widths.append(np.mean([result["width"] for result in results]))
            coverage = np.mean([result["coverage"] for result in results])
            cells += [f"{coverage:.3f}", extremes([pooled(groups)])]
            cells += [extremes(groups)] * (label == OURS) + [f"{widths[-1]:.3g}"]
        rows.append([*cells, f"{widths[0] / widths[1]:.2f}"])
    return f"seeds {sorted({record.seed for record in records})}\n\n" + markdown_table(header, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    for seed in [] if options.only_print else options.seeds:
        for name in options.tables:
            if (name, seed) in {(record.dataset, record.seed) for record in STORE.records()}:
                continue
            print(f"{name}, seed {seed}", flush=True)
            records = run(name, seed)
            with STORE.appending() as append:
                for record in records:
                    append(record)
    by_table = {name: [one for one in STORE.records() if one.dataset == name] for name in TABLES}
    tables = [f"{name}, {table(records)}" for name, records in by_table.items() if records]
    print("\n\n".join(tables))
    write_docs("docs/methods/anymask.md", "intervals", "\n\n".join(tables))


if __name__ == "__main__":
    main()
