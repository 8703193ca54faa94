"""The shift suite: ten missingness mechanisms for any table, and the regret of a model that is not retrained.

A model is fitted once, on rows with missing values in half of the columns. It is then tested under that
mechanism and nine others, and compared with LightGBM retrained under each of them. **Regret** is the model's
error divided by that of the retrained LightGBM, minus one: 0 is as good as retraining, negative is better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import train_test_split

from stablemiss.anymask import univariate_importance
from stablemiss.data import to_table
from stablemiss.estimators import MissingClassifier, MissingRegressor
from stablemiss.evaluation.scoring import TestSets, TestSetting, fit_and_score
from stablemiss.methods import Boosting
from stablemiss.missingness import MAR, MCARIndependent, MCARWindow, Mechanism, Only, Outage
from stablemiss.progress import NullProgress, Progress
from stablemiss.results import Record
from stablemiss.results.provenance import describe, provenance
from stablemiss.seeding import Rng

EXPERIMENT = "regret"
TRAIN = "train"
REFERENCE = "LightGBM, retrained"


def shift_suite(X: NDArray, y: NDArray, rng: Rng, is_classification: bool = False) -> dict[str, Mechanism]:
    """Ten mechanisms for a table; models are trained under the first one, "train".

    Half of the columns, A, chosen at random, have missing values in training. The others, B, have none.
    Values that are missing in the table itself are missing under every mechanism.

    Parameters
    ----------
    X : (n, d) numbers
        Training rows before values are hidden; NaN where already missing.
    y : (n,)
        Targets, used to find the most informative columns.
    rng : numpy Generator
        Chooses A and B, and the drivers and coefficients of MAR.
    is_classification : bool, default=False
        Whether y holds classes.

    Returns
    -------
    dict
        Name → mechanism:

        - "train": 30% of the values of A are missing,
        - "clean": nothing is missing,
        - "heavier": 80% of the values of A,
        - "unseen light", "unseen heavy": 30% and 80% of the values of B,
        - "all 50", "all 80": 50% and 80% of the values of all columns,
        - "MAR": half of the values of most columns, depending on the values of the remaining ones,
        - "window": in each row, half of the columns, adjacent to each other,
        - "informative outage": the most informative fifth of the columns, in every row.

    See Also
    --------
    stress_test : Score estimators under the mechanisms of a suite.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mechanisms = shift_suite(rng.normal(size=(50, 4)), rng.normal(size=50), rng)
    >>> len(mechanisms), next(iter(mechanisms))
    (10, 'train')
    """
    table = to_table(X)
    d = table.shape[1]
    order = rng.permutation(d)
    seen, unseen = sorted(order[: (d + 1) // 2].tolist()), sorted(order[(d + 1) // 2 :].tolist())

    def independent(level: float, columns: Sequence[int]) -> Mechanism:
        return Only(MCARIndependent(level, spread=0), columns)

    importance = univariate_importance(table, y, is_classification)
    informative = np.argsort(-importance, kind="stable")[: max(1, round(d / 5))]
    return {
        TRAIN: independent(0.3, seen),
        "clean": MCARIndependent(0.0),
        "heavier": independent(0.8, seen),
        "unseen light": independent(0.3, unseen),
        "unseen heavy": independent(0.8, unseen),
        "all 50": MCARIndependent(0.5, spread=0),
        "all 80": MCARIndependent(0.8, spread=0),
        "MAR": MAR(0.5, spread=0).fit(table, rng),
        "window": MCARWindow(0.5, spread=0),
        "informative outage": Outage(sorted(informative.tolist())),
    }


class ShiftedTable:
    """A table split into training and test rows, each available under every mechanism of the shift suite.

    Parameters
    ----------
    X, y, seed
        As in `score_under_suite`.
    is_classification : bool
        Whether y holds classes; the split is then stratified.
    test_size : float, default=0.2
        Share of rows to test on. Raising it makes scores less noisy and leaves fewer rows to train on.
    """

    def __init__(self, X: NDArray, y: NDArray, is_classification: bool, seed: int, test_size: float = 0.2):
        split_seed, mechanism_seed, self._train_seed, self._test_seed = np.random.SeedSequence(seed).spawn(4)
        table, target = to_table(X), np.asarray(y)
        train, test = train_test_split(
            np.arange(len(table)),
            test_size=test_size,
            random_state=int(split_seed.generate_state(1)[0]),
            stratify=target if is_classification else None,
        )
        self._X_train, self._X_test = table[train], table[test]
        self.y_train, self.y_test = target[train], target[test]
        rng = np.random.default_rng(mechanism_seed)
        self.mechanisms = shift_suite(self._X_train, self.y_train, rng, is_classification)

    def X_train(self, name: str = TRAIN) -> NDArray:
        """Training rows under a mechanism. All mechanisms use the same random numbers."""
        return self.mechanisms[name].hide(self._X_train, np.random.default_rng(self._train_seed))

    def tests(self, names: Iterable[str]) -> TestSets:
        """Test rows under the named mechanisms. All mechanisms use the same random numbers."""

        def masked(name: str) -> NDArray:
            return self.mechanisms[name].hide(self._X_test, np.random.default_rng(self._test_seed))

        return TestSets({TestSetting(name): masked(name) for name in names}, self.y_test)


def score_under_suite(
    X: NDArray,
    y: NDArray,
    models: Mapping[str, Any],
    dataset: str,
    mechanisms: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Record]:
    """Fit each model once under "train" and score it under every mechanism of the shift suite.

    All models see the same rows and the same missing values.

    Parameters
    ----------
    X : (n, d) numbers
        The table; NaN where missing.
    y : (n,)
        Numbers, or labels if the models are classifiers.
    models : dict
        Label → scikit-learn estimator that accepts NaN. Clones are fitted.
    dataset : str
        The table's name in the records.
    mechanisms : sequence of str, default=None
        Test mechanisms, by name. None means all ten.
    seed : int, default=0
        Fixes the split, the mechanisms and the masks.
    progress : Progress, default=None
        Reports each fit. None reports nothing.

    Returns
    -------
    list of Record
        One record per test mechanism for LightGBM retrained under it, then one record per model.

    See Also
    --------
    regret : Errors relative to the retrained LightGBM.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> ols = MissingRegressor("ols", on_unseen_missing="ignore")
    >>> records = score_under_suite(X, X.sum(axis=1), {"ols": ols}, "toy", mechanisms=["clean", "all 50"])
    >>> [(record.label, record.mechanism) for record in records]
    [('LightGBM, retrained', 'clean'), ('LightGBM, retrained', 'all 50'), ('ols', 'train')]
    """
    kinds = {is_classifier(model) for model in models.values()}
    if len(kinds) > 1:
        raise ValueError("models must be all regressors or all classifiers; got both.")
    is_classification = kinds == {True}
    table = ShiftedTable(X, y, is_classification, seed)
    names = list(mechanisms or table.mechanisms)
    if unknown := sorted(set(names) - set(table.mechanisms)):
        raise ValueError(f"mechanisms must be among {', '.join(table.mechanisms)}; got {', '.join(unknown)}.")
    estimator = MissingClassifier if is_classification else MissingRegressor
    reference = estimator(Boosting(), random_state=seed, on_unseen_missing="ignore")
    runs = [(REFERENCE, reference, name, [name]) for name in names]
    runs += [(label, model, TRAIN, names) for label, model in models.items()]
    progress = progress or NullProgress()
    records = []
    for label, model, trained_under, tested_under in runs:
        progress.start(f"{dataset}: {label}, trained under {trained_under}", total=len(tested_under))
        X_train, tests = table.X_train(trained_under), table.tests(tested_under)
        result = fit_and_score(clone(model), X_train, table.y_train, tests, progress)
        progress.finish()
        records.append(
            Record(
                experiment=EXPERIMENT,
                dataset=dataset,
                mechanism=trained_under,
                level=None,
                instance=seed,
                label=label,
                seed=seed,
                **result._asdict(),
                settings={"mechanisms": describe(table.mechanisms)},
                config=describe(model),
                n_rows=len(X_train),
                n_test_rows=len(table.y_test),
                n_features=X_train.shape[1],
                **provenance(),
            )
        )
    return records


def regret(records: Iterable[Record]) -> dict[str, dict[str, float]]:
    """Error of each model relative to LightGBM retrained under the test mechanism, minus one.

    Parameters
    ----------
    records : iterable of Record
        Records of one data set, as returned by `score_under_suite`. Regrets are averaged over instances.

    Returns
    -------
    dict
        Label → {test mechanism → regret}.

    Examples
    --------
    >>> from stablemiss.results import Score
    >>> run = {"experiment": "regret", "dataset": "toy", "level": None, "instance": 0, "seed": 0}
    >>> regret([
    ...     Record(**run, mechanism="clean", label=REFERENCE, scores=(Score("clean", None, 2.0),)),
    ...     Record(**run, mechanism="train", label="ols", scores=(Score("clean", None, 3.0),)),
    ... ])
    {'ols': {'clean': 0.5}}
    """
    records = list(records)
    reference = {
        (record.instance, score.mechanism): score.error
        for record in records
        if record.label == REFERENCE
        for score in record.scores
    }
    values: dict[str, dict[str, list[float]]] = {}
    for record in records:
        for score in record.scores:
            base = reference.get((record.instance, score.mechanism))
            if record.label != REFERENCE and base is not None and score.error is not None:
                by_mechanism = values.setdefault(record.label, {})
                by_mechanism.setdefault(score.mechanism, []).append(score.error / base - 1)
    return {
        label: {name: float(np.mean(regrets)) for name, regrets in by_mechanism.items()}
        for label, by_mechanism in values.items()
    }
