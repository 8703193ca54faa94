"""Conformal calibration: prediction intervals and prediction sets for rows with any mask.

Split conformal prediction computes one margin from held-out rows. It is valid on average over rows with the
same distribution of masks, but not if other values are missing. Here the calibration rows are predicted under
many masks (mask augmentation). The size of the error is predicted from the observed values: by the standard
deviation of the target under the mixture, which knows what each mask costs, and by trees, which correct it
where that helps on rows that they were not trained on. The margin is computed from rows with a similar number
of missing columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.base.lightgbm_text import load_booster, model_text
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.methods.em_mixture import DECIMALS
from stablemiss.seeding import Rng
from stablemiss.stored import check_stored, stored_array, stored_list
from stablemiss.tasks import Classification, Task

if TYPE_CHECKING:
    import lightgbm

# Which errors a margin bounds: of any sign, above the prediction, or below it.
Side = Literal["absolute", "upper", "lower"]
# Maximum number of calibration rows, counting masked copies; it bounds time and file size for long tables.
MAX_ROWS = 25_000
# Maximum number of cells in them, for very wide tables.
MAX_CELLS = 4_000_000
# Number of cross-fitting folds: trees predict only rows on which they were not trained.
N_FOLDS = 3
# Minimum number of distinct rows for training trees; with fewer, all rows have the same expected error.
MIN_ROWS = 20
# This fraction of the mean error is added to each error before taking logarithms. Differences between very
# small errors are irrelevant for the width of intervals.
ERROR_OFFSET = 0.05
# A high quantile rather than the mean, because intervals must be wider where errors have a heavy tail. The
# exact value of alpha matters little, because the margin corrects for it.
OBJECTIVE = "quantile"
ALPHA = 0.75
TREE_PARAMS = {
    "objective": OBJECTIVE,
    "alpha": ALPHA,
    "learning_rate": 0.15,
    "num_leaves": 15,
    "min_data_in_leaf": 60,
    "max_bin": 63,
    # One thread: the trees are few and small, so synchronising threads costs more than it saves.
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbosity": -1,
}
# Numbers of trees to choose from; 0 leaves the errors that the mixture expects as they are.
N_TREES = (0, 5, 10, 20, 40)
# Minimum effective number of rows for a margin. If a stratum has fewer rows, the bandwidth is increased to
# include rows of neighbouring strata.
MIN_EFFECTIVE_ROWS = 500
# Minimum bandwidth of the kernel over strata, as a fraction of the number of strata.
MIN_BANDWIDTH = 0.06
# Expected errors are at least this large; that of a target that follows from the columns could be zero.
MIN_EXPECTED_ERROR = 1e-6
# Number of bins of the largest class probability.
N_CONFIDENCE_BINS = 20


class ConformalCalibrator:
    """Conformal prediction intervals and sets, from the errors of a fitted predictor under many masks.

    The **score** of a calibration row measures its prediction error. For numeric targets it is the error
    divided by its size as mixture and trees predict it from the observed values; for classification it is the
    total probability of the classes ranked above the true class. The margin for a new row is a weighted
    quantile of the scores, or absolute scores, of the calibration rows. Calibration rows have a larger weight
    if their **stratum** is close to that of the new row. The stratum is the number of missing columns for
    numeric targets, and the binned largest class probability for classification.

    Coverage is valid on average over rows that are masked like the calibration rows. Under one fixed mask it
    is only as accurate as the trees, or as the class probabilities.

    Attributes
    ----------
    groups : (d,) int
        The column of the user's table that each encoded column belongs to. Missing columns of the user's
        table are counted.
    models : list of list of str
        For each output, the trees that predict the size of its errors relative to the expected ones, one
        model text per fold, or none if trees do not help; empty if there were too few rows, and for
        classification.
    scores : (k, m)
        Scores of the calibration rows, for each of k outputs (k = 1 for classification).
    stratum, weight : (m,)
        Stratum and weight of each calibration row.
    edges : (n_strata − 1,)
        For classification, the boundaries between strata, as values of a row's largest class probability;
        empty for numeric targets.
    bandwidth, n_rows : (n_strata,)
        For each stratum: the kernel bandwidth over strata, and the effective number of distinct rows within
        it.

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
        stratum: NDArray[np.int64],
        weight: Floats,
        edges: Floats,
        bandwidth: Floats,
        n_rows: Floats,
    ):
        self.groups = groups
        self.models = models
        self.scores = scores
        self.stratum = stratum
        self.weight = weight
        self.edges = edges
        self.bandwidth = bandwidth
        self.n_rows = n_rows
        # The features are those of `_tree_features`.
        n_features = len(groups) + 1 + 2 * len(scores)
        self._orders: dict[Side, tuple[Floats, NDArray[np.int64]]] = {}
        self._boosters = [[load_booster(text, n_features, OBJECTIVE) for text in texts] for texts in models]

    @classmethod
    def of(
        cls,
        outputs: Floats,
        calibration: MaskedData,
        task: Task,
        n_copies: int,
        rng: Rng,
        expected: Floats | None = None,
    ) -> Self:
        """Calibrate on rows with known targets.

        Parameters
        ----------
        outputs : (n, d_output)
            The predictor's outputs for the calibration rows.
        calibration : MaskedData
            Rows that the predictor was not trained on (with training rows, intervals are too narrow):
            `n_copies` copies of the same rows under different masks, one copy after the other. Row weights
            are taken into account.
        task : Task
        n_copies : int
            Number of copies of each row. More copies cover more masks, but only more rows make margins more
            precise.
        rng : numpy Generator
            Draws the folds and, if there are very many rows, a subset of them.
        expected : (n, d_output), default=None
            Expected size of the errors of numeric outputs, up to a factor. None: the same for all rows.
        """
        max_rows = min(MAX_ROWS, MAX_CELLS // calibration.n_columns)
        chosen = np.sort(rng.permutation(np.flatnonzero(calibration.weight))[:max_rows])
        distinct_rows, row = np.unique(chosen % (len(calibration) // n_copies), return_inverse=True)
        calibration, outputs = calibration.rows(chosen), outputs[chosen]
        groups, weight = calibration.groups, calibration.weight
        models: list[list[str]] = []
        edges = np.empty(0)
        if isinstance(task, Classification):
            probabilities = task.probabilities(outputs)
            quantiles = np.linspace(0, 1, N_CONFIDENCE_BINS + 1)[1:-1]
            edges = np.quantile(probabilities.max(axis=1), quantiles)
            stratum, n_strata = _confidence_stratum(probabilities, edges), N_CONFIDENCE_BINS
            scores = _probability_above(probabilities)[np.arange(len(row)), calibration.target][None]
        else:
            stratum, n_strata = _count_missing(calibration.mask, groups), len(np.unique(groups)) + 1
            expected = _positive(np.ones_like(outputs) if expected is None else expected[chosen])
            scores = (calibration.target - outputs).T / expected.T
            if len(distinct_rows) >= MIN_ROWS:
                # All copies of a row are in the same fold, because they have the same target.
                fold = (rng.permutation(len(distinct_rows)) % N_FOLDS)[row]
                features = _tree_features(calibration.values, calibration.mask, outputs, expected, stratum)
                models, factor = _fit_error_size(np.abs(scores), features, weight, fold)
                scores = scores / factor
        bandwidth, n_rows = _bandwidths(stratum, row, weight, n_strata)
        return cls(groups, models, scores, stratum, weight, edges, bandwidth, n_rows)

    def interval(
        self,
        values: Floats,
        mask: Bools,
        outputs: Floats,
        coverage: float,
        expected: Floats | None = None,
    ) -> Floats:
        """Bounds (n, d_output, 2) that contain each encoded target with probability `coverage`.

        Bounds are always finite. If there are too few calibration rows for such a high coverage (fewer than
        coverage / (1 − coverage)), the interval is widened as for a tail P(score > s) ∝ 1/s: halving
        1 − coverage doubles the width. Each output is covered separately, not all outputs jointly.

        Parameters
        ----------
        values, mask : (n, d)
            Encoded rows; hidden values have no influence.
        outputs : (n, d_output)
            The predictor's outputs for these rows, the centres of the intervals.
        coverage : float between 0 and 1
            Raising it widens the intervals.
        expected : (n, d_output), default=None
            As in `of`.

        See Also
        --------
        sets : The same for classification.
        """
        margin = self._scaled_margin(values, mask, outputs, coverage, expected, "absolute")
        return np.stack([outputs - margin, outputs + margin], axis=2)

    def quantile(
        self,
        values: Floats,
        mask: Bools,
        outputs: Floats,
        quantile: float,
        expected: Floats | None = None,
    ) -> Floats:
        """Bounds (n, d_output) below which each encoded target lies with probability `quantile`.

        Unlike an interval, they follow errors that are larger in one direction than in the other.

        Parameters
        ----------
        values, mask, outputs, expected
            As in `interval`.
        quantile : float between 0 and 1
            Raising it raises the bounds.

        See Also
        --------
        interval : Bounds on both sides.
        """
        if quantile >= 0.5:
            return outputs + self._scaled_margin(values, mask, outputs, quantile, expected, "upper")
        return outputs - self._scaled_margin(values, mask, outputs, 1 - quantile, expected, "lower")

    def _scaled_margin(
        self,
        values: Floats,
        mask: Bools,
        outputs: Floats,
        coverage: float,
        expected: Floats | None,
        side: Side,
    ) -> Floats:
        """Distance (n, d_output) between predictions and bounds."""
        n_missing = _count_missing(mask, self.groups)
        margin = self._extrapolated_margin(n_missing, coverage, side)
        expected = _positive(np.ones_like(outputs) if expected is None else expected)
        if any(self._boosters):
            features = _tree_features(values, mask, outputs, expected, n_missing)
            factors = [_predict_error_size(boosters, features) for boosters in self._boosters]
            margin = margin * np.column_stack(factors)
        return margin * expected

    def margins(self, coverage: float) -> Floats:
        """Half the width of an interval, in units of the expected error, (n_strata, k).

        The strata are the numbers of missing columns, 0, 1, …

        Parameters
        ----------
        coverage : float between 0 and 1
            Raising it raises the margins.
        """
        return self._extrapolated_margin(np.arange(len(self.bandwidth)), coverage, "absolute")

    def _extrapolated_margin(self, n_missing: NDArray[np.int64], coverage: float, side: Side) -> Floats:
        margin, extrapolation = self._margin(n_missing, coverage, side)
        # Only a bound away from the prediction is moved further away.
        return margin * np.where(margin > 0, extrapolation[:, None], 1.0)

    def sets(self, probabilities: Floats, coverage: float) -> Bools:
        """Prediction sets, (n, n_classes) bool, that contain the true class with probability `coverage`.

        Sets always contain the most probable class. If that class is correct more often than `coverage`, the
        sets therefore have a higher coverage as well. If there are too few calibration rows for such a high
        coverage (fewer than coverage / (1 − coverage)), the sets contain all classes.

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
        stratum = _confidence_stratum(probabilities, self.edges)
        margin, extrapolation = self._margin(stratum, coverage, "upper")
        return (_probability_above(probabilities) <= margin) | (extrapolation > 1)[:, None]

    def state(self) -> dict[str, Any]:
        """Arrays and strings from which `from_state` builds the same calibrator."""
        return {
            "groups": self.groups,
            "models": self.models,
            "scores": self.scores,
            "stratum": self.stratum,
            "weight": self.weight,
            "edges": self.edges,
            "bandwidth": self.bandwidth,
            "n_rows": self.n_rows,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        """Build a calibrator from the result of `state`; see `Predictor.from_state`."""
        is_classes = isinstance(task, Classification)
        n_scores = 1 if is_classes else task.d_output
        groups = stored_array(state, "groups", (n_columns,), np.int64)
        n_strata = N_CONFIDENCE_BINS if is_classes else len(np.unique(groups)) + 1
        scores = stored_array(state, "scores", (n_scores, None))
        m = scores.shape[1]
        models = stored_list(state, "models", list)
        if models:
            check_stored(not is_classes, "only numeric outputs have models")
            check_stored(len(models) == n_scores, "each output must have a list of models")
        for texts in models:
            stored_list({"models": texts}, "models", str)
        return cls(
            groups,
            models,
            scores,
            stored_array(state, "stratum", (m,), np.int64, lowest=0, highest=n_strata - 1),
            stored_array(state, "weight", (m,), lowest=0.0),
            stored_array(state, "edges", (n_strata - 1 if is_classes else 0,)),
            stored_array(state, "bandwidth", (n_strata,), lowest=1e-9),
            stored_array(state, "n_rows", (n_strata,), lowest=1e-9),
        )

    def _ordered(self, side: Side) -> tuple[Floats, NDArray[np.int64]]:
        """Scores in the direction of a bound, (k, m), and the calibration rows by ascending score, (k, m)."""
        # Computed when it is first needed, not when loading.
        if side not in self._orders:
            scores = np.abs(self.scores) if side == "absolute" else self.scores
            scores = -scores if side == "lower" else scores
            self._orders[side] = scores, np.argsort(scores, axis=1, kind="stable")
        return self._orders[side]

    def _margin(self, stratum: NDArray[np.int64], coverage: float, side: Side) -> tuple[Floats, Floats]:
        """Quantile (n, k) of the scores for rows of these strata, and the factor (n,) to extrapolate it."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1, for example 0.9; got {coverage!r}.")
        scores, orders = self._ordered(side)
        strata, position = np.unique(stratum, return_inverse=True)
        margins = np.empty((len(strata), len(self.scores)))
        for i, number in enumerate(strata):
            weight = self.weight * _kernel(self.stratum, number, self.bandwidth[number])
            for output, order in enumerate(orders):
                cumulative = np.cumsum(weight[order])
                # Conformal correction: the new row counts as one more row, which may have the largest score.
                threshold = coverage * (1 + 1 / self.n_rows[number]) * cumulative[-1]
                # Scores after `last` belong to rows of distant strata, whose weight is negligible.
                last = np.searchsorted(cumulative, cumulative[-1] * (1 - 1e-6))
                first = min(np.searchsorted(cumulative, threshold * (1 - 1e-12)), last)
                margins[i, output] = scores[output, order[first]]
        factor = 1 / ((self.n_rows[strata] + 1) * (1 - coverage))
        extrapolation = np.where(factor > 1 + 1e-12, factor, 1.0)
        return margins[position], extrapolation[position]


def _count_missing(mask: Bools, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of missing columns of the user's table in each row, (n,)."""
    _, first = np.unique(groups, return_index=True)
    return (~np.asarray(mask, dtype=bool)[:, first]).sum(axis=1)


def _tree_features(
    values: Floats, mask: Bools, outputs: Floats, expected: Floats, n_missing: NDArray[np.int64]
) -> Floats:
    """Features of the trees: observed values, number of missing columns, prediction, and expected errors."""
    # Rounded, so that no tree splits between equal rows whose rounding errors differ.
    computed = np.column_stack([outputs, expected]).round(DECIMALS)
    return np.column_stack([np.where(mask, values, np.nan), n_missing, computed])


def _positive(expected: Floats) -> Floats:
    """Expected errors that are not zero, as they can be for a target that follows from the columns."""
    return np.maximum(expected, MIN_EXPECTED_ERROR)


def _fit_error_size(
    errors: Floats, features: Floats, weight: Floats, fold: NDArray[np.int64]
) -> tuple[list[list[str]], Floats]:
    """Fit trees for each output; return them and out-of-fold predictions (k, n) of the size of the errors.

    The number of trees is the one with the lowest loss on the rows of the other folds; zero trees predict the
    same size for all rows.
    """
    # Imported late, so that the estimators can be imported quickly.
    import lightgbm

    models: list[list[str]] = []
    predicted = np.ones_like(errors)
    for output, error in enumerate(errors):
        # The last term avoids log(0) for constant targets, which are predicted exactly.
        target = np.log(error + ERROR_OFFSET * error.mean() + 1e-12)
        logs = np.empty((len(N_TREES), len(target)))
        boosters = []
        for k in range(N_FOLDS):
            train, test = fold != k, fold == k
            data = lightgbm.Dataset(features[train], target[train], weight=weight[train], params=TREE_PARAMS)
            booster = lightgbm.train(TREE_PARAMS, data, num_boost_round=max(N_TREES))
            boosters.append(booster)
            for i, n_trees in enumerate(N_TREES):
                logs[i, test] = (
                    booster.predict(features[test], num_iteration=n_trees, num_threads=1)
                    if n_trees
                    else _quantile(target[train], weight[train])
                )
        best = int(np.argmin([_pinball_loss(target - log, weight) for log in logs]))
        models.append([model_text(booster, N_TREES[best]) for booster in boosters] if best else [])
        if best:
            predicted[output] = np.exp(logs[best])
    return models, predicted


def _quantile(values: Floats, weight: Floats) -> float:
    """The quantile to which trees are fitted."""
    order = np.argsort(values)
    cumulative = np.cumsum(weight[order])
    first = np.searchsorted(cumulative, ALPHA * cumulative[-1])
    return float(values[order[min(first, len(values) - 1)]])


def _pinball_loss(residual: Floats, weight: Floats) -> float:
    """The loss that the quantile minimises."""
    return float(np.average(np.maximum(ALPHA * residual, (ALPHA - 1) * residual), weights=weight))


def _predict_error_size(boosters: list[lightgbm.Booster], features: Floats) -> Floats:
    """Expected size of the errors, (n,): the geometric mean over the boosters; one without boosters."""
    logs = [np.asarray(booster.predict(features, num_threads=1)) for booster in boosters]
    return np.exp(np.mean(logs, axis=0)) if logs else np.ones(len(features))


def _probability_above(probabilities: Floats) -> Floats:
    """For each class the total probability of all classes ranked above it, (n, n_classes)."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=1)
    above = np.empty_like(probabilities)
    np.put_along_axis(above, order, np.cumsum(ranked, axis=1) - ranked, axis=1)
    return above


def _confidence_stratum(probabilities: Floats, edges: Floats) -> NDArray[np.int64]:
    """Stratum (n,) of the largest class probability."""
    return np.searchsorted(edges, probabilities.max(axis=1), side="right")


def _kernel(strata: NDArray[np.int64], stratum: int, bandwidth: float) -> Floats:
    """Gaussian weights by distance of strata, scaled to one for the closest stratum that occurs."""
    square = ((strata - stratum) / bandwidth) ** 2
    return np.exp((square.min() - square) / 2)


def _bandwidths(
    strata: NDArray[np.int64], row: NDArray[np.int64], weight: Floats, n_strata: int
) -> tuple[Floats, Floats]:
    """For each stratum, a bandwidth that includes enough rows, and the effective number of distinct rows.

    Rows of unequal weight count as (Σw)² / Σw² rows of equal weight. For the bandwidth all copies of a row
    count, because they have different masks. For `n_rows` they count as one row, because the precision of a
    margin depends on the number of distinct rows.
    """
    min_rows = min(MIN_EFFECTIVE_ROWS, len(row) / 3)
    bandwidth = np.full(n_strata, MIN_BANDWIDTH * (n_strata - 1))
    n_rows = np.empty(n_strata)
    for stratum in range(n_strata):
        near = weight * _kernel(strata, stratum, bandwidth[stratum])
        while near.sum() ** 2 < min_rows * (near**2).sum() and bandwidth[stratum] < n_strata - 1:
            bandwidth[stratum] *= 1.5
            near = weight * _kernel(strata, stratum, bandwidth[stratum])
        by_row = np.bincount(row, near)
        n_rows[stratum] = by_row.sum() ** 2 / (by_row**2).sum()
    return bandwidth, n_rows
