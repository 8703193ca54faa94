"""AnyMask against what people use, under missingness that changes: regret per law, and times as ratios.

Every model is fitted once, under the train law of the shift suite, and tested under its ten laws. Regret is
its error over that of LightGBM retrained under each law, less one. Runs are stored line by line; what is
there is not run again, so a stopped run goes on where it was. King County and air quality are read from the
data folder (STABLEMISS_DATA); CatBoost joins if it is installed.

    python benchmarks/anymask.py [--tables house air …] [--models …] [--seeds 0 1 …] [--only-print]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.pipeline import make_pipeline

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingClassifier, MissingRegressor
from stablemiss.datasets import load_air_quality, load_house_sales
from stablemiss.evaluation.suite import REFERENCE, TRAIN_LAW, regret_under_shift
from stablemiss.methods import Boosting, EMMixture, StableMiss
from stablemiss.progress import Bar

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
        "LightGBM, thinned": ours(Boosting(thinning=6)),
        "HistGradientBoosting": trees(early_stopping=True, random_state=seed),
        "IterativeImputer + LightGBM": make_pipeline(
            IterativeImputer(random_state=seed, keep_empty_features=True),
            light(random_state=seed, verbosity=-1),
        ),
        "EM mixture": ours(EMMixture()),
        "StableMiss": ours(StableMiss("mlp")),
    }
    if find_spec("catboost"):
        import catboost

        kind = catboost.CatBoostClassifier if is_classes else catboost.CatBoostRegressor
        found["CatBoost"] = kind(random_seed=seed, verbose=False, allow_writing_files=False)
    return found


def stored() -> list[dict]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table(rows: list[dict], name: str) -> str:
    """One line per model: mean regret under each law over the seeds, their mean and worst, and times."""
    rows = [row for row in rows if row["dataset"] == name]
    laws = list(dict.fromkeys(row["law"] for row in rows))
    times = {
        (row["seed"]): (row["fit_seconds"], row["predict_seconds"])
        for row in rows
        if row["model"] == REFERENCE and row["law"] == TRAIN_LAW
    }
    heads = ["model (seeds)", *laws, "mean", "worst", "fit", "predict"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for model in dict.fromkeys(row["model"] for row in rows if row["model"] != REFERENCE):
        own = [row for row in rows if row["model"] == model]
        seeds = {row["seed"] for row in own}
        regrets = [np.mean([row["regret"] for row in own if row["law"] == law]) for law in laws]
        fit, predict = (
            np.median([row[key] / times[row["seed"]][place] for row in own if row["law"] == TRAIN_LAW])
            for place, key in enumerate(("fit_seconds", "predict_seconds"))
        )
        cells = [f"{regret:+.1%}" for regret in (*regrets, np.mean(regrets), max(regrets))]
        lines.append(
            f"| {model} ({len(seeds)}) | " + " | ".join([*cells, f"{fit:.1f}×", f"{predict:.1f}×"]) + " |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--models", nargs="+", help="names of models; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--only-print", action="store_true", help="fit nothing, print what is stored")
    options = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    # Others' warnings about missing feature names and the like would drown the table.
    warnings.filterwarnings("ignore", category=UserWarning)
    for seed in [] if options.only_print else options.seeds:
        for name in options.tables:
            done = {row["model"] for row in stored() if row["dataset"] == name and row["seed"] == seed}
            wanted = {
                label: model
                for label, model in models(name in CLASSES, seed).items()
                if label not in done and (not options.models or label in options.models)
            }
            for label, model in wanted.items():
                print(f"{name}, seed {seed}: {label}", flush=True)
                rows = regret_under_shift(
                    *TABLES[name](), {label: model}, dataset=name, seed=seed, progress=Bar()
                )
                known = {REFERENCE} & {
                    row["model"] for row in stored() if (row["dataset"], row["seed"]) == (name, seed)
                }
                with RESULTS.open("a") as file:
                    for row in rows:
                        if row["model"] not in known:
                            file.write(json.dumps(row) + "\n")
    for name in options.tables:
        if any(row["dataset"] == name for row in stored()):
            print(f"\n{name}\n{table(stored(), name)}")


if __name__ == "__main__":
    main()
