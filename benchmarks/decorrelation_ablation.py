"""Do decorrelating row weights help? Gaussian-Mix, MAR, trained at 10% missing (the paper's Figure 2).

Fits StableMiss with each setting of the row weights to the same instances, with the same initial network
and early stopping, and scores it in three ways: on new rows under the training mechanism ("as trained"), on
such rows with further values hidden at random ("re-masked"), and at nine test levels. "Re-masked" requires no
knowledge of the test mechanism and can therefore be used to choose a default. Errors are compared with the
exact Bayes predictor. Each record is stored as soon as it is complete; a stopped run continues from them.

    python benchmarks/decorrelation_ablation.py [--instances 0 1 2 3 4] [--settings none …] [--only-print]
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from common import make_parser, open_store, run_pending, write_docs
from sklearn.metrics import root_mean_squared_error

from stablemiss import MissingRegressor
from stablemiss.data import MaskedData
from stablemiss.datasets import make_gaussian_mix
from stablemiss.decorrelation import Weighting
from stablemiss.methods import StableMiss
from stablemiss.missingness import LEVELS, MAR
from stablemiss.progress import Progress
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, provenance

STORE = open_store("decorrelation_ablation")
N_TRAIN, N_TEST, TRAIN_LEVEL = 16384, 8192, 0.1


class Shuffled(StableMiss):
    """The weights permuted at random over the rows: only the cost of uneven weights remains."""

    def learn_row_weights(self, train: MaskedData, rng: np.random.Generator, progress: Progress) -> Weighting:
        weighting = super().learn_row_weights(train, rng, progress)
        return replace(weighting, weight=rng.permutation(weighting.weight))


SETTINGS = {
    "none": StableMiss(decorrelate="none"),
    **{
        f"{terms} {strength}": StableMiss(decorrelate=terms, strength=strength)
        for strength in (0.2, 0.4)
        for terms in ("intra", "inter", "full")
    },
    **{
        f"paper {terms} 0.2": StableMiss(decorrelate=terms, form="paper", strength=0.2)
        for terms in ("intra", "inter", "full")
    },
    "full 0.2 shuffled": Shuffled(decorrelate="full", strength=0.2),
    # With little weight decay: is strong regularisation the reason why weights do not help?
    "loose none": StableMiss(decorrelate="none", weight_decay=0.01),
    "loose intra 0.2": StableMiss(decorrelate="intra", strength=0.2, weight_decay=0.01),
    "loose full 0.2": StableMiss(decorrelate="full", strength=0.2, weight_decay=0.01),
}


def make_record(instance: int, name: str, **fields: Any) -> Record:
    return Record("ablation", "gaussian_mix", "mar", TRAIN_LEVEL, instance, name, seed=instance, **fields)


def run(instance: int, name: str) -> Record:
    """Fit one setting to one instance and score it."""
    method = SETTINGS[name]
    population = make_gaussian_mix(random_state=instance)
    train_rng, fresh_rng, mask_rng = map(np.random.default_rng, np.random.SeedSequence(instance).spawn(3))
    X, y = population.draw(N_TRAIN, train_rng)
    mechanism = MAR(TRAIN_LEVEL).fit(X, train_rng)
    X = mechanism.hide(X, train_rng)
    fresh, target = population.draw(N_TEST, fresh_rng)
    as_trained = mechanism.hide(fresh, mask_rng)
    # Each row loses a random fraction of its values, between none and all.
    dropped = mask_rng.uniform(size=fresh.shape) < mask_rng.uniform(size=(N_TEST, 1))
    remasked = np.where(dropped, np.nan, as_trained)
    start = time.perf_counter()
    model = MissingRegressor(method=method, random_state=instance, on_unseen_missing="ignore").fit(X, y)
    seconds = time.perf_counter() - start

    def errors(rows: np.ndarray) -> tuple[float, float]:
        return (
            root_mean_squared_error(model.predict(rows), target),
            root_mean_squared_error(population.bayes(rows), target),
        )

    def gap(rows: np.ndarray) -> float:
        error, optimal = errors(rows)
        return error - optimal

    extra = {
        "as_trained": gap(as_trained),
        "remasked": gap(remasked),
        "epochs": [history.best_epoch for history in model.predictor_.history],
    }
    level_seed = int(mask_rng.integers(2**31))
    scores = []
    for level in LEVELS:
        error, optimal = errors(mechanism.at(level).hide(fresh, np.random.default_rng(level_seed)))
        scores.append(Score("mar", level, error, None, {"optimal": optimal}))
    weighting = model.predictor_.weighting
    if weighting is not None:
        extra["effective_share"] = weighting.effective_rows / len(weighting.weight)
        extra |= {"before": weighting.before, "after": weighting.after}
    return make_record(
        instance,
        name,
        scores=tuple(scores),
        config=describe(method),
        n_rows=N_TRAIN,
        n_test_rows=N_TEST,
        n_features=X.shape[1],
        fit_seconds=seconds,
        extra=extra,
        **provenance(),
    )


def gaps_of(record: Record) -> dict[str, float]:
    """Title of a column → gap to Optimal."""
    gaps = {"as trained": record.extra["as_trained"], "re-masked": record.extra["remasked"]}
    by_level = {score.level: score.error - score.extra["optimal"] for score in record.scores}
    return gaps | {f"{level:.0%}": by_level[level] for level in (0.1, 0.3, 0.5, 0.7, 0.9)}


def table(records: list[Record]) -> str:
    """Mean gap of "none", and for every other setting the mean paired difference to its baseline."""
    by_key = {(record.label, record.instance): record for record in records}
    columns = list(gaps_of(records[0]))
    rows = []
    for name in SETTINGS:
        baseline = "loose none" if name.startswith("loose") else "none"
        instances = [i for label, i in by_key if label == name and (baseline, i) in by_key]
        if not instances:
            continue
        fits, baseline_fits = ([by_key[label, i] for i in instances] for label in (name, baseline))
        cells = []
        for column in columns:
            values = np.array([gaps_of(record)[column] for record in fits])
            if name == baseline:
                cells.append(f"{values.mean():.0f}")
                continue
            difference = values - [gaps_of(record)[column] for record in baseline_fits]
            error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
            cells.append(f"{difference.mean():+.0f} ± {error:.0f}")
        effective = np.mean([record.extra.get("effective_share", 1.0) for record in fits])
        changes = ["", "", ""]
        if "before" in fits[0].extra and not name.endswith("shuffled"):
            changes = [
                f"{np.mean([one.extra['after'][term] / one.extra['before'][term] - 1 for one in fits]):+.0%}"
                for term in ("xx", "mm", "xm")
            ]
        seconds = f"{np.mean([record.fit_seconds for record in fits]):.0f}"
        rows.append([f"{name} ({len(instances)})", *cells, f"{effective:.0%}", *changes, seconds])
    header = ["setting", *columns, "effective rows", "xx", "mm", "xm", "seconds"]
    return markdown_table(header, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--instances", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    options = parser.parse_args()
    jobs = [(instance, name) for instance in options.instances for name in options.settings]
    if not options.only_print:
        run_pending(STORE, jobs, lambda job: make_record(*job).key, lambda job: run(*job))
    print(table(STORE.records()))
    write_docs("docs/decorrelation.md", "ablation", table(STORE.records()))


if __name__ == "__main__":
    main()
