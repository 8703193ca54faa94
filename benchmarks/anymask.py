"""AnyMask on the development tables: its error relative to models that were retrained under each mechanism.

Each table is split into training rows (80%) and test rows. Models are fitted once, to training rows under the
mechanism "train" of the shift suite, and tested under its ten mechanisms. Under each of these, LightGBM and
CatBoost are retrained in two ways:

- privileged: on the training rows as the mechanism would have shown them, also where "train" hid them;
- feasible: on the training rows under "train" with the masks of the test rows laid over them at random, which
  is all that one could do in practice.

"AnyMask, adapted" is AnyMask after `adapt` with the test rows of the mechanism, without their targets. Regret
is the error (RMSE or log loss) divided by that of a reference, minus one. Each record is stored as soon as it
is complete; a stopped run continues from them. King County and air quality are read from the data folder
(STABLEMISS_DATA).

Of regressors the coverage of 90% intervals is measured too, overall and by the number of missing columns, and
that of plain split conformal prediction around the same predictions: one margin for all rows, from the same
held-out rows with the masks that they have.

    python benchmarks/anymask.py [--tables …] [--models …] [--seeds 0 1 2] [--only-print]
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from statistics import fmean, median
from time import process_time
from typing import Any

import numpy as np
import pandas
from common import make_parser, open_store, run_pending, write_docs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags
from tables import TABLES, RealTable, load

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingClassifier, MissingRegressor
from stablemiss.encoding import numeric_columns, read_table, with_missing
from stablemiss.estimators.rows import split_rows
from stablemiss.evaluation.regret import TRAIN, shift_suite
from stablemiss.methods import Boosting
from stablemiss.missingness import GivenMasks
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance
from stablemiss.row_losses import choose_metric
from stablemiss.seeding import to_rng

STORE = open_store("anymask")
MAX_ROWS = 10_000
PRIVILEGED, FEASIBLE = "privileged", "feasible"
REFERENCES = [f"{model}, {kind}" for kind in (PRIVILEGED, FEASIBLE) for model in ("LightGBM", "CatBoost")]
ANYMASK, ADAPTED = "AnyMask", "AnyMask, adapted"
N_SPLITS, N_SPLITS_OF_SMALL_TABLES = 3, 10
# Fewer than 120 test rows. Their splits beyond N_SPLITS were added after the first ones had been seen.
SMALL_TABLES = ("breast cancer", "diabetes")
COVERAGE = 0.9
# Groups of rows with the same number of missing columns; the standard error of the coverage of 500 is 1.3%.
MIN_GROUP = 500
MODELS = [ANYMASK, ADAPTED, "AnyMask, fast", "LightGBM, masked copies", "LightGBM"]


class ShiftedRows:
    """Training and test rows of a table under each mechanism; all models of a split get the same."""

    def __init__(self, name: str, seed: int):
        self.table: RealTable = load(name, MAX_ROWS, seed)
        y = self.table.y
        rows = np.arange(len(y))
        stratify = y if self.table.is_classification else None
        self.train, self.test = train_test_split(rows, test_size=0.2, random_state=seed, stratify=stratify)
        numbers = numeric_columns(read_table(self.table.X))
        # Mechanisms need numbers; which values are missing in the table itself does not matter for the draw.
        self._filled = np.where(np.isnan(numbers), np.nanmedian(numbers, axis=0), numbers)
        mechanism_seed, self._train_seed, self._test_seed, self._pair_seed = np.random.SeedSequence(
            entropy=seed, spawn_key=(1,)
        ).spawn(4)
        rng = np.random.default_rng(mechanism_seed)
        self.mechanisms = shift_suite(
            self._filled[self.train], y[self.train], rng, self.table.is_classification
        )
        self.y_train, self.y_test = y[self.train], y[self.test]

    def X_train(self, mechanism: str = TRAIN) -> pandas.DataFrame:
        """Training rows as a mechanism shows them."""
        return self._masked(self.train, self._train_seed, mechanism)

    def X_test(self, mechanism: str) -> pandas.DataFrame:
        return self._masked(self.test, self._test_seed, mechanism)

    def X_feasible(self, mechanism: str) -> pandas.DataFrame:
        """Training rows under "train", under which also what is missing in random test rows is missing."""
        given = GivenMasks(self.X_test(mechanism).notna().to_numpy())
        return with_missing(
            self.X_train(), given.draw(len(self.train), np.random.default_rng(self._pair_seed))
        )

    def _masked(self, rows: NDArray, seed: np.random.SeedSequence, mechanism: str) -> pandas.DataFrame:
        observed = self.mechanisms[mechanism].draw(self._filled[rows], np.random.default_rng(seed))
        return with_missing(self.table.X.iloc[rows].reset_index(drop=True), observed)


@lru_cache(maxsize=1)
def shifted(name: str, seed: int) -> ShiftedRows:
    return ShiftedRows(name, seed)


def make_model(label: str, is_classification: bool, seed: int) -> Any:
    anymask = AnyMaskClassifier if is_classification else AnyMaskRegressor
    missing = MissingClassifier if is_classification else MissingRegressor
    if label in (ANYMASK, ADAPTED):
        return anymask(random_state=seed)
    if label == "AnyMask, fast":
        return anymask(budget="fast", random_state=seed)
    if label.startswith("CatBoost"):
        return CatBoost(is_classification, seed)
    method = Boosting(masked_copies=6 if "masked copies" in label else 0)
    return missing(method, random_state=seed, on_unseen_missing="ignore")


class CatBoost(BaseEstimator):
    """CatBoost with early stopping on a tenth of the rows; text columns are categories."""

    def __init__(self, is_classification: bool, seed: int):
        import catboost

        kind = catboost.CatBoostClassifier if is_classification else catboost.CatBoostRegressor
        self.is_classification, self.seed = is_classification, seed
        self.model = kind(
            iterations=1000,
            random_seed=seed,
            verbose=False,
            allow_writing_files=False,
            early_stopping_rounds=50,
            thread_count=1,
        )

    def fit(self, X: pandas.DataFrame, y: NDArray) -> CatBoost:
        X = self._readable(X)
        text = [name for name in X.columns if not pandas.api.types.is_numeric_dtype(X[name])]
        stratify = y if self.is_classification else None
        rows = train_test_split(np.arange(len(y)), test_size=0.1, random_state=self.seed, stratify=stratify)
        train, valid = rows
        self.model.fit(X.iloc[train], y[train], cat_features=text, eval_set=(X.iloc[valid], y[valid]))
        if self.is_classification:
            self.classes_ = self.model.classes_
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier" if self.is_classification else "regressor"
        return tags

    def predict(self, X: pandas.DataFrame) -> NDArray:
        return self.model.predict(self._readable(X))

    def predict_proba(self, X: pandas.DataFrame) -> NDArray:
        return self.model.predict_proba(self._readable(X))

    @staticmethod
    def _readable(X: pandas.DataFrame) -> pandas.DataFrame:
        """CatBoost takes NaN in numbers but not in categories."""
        text = [name for name in X.columns if not pandas.api.types.is_numeric_dtype(X[name])]
        return X.assign(**{name: X[name].astype(object).fillna("missing").astype(str) for name in text})


@lru_cache(maxsize=1)
def fitted(name: str, label: str, seed: int) -> tuple[Any, float]:
    """A model fitted under "train", and the processor time that it took."""
    rows = shifted(name, seed)
    X, model = rows.X_train(), make_model(label, rows.table.is_classification, seed)
    start = process_time()
    model.fit(X, rows.y_train)
    return model, process_time() - start


def measure(name: str, label: str, seed: int) -> Record:
    """Fit a model and test it under each mechanism."""
    rows, scores, cpu = shifted(name, seed), [], 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if label not in REFERENCES:
            model, cpu = fitted(name, ANYMASK if label == ADAPTED else label, seed)
        for mechanism in rows.mechanisms:
            is_privileged = label.endswith(PRIVILEGED) or mechanism == TRAIN
            X_test = rows.X_test(mechanism)
            if label in REFERENCES:
                X_train = rows.X_train(mechanism) if is_privileged else rows.X_feasible(mechanism)
                model = make_model(label, rows.table.is_classification, seed)
            else:
                X_train = rows.X_train()
            start, used = process_time(), model
            if label in REFERENCES:
                model.fit(X_train, rows.y_train)
            elif label == ADAPTED:
                used = model.adapt(X_test, X_train, rows.y_train)
            extra = {"cpu_seconds": process_time() - start}
            metric = choose_metric({label: used})
            error = metric.error(metric.row_losses(used, X_test, rows.y_test))
            if label in (ANYMASK, ADAPTED) and not rows.table.is_classification:
                extra |= interval_scores(used, X_train, rows.y_train, X_test, rows.y_test, seed)
            scores.append(Score(mechanism, None, error, None, extra))
    return make_record(
        name,
        label,
        seed,
        scores=tuple(scores),
        metric=metric.name,
        settings={"mechanisms": describe(rows.mechanisms)},
        n_rows=len(rows.train),
        n_test_rows=len(rows.test),
        n_features=rows.table.X.shape[1],
        extra={"cpu_seconds": cpu},
        **provenance(),
    )


def interval_scores(
    model: Any,
    X_train: pandas.DataFrame,
    y_train: NDArray,
    X_test: pandas.DataFrame,
    y_test: NDArray,
    seed: int,
) -> dict[str, Any]:
    """Coverage and mean width of intervals, and covered and all rows by their number of missing columns."""
    # The rows that `fit` held out, so that both kinds of intervals are calibrated on the same rows.
    _, held_out = split_rows(np.zeros(len(y_train)), model.validation_fraction, to_rng(seed))
    errors = np.sort(np.abs(model.predict(X_train.iloc[held_out]) - y_train[held_out]))
    # Split conformal, with the correction for the new row.
    margin = errors[min(int(np.ceil(COVERAGE * (len(errors) + 1))), len(errors)) - 1]
    centre, bounds = model.predict(X_test), model.predict_interval(X_test, COVERAGE)
    covered = (bounds[:, 0] <= y_test) & (y_test <= bounds[:, 1])
    n_missing = X_test.isna().sum(axis=1).to_numpy()
    return {
        "coverage": float(covered.mean()),
        "width": float(np.diff(bounds).mean()),
        "groups": {
            str(number): [int(covered[n_missing == number].sum()), int((n_missing == number).sum())]
            for number in np.unique(n_missing)
        },
        "plain coverage": float((np.abs(centre - y_test) <= margin).mean()),
        "plain width": float(2 * margin),
    }


def make_record(name: str, label: str, seed: int, **fields: Any) -> Record:
    return Record("anymask", name, TRAIN, None, seed, label, seed=seed, **fields)


def regrets(records: list[Record], label: str, references: list[str]) -> dict[str, dict[str, float]]:
    """Table → {mechanism → regret}, mean over splits; of several references the best one counts."""
    errors = {
        (one.dataset, one.seed, one.label): {score.mechanism: score.error for score in one.scores}
        for one in records
    }
    by_table: dict[str, dict[str, list[float]]] = {}
    for (table, seed, name), own in errors.items():
        others = [errors.get((table, seed, reference)) for reference in references]
        if name != label or not all(others):
            continue
        for mechanism, error in own.items():
            best = min(other[mechanism] for other in others if other)
            by_table.setdefault(table, {}).setdefault(mechanism, []).append(error / best - 1)
    return {
        table: {mechanism: fmean(values) for mechanism, values in by_mechanism.items()}
        for table, by_mechanism in by_table.items()
    }


def overview(records: list[Record]) -> str:
    """One row per model: mean over tables of the mean and of the worst mechanism, for each reference.

    Only tables on which all models were run with this reference count, so that rows are comparable.
    """
    kinds = {
        "LightGBM, feasible": ["LightGBM, feasible"],
        "LightGBM, privileged": ["LightGBM, privileged"],
        "best of both, feasible": ["LightGBM, feasible", "CatBoost, feasible"],
        "best of both, privileged": ["LightGBM, privileged", "CatBoost, privileged"],
    }
    run = [label for label in MODELS if any(one.label == label for one in records)]
    rows = [[label] for label in run]
    headers = []
    for title, references in kinds.items():
        by_label = {label: regrets(records, label, references) for label in run}
        tables = set.intersection(*(set(values) for values in by_label.values())) if run else set()
        headers.append(f"{title} ({len(tables)} tables)")
        for row, label in zip(rows, run, strict=True):
            of_tables = [list(by_label[label][table].values()) for table in sorted(tables)]
            means, worst = [fmean(values) for values in of_tables], [max(values) for values in of_tables]
            row.append(f"{fmean(means):+.1%} / {fmean(worst):+.1%} / {max(worst):+.1%}" if of_tables else "–")
    return markdown_table(["", *headers], rows)


def readme_table(records: list[Record]) -> str:
    """One row per model: mean and worst mechanism relative to both kinds of retrained LightGBM."""
    rows = []
    for label in MODELS:
        cells = [f"{label} ({sum(one.label == label for one in records)})"]
        for kind in (FEASIBLE, PRIVILEGED):
            of_tables = [
                list(one.values()) for one in regrets(records, label, [f"LightGBM, {kind}"]).values()
            ]
            cells += [f"{fmean(map(fmean, of_tables)):+.0%}", f"{fmean(map(max, of_tables)):+.0%}"]
        rows.append(cells)
    headers = ["", "feasible: mean", "worst mechanism", "privileged: mean", "worst mechanism"]
    seeds: dict[int, list[str]] = {}
    for name in TABLES:
        n = len({one.seed for one in records if one.dataset == name and one.label == ANYMASK})
        seeds.setdefault(n, []).append(name)
    splits = "; ".join(f"{n} splits of {', '.join(names)}" for n, names in sorted(seeds.items()))
    note = f"In brackets: splits of the {len(TABLES)} tables. AnyMask: {splits}."
    return f"{markdown_table(headers, rows, '--:')}\n\n{note}"


def by_table(records: list[Record], label: str, references: list[str]) -> str:
    """One row per table: regret under each mechanism, and processor time relative to LightGBM's."""
    cpu: dict[tuple[str, str], list[float]] = {}
    for one in records:
        # Of an adapted model, the time to adapt it, mean over mechanisms.
        seconds = [score.extra["cpu_seconds"] for score in one.scores]
        used = fmean(seconds) if one.label == ADAPTED else one.extra["cpu_seconds"]
        cpu.setdefault((one.dataset, one.label), []).append(used)
    rows, all_regrets = [], regrets(records, label, references)
    for name, by_mechanism in all_regrets.items():
        seconds = cpu[name, label]
        time = f"{median(seconds):.1f} s"
        if (name, "LightGBM") in cpu and label != ADAPTED:
            time += f", {median(seconds) / median(cpu[name, 'LightGBM']):.0f}×"
        values = list(by_mechanism.values())
        cells = [f"{value:+.1%}" for value in (*values, fmean(values), max(values))]
        rows.append([f"{name} ({len(seconds)})", *cells, time])
    mechanisms = list(next(iter(all_regrets.values()), {}))
    return markdown_table(["table (splits)", *mechanisms, "mean", "worst", "processor time"], rows)


def coverage_table(records: list[Record], label: str) -> str:
    """One row per regression table: coverage under each mechanism, splits pooled, and by missing columns."""
    rows, mechanisms = [], []
    for name in TABLES:
        runs = [one for one in records if (one.dataset, one.label) == (name, label)]
        by_mechanism: dict[str, list[dict[str, Any]]] = {}
        for one in runs:
            for score in one.scores:
                if "coverage" in score.extra:
                    by_mechanism.setdefault(score.mechanism, []).append(dict(score.extra))
        if not by_mechanism:
            continue
        mechanisms = list(by_mechanism)
        groups: dict[str, list[int]] = {}
        for extra in (extra for extras in by_mechanism.values() for extra in extras):
            for number, counts in extra["groups"].items():
                groups[number] = [a + b for a, b in zip(groups.get(number, [0, 0]), counts, strict=True)]
        shares = [hit / n for hit, n in groups.values() if n >= MIN_GROUP]
        cells = [f"{fmean(e['coverage'] for e in extras):.3f}" for extras in by_mechanism.values()]
        everything = [extra for extras in by_mechanism.values() for extra in extras]
        plain = [fmean(e["plain coverage"] for e in extras) for extras in by_mechanism.values()]
        width = fmean(e["width"] / e["plain width"] for e in everything)
        by_group = f"{min(shares):.3f}–{max(shares):.3f} ({len(shares)})" if shares else "–"
        rows.append(
            [f"{name} ({len(runs)})", *cells, by_group, f"{min(plain):.3f}–{max(plain):.3f}", f"{width:.2f}"]
        )
    headers = ["table (splits)", *mechanisms, "by missing columns", "plain, by mechanism", "width / plain"]
    return markdown_table(headers, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--models", nargs="+", choices=[*REFERENCES, *MODELS], default=[*REFERENCES, *MODELS])
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 0 to 2, of small tables 0 to 9")
    options = parser.parse_args()
    jobs = [
        (name, label, seed)
        for seed in options.seeds or range(N_SPLITS_OF_SMALL_TABLES)
        for name in options.tables
        for label in options.models
        if options.seeds or name in SMALL_TABLES or seed < N_SPLITS
    ]
    if not options.only_print:
        run_pending(STORE, jobs, lambda job: make_record(*job).key, lambda job: measure(*job))
    records = STORE.records()
    blocks = [
        "### All development tables",
        "Mean over tables of the mean over mechanisms / of the worst mechanism / the largest of all. Best of "
        "both: the better of LightGBM and CatBoost in each split and under each mechanism.",
        overview(records),
    ]
    for label in (ANYMASK, ADAPTED, "AnyMask, fast"):
        for kind in (FEASIBLE, PRIVILEGED):
            blocks.append(
                f"{label}, relative to LightGBM retrained, {kind}; processor time of the fit, also "
                "relative to LightGBM's (of an adapted model, of `adapt`):"
            )
            blocks.append(by_table(records, label, [f"LightGBM, {kind}"]))
    for kind in (FEASIBLE, PRIVILEGED):
        blocks.append(f"{ANYMASK}, relative to the better of LightGBM and CatBoost retrained, {kind}:")
        blocks.append(by_table(records, ANYMASK, [f"LightGBM, {kind}", f"CatBoost, {kind}"]))
    text = "\n\n".join(blocks)
    print(text)
    write_docs("docs/methods/anymask.md", "tables", text)
    write_docs("README.md", "regret", readme_table(records))
    coverage = coverage_table(records, ANYMASK)
    print(coverage)
    write_docs("docs/methods/anymask.md", "intervals", coverage)


if __name__ == "__main__":
    main()
