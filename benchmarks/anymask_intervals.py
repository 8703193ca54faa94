"""Do AnyMask's intervals cover what they say when the missingness changes, and how wide are they?

Fitted once per table and seed, under the train mechanism of the shift suite, and asked for intervals of 90% under
its ten mechanisms. Coverage is counted overall and by the number of missing columns, in groups of at least 200
rows; a group of 200 is uncertain by ±2 points. Beside it stands plain split conformal prediction around the
same predictions: one margin for all rows, from the same held-out rows under the masks that these have. Runs
are stored line by line; what is there is not run again. King County and air quality are read from the data
folder (STABLEMISS_DATA).

    python benchmarks/anymask_intervals.py [--tables house air] [--seeds 0 1] [--budget …] [--only-print]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from pages import fill
from rows import add, stored
from sklearn.model_selection import train_test_split

from stablemiss import AnyMaskRegressor
from stablemiss.data import Bools, Floats
from stablemiss.datasets import load_air_quality, load_house_sales
from stablemiss.estimators.rows import split_rows
from stablemiss.evaluation.provenance import describe, versions
from stablemiss.evaluation.suite import TRAIN_MECHANISM, shift_suite
from stablemiss.seeding import to_rng

RESULTS = Path(__file__).parent / "results" / "anymask_intervals.jsonl"
TABLES: dict[str, Callable] = {"house": lambda: load_house_sales(n_features=18), "air": load_air_quality}
COVERAGE = 0.9
ENOUGH_ROWS = 200
OURS, PLAIN = "AnyMask", "split conformal"


def run(table: str, seed: int, budget: Any) -> list[dict]:
    """One fit, and a row for each mechanism and kind of interval."""
    data = TABLES[table]()
    X, y = data.X, data.y
    # The same split, mechanisms and holes as in the benchmark of regret.
    split_seed, mechanism_seed, train_seed, test_seed = np.random.SeedSequence(seed).spawn(4)
    train, test = train_test_split(
        np.arange(len(X)), test_size=0.2, random_state=int(split_seed.generate_state(1)[0])
    )
    mechanisms = shift_suite(X[train], y[train], np.random.default_rng(mechanism_seed))
    X_train = mechanisms[TRAIN_MECHANISM].hide(X[train], np.random.default_rng(train_seed))
    model = AnyMaskRegressor(budget=budget, random_state=seed)
    start = perf_counter()
    model.fit(X_train, y[train])
    fit_seconds = perf_counter() - start
    # The rows that the fit has held out, so that both kinds of intervals learn from the same ones.
    _, held_out = split_rows(np.zeros(len(train)), model.validation_fraction, to_rng(seed))
    margin = plain_margin(np.abs(model.predict(X_train[held_out]) - y[train][held_out]))
    rows = []
    for name, mechanism in mechanisms.items():
        hidden = mechanism.hide(X[test], np.random.default_rng(test_seed))
        start = perf_counter()
        ours = model.predict_interval(hidden, COVERAGE)
        seconds = perf_counter() - start
        middle = model.predict(hidden)
        plain = np.column_stack([middle - margin, middle + margin])
        n_missing = np.isnan(hidden).sum(axis=1)
        for kind, bounds in ((OURS, ours), (PLAIN, plain)):
            covered = (bounds[:, 0] <= y[test]) & (y[test] <= bounds[:, 1])
            rows.append(
                {
                    "dataset": table,
                    "mechanism": name,
                    "mechanism_config": describe(mechanism),
                    "intervals": kind,
                    "coverage": float(covered.mean()),
                    "width": float(np.diff(bounds).mean()),
                    "groups": by_number(covered, n_missing),
                    "seed": seed,
                    "budget": budget,
                    "config": describe(model),
                    "n_rows": len(train),
                    "n_test_rows": len(test),
                    "fit_seconds": fit_seconds,
                    "predict_seconds": seconds,
                    "versions": versions(),
                    "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                }
            )
    return rows


def plain_margin(errors: Floats) -> float:
    """Split conformal: the error that enough of the held-out rows and the new one stay below."""
    rank = int(np.ceil(COVERAGE * (len(errors) + 1)))
    return float(np.sort(errors)[min(rank, len(errors)) - 1])


def by_number(covered: Bools, n_missing: np.ndarray) -> dict[str, list[int]]:
    """Number of missing columns → how many of its rows are covered, and how many there are."""
    return {
        str(number): [int(covered[n_missing == number].sum()), int((n_missing == number).sum())]
        for number in np.unique(n_missing)
    }


def extremes(groups: list[dict[str, list[int]]]) -> str:
    """Lowest and highest coverage of the groups that are large enough."""
    shares = [hit / n for group in groups for hit, n in group.values() if n >= ENOUGH_ROWS]
    return f"{min(shares):.3f}–{max(shares):.3f} ({len(shares)})" if shares else "–"


def pooled(groups: list[dict[str, list[int]]]) -> dict[str, list[int]]:
    """The groups of all seeds that miss as many columns, as one."""
    numbers = dict.fromkeys(number for group in groups for number in group)
    return {
        number: [sum(group.get(number, [0, 0])[place] for group in groups) for place in (0, 1)]
        for number in numbers
    }


def table(rows: list[dict], name: str, budget: str) -> str:
    """One line per mechanism, over all seeds; the number of groups in brackets."""
    rows = [row for row in rows if row["dataset"] == name and row["budget"] == budget]
    heads = ["mechanism", "coverage", "groups of all seeds", "groups of single seeds", "width"]
    heads += ["plain: coverage", "groups of all seeds", "width", "width / plain"]
    lines = [heads, ["---"] * len(heads)]
    for mechanism in dict.fromkeys(row["mechanism"] for row in rows):
        cells, widths = [mechanism], []
        for kind in (OURS, PLAIN):
            own = [row for row in rows if row["mechanism"] == mechanism and row["intervals"] == kind]
            groups = [row["groups"] for row in own]
            widths.append(np.mean([row["width"] for row in own]))
            cells += [f"{np.mean([row['coverage'] for row in own]):.3f}", extremes([pooled(groups)])]
            cells += [extremes(groups)] * (kind == OURS) + [f"{widths[-1]:.3g}"]
        lines.append([*cells, f"{widths[0] / widths[1]:.2f}"])
    seeds = sorted({row["seed"] for row in rows})
    return f"seeds {seeds}\n\n" + "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--budget", choices=["fast", "default", "best"], default="default")
    parser.add_argument("--only-print", action="store_true", help="fit nothing, print what is stored")
    options = parser.parse_args()
    for seed in [] if options.only_print else options.seeds:
        for name in options.tables:
            done = {(row["dataset"], row["seed"], row["budget"]) for row in stored(RESULTS)}
            if (name, seed, options.budget) in done:
                continue
            print(f"{name}, seed {seed}", flush=True)
            rows = run(name, seed, options.budget)
            add(RESULTS, rows)
    known = {row["dataset"] for row in stored(RESULTS) if row["budget"] == options.budget}
    tables = {name: table(stored(RESULTS), name, options.budget) for name in TABLES if name in known}
    for name, text in tables.items():
        print(f"\n{name}, {text}")
    if options.budget == "default":
        page = "\n\n".join(f"{name}, {text}" for name, text in tables.items())
        fill("docs/methods/anymask.md", "intervals", page)


if __name__ == "__main__":
    main()
