"""Do decorrelating row weights help? Gaussian-Mix, MAR, trained at 10% missing (the paper's Figure 2).

Fits StableMiss with each setting of the row weights to the same instances, the network starting alike, always
with early stopping, and scores it three ways: on rows of the training mechanism; on such rows of which further
observed cells are hidden at random (re-masked, which needs no knowledge of the test mechanism and so may choose a
default); and at nine test levels against the exact Bayes predictor.

Every fit is one line in a file of results; what is there already is not fitted again, so a stopped run goes
on where it was. The table is printed, and put into docs/decorrelation.md.

    python benchmarks/decorrelation_ablation.py [--instances 0 1 2 3 4] [--settings none …] [--only-print]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pages import fill
from rows import add, stored
from sklearn.metrics import root_mean_squared_error

from stablemiss import MissingRegressor
from stablemiss.data import MaskedData
from stablemiss.datasets import make_gaussian_mix
from stablemiss.decorrelation import Weighting
from stablemiss.evaluation.provenance import describe, versions
from stablemiss.methods import StableMiss
from stablemiss.missingness import LEVELS, MAR
from stablemiss.progress import Progress

RESULTS = Path(__file__).parent / "results" / "decorrelation_ablation.jsonl"
N_TRAIN, N_TEST, TRAIN_LEVEL = 16384, 8192, 0.1


class Shuffled(StableMiss):
    """The learnt weights dealt out to the rows at random: only the price of uneven weights is left."""

    def weigh(self, train: MaskedData, rng: np.random.Generator, progress: Progress) -> Weighting:
        found = super().weigh(train, rng, progress)
        return replace(found, weight=rng.permutation(found.weight))


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
    # Little weight decay: is it only that a well regularised φ has nothing left to gain?
    "loose none": StableMiss(decorrelate="none", weight_decay=0.01),
    "loose intra 0.2": StableMiss(decorrelate="intra", strength=0.2, weight_decay=0.01),
    "loose full 0.2": StableMiss(decorrelate="full", strength=0.2, weight_decay=0.01),
}


def run(instance: int, name: str) -> dict:
    """Fit one setting to one instance and score it."""
    method = SETTINGS[name]
    population = make_gaussian_mix(random_state=instance)
    train_rng, fresh_rng, mask_rng = map(np.random.default_rng, np.random.SeedSequence(instance).spawn(3))
    X, y = population.draw(N_TRAIN, train_rng)
    mechanism = MAR(TRAIN_LEVEL).fit(X, train_rng)
    X = mechanism.hide(X, train_rng)
    fresh, target = population.draw(N_TEST, fresh_rng)
    as_trained = mechanism.hide(fresh, mask_rng)
    # Of each row a share of its own, anything from none to all, is hidden further.
    dropped = mask_rng.uniform(size=fresh.shape) < mask_rng.uniform(size=(N_TEST, 1))
    remasked = np.where(dropped, np.nan, as_trained)
    start = time.perf_counter()
    model = MissingRegressor(method=method, random_state=instance, on_unseen_missing="ignore").fit(X, y)
    seconds = time.perf_counter() - start
    row = {
        "instance": instance,
        "setting": name,
        "config": describe(method),
        "as_trained": root_mean_squared_error(model.predict(as_trained), target)
        - root_mean_squared_error(population.bayes(as_trained), target),
        "remasked": root_mean_squared_error(model.predict(remasked), target)
        - root_mean_squared_error(population.bayes(remasked), target),
        "fit_seconds": seconds,
        "epochs": [history.best_epoch for history in model.predictor_.history],
    }
    level_rng = int(mask_rng.integers(2**31))
    for level in LEVELS:
        hidden = mechanism.at(level).hide(fresh, np.random.default_rng(level_rng))
        optimal = root_mean_squared_error(population.bayes(hidden), target)
        row[f"gap_{level}"] = root_mean_squared_error(model.predict(hidden), target) - optimal
        row[f"optimal_{level}"] = optimal
    weighting = model.predictor_.weighting
    if weighting is not None:
        row["effective_share"] = weighting.effective_rows / len(weighting.weight)
        row["before"], row["after"] = weighting.before, weighting.after
    row["versions"] = versions()
    row["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
    return row


def table(rows: list[dict]) -> str:
    """Mean gap of "none", and for every other setting the mean paired difference to its own "none"."""
    by_key = {(row["setting"], row["instance"]): row for row in rows}
    columns = {"as_trained": "as trained", "remasked": "re-masked"}
    columns |= {f"gap_{level}": f"{level:.0%}" for level in (0.1, 0.3, 0.5, 0.7, 0.9)}
    heads = ["setting", *columns.values(), "rows left", "xx", "mm", "xm", "seconds"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name in SETTINGS:
        reference = "loose none" if name.startswith("loose") else "none"
        instances = [i for s, i in by_key if s == name and (reference, i) in by_key]
        if not instances:
            continue
        own, base = ([by_key[s, i] for i in instances] for s in (name, reference))
        cells = []
        for column in columns:
            values = np.array([row[column] for row in own])
            if name == reference:
                cells.append(f"{values.mean():.0f}")
                continue
            difference = values - [row[column] for row in base]
            error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
            cells.append(f"{difference.mean():+.0f} ± {error:.0f}")
        if name.endswith("shuffled"):
            cells += [f"{np.mean([row['effective_share'] for row in own]):.0%}", "", "", ""]
        elif "before" in own[0]:
            cells.append(f"{np.mean([row['effective_share'] for row in own]):.0%}")
            for term in ("xx", "mm", "xm"):
                change = [row["after"][term] / row["before"][term] - 1 for row in own]
                cells.append(f"{np.mean(change):+.0%}")
        else:
            cells += ["100%", "", "", ""]
        cells.append(f"{np.mean([row['fit_seconds'] for row in own]):.0f}")
        lines.append("| " + " | ".join([f"{name} ({len(instances)})", *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--only-print", action="store_true", help="fit nothing, print what is stored")
    options = parser.parse_args()
    wanted = [] if options.only_print else [(i, s) for i in options.instances for s in options.settings]
    for number, (instance, name) in enumerate(wanted, start=1):
        if any(row["instance"] == instance and row["setting"] == name for row in stored(RESULTS)):
            continue
        print(f"{number} of {len(wanted)}: instance {instance}, {name}", flush=True)
        row = run(instance, name)
        add(RESULTS, [row])
    print(table(stored(RESULTS)))
    fill("docs/decorrelation.md", "ablation", table(stored(RESULTS)))


if __name__ == "__main__":
    main()
