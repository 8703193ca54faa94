"""Has AnyMask become cheaper or more accurate than in an earlier version?

Two versions of the package are fitted in turn, each in a process of its own, to the training rows of each
development table (`anymask.py`: split 0, mechanism "train"). Measured are the processor time of the fit, the
errors under the ten test mechanisms, and the processor time of predicting one row. LightGBM of the present
version is fitted in the same run. Each record is stored as soon as it is complete.

    git worktree add build/before COMMIT
    python benchmarks/versions.py --before build/before [--tables …] [--repeats 1] [--only-print]
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import numpy as np
from common import ROOT, make_parser, open_store, run_pending, write_docs
from tables import TABLES

from anymask import shifted
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import provenance

STORE = open_store("versions")
BEFORE, NOW, FAST, LIGHTGBM = "before", "now", "now, fast", "LightGBM"
LABELS = (BEFORE, NOW, FAST, LIGHTGBM)
N_ROWS_ONE_BY_ONE = 200

# Run by an interpreter that imports one of the two versions; so it uses nothing but the public interface.
FIT = """
import json, sys, warnings
from time import process_time
import numpy as np, pandas
import stablemiss

warnings.simplefilter("ignore")
folder, label, is_classification, seed, n_rows = json.loads(sys.argv[1])
train = pandas.read_pickle(f"{folder}/train")
y = np.load(f"{folder}/y_train.npy", allow_pickle=True)
kind = "Classifier" if is_classification else "Regressor"
if label == "LightGBM":
    from stablemiss.methods import Boosting
    model = getattr(stablemiss, f"Missing{kind}")(Boosting(), random_state=seed)
else:
    budget = "fast" if label.endswith("fast") else "default"
    model = getattr(stablemiss, f"AnyMask{kind}")(budget=budget, random_state=seed)
start = process_time()
model.fit(train, y)
result = {"cpu_seconds": process_time() - start}
tests = pandas.read_pickle(f"{folder}/tests")
y_test = np.load(f"{folder}/y_test.npy", allow_pickle=True)
errors = {}
for name, X in tests.items():
    if is_classification:
        p = model.predict_proba(X)[np.arange(len(X)), np.searchsorted(model.classes_, y_test)]
        errors[name] = float(-np.log(np.maximum(p, 1e-15)).mean())
    else:
        errors[name] = float(np.sqrt(np.mean((model.predict(X) - y_test) ** 2)))
result["errors"] = errors
predict = model.predict_proba if is_classification else model.predict
rows = [tests["all 50"].iloc[i : i + 1] for i in range(min(n_rows, len(y_test)))]
times = []
for row in rows[:20] + rows:
    start = process_time()
    predict(row)
    times.append(process_time() - start)
result["one_row_cpu_seconds"] = float(np.median(times[20:]))
print(json.dumps(result))
"""


class Job(NamedTuple):
    """One fit of one version."""

    table: str
    repeat: int
    label: str

    @property
    def key(self) -> str:
        return self.record().key

    def record(self, **fields: object) -> Record:
        return Record("versions", self.table, "train", None, self.repeat, self.label, self.repeat, **fields)


def measure(job: Job, before: Path | None) -> Record:
    rows = shifted(job.table, 0)
    if job.label == BEFORE and before is None:
        raise SystemExit("Name a checkout of the other version with --before.")
    source = before if job.label == BEFORE else ROOT
    with tempfile.TemporaryDirectory() as folder:
        rows.X_train().to_pickle(f"{folder}/train")
        tests = {name: rows.X_test(name) for name in rows.mechanisms}
        with open(f"{folder}/tests", "wb") as file:
            pickle.dump(tests, file)
        np.save(f"{folder}/y_train.npy", rows.y_train)
        np.save(f"{folder}/y_test.npy", rows.y_test)
        arguments = [folder, job.label, rows.table.is_classification, job.repeat, N_ROWS_ONE_BY_ONE]
        done = subprocess.run(
            [sys.executable, "-c", FIT, json.dumps(arguments)],
            env={**os.environ, "PYTHONPATH": str(Path(source).resolve() / "src")},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    result = json.loads(done.stdout.splitlines()[-1])
    return job.record(
        scores=tuple(Score(name, None, error) for name, error in result.pop("errors").items()),
        metric="log loss" if rows.table.is_classification else "rmse",
        n_rows=len(rows.train),
        n_test_rows=len(rows.test),
        n_features=rows.table.X.shape[1],
        extra={**result, "load": os.getloadavg()[0]},
        **(provenance() | ({"source": commit_of(source)} if source != ROOT else {})),
    )


def commit_of(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def table(records: list[Record]) -> str:
    """One row per table: processor times, their ratio, change of the error, and the time of one row."""
    rows = []
    for name in TABLES:
        runs = {
            label: [one for one in records if (one.dataset, one.label) == (name, label)] for label in LABELS
        }
        if not all(runs.values()):
            continue
        cpu = {label: median(one.extra["cpu_seconds"] for one in ones) for label, ones in runs.items()}
        errors = {
            label: {
                score.mechanism: fmean(
                    s.error for one in ones for s in one.scores if s.mechanism == score.mechanism
                )
                for score in ones[0].scores
            }
            for label, ones in runs.items()
        }
        change = [errors[NOW][key] / error - 1 for key, error in errors[BEFORE].items()]
        one_row = {
            label: 1e3 * median(one.extra["one_row_cpu_seconds"] for one in ones)
            for label, ones in runs.items()
        }
        rows.append(
            [
                f"{name} ({runs[NOW][0].n_rows:,} × {runs[NOW][0].n_features})",
                f"{cpu[BEFORE]:.1f} s",
                f"{cpu[NOW]:.1f} s",
                f"{cpu[NOW] / cpu[BEFORE]:.2f}",
                f"{fmean(change):+.1%}",
                f"{max(change):+.1%}",
                f"{cpu[NOW] / cpu[LIGHTGBM]:.0f}×",
                f"{cpu[FAST] / cpu[LIGHTGBM]:.0f}×",
                f"{one_row[BEFORE]:.1f} ms",
                f"{one_row[NOW]:.1f} ms",
                f"{one_row[LIGHTGBM]:.1f} ms",
            ]
        )
    return markdown_table(
        [
            "table",
            "before",
            "now",
            "ratio",
            "error: mean",
            "worst",
            "now / LightGBM",
            "fast / LightGBM",
            "one row, before",
            "now",
            "LightGBM",
        ],
        rows,
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--before", type=Path, help="checkout of the version to compare with")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--labels", nargs="+", choices=LABELS, default=list(LABELS))
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    jobs = [
        Job(name, repeat, label)
        for repeat in range(options.repeats)
        for name in options.tables
        for label in options.labels
    ]
    if not options.only_print:
        run_pending(STORE, jobs, lambda job: job.key, lambda job: measure(job, options.before))
    text = table(STORE.records())
    print(text)
    write_docs("docs/methods/anymask.md", "versions", text)


if __name__ == "__main__":
    main()
