"""Pattern submodels: one linear model per mask, fitted to the rows with this mask.

Fletcher Mercaldo and Blume, "Missing data and prediction: the pattern submodel", Biostatistics 21(2), 2020:

    E[y | x_o, m] = α_m + Σ_{j observed in m} β_{m,j} x_j,   fitted by least squares to the rows with mask m

or, as "complete-case submodels", to all rows in which the observed columns of m are observed.

Masks without enough rows, among them all masks that do not occur in training, are answered from moments over
jointly observed rows, which give the submodel of any mask on demand:

    β_m = (Σ_oo + ridge · I)⁻¹ Σ_oy,   o the observed columns of m

Deviations: moments over jointly observed rows answer for rare and new masks; a mask in which a class does not
occur counts as rare; a tiny ridge penalty, and scikit-learn's penalty on logistic coefficients. Each is
explained at its DEVIATION comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.base.linear import ABSENT_CLASS_LOG_ODDS, join, regress
from stablemiss.base.method import Method, Predictor
from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.checks import check_bool, check_choice, check_integer, check_number
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.stored import check_stored, stored_array
from stablemiss.tasks import Classification, Task

# Ridges of the fallback among which "auto" chooses, and the number of validation rows that decide.
RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
MAX_VALIDATION_ROWS = 1000
# Maximum number of matrix entries in a block of masks or of rows: 2^20 are 8 MiB.
MAX_BLOCK_CELLS = 2**20


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments over jointly observed rows: they give a linear model for every mask.

    Attributes
    ----------
    mean : (d,)
        Mean of each column over the rows in which it is observed.
    covariance : (d, d)
        Covariance of each pair of columns over the rows in which both are observed, for classes within the
        classes. Positive semi-definite.
    cross : (d, d_output)
        Covariance of columns and targets; for classes, the mean of a column in a class minus `mean`.
    base : (d_output,)
        Outputs if nothing is observed: the mean of the targets, or the log frequency of each class.
    is_classes : bool
        Whether targets are classes.
    """

    mean: Floats
    covariance: Floats
    cross: Floats
    base: Floats
    is_classes: bool

    @classmethod
    def of(cls, data: MaskedData, task: Task) -> Moments:
        """Moments of training rows."""
        is_classes = isinstance(task, Classification)
        target = np.eye(task.d_output)[data.target] if is_classes else data.target
        mean, observed = data.column_means(), data.mask.astype(np.float64)
        weighted = data.weight[:, None] * observed
        base = (data.weight @ target) / data.weight.sum()
        centred = np.where(data.mask, data.values - mean, 0.0)
        if is_classes:
            # A column that a class never has gets the mean of all classes.
            cross = _ratio(centred.T @ (data.weight[:, None] * target), weighted.T @ target)
            centred = np.where(data.mask, centred - cross.T[data.target], 0.0)
            base = np.log(np.maximum(base, np.exp(ABSENT_CLASS_LOG_ODDS)))
        else:
            cross = _ratio(
                centred.T @ (data.weight[:, None] * (target - base)), weighted.sum(axis=0)[:, None]
            )
        covariance = _ratio(centred.T @ (data.weight[:, None] * centred), observed.T @ weighted)
        return cls(mean, _positive_semi_definite(covariance), cross, base, is_classes)

    def with_ridge(self, ridge: float) -> Moments:
        """The same moments with `ridge` added to all variances, or more if rounding requires it."""
        ridge = max(ridge, 1e-14 * self.covariance.trace())
        return replace(self, covariance=self.covariance + ridge * np.eye(len(self.mean)))

    def outputs(self, values: Floats, mask: Bools) -> Floats:
        """Outputs (n, d_output) of the submodel of each row's mask; `values` are zero where missing."""
        result = np.empty((len(values), len(self.base)))
        for rows, pattern, masks in _blocks(mask):
            # Masks of a block have the same number of observed columns.
            columns = np.nonzero(masks)[1].reshape(len(masks), -1)
            cross = self.cross[columns]
            coefficients = np.linalg.solve(self.covariance[columns[:, :, None], columns[:, None, :]], cross)
            intercept = np.tile(self.base, (len(masks), 1))
            if self.is_classes:
                # Linear discriminant analysis: log π_k + μ_kᵀ Σ⁻¹ x − ½ μ_kᵀ Σ⁻¹ μ_k, with x and μ_k centred.
                intercept -= 0.5 * (cross * coefficients).sum(axis=1)
            centred = np.take_along_axis(values[rows] - self.mean, columns[pattern], axis=1)
            result[rows] = intercept[pattern] + np.einsum("nb,nbk->nk", centred, coefficients[pattern])
        return result


class PatternSubmodelsPredictor(Predictor):
    """Linear models of frequent masks, and moments from which those of all other masks are computed.

    Parameters
    ----------
    patterns : (n_patterns, d) bool
        Masks with a model of their own, True = observed. There may be none.
    coefficients : (n_patterns, d, d_output)
        Zero for columns that are missing in the pattern.
    intercepts : (n_patterns, d_output)
    moments : Moments
        Answer for all other masks.
    """

    def __init__(self, patterns: Bools, coefficients: Floats, intercepts: Floats, moments: Moments):
        self.patterns = patterns
        self.coefficients = coefficients
        self.intercepts = intercepts
        self.moments = moments
        self._index = {pattern.tobytes(): k for k, pattern in enumerate(patterns)}

    def _predict(self, values: Floats, mask: Bools) -> Floats:
        outputs = np.empty((len(values), len(self.moments.base)))
        masks, pattern = _distinct(mask)
        submodel = np.array([self._index.get(m.tobytes(), -1) for m in masks], dtype=np.int64)[pattern]
        for k in np.unique(submodel):
            rows = np.flatnonzero(submodel == k)
            if k < 0:
                outputs[rows] = self.moments.outputs(values[rows], mask[rows])
            else:
                outputs[rows] = self.intercepts[k] + values[rows] @ self.coefficients[k]
        return outputs

    def state(self) -> dict[str, Any]:
        return {
            "patterns": self.patterns,
            "coefficients": self.coefficients,
            "intercepts": self.intercepts,
            "mean": self.moments.mean,
            "covariance": self.moments.covariance,
            "cross": self.moments.cross,
            "base": self.moments.base,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        # There may be no pattern, so the number of them is read from the array.
        n_patterns = len(state["patterns"])
        covariance = stored_array(state, "covariance", (n_columns, n_columns))
        check_stored(np.array_equal(covariance, covariance.T), "covariance must be symmetric")
        eigenvalues = np.linalg.eigvalsh(covariance)
        # Then no submatrix is singular, whatever the mask of a row.
        is_regular = eigenvalues[0] > np.finfo(np.float64).eps * eigenvalues[-1]
        check_stored(is_regular, "covariance must be positive definite")
        moments = Moments(
            stored_array(state, "mean", (n_columns,)),
            covariance,
            stored_array(state, "cross", (n_columns, task.d_output)),
            stored_array(state, "base", (task.d_output,)),
            isinstance(task, Classification),
        )
        return cls(
            stored_array(state, "patterns", (n_patterns, n_columns), np.bool_),
            stored_array(state, "coefficients", (n_patterns, n_columns, task.d_output)),
            stored_array(state, "intercepts", (n_patterns, task.d_output)),
            moments,
        )


class PatternSubmodels(Method):
    """One linear (or logistic) model per mask, with moments of pairs of columns for all other masks.

    Each submodel uses only columns that are observed, so nothing is imputed, and it may differ freely between
    masks: it stays right if missingness depends on the missing values, as long as that does not change. It
    needs many rows with the same mask. Masks with few rows, and new masks, get a submodel computed from means
    and covariances over jointly observed rows.

    Parameters
    ----------
    rows : {"pattern", "complete_cases"}, default="pattern"
        Rows to which a submodel is fitted: "pattern", those with exactly its mask; "complete_cases", all rows
        in which its columns are observed. The latter are more, but their missingness may differ.
    min_rows : int, default=10
        Minimum number of rows per coefficient, the intercept included, of a submodel. A larger value leaves
        more masks to the moments: less noise, and less that is specific to a mask.
    ridge : float, default=1e-6
        Penalty on the squared coefficients, per row. A larger value shrinks them towards zero; the default
        only makes problems with collinear columns solvable. Logistic regression uses scikit-learn's penalty
        (``C=1``) instead.
    moment_ridge : float or "auto", default="auto"
        Added to the variances of the columns when a submodel is computed from moments, at least 1e-9. A
        larger value shrinks its coefficients. "auto" chooses it on validation rows.
    refit_on_validation : bool, default=True
        Whether validation rows are training rows after this choice. False keeps them for validation scores.

    See Also
    --------
    OLS : One linear model of mean-imputed columns for all masks.
    EMMixture : Gaussian mixture, whose conditional mean is another linear model for each mask.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> X[:, 1] += X[:, 0]
    >>> y = X.sum(axis=1)
    >>> X[::2, 0] = np.nan
    >>> model = MissingRegressor(method=PatternSubmodels(), random_state=0).fit(X, y)
    >>> model.predict([[1.0, 1.0], [np.nan, 2.0]]).round().tolist()
    [2.0, 3.0]
    """

    name: ClassVar[str] = "pattern_submodels"
    predictor_class: ClassVar[type[Predictor]] = PatternSubmodelsPredictor
    space: ClassVar[Space] = {
        "rows": Choice("pattern", "complete_cases"),
        "min_rows": Range(2, 50, log=True),
        "ridge": Range(1e-6, 1.0, log=True),
    }

    def __init__(
        self,
        rows: Literal["pattern", "complete_cases"] = "pattern",
        min_rows: int = 10,
        ridge: float = 1e-6,
        moment_ridge: float | Literal["auto"] = "auto",
        refit_on_validation: bool = True,
    ):
        self.rows = rows
        self.min_rows = min_rows
        self.ridge = ridge
        self.moment_ridge = moment_ridge
        self.refit_on_validation = refit_on_validation

    @property
    def trains_on_validation(self) -> bool:
        return self.refit_on_validation

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> PatternSubmodelsPredictor:
        check_choice(self, rows=("pattern", "complete_cases"))
        check_integer(self, min_rows=1)
        check_number(self, ridge="[0, inf)")
        check_number(self, moment_ridge="[1e-9, inf)", unless="auto")
        check_bool(self, "refit_on_validation")
        ridge = _choose_ridge(train, valid, task, rng) if self.moment_ridge == "auto" else self.moment_ridge
        # After this choice, validation rows can be training rows too.
        data = join(train, valid) if self.refit_on_validation else train
        data = data.rows(np.flatnonzero(data.weight > 0))
        patterns, coefficients, intercepts = self._submodels(data, task, progress)
        # DEVIATION: moments for masks without a submodel, because in a table of many columns most masks occur
        # in too few rows, or in none, to be fitted alone.
        moments = Moments.of(data, task).with_ridge(float(ridge))
        return PatternSubmodelsPredictor(patterns, coefficients, intercepts, moments)

    def _submodels(self, data: MaskedData, task: Task, progress: Progress) -> tuple[Bools, Floats, Floats]:
        """Masks with enough rows, with coefficients and intercepts of their models."""
        classes = np.unique(data.target) if isinstance(task, Classification) else None
        fitted = []
        masks, pattern = _distinct(data.mask)
        progress.start("submodels", total=len(masks))
        for k, rows in enumerate(self._rows_of(masks, pattern, data.mask)):
            progress.update(k)
            # DEVIATION: a mask in which a class does not occur gets no submodel, because that would give the
            # class a probability of zero, and in a small group of rows it is missing by chance.
            has_classes = classes is None or len(np.unique(data.target[rows])) == len(classes)
            if len(rows) < self.min_rows * (1 + masks[k].sum()) or not has_classes:
                continue
            # Columns that are missing in the pattern are zero, and so are their coefficients.
            inputs = np.where(masks[k], data.values[rows], 0.0)
            # PAPER: each submodel minimises the loss of its own rows.
            # DEVIATION: with a tiny ridge penalty, and scikit-learn's for classes, because one-hot columns
            # are collinear, and separable classes have no finite optimum.
            model = regress(inputs, data.target[rows], data.weight[rows], task, self.ridge)
            fitted.append((masks[k], *model))
        progress.finish()
        return (
            np.array([mask for mask, _, _ in fitted], dtype=bool).reshape(-1, data.n_columns),
            np.array([c for _, c, _ in fitted]).reshape(-1, data.n_columns, task.d_output),
            np.array([intercept for _, _, intercept in fitted]).reshape(-1, task.d_output),
        )

    def _rows_of(self, masks: Bools, pattern: NDArray, mask: Bools) -> Iterator[NDArray]:
        """Rows to which the submodel of each mask is fitted."""
        if self.rows == "pattern":
            yield from np.split(np.argsort(pattern, kind="stable"), np.cumsum(np.bincount(pattern))[:-1])
            return
        missing = (~mask).astype(np.float32)
        n_masks = max(1, MAX_BLOCK_CELLS // len(mask))
        for first in range(0, len(masks), n_masks):
            n_missing = missing @ masks[first : first + n_masks].T.astype(np.float32)
            for column in n_missing.T:
                yield np.flatnonzero(column == 0)


def _choose_ridge(train: MaskedData, valid: MaskedData, task: Task, rng: Rng) -> float:
    """The ridge with the smallest loss of validation rows, all of them predicted from moments."""
    rows = np.flatnonzero(valid.weight > 0)
    valid, rows = (valid, rows) if len(rows) else (train, np.flatnonzero(train.weight > 0))
    valid = valid.rows(rng.permutation(rows)[:MAX_VALIDATION_ROWS])
    moments = Moments.of(train, task)

    def loss(ridge: float) -> float:
        outputs = moments.with_ridge(ridge).outputs(valid.values, valid.mask)
        value = task.loss(outputs, valid.target, valid.weight)
        return value if np.isfinite(value) else np.inf

    return min(RIDGES, key=loss)


def _ratio(sums: Floats, total: Floats) -> Floats:
    """`sums` divided by `total`, and zero where there are no rows."""
    return sums / np.where(total > 0, total, 1.0)


def _positive_semi_definite(matrix: Floats) -> Floats:
    """The nearest positive semi-definite matrix, in the sum of squares.

    Covariances over different rows can have negative eigenvalues. The matrix without them is closer to the
    true covariances, because these form a convex set onto which it is projected.
    """
    matrix = (matrix + matrix.T) / 2
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    # Unchanged if possible, so that complete rows give their own covariances without rounding.
    if eigenvalues[0] >= 0:
        return matrix
    matrix = (eigenvectors * np.maximum(eigenvalues, 0.0)) @ eigenvectors.T
    return (matrix + matrix.T) / 2


def _distinct(mask: Bools) -> tuple[Bools, NDArray[np.int64]]:
    """Distinct masks (u, d), and for each row the index (n,) of its mask."""
    packed = np.packbits(mask, axis=1)
    _, first, pattern = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return mask[first], pattern.reshape(-1)


def _blocks(mask: Bools) -> Iterator[tuple[NDArray, NDArray, Bools]]:
    """Rows, index of the mask of each of them, and distinct masks with equal numbers of observed columns.

    Blocks have a bounded number of masks and rows, so that the matrices of a block fit into memory.
    """
    masks, pattern = _distinct(mask)
    n_observed = masks.sum(axis=1)
    by_size = np.argsort(n_observed, kind="stable")
    rank = np.argsort(by_size)[pattern]
    order = np.argsort(rank, kind="stable")
    start = 0
    while start < len(order):
        first = rank[order[start]]
        size = int(n_observed[by_size[first]])
        at_once = max(1, MAX_BLOCK_CELLS // max(1, size * size))
        n_same = np.searchsorted(n_observed[by_size], size, side="right")
        last = min(first + at_once, n_same)
        stop = min(np.searchsorted(rank[order], last), start + max(1, MAX_BLOCK_CELLS // mask.shape[1]))
        rows = order[start:stop]
        yield rows, rank[rows] - first, masks[by_size[first : rank[rows[-1]] + 1]]
        start = stop
