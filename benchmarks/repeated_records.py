"""Do records of the reproduction that were made by older versions of the code still hold?

For each method, the oldest record at budget "standard" of a synthetic table is repeated with the present
code, and the RMSE of all its tests is compared with the stored one.

    python benchmarks/repeated_records.py [--methods …] [--only-print]
"""

from __future__ import annotations

from common import ROOT, make_parser, open_store, run_pending, write_docs

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.execute import execute
from stablemiss.experiments.runs import Run, plan_runs
from stablemiss.experiments.tables import PAPER_METHODS, TABLES
from stablemiss.report.markdown import markdown_table
from stablemiss.report.text import title_of
from stablemiss.results import Record, Store

STORE = open_store("repeated_records")
STANDARD = BUDGETS["standard"]
METHODS = (*PAPER_METHODS, "em_mixture", "boosting")


def oldest_runs(records: list[Record]) -> dict[str, Run]:
    """Label → the run of its oldest record of a synthetic table."""
    runs = {run.key: run for run in plan_runs(TABLES, STANDARD)}
    oldest: dict[str, Run] = {}
    for record in sorted(records, key=lambda one: one.finished):
        run = runs.get(record.key)
        if run is not None and not run.is_real and run.is_done_by(record):
            oldest.setdefault(record.label, run)
    return oldest


def table_of(stored: dict[str, Record], repeated: list[Record]) -> str:
    rows = []
    for label in METHODS:
        for record in (one for one in repeated if one.label == label and one.key in stored):
            before = stored[record.key]
            errors = {(score.mechanism, score.level): score.error for score in before.scores}
            changes = [score.error / errors[score.mechanism, score.level] - 1 for score in record.scores]
            rows.append(
                [
                    title_of(label),
                    before.finished[:10],
                    before.source,
                    record.source,
                    f"{100 * max(map(abs, changes)):.2g}%",
                ]
            )
    header = ["method", "stored on", "by version", "repeated by version", "largest change of an RMSE"]
    return markdown_table(header, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    records = Store(ROOT / "paper" / "results" / "standard.jsonl").records()
    oldest = oldest_runs(records)
    jobs = [oldest[label] for label in options.methods if label in oldest]
    if not options.only_print:
        run_pending(STORE, jobs, lambda run: run.key, execute)
    text = table_of({record.key: record for record in records}, STORE.records())
    print(text)
    write_docs("docs/reproduction.md", "repeated", text)


if __name__ == "__main__":
    main()
