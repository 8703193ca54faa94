"""AnyMask where the best possible prediction is known: the synthetic settings of the paper's tables.

Gaussian-Mix trained at each level under MAR and MCAR and tested at all levels under both (Tables 1, 2 and
9 to 11), and Gaussian and Gaussian-Ind trained at 50% (Tables 6 to 8). Prints the gap to the Bayes-optimal
predictor as a share of its error. Rows are stored as they come; what is there is not run again.

    python benchmarks/anymask_synthetic.py [--instances 0 1 2] [--only-print]
"""

from __future__ import annotations

import argparse
from hashlib import sha256
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pages import fill
from rows import add, stored

from stablemiss.data import MaskedData
from stablemiss.datasets import make_gaussian, make_gaussian_ind, make_gaussian_mix
from stablemiss.evaluation.provenance import describe
from stablemiss.evaluation.shift import score_under_shift
from stablemiss.methods import AnyMask
from stablemiss.missingness import LEVELS, MECHANISMS
from stablemiss.progress import ProgressBar

RESULTS = Path(__file__).parent / "results" / "anymask_synthetic.jsonl"
POPULATIONS = {
    "Gaussian": make_gaussian,
    "Gaussian-Ind": make_gaussian_ind,
    "Gaussian-Mix": make_gaussian_mix,
}


# Most importance first, since a fit takes minutes.
ORDER = (0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6)


class Setting(NamedTuple):
    """What is drawn, how it is hidden in training, and how in the test."""

    dataset: str
    mechanism: str
    level: float
    test_mechanism: str


def settings() -> list[tuple[Setting, ...]]:
    """Groups that differ in the test mechanism only, so that one fit serves all of a group."""
    groups = [
        (Setting("Gaussian", "mcar_window", 0.5, "mcar_window"),),
        (Setting("Gaussian", "mar", 0.5, "mar"),),
        (Setting("Gaussian-Ind", "mcar_independent", 0.5, "mcar_independent"),),
    ]
    for level in ORDER:
        # Of the two mechanisms, trained under MCAR it is tested under itself at one level only.
        own = ("mcar_window", "mar") if level == 0.5 else ("mar",)
        groups.append(tuple(Setting("Gaussian-Mix", "mar", level, test) for test in ("mar", "mcar_window")))
        groups.append(tuple(Setting("Gaussian-Mix", "mcar_window", level, test) for test in own))
    return groups


class FittedOnce(AnyMask):
    """AnyMask that answers a second call with the same rows by what it has learnt from them."""

    last: ClassVar[tuple[bytes, Any, float]] = (b"", None, 0.0)

    def fit(self, train: MaskedData, *args: Any) -> Any:
        rows = sha256(train.values.tobytes() + train.mask.tobytes() + train.target.tobytes()).digest()
        if rows != FittedOnce.last[0]:
            start = perf_counter()
            learnt = super().fit(train, *args)
            FittedOnce.last = rows, learnt, perf_counter() - start
        return FittedOnce.last[1]


def table(rows: list[dict]) -> str:
    """The gap of AnyMask at each test level, as a share of Optimal's error, mean over instances."""
    lines = [
        "| data, trained under and at, tested under (instances) | "
        + " | ".join(f"{level:.0%}" for level in LEVELS)
        + " |",
        "|" + "---|" * (len(LEVELS) + 1),
    ]
    for setting in [setting for group in settings() for setting in group]:
        own = [row for row in rows if row["method"] == "anymask" and row["setting"] == list(setting)]
        if own:
            gaps = [
                np.mean([row["gap_share"] for row in own if row["test_level"] == level]) for level in LEVELS
            ]
            name = f"{setting.dataset}, {setting.mechanism} {setting.level:.0%}, {setting.test_mechanism}"
            n = len({row["seed"] for row in own})
            lines.append(f"| {name} ({n}) | " + " | ".join(f"{gap:.1%}" for gap in gaps) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only-print", action="store_true", help="fit nothing, print what is stored")
    options = parser.parse_args()
    jobs = product([] if options.only_print else settings(), options.instances)
    for setting, instance in [(setting, instance) for group, instance in jobs for setting in group]:
        if (instance, *setting) in {(row["seed"], *row["setting"]) for row in stored(RESULTS)}:
            continue
        print(instance, *setting, flush=True)
        rows = score_under_shift(
            POPULATIONS[setting.dataset](random_state=instance),
            MECHANISMS[setting.mechanism](setting.level),
            {"anymask": FittedOnce()},
            dataset=setting.dataset,
            test_mechanism=MECHANISMS[setting.test_mechanism](setting.level),
            seed=instance,
            progress=ProgressBar(),
        )
        for row in rows:
            if row["method"] == "anymask":
                row["config"], row["fit_seconds"] = describe(AnyMask()), FittedOnce.last[2]
        add(RESULTS, ({**row, "setting": list(setting)} for row in rows))
    print(table(stored(RESULTS)))
    fill("docs/methods/anymask.md", "synthetic", table(stored(RESULTS)))


if __name__ == "__main__":
    main()
