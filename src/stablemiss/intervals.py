"""How far a prediction may be off under the mask at hand: intervals and sets of classes that cover the truth.

Plain split conformal prediction takes one margin from held-out rows. It is right on average, under the masks
those rows have, and wrong as soon as other cells are missing. Here the held-out rows are judged under many
masks, by augmentation; trees learn from them how large errors are where these cells with these values are
observed; and the margin comes from rows that miss about as many columns.
"""

from __future__ import annotations

from typing import Any, Self

import lightgbm
import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task

# Most augmented rows to learn from: time and file stay small however long the table.
MOST_ROWS = 25_000
# Most cells in them, for very wide tables.
MOST_CELLS = 4_000_000
# Trees judge only rows they did not learn from, so there are as many forests as parts of the rows.
N_FOLDS = 3
# Fewest held-out rows from which trees can learn where errors are large; with fewer all rows are alike.
FEWEST_ROWS = 20
# Errors far below the mean error count as alike: their logarithms say nothing about wide intervals.
SMALL_ERROR = 0.05
TREES = {
    # Of large errors, not of usual ones: where the tail is long the interval must be wide. Any quantile
    # around here does; the margin corrects what it gets wrong.
    "objective": "quantile",
    "alpha": 0.75,
    "learning_rate": 0.15,
    "num_leaves": 15,
    "min_data_in_leaf": 60,
    "max_bin": 63,
    # One thread: the trees are few and small, and threads that wait for each other cost more than they bring.
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbosity": -1,
}
N_TREES = 40
# Rows that should count for a margin; where fewer miss as many columns, those that miss more or fewer join.
ENOUGH = 500
# How far levels are alike at least, as a share of all levels.
BANDWIDTH = 0.06
# Levels of the largest probability, for classes.
N_CONFIDENCES = 20


class ConformalCalibrator:
    """Errors of a fitted predictor under many masks, and the margins that follow from them.

    A **score** says how badly a row was predicted. For numbers it is the absolute error as a multiple of what
    trees expect from the row's observed cells; for classes it is the probability of all classes that were
    held to be more probable than the true one. The margin for a new row is the score that the wanted share
    of the judged rows stays below, where rows count more the nearer their **level** is to the new row's: for
    numbers how many columns are missing, for classes how probable the most probable class is.

    Coverage is exact on average over rows that are hidden like the judged ones. Under one fixed mask it is as
    good as the trees, or as the class probabilities.

    Attributes
    ----------
    groups : (d,) int
        Which column of the user's table each encoded column came from; missing columns are counted in these.
    models : list of list of str
        For each output the trees that say how large its errors are, one text per fold; empty if there were
        too few rows, and for classes.
    scores : (k, m)
        Scores of the judged rows, for each of k outputs (one for classes).
    level, weight : (m,)
        Level of each of these rows, and how much it counts.
    edges : (n_levels − 1,)
        For classes, the probabilities at which the next level begins; empty for numbers.
    bandwidth, n_rows : (n_levels,)
        For each level: how far rows of other levels count, and how many held-out rows that comes to.

    Examples
    --------
    >>> from stablemiss.tasks import Regression
    >>> rng = np.random.default_rng(0)
    >>> values, mask = rng.normal(size=(600, 1)), rng.random((600, 1)) < 0.5
    >>> judged = MaskedData.of(values, mask, values)
    >>> outputs = judged.values  # the mean where the value is hidden
    >>> spread = ConformalCalibrator.of(outputs, judged, Regression.of(values), n_copies=1, rng=rng)
    >>> interval = spread.interval(np.zeros((2, 1)), np.array([[True], [False]]), np.zeros((2, 1)), 0.9)
    >>> np.diff(interval[:, 0]).round().ravel().tolist()
    [0.0, 3.0]
    """

    def __init__(
        self,
        groups: NDArray[np.int64],
        models: list[list[str]],
        scores: Floats,
        level: NDArray[np.int64],
        weight: Floats,
        edges: Floats,
        bandwidth: Floats,
        n_rows: Floats,
    ):
        self.groups = groups
        self.models = models
        self.scores = scores
        self.level = level
        self.weight = weight
        self.edges = edges
        self.bandwidth = bandwidth
        self.n_rows = n_rows
        self._order = np.argsort(scores, axis=1, kind="stable")
        self._forests = [[lightgbm.Booster(model_str=text) for text in texts] for texts in models]

    @classmethod
    def of(cls, outputs: Floats, judged: MaskedData, task: Task, n_copies: int, rng: Rng) -> Self:
        """Learn from rows with known targets how far outputs are off.

        Parameters
        ----------
        outputs : (n, d_output)
            What the predictor says about the judged rows.
        judged : MaskedData
            Rows the predictor did not learn from, `n_copies` versions of the same rows under different masks
            after each other. If it did learn from them, intervals are too narrow. Rows count by their
            weights.
        task : Task
        n_copies : int
            How often each row comes. More copies show more masks, but only more rows make margins surer.
        rng : numpy Generator
            Chooses the rows, if there are very many, and the folds.
        """
        most = min(MOST_ROWS, MOST_CELLS // judged.n_columns)
        chosen = np.sort(rng.permutation(np.flatnonzero(judged.weight))[:most])
        held_out, row = np.unique(chosen % (len(judged) // n_copies), return_inverse=True)
        judged, outputs = judged.rows(chosen), outputs[chosen]
        models: list[list[str]] = []
        edges = np.empty(0)
        if isinstance(task, Classification):
            probabilities = task.probabilities(outputs)
            edges = np.quantile(probabilities.max(axis=1), np.linspace(0, 1, N_CONFIDENCES + 1)[1:-1])
            level, n_levels = _confidence(probabilities, edges), N_CONFIDENCES
            scores = _mass_above(probabilities)[np.arange(len(row)), judged.target][None]
        else:
            level, n_levels = _count_missing(judged.mask, judged.groups), len(np.unique(judged.groups)) + 1
            scores = np.abs(judged.target - outputs).T
            if len(held_out) >= FEWEST_ROWS:
                # All copies of a row are in one fold: what trees learn from one copy they know of the others.
                fold = (rng.permutation(len(held_out)) % N_FOLDS)[row]
                features = _features(judged.values, judged.mask, outputs, level)
                models, expected = _learn_expected(scores, features, judged.weight, fold)
                scores = scores / expected
        bandwidth, n_rows = _bandwidths(level, row, judged.weight, n_levels)
        return cls(judged.groups, models, scores, level, judged.weight, edges, bandwidth, n_rows)

    def interval(self, values: Floats, mask: Bools, outputs: Floats, coverage: float) -> Floats:
        """Bounds (n, d_output, 2) between which each encoded target lies with probability `coverage`.

        Bounds are finite. If there are too few held-out rows to know such large errors (fewer than
        coverage / (1 − coverage)), the largest score is extended as if errors had a very long tail: twice as
        far for half the chance to be outside. Several outputs are covered each on its own, not all at once.

        Parameters
        ----------
        values, mask : (n, d)
        outputs : (n, d_output)
            What the predictor says about these rows; the middle of the intervals.
        coverage : float between 0 and 1
            Raising it widens the intervals.
        """
        missing = _count_missing(mask, self.groups)
        margin, extension = self._margin(missing, coverage)
        if self._forests:
            features = _features(values, mask, outputs, missing)
            margin = margin * np.column_stack([_expected(forest, features) for forest in self._forests])
        margin = margin * extension[:, None]
        return np.stack([outputs - margin, outputs + margin], axis=2)

    def sets(self, probabilities: Floats, coverage: float) -> Bools:
        """Classes (n, n_classes) among which the true one is with probability `coverage`.

        Never empty: the most probable class is always in, so where the predictor is right more often than
        `coverage` the sets cover more, too. If there are too few held-out rows to know (fewer than
        coverage / (1 − coverage)), all classes are in.

        Parameters
        ----------
        probabilities : (n, n_classes)
            Of the classes, as the predictor sees them.
        coverage : float between 0 and 1
            Raising it makes the sets larger.
        """
        margin, extension = self._margin(_confidence(probabilities, self.edges), coverage)
        return (_mass_above(probabilities) <= margin) | (extension > 1)[:, None]

    def state(self) -> dict[str, Any]:
        """What the archive stores."""
        return {
            "groups": self.groups,
            "models": self.models,
            "scores": self.scores,
            "level": self.level,
            "weight": self.weight,
            "edges": self.edges,
            "bandwidth": self.bandwidth,
            "n_rows": self.n_rows,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The spread that `state` described."""
        return cls(**state)

    def _margin(self, level: NDArray[np.int64], coverage: float) -> tuple[Floats, Floats]:
        """Score (n, k) that a share `coverage` stays below, and by how much (n,) it has to be extended."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1, for instance 0.9, but is {coverage!r}.")
        numbers, where = np.unique(level, return_inverse=True)
        margins = np.empty((len(numbers), len(self.scores)))
        for place, number in enumerate(numbers):
            near = self.weight * _nearness(self.level, number, self.bandwidth[number])
            for output, order in enumerate(self._order):
                reached = np.cumsum(near[order])
                # The new row is one more among them, and may be the worst.
                wanted = coverage * (1 + 1 / self.n_rows[number]) * reached[-1]
                # At most the largest score that counts: others come from rows that miss far more, or less.
                last = np.searchsorted(reached, reached[-1] * (1 - 1e-6))
                first = min(np.searchsorted(reached, wanted * (1 - 1e-12)), last)
                margins[place, output] = self.scores[output, order[first]]
        beyond = 1 / ((self.n_rows[numbers] + 1) * (1 - coverage))
        extension = np.where(beyond > 1 + 1e-12, beyond, 1.0)
        return margins[where], extension[where]


def _count_missing(mask: Bools, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many columns of the user's table each row misses."""
    _, first = np.unique(groups, return_index=True)
    return (~np.asarray(mask, dtype=bool)[:, first]).sum(axis=1)


def _features(values: Floats, mask: Bools, outputs: Floats, missing: NDArray[np.int64]) -> Floats:
    """What tells how large errors are: the observed cells, the holes and the prediction itself."""
    return np.column_stack([np.where(mask, values, np.nan), missing, outputs])


def _learn_expected(
    errors: Floats, features: Floats, weight: Floats, fold: NDArray[np.int64]
) -> tuple[list[list[str]], Floats]:
    """Trees for each output, and the errors (k, n) expected by those that did not see the row."""
    models: list[list[str]] = []
    expected = np.empty_like(errors)
    for output, error in enumerate(errors):
        # The last term is for constant targets, which are met exactly.
        target = np.log(error + SMALL_ERROR * error.mean() + 1e-12)
        models.append([])
        for part in range(N_FOLDS):
            learn, judge = fold != part, fold == part
            data = lightgbm.Dataset(features[learn], target[learn], weight=weight[learn], params=TREES)
            text = lightgbm.train(TREES, data, num_boost_round=N_TREES).model_to_string()
            models[-1].append(text)
            expected[output, judge] = _expected([lightgbm.Booster(model_str=text)], features[judge])
    return models, expected


def _expected(forest: list[lightgbm.Booster], features: Floats) -> Floats:
    """The error (n,) to expect, as the trees' geometric mean."""
    logs = [np.asarray(trees.predict(features, num_threads=1)) for trees in forest]
    return np.exp(np.mean(logs, axis=0))


def _mass_above(probabilities: Floats) -> Floats:
    """For each class the probability of all classes that come before it, the most probable first."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    above = np.empty_like(probabilities)
    np.put_along_axis(above, order, np.cumsum(ranked, axis=1) - ranked, axis=1)
    return above


def _confidence(probabilities: Floats, edges: Floats) -> NDArray[np.int64]:
    """Level (n,) of the most probable class's probability."""
    return np.searchsorted(edges, probabilities.max(axis=1), side="right")


def _nearness(levels: NDArray[np.int64], level: int, bandwidth: float) -> Floats:
    """Weight of rows by their level, one for the nearest there are."""
    square = ((levels - level) / bandwidth) ** 2
    return np.exp((square.min() - square) / 2)


def _bandwidths(
    levels: NDArray[np.int64], row: NDArray[np.int64], weight: Floats, n_levels: int
) -> tuple[Floats, Floats]:
    """For each level, the bandwidth that brings enough rows, and how many held-out rows those are.

    Rows of unequal weight count as (Σw)² / Σw² of equal weight. Enough are counted with all copies, which
    show different masks; how sure a margin is depends on the number of different rows.
    """
    enough = min(ENOUGH, len(row) / 3)
    bandwidth = np.full(n_levels, BANDWIDTH * (n_levels - 1))
    n_rows = np.empty(n_levels)
    for level in range(n_levels):
        near = weight * _nearness(levels, level, bandwidth[level])
        while near.sum() ** 2 < enough * (near**2).sum() and bandwidth[level] < n_levels - 1:
            bandwidth[level] *= 1.5
            near = weight * _nearness(levels, level, bandwidth[level])
        by_row = np.bincount(row, near)
        n_rows[level] = by_row.sum() ** 2 / (by_row**2).sum()
    return bandwidth, n_rows
