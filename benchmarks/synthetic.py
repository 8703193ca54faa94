"""AnyMask where the best possible prediction is known: the synthetic settings of the paper's tables.

Gaussian-Mix trained at each level under MAR and MCAR and tested at all levels under both (Tables 1, 2 and 9
to 11), and Gaussian and Gaussian-Ind trained at 50% (Tables 6 to 8). Prints the gap to the Bayes-optimal
predictor as a share of its error. Records are stored as they are ready; a stopped run continues from them.

    python benchmarks/synthetic.py [--instances 0 1 2] [--only-print]
"""

from __future__ import annotations

import numpy as np
from common import fill, make_parser, open_store

from stablemiss.evaluation import TestSetting
from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.execute import execute
from stablemiss.experiments.runs import Run
from stablemiss.experiments.tables import DATA_TITLES
from stablemiss.missingness import LEVELS
from stablemiss.progress import ProgressBar
from stablemiss.report.markdown import markdown_table

STORE = open_store("synthetic")
BUDGET = Budget("synthetic", 50, 16384, 8192, 240, first_seed=0, seeds_mechanisms=False)
# The most interesting levels first, since a fit takes minutes.
TRAIN_LEVELS = (0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6)
LABELS = ("optimal", "linear", "constant", "anymask")
# Data, training mechanism, training level, test mechanisms.
SETTINGS: list[tuple[str, str, float, tuple[str, ...]]] = [
    ("gaussian", "mcar_window", 0.5, ("mcar_window",)),
    ("gaussian", "mar", 0.5, ("mar",)),
    ("gaussian_ind", "mcar_independent", 0.5, ("mcar_independent",)),
]
for _level in TRAIN_LEVELS:
    SETTINGS.append(("gaussian_mix", "mar", _level, ("mar", "mcar_window")))
    # Trained under MCAR, it is tested under MCAR at one level only.
    SETTINGS.append(
        ("gaussian_mix", "mcar_window", _level, ("mcar_window", "mar") if _level == 0.5 else ("mar",))
    )


def table() -> str:
    """The gap of AnyMask at each test level, as a share of Optimal's error, mean over instances."""
    errors = {
        (
            one.label,
            one.dataset,
            one.mechanism,
            one.level,
            one.instance,
            score.mechanism,
            score.level,
        ): score.error
        for one in STORE.records()
        for score in one.scores
    }
    rows = []
    for dataset, mechanism, level, tests in SETTINGS:
        for test in tests:
            fit = dataset, mechanism, level
            instances = sorted(
                {key[4] for key in errors if key[0] == "anymask" and key[1:4] == fit and key[5] == test}
            )
            if instances:
                gaps = [
                    np.mean(
                        [
                            errors["anymask", *fit, i, test, at] / errors["optimal", *fit, i, test, at] - 1
                            for i in instances
                        ]
                    )
                    for at in LEVELS
                ]
                name = f"{DATA_TITLES[dataset]}, {mechanism} {level:.0%}, {test} ({len(instances)})"
                rows.append([name, *(f"{gap:.1%}" for gap in gaps)])
    heads = ["data, trained under and at, tested under (instances)", *(f"{level:.0%}" for level in LEVELS)]
    return markdown_table(heads, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--instances", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    for dataset, mechanism, level, tests in [] if options.only_print else SETTINGS:
        settings = tuple(TestSetting(test, at) for test in tests for at in LEVELS)
        for instance in options.instances:
            for label in LABELS:
                run = Run(BUDGET, dataset, mechanism, level, instance, label, settings)
                if run.key in {record.key for record in STORE.records()}:
                    continue
                print(run.key, flush=True)
                record = execute(run, n_threads=None, progress=ProgressBar())
                with STORE.appending() as append:
                    append(record)
    print(table())
    fill("docs/methods/anymask.md", "synthetic", table())


if __name__ == "__main__":
    main()
