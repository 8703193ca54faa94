"""Settings of the networks of tables 4 and 5, compared on held-out training images and weeks.

The baselines that read flat rows (NeuMiss and the generative ones) and the networks that share g are fitted
to images at 50% missing under MAR and to windows of Berlin's traffic in 2023, with a seed that no table uses.
The score is the RMSE on the validation rows of the problem; those also decide when flat networks stop, alike
for all their settings. Each record is stored as soon as it is complete; a stopped run continues from them.

    python benchmarks/array_settings.py [--datasets mnist berlin] [--methods …] [--only-print]
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from common import make_parser, open_store, run_pending, write_docs
from sklearn.model_selection import PredefinedSplit
from threadpoolctl import threadpool_limits

from stablemiss import MissingRegressor
from stablemiss.base.method import Method
from stablemiss.estimators import OutOfRangeWarning
from stablemiss.evaluation import TestSetting
from stablemiss.experiments.array_tables import BERLIN, MNIST
from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.execute import with_graph
from stablemiss.experiments.runs import Run
from stablemiss.report.markdown import markdown_table
from stablemiss.report.text import title_of
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, is_described_by, provenance
from stablemiss.torch_state import torch_threads

STORE = open_store("array_settings")
BUDGET = replace(
    BUDGETS["standard"], name="array settings", n_images=8192, n_test_images=16, window_stride=8, first_seed=0
)
# Missingness of the training rows; nothing of the test setting is used.
PROBLEMS = {MNIST: ("mar", 0.5, TestSetting("mar", 0.5)), BERLIN: ("2023", None, TestSetting("2024"))}
# Changes of the settings of the tables. Those of flat networks name every parameter that is compared, so that
# a record means the same after the tables have taken the best.
_BATCHES = {"batch_size": 32, "max_epochs": 40, "patience": 4}


def _compared(*settings: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**_BATCHES, **changed} for changed in settings]


SETTINGS: dict[str, list[dict[str, Any]]] = {
    "neumiss": _compared({"learning_rate": 1e-3}, {"learning_rate": 3e-3}),
    "partial_vae": _compared({"learning_rate": 1e-3}, {"learning_rate": 1e-3, "decoder": (512, 512)}),
    "miwae": _compared({"learning_rate": 1e-3, "hidden": 512}, {"learning_rate": 3e-3, "hidden": 512}),
    "p_bigan": _compared({"learning_rate": 1e-3}, {"learning_rate": 1e-3, "hidden": (512, 512)}),
    "stablemiss_unweighted": [
        {"learning_rate": 5e-3, "weight_decay": 0.1},
        {"learning_rate": 5e-3, "weight_decay": 0.01},
        {"learning_rate": 2.5e-3, "weight_decay": 0.1},
        {"learning_rate": 2.5e-3, "weight_decay": 0.3},
        {"learning_rate": 1.25e-3, "weight_decay": 0.3},
    ],
    "stablemiss_local": [{"learning_rate": 5e-3}, {"learning_rate": 2.5e-3}],
    "zero_fill": [{"learning_rate": 5e-3}, {"learning_rate": 2.5e-3}],
    "stablenet": [{"learning_rate": 5e-3}, {"learning_rate": 2.5e-3}],
}


def text_of(changed: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in changed.items()) or "settings of the tables"


def make_run(dataset: str, label: str) -> Run:
    mechanism, level, test = PROBLEMS[dataset]
    return Run(BUDGET, dataset, mechanism, level, 0, label, (test,))


def make_record(dataset: str, label: str, changed: dict[str, Any], **fields: Any) -> Record:
    run = make_run(dataset, label)
    name = f"{label}: {text_of(changed)}"
    return Record(BUDGET.name, dataset, run.mechanism, run.level, 0, name, seed=run.seed, **fields)


def to_method(dataset: str, label: str, changed: dict[str, Any]) -> Method:
    return make_run(dataset, label).method().set_params(**changed)


def measure(dataset: str, label: str, changed: dict[str, Any]) -> Record:
    """Fit a method with changed settings, and score it on the validation rows."""
    problem = make_run(dataset, label).problem()
    method = to_method(dataset, label, changed)
    is_validation = problem.is_validation
    model = MissingRegressor(
        with_graph(method, problem.graph),
        random_state=BUDGET.first_seed,
        validation_split=PredefinedSplit(np.where(is_validation, 0, -1)),
        on_unseen_missing="ignore",
    )
    start = perf_counter()
    with threadpool_limits(1), torch_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", OutOfRangeWarning)
        model.fit(problem.X, problem.y)
        seconds = perf_counter() - start
        squares = (model.predict(problem.X[is_validation]) - problem.y[is_validation]) ** 2
    history = model.predictor_.history
    return make_record(
        dataset,
        label,
        changed,
        scores=(Score("validation rows", None, float(np.sqrt(np.nanmean(squares)))),),
        config=describe(to_method(dataset, label, changed)),
        n_rows=len(problem.y),
        fit_seconds=seconds,
        extra={"n_epochs": sum(len(stage.losses) for stage in history)},
        **provenance(),
    )


def table_of(label: str, records: dict[str, Record]) -> str:
    """RMSE, epochs and seconds of every setting; those of the tables are bold."""
    rows = []
    for changed in SETTINGS[label]:
        cells = [text_of(changed)]
        for dataset in PROBLEMS:
            record = records.get(make_record(dataset, label, changed).key)
            if record is None:
                cells.append("–")
                continue
            is_used = is_described_by(to_method(dataset, label, {}), record.config)
            error = f"{record.scores[0].error:.4g}"
            cells.append(
                f"{f'**{error}**' if is_used else error} ({record.extra['n_epochs']} epochs, "
                f"{record.fit_seconds:.0f} s)"
            )
        rows.append(cells)
    return markdown_table([title_of(label), "digits, 0 to 255", "traffic, km/h"], rows, "--:")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    options = parser.parse_args()
    jobs = [
        (dataset, label, changed)
        for dataset in options.datasets
        for label in options.methods
        for changed in SETTINGS[label]
    ]
    if not options.only_print:
        run_pending(STORE, jobs, lambda job: make_record(*job).key, lambda job: measure(*job))
    records = {record.key: record for record in STORE.records()}
    measured = {record.label.partition(":")[0] for record in records.values()}
    text = "\n\n".join(table_of(label, records) for label in SETTINGS if label in measured)
    print(text)
    write_docs("docs/default_settings.md", "array settings", text)


if __name__ == "__main__":
    main()
