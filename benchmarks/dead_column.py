"""One column of King County house sales dies after training: what is left of the accuracy?

LightGBM and AnyMask are fitted to the same complete rows (80% of the table) and predict the others, with all
columns and without one of them. "Retrained" is LightGBM fitted again without the column. LightGBM has its
default parameters. The table is read from the data folder (STABLEMISS_DATA).

    python benchmarks/dead_column.py [--seeds 0 …] [--models …] [--only-print]
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import lightgbm
import numpy as np
from common import ROOT, make_parser, open_store, run_pending, write_docs
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stablemiss import AnyMaskRegressor
from stablemiss.datasets import load_house_sales
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance

STORE = open_store("dead_column")
NONE = "none"
COLUMNS = (NONE, "lat", "sqft_living", "grade")
LIGHTGBM, RETRAINED = "LightGBM", "LightGBM, retrained without it"
# LightGBM reads NaN in a column that was complete in training as zero, which is then the mean.
STANDARDISED = "LightGBM, standardised columns"
LABELS = (LIGHTGBM, STANDARDISED, "AnyMask, fast", "AnyMask", RETRAINED)


def make_model(label: str, seed: int) -> Any:
    """The unfitted model of a label."""
    if label in (LIGHTGBM, STANDARDISED, RETRAINED):
        trees = lightgbm.LGBMRegressor(random_state=seed, verbosity=-1)
        return make_pipeline(StandardScaler(), trees) if label == STANDARDISED else trees
    return AnyMaskRegressor(budget="fast" if "fast" in label else "default", random_state=seed)


def run(job: tuple[str, int]) -> Record:
    """Fit one model, and score it with all columns and without each."""
    label, seed = job
    house = load_house_sales(n_features=18)
    X, X_test, y, y_test = train_test_split(house.X, house.y, test_size=0.2, random_state=seed)
    model, start = make_model(label, seed), perf_counter()
    if label != RETRAINED:
        model.fit(X, y)
    seconds = perf_counter() - start
    scores = []
    for name in COLUMNS:
        position = None if name == NONE else house.feature_names.index(name)
        rows = X_test.copy()
        if position is not None and label == RETRAINED:
            rows = np.delete(rows, position, axis=1)
            model.fit(np.delete(X, position, axis=1), y)
        elif position is not None:
            rows[:, position] = np.nan
        elif label == RETRAINED:
            continue
        predicted = model.predict(rows)
        error = float(np.sqrt(np.mean((predicted - y_test) ** 2)))
        scores.append(Score(name, None, error, extra={"r2": float(r2_score(y_test, predicted))}))
    return Record(
        experiment="dead column",
        dataset="house_sales",
        mechanism="none",
        level=0.0,
        instance=seed,
        label=label,
        seed=seed,
        scores=tuple(scores),
        config=describe(model),
        n_rows=len(y),
        n_test_rows=len(y_test),
        n_features=X.shape[1],
        fit_seconds=None if label == RETRAINED else seconds,
        **provenance(),
    )


def table() -> str:
    """R² of each model (mean over splits) with all columns and without each."""
    records = list(STORE.records())
    rows = []
    for label in LABELS:
        scores = [score for record in records if record.label == label for score in record.scores]
        means = {name: [score.extra["r2"] for score in scores if score.mechanism == name] for name in COLUMNS}
        if scores:
            rows.append([label, *(f"{np.mean(values):.2f}" if values else "" for values in means.values())])
    header = ["R²", "all columns", *(f"`{name}` missing" for name in COLUMNS[1:])]
    return markdown_table(header, rows)


def draw() -> None:
    """The picture of the README: R² of the models with all columns and without each."""
    from matplotlib.figure import Figure

    records = {record.label: record for record in STORE.records()}
    titles = ["all columns", *(f"{name} missing" for name in COLUMNS[1:])]
    figure = Figure(figsize=(7.6, 2.9), layout="constrained")
    axes = figure.add_subplot()
    shown = ((LIGHTGBM, "#d55e00"), ("AnyMask", "#0072b2"), (RETRAINED, "#999999"))
    for number, (label, colour) in enumerate(shown):
        r2 = {score.mechanism: score.extra["r2"] for score in records[label].scores}
        places = [i + 0.27 * (number - 1) for i, name in enumerate(COLUMNS) if name in r2]
        bars = axes.bar(places, list(r2.values()), 0.25, color=colour, label=label)
        axes.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
    axes.set_xticks(range(len(COLUMNS)), titles)
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("R² on new houses")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(ROOT / "docs" / "_static" / "dead_column.png", dpi=130)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--models", nargs="+", choices=LABELS, default=list(LABELS))
    options = parser.parse_args()
    jobs = [(label, seed) for seed in options.seeds for label in options.models]
    if not options.only_print:
        run_pending(STORE, jobs, lambda job: f"dead column house_sales none 0.0 {job[1]} {job[0]}", run)
    print(table())
    write_docs("docs/methods/anymask.md", "dead column", table())
    draw()


if __name__ == "__main__":
    main()
