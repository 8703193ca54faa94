"""AnyMask against what people use, under missingness that changes: regret per mechanism, and times as ratios.

Every model is fitted once, under the train mechanism of the shift suite, and tested under its ten mechanisms. Regret is
its error over that of LightGBM retrained under each mechanism, less one. Runs are stored line by line; what is
there is not run again, so a stopped run goes on where it was. King County and air quality are read from the
data folder (STABLEMISS_DATA); CatBoost joins if it is installed.

    python benchmarks/anymask.py [--tables house air …] [--models …] [--seeds 0 1 …] [--only-print]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
from pages import fill
from rows import add, stored
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.pipeline import make_pipeline

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingClassifier, MissingRegressor
from stablemiss.datasets import load_air_quality, load_house_sales
from stablemiss.evaluation.suite import REFERENCE, TRAIN_MECHANISM, regret_under_shift
from stablemiss.methods import Boosting, EMMixture, NeuMiss, StableMiss
from stablemiss.progress import ProgressBar

RESULTS = Path(__file__).parent / "results" / "anymask.jsonl"


def house() -> tuple[np.ndarray, np.ndarray]:
    table = load_house_sales(n_features=18)
    return table.X, table.y


def air() -> tuple[np.ndarray, np.ndarray]:
    table = load_air_quality()
    return table.X, table.y


TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "house": house,
    "air": air,
    "cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
}
CLASSES = ("cancer", "digits")
TITLES = {
    "house": "King County prices",
    "air": "air quality",
    "cancer": "breast cancer",
    "digits": "digits",
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
)


def models(is_classes: bool, seed: int) -> dict[str, Any]:
    """Name → estimator, all with their own defaults, or early stopping where they offer it."""
    missing = MissingClassifier if is_classes else MissingRegressor
    anymask = AnyMaskClassifier if is_classes else AnyMaskRegressor
    trees = HistGradientBoostingClassifier if is_classes else HistGradientBoostingRegressor
    light = lightgbm.LGBMClassifier if is_classes else lightgbm.LGBMRegressor

    def ours(method: Any) -> Any:
        return missing(method, random_state=seed, on_unseen_missing="ignore")

    found = {
        "AnyMask": anymask(random_state=seed),
        "AnyMask, fast": anymask(budget="fast", random_state=seed),
        "LightGBM": ours(Boosting()),
        "LightGBM, masked copies": ours(Boosting(masked_copies=6)),
        "HistGradientBoosting": trees(early_stopping=True, random_state=seed),
        "IterativeImputer + LightGBM": make_pipeline(
            IterativeImputer(random_state=seed, keep_empty_features=True),
            light(random_state=seed, verbosity=-1),
        ),
        "EM mixture": ours(EMMixture()),
        "NeuMiss": ours(NeuMiss(hidden=(128,))),
        "StableMiss": ours(StableMiss("mlp")),
    }
    if find_spec("catboost"):
        import catboost

        kind = catboost.CatBoostClassifier if is_classes else catboost.CatBoostRegressor
        found["CatBoost"] = kind(random_seed=seed, verbose=False, allow_writing_files=False)
    return found


def ratios(row: dict, reference: dict) -> dict[str, float]:
    """Times as multiples of those of LightGBM in the same run."""
    return {
        f"{what}_ratio": row[f"{what}_seconds"] / reference[f"{what}_seconds"] for what in ("fit", "predict")
    }


class Scores(NamedTuple):
    """One model on one table: regret per mechanism, averaged over seeds, and times as multiples of LightGBM's."""

    seeds: int
    regrets: dict[str, float]
    fit: float
    predict: float

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.regrets.values())))

    @property
    def worst(self) -> float:
        return max(self.regrets.values())


def scores(rows: list[dict], name: str) -> dict[str, Scores]:
    """Model → its scores on the table `name`."""
    rows = [row for row in rows if row["dataset"] == name]
    mechanisms = list(dict.fromkeys(row["mechanism"] for row in rows))
    found = {}
    for model in [label for label in LABELS if any(row["model"] == label for row in rows)]:
        own = [row for row in rows if row["model"] == model]
        regrets = {
            mechanism: float(np.mean([row["regret"] for row in own if row["mechanism"] == mechanism]))
            for mechanism in mechanisms
        }
        fit, predict = (float(np.median([row[key] for row in own])) for key in ("fit_ratio", "predict_ratio"))
        found[model] = Scores(len({row["seed"] for row in own}), regrets, fit, predict)
    return found


def table(rows: list[dict], name: str) -> str:
    """One line per model: regret under each mechanism, mean and worst, and times."""
    found = scores(rows, name)
    mechanisms = list(next(iter(found.values())).regrets)
    lines = [
        _line("model (splits)", *mechanisms, "mean", "worst", "fit", "predict"),
        "|" + "---|" * (len(mechanisms) + 5),
    ]
    for model, own in found.items():
        cells = [f"{regret:+.1%}" for regret in (*own.regrets.values(), own.mean, own.worst)]
        times = (f"{own.fit:.1f}×", f"{own.predict:.1f}×")
        lines.append(_line(f"{model} ({own.seeds})", *cells, *times))
    return "\n".join(lines)


def overview(rows: list[dict]) -> str:
    """One line per model: mean (worst mechanism; splits) on each table."""
    found = {name: scores(rows, name) for name in TABLES}
    lines = [_line("", *TITLES.values()), "|" + "---|" * (len(TITLES) + 1)]
    for label in LABELS:
        own = [found[name].get(label) for name in TITLES]
        if any(own):
            cells = [f"{one.mean:+.1%} ({one.worst:+.1%}; {one.seeds})" if one else "" for one in own]
            lines.append(_line(label, *cells))
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--models", nargs="+", help="names of models; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--only-print", action="store_true", help="fit nothing, print what is stored")
    options = parser.parse_args()
    # Others' warnings about missing feature names and the like would drown the table.
    warnings.filterwarnings("ignore", category=UserWarning)
    for seed in [] if options.only_print else options.seeds:
        for name in options.tables:
            done = {row["model"] for row in stored(RESULTS) if row["dataset"] == name and row["seed"] == seed}
            wanted = {
                label: model
                for label, model in models(name in CLASSES, seed).items()
                if label not in done and (not options.models or label in options.models)
            }
            for label, model in wanted.items():
                print(f"{name}, seed {seed}: {label}", flush=True)
                rows = regret_under_shift(
                    *TABLES[name](), {label: model}, dataset=name, seed=seed, progress=ProgressBar()
                )
                is_known = {REFERENCE} & {
                    row["model"] for row in stored(RESULTS) if (row["dataset"], row["seed"]) == (name, seed)
                }
                [reference] = [
                    r for r in rows if (r["model"], r["mechanism"]) == (REFERENCE, TRAIN_MECHANISM)
                ]
                new = (row for row in rows if row["model"] not in is_known)
                add(RESULTS, (row | ratios(row, reference) for row in new))
    known = [name for name in TABLES if any(row["dataset"] == name for row in stored(RESULTS))]
    tables = {name: table(stored(RESULTS), name) for name in known}
    for name, text in tables.items():
        print(f"\n{name}\n{text}")
    fill("README.md", "regret", overview(stored(RESULTS)))
    fill("docs/methods/anymask.md", "regret", "\n\n".join(f"{TITLES[n]}\n\n{tables[n]}" for n in known))


if __name__ == "__main__":
    main()
