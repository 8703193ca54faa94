"""Conformal calibration: prediction intervals and prediction sets that are valid under any mask.

Plain split conformal prediction takes one margin from held-out rows. That is valid on average, under the
masks of those rows, and no longer valid when other values are missing. Here the calibration rows are
predicted under many masks, by mask augmentation; trees learn how large errors are given the observed values;
and the margin comes from rows with about the same number of missing columns.
"""

from __future__ import annotations

from typing import Any, Self

import lightgbm
import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task

# Maximum number of calibration rows, all masks counted: time and file stay small for long tables.
MAX_ROWS = 25_000
# Maximum number of cells in them, for very wide tables.
MAX_CELLS = 4_000_000
# Trees are applied only to rows they were not trained on, so there is one model per fold.
N_FOLDS = 3
# Minimum number of different rows for training trees; with fewer, all rows are expected to have equal errors.
MIN_ROWS = 20
# Errors far below the mean error are treated as equal: their logarithms say nothing about wide intervals.
SMALL_ERROR = 0.05
TREE_PARAMS = {
    # A high quantile rather than the mean: where the tail is long the interval must be wide. Any quantile
    # around this one works; the margin corrects its bias.
    "objective": "quantile",
    "alpha": 0.75,
    "learning_rate": 0.15,
    "num_leaves": 15,
    "min_data_in_leaf": 60,
    "max_bin": 63,
    # One thread: the trees are few and small, so that synchronising threads costs more than it gains.
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbosity": -1,
}
N_TREES = 40
# Effective number of rows for a margin; if fewer have a level, rows of neighbouring levels are included.
MIN_EFFECTIVE_ROWS = 500
# Minimum bandwidth over levels, as a share of their number.
MIN_BANDWIDTH = 0.06
# Levels of the largest class probability.
N_CONFIDENCE_LEVELS = 20


class ConformalCalibrator:
    """Errors of a fitted predictor under many masks, and the margins that follow from them.

    A **score** measures how badly a row was predicted. For numeric targets it is the absolute error divided
    by the error that trees expect from the row's observed values; for classes it is the total probability of
    the classes that were ranked above the true one. The margin for a new row is a weighted quantile of the
    scores of the calibration rows. Rows count more if their **level** is close to that of the new row: for
    numeric targets the number of missing columns, for classes the largest class probability.

    Coverage is exact on average over rows that are masked like the calibration rows. Under one fixed mask it
    is as good as the trees, or as the class probabilities.

    Attributes
    ----------
    groups : (d,) int
        The column of the user's table that each encoded column belongs to; missing columns are counted in
        these.
    models : list of list of str
        For each output the trees that predict the size of its errors, one text per fold; empty if there were
        too few rows, and for classes.
    scores : (k, m)
        Scores of the calibration rows, for each of k outputs (one for classes).
    level, weight : (m,)
        Level and weight of each of these rows.
    edges : (n_levels − 1,)
        For classes, the probabilities at which the next level begins; empty for numeric targets.
    bandwidth, n_rows : (n_levels,)
        For each level: the bandwidth over levels, and the effective number of different rows within it.

    Examples
    --------
    >>> from stablemiss.tasks import Regression
    >>> rng = np.random.default_rng(0)
    >>> values, mask = rng.normal(size=(600, 1)), rng.random((600, 1)) < 0.5
    >>> calibration = MaskedData.of(values, mask, values)
    >>> outputs = calibration.values  # the mean where the value is hidden
    >>> task = Regression.of(values)
    >>> calibrator = ConformalCalibrator.of(outputs, calibration, task, n_copies=1, rng=rng)
    >>> new_mask = np.array([[True], [False]])
    >>> interval = calibrator.interval(np.zeros((2, 1)), new_mask, np.zeros((2, 1)), coverage=0.9)
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
        self._boosters = [[lightgbm.Booster(model_str=text) for text in texts] for texts in models]

    @classmethod
    def of(cls, outputs: Floats, calibration: MaskedData, task: Task, n_copies: int, rng: Rng) -> Self:
        """Calibrate on rows with known targets.

        Parameters
        ----------
        outputs : (n, d_output)
            The predictor's outputs for the calibration rows.
        calibration : MaskedData
            Rows that the predictor was not trained on: `n_copies` versions of the same rows under different
            masks, one version after the other. With training rows, intervals are too narrow. Rows count by
            their weights.
        task : Task
        n_copies : int
            Versions of each row. More versions show more masks, but only more rows make margins more precise.
        rng : numpy Generator
            Draws the rows, if there are very many, and the folds.
        """
        max_rows = min(MAX_ROWS, MAX_CELLS // calibration.n_columns)
        chosen = np.sort(rng.permutation(np.flatnonzero(calibration.weight))[:max_rows])
        different, row = np.unique(chosen % (len(calibration) // n_copies), return_inverse=True)
        calibration, outputs = calibration.rows(chosen), outputs[chosen]
        groups, weight = calibration.groups, calibration.weight
        models: list[list[str]] = []
        edges = np.empty(0)
        if isinstance(task, Classification):
            probabilities = task.probabilities(outputs)
            quantiles = np.linspace(0, 1, N_CONFIDENCE_LEVELS + 1)[1:-1]
            edges = np.quantile(probabilities.max(axis=1), quantiles)
            level, n_levels = _confidence_level(probabilities, edges), N_CONFIDENCE_LEVELS
            scores = _mass_above(probabilities)[np.arange(len(row)), calibration.target][None]
        else:
            level, n_levels = _count_missing(calibration.mask, groups), len(np.unique(groups)) + 1
            scores = np.abs(calibration.target - outputs).T
            if len(different) >= MIN_ROWS:
                # All versions of a row are in one fold: one version would reveal the target of the others.
                fold = (rng.permutation(len(different)) % N_FOLDS)[row]
                features = _tree_features(calibration.values, calibration.mask, outputs, level)
                models, expected = _fit_error_size(scores, features, weight, fold)
                scores = scores / expected
        bandwidth, n_rows = _bandwidths(level, row, weight, n_levels)
        return cls(groups, models, scores, level, weight, edges, bandwidth, n_rows)

    def interval(self, values: Floats, mask: Bools, outputs: Floats, coverage: float) -> Floats:
        """Bounds (n, d_output, 2) between which each encoded target lies with probability `coverage`.

        Bounds are finite. If there are too few calibration rows for such a high coverage (fewer than
        coverage / (1 − coverage)), the largest score is extrapolated as for a very heavy tail: twice the
        width for half the probability outside. Several outputs are covered one by one, not jointly.

        Parameters
        ----------
        values, mask : (n, d)
            Encoded rows; hidden values have no influence.
        outputs : (n, d_output)
            The predictor's outputs for these rows, the centres of the intervals.
        coverage : float between 0 and 1
            Raising it widens the intervals.

        See Also
        --------
        sets : The same for classes.
        """
        n_missing = _count_missing(mask, self.groups)
        margin, extension = self._margin(n_missing, coverage)
        if self._boosters:
            features = _tree_features(values, mask, outputs, n_missing)
            error_size = [_predict_error_size(boosters, features) for boosters in self._boosters]
            margin = margin * np.column_stack(error_size)
        margin = margin * extension[:, None]
        return np.stack([outputs - margin, outputs + margin], axis=2)

    def sets(self, probabilities: Floats, coverage: float) -> Bools:
        """Classes (n, n_classes) that contain the true one with probability `coverage`.

        Sets are never empty: they always contain the most probable class, so where the predictor is right
        more often than `coverage`, the sets cover more as well. If there are too few calibration rows for
        such a high coverage (fewer than coverage / (1 − coverage)), they contain all classes.

        Parameters
        ----------
        probabilities : (n, n_classes)
            The predictor's class probabilities.
        coverage : float between 0 and 1
            Raising it makes the sets larger.

        See Also
        --------
        interval : The same for numeric targets.
        """
        margin, extension = self._margin(_confidence_level(probabilities, self.edges), coverage)
        return (_mass_above(probabilities) <= margin) | (extension > 1)[:, None]

    def state(self) -> dict[str, Any]:
        """Arrays and strings from which `from_state` builds the same calibrator."""
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
        """Build the calibrator whose `state` this is."""
        return cls(**state)

    def _margin(self, level: NDArray[np.int64], coverage: float) -> tuple[Floats, Floats]:
        """Quantile (n, k) of the scores for rows of these levels, and the factor (n,) to extrapolate it."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1, for instance 0.9; got {coverage!r}.")
        levels, position = np.unique(level, return_inverse=True)
        margins = np.empty((len(levels), len(self.scores)))
        for i, number in enumerate(levels):
            weight = self.weight * _kernel(self.level, number, self.bandwidth[number])
            for output, order in enumerate(self._order):
                cumulative = np.cumsum(weight[order])
                # The new row is one more among them, and may have the largest score.
                wanted = coverage * (1 + 1 / self.n_rows[number]) * cumulative[-1]
                # At most the largest score that counts: larger ones belong to rows of distant levels.
                last = np.searchsorted(cumulative, cumulative[-1] * (1 - 1e-6))
                first = min(np.searchsorted(cumulative, wanted * (1 - 1e-12)), last)
                margins[i, output] = self.scores[output, order[first]]
        beyond = 1 / ((self.n_rows[levels] + 1) * (1 - coverage))
        extension = np.where(beyond > 1 + 1e-12, beyond, 1.0)
        return margins[position], extension[position]


def _count_missing(mask: Bools, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of missing columns of the user's table in each row, (n,)."""
    _, first = np.unique(groups, return_index=True)
    return (~np.asarray(mask, dtype=bool)[:, first]).sum(axis=1)


def _tree_features(values: Floats, mask: Bools, outputs: Floats, n_missing: NDArray[np.int64]) -> Floats:
    """What the size of an error is predicted from: observed values, number missing, and the prediction."""
    return np.column_stack([np.where(mask, values, np.nan), n_missing, outputs])


def _fit_error_size(
    errors: Floats, features: Floats, weight: Floats, fold: NDArray[np.int64]
) -> tuple[list[list[str]], Floats]:
    """Trees for each output, and out-of-fold predictions (k, n) of the size of the errors."""
    models: list[list[str]] = []
    expected = np.empty_like(errors)
    for output, error in enumerate(errors):
        # The last term is for constant targets, which are predicted exactly.
        target = np.log(error + SMALL_ERROR * error.mean() + 1e-12)
        models.append([])
        for k in range(N_FOLDS):
            train, test = fold != k, fold == k
            data = lightgbm.Dataset(features[train], target[train], weight=weight[train], params=TREE_PARAMS)
            text = lightgbm.train(TREE_PARAMS, data, num_boost_round=N_TREES).model_to_string()
            models[-1].append(text)
            expected[output, test] = _predict_error_size([lightgbm.Booster(model_str=text)], features[test])
    return models, expected


def _predict_error_size(boosters: list[lightgbm.Booster], features: Floats) -> Floats:
    """Expected size of the errors, (n,): the geometric mean over the boosters."""
    logs = [np.asarray(booster.predict(features, num_threads=1)) for booster in boosters]
    return np.exp(np.mean(logs, axis=0))


def _mass_above(probabilities: Floats) -> Floats:
    """For each class the total probability of all classes ranked above it, (n, n_classes)."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    above = np.empty_like(probabilities)
    np.put_along_axis(above, order, np.cumsum(ranked, axis=1) - ranked, axis=1)
    return above


def _confidence_level(probabilities: Floats, edges: Floats) -> NDArray[np.int64]:
    """Level (n,) of the largest class probability."""
    return np.searchsorted(edges, probabilities.max(axis=1), side="right")


def _kernel(levels: NDArray[np.int64], level: int, bandwidth: float) -> Floats:
    """Gaussian weights by distance of levels, scaled to one for the closest level that occurs."""
    square = ((levels - level) / bandwidth) ** 2
    return np.exp((square.min() - square) / 2)


def _bandwidths(
    levels: NDArray[np.int64], row: NDArray[np.int64], weight: Floats, n_levels: int
) -> tuple[Floats, Floats]:
    """For each level, a bandwidth that includes enough rows, and the effective number of different rows.

    Rows of unequal weight count as (Σw)² / Σw² rows of equal weight. The bandwidth counts all versions of a
    row, which show different masks; the precision of a margin depends on the number of different rows.
    """
    enough = min(MIN_EFFECTIVE_ROWS, len(row) / 3)
    bandwidth = np.full(n_levels, MIN_BANDWIDTH * (n_levels - 1))
    n_rows = np.empty(n_levels)
    for level in range(n_levels):
        near = weight * _kernel(levels, level, bandwidth[level])
        while near.sum() ** 2 < enough * (near**2).sum() and bandwidth[level] < n_levels - 1:
            bandwidth[level] *= 1.5
            near = weight * _kernel(levels, level, bandwidth[level])
        by_row = np.bincount(row, near)
        n_rows[level] = by_row.sum() ** 2 / (by_row**2).sum()
    return bandwidth, n_rows
