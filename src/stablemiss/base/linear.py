"""Linear models of mean-imputed columns: design matrix, weighted regression, and predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.base.method import Predictor
from stablemiss.data import Bools, Floats, MaskedData, zero_where_missing
from stablemiss.seeding import Rng
from stablemiss.stored import stored_array, stored_bool
from stablemiss.tasks import Classification, Task

# Log-odds of a class without training rows: a probability of about 1e-13.
ABSENT_CLASS_LOG_ODDS = -30.0
# Outputs that are observed in different rows are solved one by one up to this number of columns, or of
# different sets of rows, and together by conjugate gradients above.
MAX_EXACT_COLUMNS = 64
MAX_EXACT_PATTERNS = 4
# Conjugate gradients end when the residual of each output has fallen by this factor. Outputs that need more
# iterations, which are those observed in hardly more rows than there are columns, are solved one by one: a
# factorisation takes as long as about 200 iterations.
RELATIVE_TOLERANCE = 1e-8
MAX_ITERATIONS = 200


class LinearPredictor(Predictor):
    """Linear function of the centred columns (zero where missing) and, if `use_mask`, of the mask.

    Parameters
    ----------
    means : (d,)
        Column means.
    coefficients : (d, d_output), or (2 d, d_output) with the mask
    intercept : (d_output,)
    use_mask : bool
        Whether the mask is part of the inputs.
    weight : (n,), default=None
        Fitted row weights of mean one: training rows first, then validation rows. None if the method learns
        no weights, or if the predictor was loaded.
    """

    def __init__(
        self,
        means: Floats,
        coefficients: Floats,
        intercept: Floats,
        use_mask: bool,
        weight: Floats | None = None,
    ):
        self.means = means
        self.coefficients = coefficients
        self.intercept = intercept
        self.use_mask = use_mask
        self.weight = weight

    @property
    def effective_share(self) -> float | None:
        if self.weight is None:
            return None
        return float(self.weight.sum() ** 2 / (self.weight**2).sum() / len(self.weight))

    def _predict(self, values: Floats, mask: NDArray) -> Floats:
        return self.intercept + design(values, mask, self.means, self.use_mask) @ self.coefficients

    def state(self) -> dict[str, Any]:
        return {
            "center": self.means,
            "coefficients": self.coefficients,
            "intercept": self.intercept,
            "use_mask": self.use_mask,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        use_mask = stored_bool(state, "use_mask")
        return cls(
            stored_array(state, "center", (n_columns,)),
            stored_array(state, "coefficients", (n_columns * (1 + use_mask), task.d_output)),
            stored_array(state, "intercept", (task.d_output,)),
            use_mask,
        )


def join(train: MaskedData, valid: MaskedData) -> MaskedData:
    """Training rows followed by validation rows, for methods that need no validation."""
    target_mask = None
    if train.target_mask is not None or valid.target_mask is not None:
        target_mask = np.concatenate([_observed_targets(train), _observed_targets(valid)])
    return replace(
        train,
        values=np.concatenate([train.values, valid.values]),
        mask=np.concatenate([train.mask, valid.mask]),
        target=np.concatenate([train.target, valid.target]),
        weight=np.concatenate([train.weight, valid.weight]),
        target_mask=target_mask,
    )


def _observed_targets(data: MaskedData) -> Bools:
    return np.ones(data.target.shape, dtype=bool) if data.target_mask is None else data.target_mask


def design(values: Floats, mask: Bools, means: Floats, use_mask: bool = False) -> Floats:
    """Design matrix: centred columns, zero (their mean) where missing, and optionally the mask.

    Parameters
    ----------
    values, mask : (n, d)
        Columns, and their mask with True = observed.
    means : (d,)
        Column means.
    use_mask : bool, default=False
        Append the mask, which doubles the number of columns.

    Returns
    -------
    (n, d) or (n, 2 d)

    See Also
    --------
    regress : Linear model of the design matrix.
    """
    columns = np.where(mask, values - means, 0.0)
    return np.hstack([columns, mask]) if use_mask else columns


def draw_columns(inputs: Floats, groups: NDArray, max_columns: int, rng: Rng) -> tuple[Floats, NDArray]:
    """Random subset of the columns (n, d) and their groups (d,); all of them if `max_columns` allows it."""
    if len(groups) <= max_columns:
        return inputs, groups
    columns = np.sort(rng.permutation(len(groups))[:max_columns])
    return inputs[:, columns], groups[columns]


def regress(
    inputs: Floats,
    target: NDArray,
    weight: Floats,
    task: Task,
    ridge: float,
    target_mask: Bools | None = None,
) -> tuple[Floats, Floats]:
    """Coefficients (p, d_output) and intercept (d_output,) of a weighted linear or logistic regression.

    Parameters
    ----------
    inputs : (n, p)
    target : (n, d_output), or (n,) class codes
    weight : (n,)
    task : Task
        Least squares for regression, logistic regression for classification.
    ridge : float
        Penalty on squared coefficients, for least squares only. A larger value shrinks them towards zero.
    target_mask : (n, d_output), default=None
        True = observed target, for least squares only. None means that all are observed.

    See Also
    --------
    least_squares, logistic_regression : The two regressions.
    """
    if isinstance(task, Classification):
        return logistic_regression(inputs, target, weight, task.d_output)
    return least_squares(inputs, target, weight, ridge, target_mask)


def least_squares(
    inputs: Floats, target: Floats, weight: Floats, ridge: float, target_mask: Bools | None = None
) -> tuple[Floats, Floats]:
    """Coefficients (p, d_output) and intercept (d_output,) of weighted ridge regression.

    Each output is fitted to the rows in which it is observed. An output that is never observed gets zeros.

    See Also
    --------
    logistic_regression : The same for classification.
    """
    if target_mask is not None and not target_mask.all():
        return _least_squares_of_partial_targets(inputs, target, weight, ridge, target_mask)
    normalised = weight / weight.sum()
    input_mean, target_mean = normalised @ inputs, normalised @ target
    centred = inputs - input_mean
    # Normal equations: the cost is linear in the rows, and the penalty bounds their condition number.
    gram = centred.T @ (normalised[:, None] * centred) + ridge * np.eye(inputs.shape[1])
    moments = centred.T @ (normalised[:, None] * (target - target_mean))
    coefficients = np.linalg.lstsq(gram, moments, rcond=None)[0]
    return coefficients, target_mean - input_mean @ coefficients


def _least_squares_of_partial_targets(
    inputs: Floats, target: Floats, weight: Floats, ridge: float, target_mask: Bools
) -> tuple[Floats, Floats]:
    coefficients = np.zeros((inputs.shape[1], target.shape[1]))
    intercept = np.zeros(target.shape[1])
    is_used = target_mask & (weight > 0)[:, None]
    fitted = np.flatnonzero(is_used.any(axis=0))
    patterns = _outputs_by_pattern(is_used, fitted)
    if inputs.shape[1] > MAX_EXACT_COLUMNS and len(patterns) > MAX_EXACT_PATTERNS:
        solution = _solve_together(inputs, target[:, fitted], weight, ridge, is_used[:, fitted])
        coefficients[:, fitted], intercept[fitted] = solution
        return coefficients, intercept
    for outputs in patterns:
        rows = is_used[:, outputs[0]]
        solution = least_squares(inputs[rows], target[np.ix_(rows, outputs)], weight[rows], ridge)
        coefficients[:, outputs], intercept[outputs] = solution
    return coefficients, intercept


def _outputs_by_pattern(is_used: Bools, outputs: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Split `outputs` into groups that are observed in the same rows."""
    groups: dict[bytes, list[int]] = {}
    for output in outputs:
        groups.setdefault(np.packbits(is_used[:, output]).tobytes(), []).append(output)
    return [np.array(group) for group in groups.values()]


def _solve_together(
    inputs: Floats, target: Floats, weight: Floats, ridge: float, is_used: Bools
) -> tuple[Floats, Floats]:
    """Least squares of many outputs, each on its own rows, by conjugate gradients.

    Every output has its own normal equations, which would take a factorisation each. An iteration for all
    outputs takes two matrix products instead. The mean of the normal equations is the preconditioner.
    """
    # Imported late, because only targets that are observed in part need it.
    from scipy.linalg import cho_factor, cho_solve

    share = weight[:, None] * is_used
    share /= share.sum(axis=0)
    target = zero_where_missing(target, is_used)
    target_mean = _column_products(share, target)
    mean_share = share.mean(axis=1)
    origin = mean_share @ inputs
    centred = inputs - origin
    input_mean = centred.T @ share
    moments = centred.T @ (share * (target - target_mean))
    gram = centred.T @ (mean_share[:, None] * centred)
    # Without a ridge, collinear columns would have no unique solution.
    ridge = max(ridge, 1e-12 * gram.trace(), np.finfo(np.float64).tiny)
    factor = cho_factor(gram + ridge * np.eye(len(gram)))

    def multiply(direction: Floats, outputs: NDArray[np.int64]) -> Floats:
        fitted = centred @ direction - _column_products(input_mean[:, outputs], direction)
        return centred.T @ (share[:, outputs] * fitted) + ridge * direction

    def precondition(residual: Floats) -> Floats:
        return cho_solve(factor, residual)

    coefficients, unsolved = _conjugate_gradients(multiply, precondition, moments)
    for output in unsolved:
        rows = is_used[:, output]
        own = centred[rows] - input_mean[:, output]
        gram = own.T @ (share[rows, output, None] * own) + ridge * np.eye(len(gram))
        coefficients[:, output] = np.linalg.solve(gram, moments[:, output])
    return coefficients, target_mean - _column_products(input_mean, coefficients) - origin @ coefficients


def _conjugate_gradients(
    multiply: Callable[[Floats, NDArray[np.int64]], Floats],
    precondition: Callable[[Floats], Floats],
    moments: Floats,
) -> tuple[Floats, NDArray[np.int64]]:
    """Solve several positive definite systems of equations at the same time.

    Parameters
    ----------
    multiply : function
        Multiplies each column of an array (p, k) with the matrix of its system; the second argument has the
        indices (k,) of the systems.
    precondition : function
        Multiplies the columns of an array with an approximate inverse of all matrices.
    moments : (p, q)
        Right-hand sides.

    Returns
    -------
    solution : (p, q)
    unsolved : (k,) int
        Indices of the systems that are not known to be solved after `MAX_ITERATIONS`.
    """
    solution = np.zeros_like(moments)
    left = np.arange(moments.shape[1])
    residual, direction = moments, precondition(moments)
    error = _column_products(residual, direction)
    enough = RELATIVE_TOLERANCE**2 * error
    for _ in range(MAX_ITERATIONS):
        # Solved systems leave, because others may take many more iterations.
        is_left = error > enough
        left, error, enough = left[is_left], error[is_left], enough[is_left]
        residual, direction = residual[:, is_left], direction[:, is_left]
        if not len(left):
            break
        product = multiply(direction, left)
        step = error / _column_products(direction, product)
        solution[:, left] += step * direction
        residual = residual - step * product
        preconditioned = precondition(residual)
        previous, error = error, _column_products(residual, preconditioned)
        direction = preconditioned + error / previous * direction
    return solution, left


def _column_products(a: Floats, b: Floats) -> Floats:
    """Scalar product of each column of `a` with the same column of `b`."""
    return np.einsum("ij,ij->j", a, b)


def logistic_regression(
    inputs: Floats, target: NDArray, weight: Floats, n_classes: int
) -> tuple[Floats, Floats]:
    """Coefficients (p, n_classes) and intercept (n_classes,) of the log-odds of each class.

    Classes without training rows get a constant probability near zero.

    See Also
    --------
    least_squares : The same for numeric targets.
    """
    from sklearn.linear_model import LogisticRegression

    coefficients = np.zeros((inputs.shape[1], n_classes))
    intercept = np.full(n_classes, ABSENT_CLASS_LOG_ODDS)
    present = np.unique(target)
    intercept[present[0]] = 0.0
    if len(present) > 1:
        model = LogisticRegression(max_iter=2000).fit(inputs, target, sample_weight=weight)
        # With two classes, scikit-learn fits coefficients only for the second, relative to the first.
        fitted = present[1:] if len(present) == 2 else present
        coefficients[:, fitted] = model.coef_.T
        intercept[fitted] = model.intercept_
    return coefficients, intercept
