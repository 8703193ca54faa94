"""StableMiss's network without early stopping, and whether decorrelation weights help it then.

The paper trains for 1000 epochs in batches of 64 and mentions neither early stopping nor weight decay. This
benchmark trains on the rows of tables 6 and 1 and of figure 2 of the reproduction, for growing numbers of
epochs with the paper's settings and, for comparison, with our settings and early stopping. Decorrelation
weights are in our form; the budget `as_published` of the reproduction has the paper's. Records are stored as
soon as they are complete; a stopped run continues from them.

    python benchmarks/without_stopping.py [--instances 0 1 2] [--only-print]
"""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from common import make_parser, open_store, run_pending, write_docs
from sklearn.metrics import root_mean_squared_error

from stablemiss.data import Floats, MaskedData
from stablemiss.evaluation import TestSetting
from stablemiss.experiments.budgets import BUDGETS, settings_of
from stablemiss.experiments.problem import draw_problem
from stablemiss.experiments.runs import Run
from stablemiss.experiments.tables import WEIGHTED_ABLATION
from stablemiss.methods import StableMiss
from stablemiss.progress import NullProgress
from stablemiss.report.markdown import markdown_table
from stablemiss.report.text import number, title_of
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance
from stablemiss.tasks import Regression
from stablemiss.torch_state import torch_threads

STORE = open_store("without_stopping")
EPOCHS = (1, 3, 10, 30, 100, 1000)
BUDGET = BUDGETS["standard"]


class Setting(NamedTuple):
    """Training data, test levels, and variants of StableMiss."""

    name: str
    dataset: str
    mechanism: str
    level: float
    test_levels: tuple[float, ...]
    labels: tuple[str, ...]


_UNWEIGHTED = ("stablemiss_unweighted",)
_WEIGHTED = (*WEIGHTED_ABLATION, *_UNWEIGHTED)
SETTINGS = (
    Setting("Gaussian-Ind, MCAR-Ind", "gaussian_ind", "mcar_independent", 0.5, (0.5,), _UNWEIGHTED),
    Setting("Gaussian-Mix, MAR", "gaussian_mix", "mar", 0.5, (0.5,), _UNWEIGHTED),
    Setting("Gaussian-Mix, MAR", "gaussian_mix", "mar", 0.1, (0.1, 0.3, 0.5, 0.7, 0.9), _WEIGHTED),
)


def to_label(label: str, n_epochs: int | None) -> str:
    """Label of a variant with its number of epochs; None means early stopping."""
    return f"{label}, " + ("early stopping" if n_epochs is None else f"{n_epochs} epochs")


def make_record(setting: Setting, label: str, n_epochs: int | None, instance: int, **fields: Any) -> Record:
    return Record(
        experiment="without stopping",
        dataset=setting.dataset,
        mechanism=setting.mechanism,
        level=setting.level,
        instance=instance,
        label=to_label(label, n_epochs),
        seed=BUDGET.first_seed + instance,
        **fields,
    )


def measure(setting: Setting, label: str, n_epochs: int | None, instance: int) -> Record:
    """Fit once, for a number of epochs or, with None, with early stopping on validation rows."""
    tests = tuple(TestSetting(setting.mechanism, level) for level in setting.test_levels)
    run = Run(BUDGET, setting.dataset, setting.mechanism, setting.level, instance, label, tests)
    problem = draw_problem(run)
    centre, scale = np.nanmean(problem.X, axis=0), np.nanstd(problem.X, axis=0)
    task = Regression.of(problem.y)

    def scaled(rows: Floats, y: Floats) -> MaskedData:
        return MaskedData.of((rows - centre) / scale, ~np.isnan(rows), task.encode(y))

    # Only early stopping needs validation rows; they are the last rows.
    n = round(len(problem.X) * (1 - problem.validation_fraction)) if n_epochs is None else len(problem.X)
    train, valid = scaled(problem.X[:n], problem.y[:n]), scaled(problem.X[n:], problem.y[n:])
    _, parameters = settings_of(label, setting.mechanism, is_real=False, budget=BUDGET)
    if n_epochs is not None:
        # Without validation rows the training loss decides which epoch is best.
        parameters |= {"batch_size": 64, "weight_decay": 0.0, "max_epochs": n_epochs, "patience": n_epochs}
    method = StableMiss(**parameters)
    with torch_threads(1):
        predictor = method.fit(train, valid, task, np.random.default_rng(run.seed), NullProgress())

        def error(rows: Floats, y: Floats) -> float:
            data = scaled(rows, y)
            return root_mean_squared_error(task.decode(predictor.predict(data.values, data.mask)), y)

        y_test = problem.tests.y
        scores = []
        for test, rows in problem.tests.X.items():
            optimal = root_mean_squared_error(problem.population.bayes(rows), y_test)
            scores.append(Score(test.mechanism, test.level, error(rows, y_test), None, {"optimal": optimal}))
        return make_record(
            setting,
            label,
            n_epochs,
            instance,
            scores=tuple(scores),
            config=describe(method),
            extra={
                "train_rmse": error(problem.X[:n], problem.y[:n]),
                "constant_rmse": root_mean_squared_error(np.full_like(y_test, problem.y.mean()), y_test),
            },
            **provenance(),
        )


def by_epochs(records: list[Record]) -> str:
    """Gap to Optimal without decorrelation weights, with a column for each number of epochs.

    Training rows have the same distribution as test rows, so they are compared with the same Optimal.
    """
    rows = []
    for setting in SETTINGS[:2]:
        for rows_of, key in (("test rows", None), ("training rows", "train_rmse")):
            gaps = [gap(records, setting, setting.labels[0], n, 0, key) for n in (*EPOCHS, None)]
            constant = gap(records, setting, setting.labels[0], None, 0, "constant_rmse")
            rows.append([f"{setting.name}, {rows_of}", *gaps, constant])
    header = ["number of epochs", *map(str, EPOCHS), "early stopping", "constant"]
    return with_instances(markdown_table(header, rows, "--:"), records)


def by_weights(records: list[Record]) -> str:
    """Gap to Optimal on test rows, with and without decorrelation weights; a column for each test level."""
    setting = SETTINGS[-1]
    columns = range(len(setting.test_levels))
    rows = []
    for n in (10, 30, 100, 1000, None):
        for label in setting.labels:
            gaps = [gap(records, setting, label, n, column) for column in columns]
            rows.append(["early stopping" if n is None else str(n), title_of(label), *gaps])
    constant = [gap(records, setting, setting.labels[0], None, column, "constant_rmse") for column in columns]
    rows.append(["", title_of("constant"), *constant])
    header = ["epochs", "", *(f"{level:.0%}" for level in setting.test_levels)]
    return with_instances(markdown_table(header, rows, "--:"), records)


def gap(
    records: list[Record],
    setting: Setting,
    label: str,
    n_epochs: int | None,
    column: int,
    key: str | None = None,
) -> str:
    """Mean over instances of an error minus Optimal's at a test level."""
    gaps = []
    for record in records:
        if record.key == make_record(setting, label, n_epochs, record.instance).key:
            score = record.scores[column]
            error = score.error if key is None else record.extra[key]
            gaps.append(error - score.extra["optimal"])
    return number(fmean(gaps) if gaps else None, 0)


def with_instances(table: str, records: list[Record]) -> str:
    return f"{table}\n\nMean over {len({record.instance for record in records})} instances."


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--instances", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    jobs = [
        (setting, label, n_epochs, instance)
        for instance in options.instances
        for setting in SETTINGS
        for label in setting.labels
        for n_epochs in (*EPOCHS, None)
    ]
    if not options.only_print:
        run_pending(STORE, jobs, lambda job: make_record(*job).key, lambda job: measure(*job))
    records = STORE.records()
    # An incomplete instance would shift the means of some cells only.
    counts = Counter(record.instance for record in records)
    records = [record for record in records if counts[record.instance] == max(counts.values())]
    for page, text in (
        ("docs/methods/stablemiss.md", by_epochs(records)),
        ("docs/decorrelation.md", by_weights(records)),
    ):
        print(text)
        write_docs(page, "without stopping", text)


if __name__ == "__main__":
    main()
