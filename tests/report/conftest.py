"""Records small enough to compute their tables by hand."""

from dataclasses import replace

import pytest

from stablemiss.experiments.array_tables import ARRAY_TABLES
from stablemiss.experiments.budgets import BUDGETS, LABELS
from stablemiss.experiments.runs import plan_array_runs, plan_runs
from stablemiss.experiments.tables import TABLES
from stablemiss.report.page import render_page
from stablemiss.report.summary import summarise
from stablemiss.results import Record, Score

LEVELS = (0.1, 0.5, 0.9)
# RMSE at the three levels of Table 1. One method failed, and many were not run.
RMSE = {
    "optimal": (100.0, 200.0, 400.0),
    "constant": (500.0, 500.0, 500.0),
    "neumiss": (140.0, 240.0, 520.0),
    "stablemiss": (150.0, 230.0, 450.0),
    "stablemiss_unweighted": (160.0, 225.0, 455.0),
    "ols": (130.0, 260.0, 480.0),
    "linear": (101.0, 201.0, 401.0),
}


@pytest.fixture
def stored() -> list[Record]:
    """Records of Table 1 at the budget "quick"."""
    run = {"experiment": "quick", "dataset": "gaussian_mix", "mechanism": "mar", "level": 0.5, "instance": 0}
    common = {
        "seed": 0,
        "seconds": 2.0,
        "peak_memory": 500_000_000,
        "versions": {"python": "3.11.7"},
        "finished": "2025-01-01T00:00:00+00:00",
    }
    done = [
        Record(
            **run,
            **common,
            label=label,
            scores=tuple(Score("mar", *pair) for pair in zip(LEVELS, errors, strict=True)),
            config={"class": label, "hidden": [128, 128]},
            n_rows=1000,
            n_test_rows=500,
            n_features=12,
            fit_seconds=1.5,
        )
        for label, errors in RMSE.items()
    ]
    failure = "ValueError: <b>no</b> loss | at all\nline 2"
    return [*done, Record(**run, **common, label="miwae", failure=failure)]


@pytest.fixture
def two_instances(stored: list[Record]) -> list[Record]:
    """The same records at "standard", and a second instance whose errors are ten higher, except Optimal's."""
    first = [replace(record, experiment="standard") for record in stored]
    second = [
        replace(
            record,
            instance=1,
            scores=tuple(
                replace(score, error=score.error + 10 * (record.label != "optimal"))
                for score in record.scores
            ),
        )
        for record in first
    ]
    return [*first, *second]


@pytest.fixture
def make_records():
    """Records of one table from a dictionary: label → for each instance the RMSE in each column."""

    def make(name, errors, budget=BUDGETS["quick"], extra=None):
        table, columns = TABLES[name], budget.columns(TABLES[name])
        return [
            Record(
                experiment=budget.name,
                dataset=table.dataset,
                mechanism=table.train_mechanism,
                level=level,
                instance=instance,
                label=label,
                seed=instance,
                scores=tuple(
                    Score(table.test_mechanism, column.test_level, error)
                    for column, error in zip(columns, rmse, strict=True)
                    if column.train_level == level
                ),
                extra=(extra or {}).get(label, {}),
            )
            for label, instances in errors.items()
            for instance, rmse in enumerate(instances)
            for level in sorted({column.train_level for column in columns})
        ]

    return make


@pytest.fixture(scope="session")
def complete() -> list[Record]:
    """A record for every run of the budget "standard", with invented scores."""
    records = []
    budget = BUDGETS["standard"]
    array_labels = [label for table in ARRAY_TABLES.values() for label in table.methods]
    names = list(dict.fromkeys(["optimal", "linear", *LABELS, *array_labels]))
    for run in [*plan_runs(TABLES, budget), *plan_array_runs(["table4", "table5"], budget)]:
        rank = names.index(run.label)
        unit = 0.01 if run.dataset == "house_sales" else 1.0
        noise = 7 * ((rank * run.seed) % 5)
        records.append(
            run.record(
                scores=tuple(
                    Score(
                        test.mechanism,
                        test.level,
                        unit * (1000 + 500 * (test.level or 0) + 20 * rank + noise),
                    )
                    for test in run.tests
                ),
                config={"class": run.label},
                n_rows=16384,
                n_test_rows=8192,
                n_features=50,
                fit_seconds=1.5,
                predict_seconds=0.5,
                peak_memory=500_000_000,
                versions={"python": "3.11.7"},
                seconds=2.0,
                finished="2025-01-01T00:00:00+00:00",
            )
        )
    return records


@pytest.fixture(scope="session")
def complete_summary(complete):
    return summarise(complete, BUDGETS["standard"])


@pytest.fixture(scope="session")
def complete_page(complete) -> str:
    return render_page(complete, BUDGETS["standard"])
