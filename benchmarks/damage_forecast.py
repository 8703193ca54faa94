"""Is the error that `diagnose` forecasts for new masks, without labels, the error that comes out?

Each table is split into training rows (40%), labelled reference rows and current rows (30% each). Training
and reference rows are under the mechanism "train" of the shift suite, current rows under each of its ten
mechanisms. Four models are fitted once: LightGBM, a random forest and a linear model in pipelines, and
AnyMask (fast). The forecast is compared with the error on the current rows, whose labels are known here.
Beside it, the sum of the absolute correlations of the lost columns with the target, with which others predict
damage (rank correlation only). Records are stored as soon as they are complete.

    python benchmarks/damage_forecast.py [--tables …] [--seeds 0] [--only-print]
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas
from common import make_parser, open_store, run_pending, write_docs
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from tables import TABLES, load

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, diagnose
from stablemiss.anymask import univariate_importance
from stablemiss.encoding import numeric_columns, read_table, with_missing
from stablemiss.evaluation.regret import TRAIN, shift_suite
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance
from stablemiss.row_losses import choose_metric

STORE = open_store("damage_forecast")
MODELS = ("LightGBM", "random forest", "linear", "AnyMask, fast")
DEFAULT_TABLES = (
    "King County prices",
    "air quality",
    "breast cancer",
    "deliveries",
    "crashes",
    "health insurance",
    "baseball",
    "wages",
)
MAX_ROWS = 12_000


def make_model(name: str, is_classification: bool, seed: int) -> Any:
    if name == "AnyMask, fast":
        estimator = AnyMaskClassifier if is_classification else AnyMaskRegressor
        return estimator(budget="fast", random_state=seed)
    text = make_column_selector(dtype_include=[object, "str"])
    numbers = make_column_selector(dtype_include=np.number)
    if name == "LightGBM":
        boosted = LGBMClassifier if is_classification else LGBMRegressor
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
        encoder = make_column_transformer((codes, text), remainder="passthrough")
        return make_pipeline(encoder.set_output(transform="pandas"), boosted(n_jobs=1, verbose=-1))
    impute_text = SimpleImputer(strategy="constant", fill_value="missing")
    one_hot = OneHotEncoder(handle_unknown="ignore", min_frequency=20)
    impute = SimpleImputer(add_indicator=True, keep_empty_features=True)
    encoder = make_column_transformer(
        (make_pipeline(impute_text, one_hot), text),
        (make_pipeline(impute, StandardScaler()), numbers),
        sparse_threshold=0.0,
    )
    if name == "linear":
        return make_pipeline(encoder, LogisticRegression(max_iter=500) if is_classification else Ridge())
    forest = RandomForestClassifier if is_classification else RandomForestRegressor
    return make_pipeline(encoder, forest(100, min_samples_leaf=5, n_jobs=1, random_state=seed))


def run(job: tuple[str, str, int]) -> Record:
    """Fit a model once, and compare forecast and error under each mechanism."""
    name, label, seed = job
    table = load(name, MAX_ROWS, seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table.y))
    n = len(order)
    train, reference, current = np.split(order, [int(0.4 * n), int(0.7 * n)])
    numbers = numeric_columns(read_table(table.X))
    # Mechanisms need numbers; which values are missing in the table itself does not matter for the drawing.
    filled = np.where(np.isnan(numbers), np.nanmedian(numbers, axis=0), numbers)
    mechanisms = shift_suite(filled[train], table.y[train], rng, table.is_classification)
    strength = np.sqrt(univariate_importance(numbers[train], table.y[train], table.is_classification))

    def masked(rows: NDArray, mechanism: str, mask_seed: int) -> pandas.DataFrame:
        observed = mechanisms[mechanism].draw(filled[rows], np.random.default_rng([seed, mask_seed]))
        return with_missing(table.X.iloc[rows].reset_index(drop=True), observed)

    model = make_model(label, table.is_classification, seed)
    X_reference = masked(reference, TRAIN, 1)
    usual_missing = X_reference.isna().to_numpy().mean(axis=0)
    scores = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(masked(train, TRAIN, 0), table.y[train])
        metric = choose_metric({label: model})
        for mechanism in mechanisms:
            X_current = masked(current, mechanism, 2)
            result = diagnose(X_reference, X_current, model, table.y[reference], random_state=seed)
            forecast = result.forecast
            assert forecast is not None
            error = metric.error(metric.row_losses(model, X_current, table.y[current]))
            lost = X_current.isna().to_numpy().mean(axis=0) - usual_missing
            extra = {
                "forecast": forecast.after,
                "low": forecast.interval[0],
                "high": forecast.interval[1],
                "before": forecast.before,
                "own_estimate": forecast.own_estimate,
                "sum_of_correlations": float(lost @ strength),
                "verdict": result.verdict,
            }
            scores.append(Score(mechanism, None, error, None, extra))
    return Record(
        experiment="damage_forecast",
        dataset=name,
        mechanism=TRAIN,
        level=None,
        instance=seed,
        label=label,
        seed=seed,
        scores=tuple(scores),
        metric=metric.name,
        settings={"mechanisms": describe(mechanisms)},
        n_rows=len(train),
        n_test_rows=len(current),
        n_features=table.X.shape[1],
        **provenance(),
    )


def table(records: list[Record]) -> str:
    """Rank correlations and relative errors, one row per table."""
    rows = []
    names = [name for name in TABLES if any(record.dataset == name for record in records)]
    for name in [*names, "all tables"]:
        some = [record for record in records if name in (record.dataset, "all tables")]
        ranks = [_rank(record, "forecast") for record in some]
        others = [_rank(record, "sum_of_correlations") for record in some]
        relative = np.array(
            [abs(score.extra["forecast"] / score.error - 1) for one in some for score in one.scores]
        )
        covered = np.mean(
            [score.extra["low"] <= score.error <= score.extra["high"] for one in some for score in one.scores]
        )
        rows.append(
            [
                name,
                f"{len(some)}",
                f"{np.mean(ranks):.2f}",
                f"{np.min(ranks):.2f}",
                f"{np.median(relative):.1%}",
                f"{np.quantile(relative, 0.9):.1%}",
                f"{covered:.0%}",
                f"{np.mean(others):.2f}",
            ]
        )
    header = [
        "table",
        "models × splits",
        "rank correlation, mean",
        "lowest",
        "relative error, median",
        "90% quantile",
        "in the 95% interval",
        "rank correlation of the sum of correlations",
    ]
    return markdown_table(header, rows)


def _rank(record: Record, name: str) -> float:
    """Rank correlation over mechanisms of a prediction with the error."""
    errors = [score.error for score in record.scores]
    return float(spearmanr(errors, [score.extra[name] for score in record.scores]).statistic)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(DEFAULT_TABLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    if not options.only_print:
        jobs = [(name, label, seed) for seed in options.seeds for name in options.tables for label in MODELS]
        run_pending(STORE, jobs, lambda job: f"damage_forecast {job[0]} {TRAIN} None {job[2]} {job[1]}", run)
    text = table(STORE.records())
    print(text)
    write_docs("docs/diagnose.md", "forecast", text)


if __name__ == "__main__":
    main()
