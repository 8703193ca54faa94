"""AnyMask on data whose best predictor is known: the synthetic settings of the paper's tables.

Gaussian-Mix trained at each level under MAR and MCAR and tested at all levels under both (Tables 1, 2 and 9
to 11), and Gaussian and Gaussian-Ind trained at 50% (Tables 6 to 8). Prints the relative gap to the
Bayes-optimal predictor. Records are stored as soon as they are complete; a stopped run continues
from them.

    python benchmarks/synthetic.py [--instances 0 1 2] [--only-print]
"""

from __future__ import annotations

import numpy as np
from common import make_parser, open_store, run_pending, write_docs

from stablemiss.evaluation import TestSetting
from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.execute import execute
from stablemiss.experiments.runs import Run
from stablemiss.experiments.tables import DATA_TITLES
from stablemiss.missingness import LEVELS
from stablemiss.progress import ProgressBar
from stablemiss.report.markdown import markdown_table

STORE = open_store("synthetic")
BUDGET = Budget(
    name="synthetic",
    n_features=50,
    n_rows=16384,
    n_test_rows=8192,
    seconds=240,
    first_seed=0,
    separate_mechanism_rng=False,
)
# The most interesting levels first, since a fit takes minutes.
TRAIN_LEVELS = (0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6)
LABELS = ("optimal", "linear", "constant", "anymask")
# Data set, mechanism and level of the training rows, mechanisms of the test rows.
SETTINGS: list[tuple[str, str, float, tuple[str, ...]]] = [
    ("gaussian", "mcar_window", 0.5, ("mcar_window",)),
    ("gaussian", "mar", 0.5, ("mar",)),
    ("gaussian_ind", "mcar_independent", 0.5, ("mcar_independent",)),
]
for _level in TRAIN_LEVELS:
    SETTINGS.append(("gaussian_mix", "mar", _level, ("mar", "mcar_window")))
    # Table 9 trains under MCAR at 50% and tests under MCAR; the other levels are tested only under MAR.
    SETTINGS.append(
        ("gaussian_mix", "mcar_window", _level, ("mcar_window", "mar") if _level == 0.5 else ("mar",))
    )


def at_all_levels(mechanisms: tuple[str, ...]) -> tuple[TestSetting, ...]:
    """Each mechanism at all levels."""
    return tuple(TestSetting(mechanism, level) for mechanism in mechanisms for level in LEVELS)


def table() -> str:
    """The relative gap of AnyMask to Optimal at each test level, mean over instances."""
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
    header = [
        "data, training mechanism and rate, test mechanism (instances)",
        *(f"{level:.0%}" for level in LEVELS),
    ]
    return markdown_table(header, rows)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--instances", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    runs = [
        Run(BUDGET, dataset, mechanism, level, instance, label, at_all_levels(tests))
        for dataset, mechanism, level, tests in SETTINGS
        for instance in options.instances
        for label in LABELS
    ]
    if not options.only_print:
        run_pending(
            STORE,
            runs,
            lambda run: run.key,
            lambda run: execute(run, n_threads=None, progress=ProgressBar()),
        )
    print(table())
    write_docs("docs/methods/anymask.md", "synthetic", table())


if __name__ == "__main__":
    main()
