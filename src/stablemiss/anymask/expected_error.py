"""Expected error of AnyMask's predictions, estimated with the mixture.

Under the mixture, the expected squared error t of its own prediction is known for any row and mask. The
ensemble is usually more accurate, and the mixture is not exactly right, so the expected squared error of the
ensemble is modelled as

    level · t^slope · exp(growth · share of missing columns),    slope ≥ 0, growth ≥ 0.

Slope and growth are fitted to the ensemble's squared errors on the calibration rows. If there are few rows,
they are shrunk towards 1 and 0. The level is more difficult: if errors have a heavy tail, as those of prices
have, a few of the largest errors dominate their mean, and there may be none of them, or too many, among a
few hundred validation rows. These rows are therefore used mainly to compare the ensemble with the mixture,
because the largest errors are almost the same for both. How large the errors of the mixture itself are is
estimated from the training rows as well, of which there are more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from stablemiss.anymask.fit_data import FitData
from stablemiss.anymask.stacking import observed_fraction
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.methods.em_mixture import EMMixturePredictor
from stablemiss.mixture import Uncertainty
from stablemiss.seeding import Rng
from stablemiss.stored import stored_array
from stablemiss.tasks import Classification, Task

# Maximum number of calibration rows, and of training rows, counting masked copies.
MAX_ROWS = 10_000
# Penalty of the squared differences of slope from 1 and growth from 0, times the number of distinct rows.
SHRINKAGE = 20.0
# Maximum share of one row in the sum of the mixture's squared errors, so that it cannot dominate the level.
MAX_SHARE = 0.3
# Errors of the mixture on its own training rows are too small by a factor of about 1 − OPTIMISM · (number of
# columns + 1) / number of rows; half of that is the assumed standard error of this correction.
OPTIMISM = 4.0
# Standard error of the logarithm of the expected squared error of a single mechanism because the model is not
# exact, in addition to the standard error of the level.
MISFIT = 0.2
# Half-width of the interval of the expected error in standard errors, for a coverage of 90%.
INTERVAL_Z = 1.645
# Largest slope and growth; larger ones could overflow.
MAX_COEFFICIENT = 100.0
# Added to expected squared errors, in units of the variance of the target, before taking logarithms.
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """Expected squared errors of the ensemble, from those of the mixture.

    Attributes
    ----------
    log_level, slope, growth : (k,)
        Coefficients of the model at the top of this module, for each of k outputs. For classification, k = 1:
        the sum over the classes.
    log_sd : (k,)
        Standard error of the logarithm of the mean squared error that the model expects for many rows.
    """

    log_level: Floats
    slope: Floats
    growth: Floats
    log_sd: Floats

    @classmethod
    def fit(
        cls, mixture: EMMixturePredictor, outputs: Floats, calibration: MaskedData, data: FitData, rng: Rng
    ) -> Self:
        """Fit to the errors of the ensemble on calibration rows.

        Parameters
        ----------
        mixture : EMMixturePredictor
        outputs : (n, d_output)
            Outputs of the ensemble for the calibration rows.
        calibration : MaskedData
            Copies of ``data.held_out`` under different masks, one copy after the other.
        data : FitData
            The rows on which the mixture was trained, and the task.
        rng : numpy Generator
            Draws subsets of the rows and masks of the training rows.
        """
        subset = np.sort(rng.permutation(len(calibration))[:MAX_ROWS])
        rows = calibration.rows(subset)
        missing = _share_missing(rows.mask, rows.groups)
        errors = _squared_errors(outputs[subset], rows, data.task)
        valid = _MixtureErrors.of(mixture, rows, data.task, subset % len(data.held_out))
        train: Sequence[_MixtureErrors | None] = [None] * len(valid)
        if len(data.valid):
            n_train = min(len(data.train), MAX_ROWS // 2)
            chosen = data.train.rows(np.sort(rng.permutation(len(data.train))[:n_train]))
            copies = data.augmentation.copies(chosen, 1, rng)
            train = _MixtureErrors.of(mixture, copies, data.task, np.arange(len(copies)) % n_train)
        columns_per_row = (rows.n_columns + 1) / len(data.train)
        fits = [
            _fit_output(errors[:, k], missing, valid[k], train[k], columns_per_row) for k in range(len(valid))
        ]
        return cls(*np.array(fits).T)

    def expected_error(
        self,
        mixture: EMMixturePredictor,
        values: Floats,
        mask: Bools,
        groups: NDArray[np.int64],
        weight: Floats,
    ) -> Uncertainty:
        """Expected squared errors of the ensemble. Observing more columns never increases them.

        Parameters
        ----------
        mixture : EMMixturePredictor
            The mixture to whose errors the model was fitted.
        values, mask : (n, d)
            Encoded rows; hidden values have no influence.
        groups : (d,)
            The column of the user's table that each encoded column belongs to.
        weight : (d_output,)
            Factor of each output's squared error; ones for classification.
        """
        expected = _mixture_error(mixture, values, mask, groups, weight)
        missing = _share_missing(mask, groups)[:, None]
        error = self._calibrate(expected.error, missing, weight)
        # One more column reduces the errors of all outputs by the same share, because only the reduction of
        # their sum is known.
        total = np.maximum(expected.error.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        log_left = np.log((1 - expected.gain / total).clip(TINY, 1.0))
        one_column = 1 / len(np.unique(groups))
        gain = sum(
            error[:, k : k + 1] * -np.expm1(self.slope[k] * log_left - self.growth[k] * one_column)
            for k in range(error.shape[1])
        )
        complete = self._calibrate(expected.error_if_complete, np.zeros_like(missing), weight)
        return Uncertainty(error, complete, np.where(expected.gain > 0, gain, 0.0))

    def interval(self, error: Floats) -> tuple[Floats, Floats]:
        """Lower and upper bounds, (n, k), of the mean squared errors of many rows, from expected ones."""
        factor = np.exp(INTERVAL_Z * self.log_sd)
        return error / factor, error * factor

    def state(self) -> dict[str, Any]:
        """Arrays from which `from_state` builds the same model."""
        return {
            "log_level": self.log_level,
            "slope": self.slope,
            "growth": self.growth,
            "log_sd": self.log_sd,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_outputs: int) -> Self:
        """Build a model of `n_outputs` outputs from the result of `state`."""
        limits = dict.fromkeys(("slope", "growth", "log_sd"), (0.0, MAX_COEFFICIENT))
        limits["log_level"] = (-MAX_COEFFICIENT, MAX_COEFFICIENT)
        return cls(
            **{
                name: stored_array(state, name, (n_outputs,), lowest=lowest, highest=highest)
                for name, (lowest, highest) in limits.items()
            }
        )

    def _calibrate(self, expected: Floats, missing: Floats, weight: Floats) -> Floats:
        """Expected squared errors of the ensemble (n, k) from those of the mixture, times `weight`."""
        weight = weight if len(weight) == len(self.slope) else np.ones(1)
        log_expected = np.log(expected / weight + TINY)
        return weight * np.exp(self.log_level + self.slope * log_expected + self.growth * missing)


class _MixtureErrors(NamedTuple):
    """Squared errors of the mixture for one output, n rows and masks.

    Attributes
    ----------
    expected, errors, weight : (n,)
        Expected and actual squared errors, and weights of the rows; reduced for rows with huge errors.
    row : (n,) int
        Index of the distinct row to which each row and mask belongs.
    """

    expected: Floats
    errors: Floats
    weight: Floats
    row: NDArray[np.int64]

    @classmethod
    def of(
        cls, mixture: EMMixturePredictor, rows: MaskedData, task: Task, row: NDArray[np.int64]
    ) -> list[_MixtureErrors]:
        """The errors of each output."""
        expected = mixture.expected_error(rows.values, rows.mask)
        errors = _squared_errors(mixture.predict(rows.values, rows.mask), rows, task)
        _, row = np.unique(row, return_inverse=True)
        factors = [_limit_shares(_sum_by_row(rows.weight * error, row))[row] for error in errors.T]
        return [
            cls(expected[:, k], errors[:, k], rows.weight * factor, row) for k, factor in enumerate(factors)
        ]

    def level(self) -> float:
        """Actual relative to expected squared errors."""
        return max(float(self.weight @ self.errors), TINY) / max(float(self.weight @ self.expected), TINY)

    def residuals(self) -> Floats:
        """Contribution of each distinct row to the relative error of `level`, times the number of rows."""
        expected = self.level() * _sum_by_row(self.weight * self.expected, self.row)
        actual = _sum_by_row(self.weight * self.errors, self.row)
        return (actual - expected) / max(expected.mean(), TINY)


def _sum_by_row(numbers: Floats, row: NDArray[np.int64]) -> Floats:
    """Sum of the numbers that belong to each distinct row."""
    return np.bincount(row, numbers).astype(np.float64)


def _limit_shares(sums: Floats) -> Floats:
    """Factors (n,) that reduce the largest `sums` to at most `MAX_SHARE` of the total after reduction."""
    largest = np.sort(sums)[::-1]
    for n_reduced in range(min(len(sums), int(1 / MAX_SHARE) + 1)):
        limit = MAX_SHARE * largest[n_reduced:].sum() / (1 - MAX_SHARE * n_reduced)
        if 0 < largest[n_reduced] <= limit:
            return limit / np.maximum(sums, limit)
    return np.ones(len(sums))


def _fit_output(
    errors: Floats,
    missing: Floats,
    valid: _MixtureErrors,
    train: _MixtureErrors | None,
    columns_per_row: float,
) -> tuple[float, float, float, float]:
    """Coefficients of one output: log level, slope, growth, and the standard error of the log level.

    Parameters
    ----------
    errors, missing : (n,)
        Squared errors of the ensemble on the calibration rows, and their shares of missing columns.
    valid : _MixtureErrors
        Errors of the mixture on the same rows.
    train, columns_per_row
        As in `_compare_levels`.
    """
    features = np.column_stack([np.log(valid.expected + TINY), missing])
    row, weight = valid.row, valid.weight
    n_rows = row.max() + 1
    slope, growth = _fit_shape(features, errors, weight, SHRINKAGE / n_rows)
    shape = np.exp(features @ [slope, growth])
    log_level = np.log(max(float(weight @ errors), TINY) / max(float(weight @ shape), TINY))
    log_correction, variance = _compare_levels(valid, train, columns_per_row)
    # The ratio of the errors of ensemble and mixture is uncertain, too.
    ours, theirs = (_sum_by_row(weight * squares, row) for squares in (errors, valid.errors))
    difference = ours / max(ours.mean(), TINY) - theirs / max(theirs.mean(), TINY)
    variance += float(np.mean(difference**2)) / n_rows + MISFIT**2
    return log_level + log_correction, slope, growth, np.sqrt(variance)


def _compare_levels(
    valid: _MixtureErrors, train: _MixtureErrors | None, columns_per_row: float
) -> tuple[float, float]:
    """Logarithm of the factor from the level of the validation rows to the best estimate, and its variance.

    The best estimate is the mean of the logarithms of the levels of validation and training rows, weighted by
    their precisions.

    Parameters
    ----------
    valid : _MixtureErrors
    train : _MixtureErrors or None
        None if there are no validation rows apart from the training rows.
    columns_per_row : float
        Number of columns divided by the number of training rows.
    """
    residuals = valid.residuals()
    if train is None:
        return 0.0, float(np.mean(residuals**2)) / len(residuals)
    residuals_train = train.residuals()
    # The same for both: a sample without large errors underestimates its variance along with its level.
    variance = float(np.mean(np.concatenate([residuals, residuals_train]) ** 2))
    optimism = OPTIMISM * columns_per_row
    valid_variance = variance / len(residuals) + TINY
    train_variance = variance / len(residuals_train) + (optimism / 2) ** 2
    train_share = valid_variance / (valid_variance + train_variance)
    difference = np.log(train.level() * (1 + optimism) / valid.level())
    return float(train_share * difference), train_share * train_variance


def _fit_shape(features: Floats, errors: Floats, weight: Floats, penalty: float) -> tuple[float, float]:
    """Slope and growth that minimise the gamma deviance of the errors.

    The gamma deviance compares errors with their expectations relatively, so a few large errors have no
    dominating influence.

    Parameters
    ----------
    features : (n, 2)
        Logarithm of the mixture's expected squared error, and share of missing columns.
    errors, weight : (n,)
        Squared errors of the ensemble, and row weights.
    penalty : float
        Penalty of the squared differences of slope from 1 and growth from 0. Raising it shrinks more.
    """
    share = weight / weight.sum()
    errors = errors / max(float(share @ errors), TINY) + TINY
    centred = np.column_stack([np.ones(len(features)), features - share @ features])
    prior = np.array([0.0, 1.0, 0.0])

    def loss(coefficients: Floats) -> tuple[float, Floats]:
        log_expected = (centred @ coefficients).clip(-30, 30)
        ratio = errors * np.exp(-log_expected)
        shrunk = penalty * (coefficients - prior) * [0, 1, 1]
        deviance = float(share @ (log_expected + ratio)) + float(shrunk @ (coefficients - prior))
        return deviance, centred.T @ (share * (1 - ratio)) + 2 * shrunk

    start = prior - [float(np.log(share @ np.exp(centred @ prior))), 0, 0]
    bounds = [(None, None), (0.0, MAX_COEFFICIENT), (0.0, MAX_COEFFICIENT)]
    _, slope, growth = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(slope), float(growth)


def _squared_errors(outputs: Floats, rows: MaskedData, task: Task) -> Floats:
    """Squared errors of outputs, (n, d_output), or Brier scores of class probabilities, (n, 1)."""
    if isinstance(task, Classification):
        difference = task.probabilities(outputs) - np.eye(task.d_output)[rows.target]
        return (difference**2).sum(axis=1, keepdims=True)
    return (outputs - rows.target) ** 2


def _share_missing(mask: Bools, groups: NDArray[np.int64]) -> Floats:
    return 1 - observed_fraction(mask, groups)


def _mixture_error(
    mixture: EMMixturePredictor, values: Floats, mask: Bools, groups: NDArray[np.int64], weight: Floats
) -> Uncertainty:
    """Expected errors of the mixture's own predictions.

    They are the squared errors of each output times its weight, or the sum over all classes.
    """
    joint = mixture.joint()
    n_targets = joint.means.shape[1] - values.shape[1]
    if mixture.log_shares is None:
        return Uncertainty.of(joint, values, mask, groups, np.diag(np.sqrt(weight)))
    # The indicator of the first class is one minus the sum of the others.
    classes = np.hstack([-np.ones((n_targets, 1)), np.eye(n_targets)])
    by_class = Uncertainty.of(joint, values, mask, groups, classes * np.sqrt(weight))
    error, complete = (e.sum(axis=1, keepdims=True) for e in (by_class.error, by_class.error_if_complete))
    return Uncertainty(error, complete, by_class.gain)
