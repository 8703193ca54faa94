"""Train at one level of missingness, test at others, on data whose best possible prediction is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats
from stablemiss.datasets import Population
from stablemiss.estimators import MissingRegressor
from stablemiss.evaluation.provenance import describe, versions
from stablemiss.methods import Constant, Method
from stablemiss.missingness import LEVELS, Mechanism
from stablemiss.progress import NullProgress, Progress


class ResultRow(TypedDict):
    """One score and all it takes to get it again. A fact: tables and plots are made from rows alone.

    `role` is "method" or "reference". The references are ``optimal`` (the exact Bayes predictor), ``linear``
    (the moment-matched Gaussian's answer, linear in the observed cells) and ``constant`` (the mean of the
    training targets). `gap` is `rmse` minus `optimal_rmse`, `gap_share` that gap divided by `optimal_rmse`.
    """

    dataset: str
    mechanism: str
    mechanism_config: dict[str, Any]
    test_mechanism: str
    train_level: float
    test_level: float
    method: str
    role: str
    config: dict[str, Any]
    rmse: float
    optimal_rmse: float
    linear_rmse: float
    gap: float
    gap_share: float
    seed: int
    n_features: int
    n_rows: int
    n_test_rows: int
    fit_seconds: float | None
    versions: dict[str, str]
    finished: str


def score_under_shift(
    population: Population,
    mechanism: Mechanism,
    methods: Mapping[str, Method],
    *,
    dataset: str,
    test_mechanism: Mechanism | None = None,
    test_levels: Sequence[float] = LEVELS,
    n_rows: int = 16384,
    n_test_rows: int = 8192,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[ResultRow]:
    """Scores of methods that were trained under `mechanism` and are tested under it, or another, at other levels.

    The mechanism's mechanism is fixed once, on the complete training rows; only its level moves. The test rows
    are drawn afresh; rows and the random numbers behind their masks are the same for all levels and
    methods, so that differences between scores are paired.

    Parameters
    ----------
    population : Population
        Where rows come from, with their best possible predictions.
    mechanism : Mechanism
        How cells get hidden; its own level is the training level.
    methods : dict
        What to score: a label for the rows → a method with its parameters. The three references are
        always scored too.
    dataset : str
        The population's name in the rows.
    test_mechanism : Mechanism, optional
        How cells of the test rows get hidden, if not by `mechanism`. Its kind counts, its level does not.
    test_levels : sequence of float
        Levels to test at; each costs one prediction per method.
    n_rows : int
        Training rows, of which estimators set aside their validation rows. Raising it lowers the gaps.
    n_test_rows : int
        Test rows. Raising it makes scores steadier and tests slower.
    seed : int
        Fixes rows, masks and fits; independent of what the same seed draws elsewhere.
    progress : Progress
        Told which method is at work.

    Returns
    -------
    list of ResultRow
        References first, then methods in their order; levels within each.

    Examples
    --------
    >>> from stablemiss.datasets import make_gaussian
    >>> from stablemiss.methods import OLS
    >>> from stablemiss.missingness import MCARIndependent
    >>> rows = score_under_shift(
    ...     make_gaussian(4, random_state=0), MCARIndependent(0.1), {"ols": OLS()},
    ...     dataset="Gaussian", test_levels=[0.1, 0.9], n_rows=500, n_test_rows=500,
    ... )
    >>> [(row["method"], row["test_level"]) for row in rows][-2:]
    [('ols', 0.1), ('ols', 0.9)]
    """
    progress = progress or NullProgress()
    _check(mechanism, methods, test_levels, n_rows, n_test_rows)
    train_seed, test_seed, mask_seed = np.random.SeedSequence(seed).spawn(3)
    train_rng = np.random.default_rng(train_seed)
    X, y = population.draw(n_rows, train_rng)
    mechanism = mechanism.fit(X, train_rng)
    X_train = mechanism.hide(X, train_rng)
    X_test, y_test = population.draw(n_test_rows, np.random.default_rng(test_seed))
    # Every level starts from the same random numbers: what is hidden at 20% is, nearly, also hidden at 30%.
    hides = mechanism if test_mechanism is None else test_mechanism.fit(X, train_rng)
    tests = {level: hides.at(level).hide(X_test, np.random.default_rng(mask_seed)) for level in test_levels}

    progress.start("optimal and linear references", total=len(tests))
    optimal: dict[float, float] = {}
    linear: dict[float, float] = {}
    for done, (level, hidden) in enumerate(tests.items(), start=1):
        optimal[level] = _rmse(population.bayes(hidden), y_test)
        linear[level] = _rmse(population.linear_bayes(hidden), y_test)
        progress.update(done, f"tested at {level:.0%} missing")
    progress.finish()

    common = {
        "dataset": dataset,
        "mechanism": type(mechanism).__name__,
        "mechanism_config": describe(mechanism),
        "test_mechanism": type(hides).__name__,
        "train_level": mechanism.level,
        "seed": seed,
        "n_features": population.n_features,
        "n_rows": n_rows,
        "n_test_rows": n_test_rows,
        "versions": versions(),
    }

    def to_row(level: float, rmse: float, **own: Any) -> ResultRow:
        gap = rmse - optimal[level]
        row = {
            **common,
            **own,
            "test_level": level,
            "rmse": rmse,
            "optimal_rmse": optimal[level],
            "linear_rmse": linear[level],
            "gap": gap,
            "gap_share": gap / optimal[level],
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return cast(ResultRow, row)

    rows = [
        to_row(level, rmse, method=name, role="reference", config={}, fit_seconds=None)
        for name, scores in (("optimal", optimal), ("linear", linear))
        for level, rmse in scores.items()
    ]
    for name, method in {"constant": Constant(), **methods}.items():
        progress.start(name, total=len(tests))
        start = perf_counter()
        # The shift is what is measured here; a warning about it would be no news.
        model = MissingRegressor(method=method, random_state=seed, on_unseen_missing="ignore").fit(X_train, y)
        seconds = perf_counter() - start
        role = "method" if name in methods else "reference"
        for done, (level, hidden) in enumerate(tests.items(), start=1):
            rmse = _rmse(model.predict(hidden), y_test)
            rows.append(
                to_row(level, rmse, method=name, role=role, config=describe(method), fit_seconds=seconds)
            )
            progress.update(done, f"tested at {level:.0%} missing")
        progress.finish()
    return rows


def _rmse(prediction: Floats, target: NDArray) -> float:
    return float(np.sqrt(np.mean((prediction - target) ** 2)))


def _check(
    mechanism: Mechanism,
    methods: Mapping[str, Method],
    test_levels: Sequence[float],
    n_rows: int,
    n_test_rows: int,
) -> None:
    taken = {"optimal", "linear", "constant"} & set(methods)
    if taken:
        raise ValueError(f"{', '.join(sorted(taken))} are scored as references; give methods other labels.")
    if mechanism.level is None:
        raise ValueError("The mechanism should have a level of its own, the training level, but has none.")
    if not test_levels:
        raise ValueError("test_levels should name at least one level, but is empty.")
    if n_rows < 2 or n_test_rows < 1:
        raise ValueError(
            f"At least 2 training rows and 1 test row are needed, but n_rows is {n_rows} "
            f"and n_test_rows is {n_test_rows}."
        )
