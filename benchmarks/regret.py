"""AnyMask compared with other models when the missingness changes: regret per mechanism, relative times.

Every model is fitted once, under the mechanism "train" of the shift suite, and tested under its ten
mechanisms. Regret is its error divided by that of LightGBM retrained under each mechanism, minus one.
Records are stored as soon as they are complete; a stopped run continues from them. King County and air
quality are read from the data folder (STABLEMISS_DATA). CatBoost is included if it is installed.

    python benchmarks/regret.py [--tables house air …] [--models …] [--seeds 0 1 …] [--only-print]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from statistics import fmean, median
from typing import Any

import lightgbm
import numpy as np
from common import make_parser, open_store, write_docs
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.pipeline import make_pipeline

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingClassifier, MissingRegressor
from stablemiss.datasets import load_air_quality, load_house_sales
from stablemiss.evaluation.regret import REFERENCE, TRAIN, regret, score_under_suite
from stablemiss.methods import METHODS, Boosting, EMMixture, NeuMiss, StableMiss
from stablemiss.progress import ProgressBar
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record

STORE = open_store("regret")


def _to_X_y(table: Any) -> tuple[np.ndarray, np.ndarray]:
    return table.X, table.y


TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "house": lambda: _to_X_y(load_house_sales(n_features=18)),
    "air": lambda: _to_X_y(load_air_quality()),
    "cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
}
CLASSIFICATION = ("cancer", "digits")
TITLES = {
    "house": "King County prices",
    "air": "air quality",
    "cancer": "breast cancer",
    "digits": "digits",
}
# Methods that the paper names, later ones, and one of statistics: label → name.
FURTHER = {
    "GAIN": "gain",
    "MisGAN": "misgan",
    "CRLR": "crlr",
    "DGBR": "dgbr",
    "MIRRAMS": "mirrams",
    "MaskDRO": "mask_dro",
    "pattern submodels": "pattern_submodels",
}
LABELS = (
    "AnyMask",
    "AnyMask, fast",
    "LightGBM, masked copies",
    "LightGBM",
    "HistGradientBoosting",
    "CatBoost",
    "IterativeImputer + LightGBM",
    "EM mixture",
    "NeuMiss",
    "StableMiss",
    *FURTHER,
)


def make_models(is_classification: bool, seed: int) -> dict[str, Any]:
    """Label → estimator with default parameters, and with early stopping if it is available."""
    missing = MissingClassifier if is_classification else MissingRegressor
    anymask = AnyMaskClassifier if is_classification else AnyMaskRegressor
    trees = HistGradientBoostingClassifier if is_classification else HistGradientBoostingRegressor
    lgbm = lightgbm.LGBMClassifier if is_classification else lightgbm.LGBMRegressor

    def with_method(method: Any) -> Any:
        return missing(method, random_state=seed, on_unseen_missing="ignore")

    models = {
        "AnyMask": anymask(random_state=seed),
        "AnyMask, fast": anymask(budget="fast", random_state=seed),
        "LightGBM": with_method(Boosting()),
        "LightGBM, masked copies": with_method(Boosting(masked_copies=6)),
        "HistGradientBoosting": trees(early_stopping=True, random_state=seed),
        "IterativeImputer + LightGBM": make_pipeline(
            IterativeImputer(random_state=seed, keep_empty_features=True),
            lgbm(random_state=seed, verbosity=-1),
        ),
        "EM mixture": with_method(EMMixture()),
        "NeuMiss": with_method(NeuMiss(hidden=(128,))),
        "StableMiss": with_method(StableMiss("mlp")),
        **{label: with_method(METHODS[name]()) for label, name in FURTHER.items()},
    }
    if find_spec("catboost"):
        import catboost

        estimator = catboost.CatBoostClassifier if is_classification else catboost.CatBoostRegressor
        models["CatBoost"] = estimator(random_seed=seed, verbose=False, allow_writing_files=False)
    return models


def with_ratios(records: list[Record]) -> list[Record]:
    """The records with times as multiples of LightGBM's under "train" in the same run."""
    [reference] = [one for one in records if (one.label, one.mechanism) == (REFERENCE, TRAIN)]
    fit, predict = reference.fit_seconds or 1.0, reference.predict_seconds or 1.0
    return [
        replace(
            record,
            extra={"fit_ratio": (record.fit_seconds or 0.0) / fit},
            scores=tuple(
                replace(score, extra={"predict_ratio": (score.predict_seconds or 0.0) / predict})
                for score in record.scores
            ),
        )
        for record in records
    ]


def run(name: str, seed: int, labels: list[str] | None) -> None:
    """Fit the models that are not stored yet."""
    done = {record.label for record in STORE.records() if (record.dataset, record.seed) == (name, seed)}
    for label, model in make_models(name in CLASSIFICATION, seed).items():
        if label in done or (labels and label not in labels):
            continue
        print(f"{name}, seed {seed}: {label}", flush=True)
        X, y = TABLES[name]()
        records = with_ratios(
            score_under_suite(X, y, {label: model}, name, seed=seed, progress=ProgressBar())
        )
        with STORE.appending() as append:
            for record in records:
                if record.label not in done:
                    append(record)
        done |= {label, REFERENCE}


def results(name: str) -> dict[str, tuple[int, dict[str, float], float, float]]:
    """Label → number of splits, regret per mechanism, and median ratios of times to fit and to predict."""
    records = [record for record in STORE.records() if record.dataset == name]
    regrets = regret(records)
    by_label = {}
    for label in LABELS:
        fits = [record for record in records if record.label == label]
        if fits:
            fit = median(record.extra["fit_ratio"] for record in fits)
            predict = median(score.extra["predict_ratio"] for record in fits for score in record.scores)
            by_label[label] = (len(fits), regrets[label], fit, predict)
    return by_label


def table(name: str) -> str:
    """One row per model: regret under each mechanism, mean and worst, and times."""
    by_label = results(name)
    mechanisms = list(next(iter(by_label.values()))[1])
    rows = []
    for label, (n_splits, regrets, fit, predict) in by_label.items():
        values = [regrets[mechanism] for mechanism in mechanisms]
        cells = [f"{value:+.1%}" for value in (*values, fmean(values), max(values))]
        rows.append([f"{label} ({n_splits})", *cells, f"{fit:.1f}×", f"{predict:.1f}×"])
    return markdown_table(["model (splits)", *mechanisms, "mean", "worst", "fit", "predict"], rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--models", nargs="+", help="labels of models; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    options = parser.parse_args()
    # Other libraries warn often, for example about missing feature names, which would hide the table.
    warnings.filterwarnings("ignore", category=UserWarning)
    for seed in [] if options.only_print else options.seeds:
        for name in options.tables:
            run(name, seed, options.models)
    stored = [name for name in TABLES if results(name)]
    tables = {name: table(name) for name in stored}
    for name, text in tables.items():
        print(f"\n{name}\n{text}")
    blocks = [f"{TITLES[name]}\n\n{text}" for name, text in tables.items()]
    write_docs("docs/methods/anymask.md", "regret", "\n\n".join(blocks))


if __name__ == "__main__":
    main()
