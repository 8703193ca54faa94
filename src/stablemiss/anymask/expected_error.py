"""Expected error of AnyMask's predictions, estimated with the mixture.

Under the mixture, the expected squared error of its own predictions is known for any mask. The ensemble is
usually more accurate than the mixture, so this error is scaled by two factors that are fitted on the
calibration rows: one for the error with complete rows, one for the error that missing values add.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.methods.em_mixture import EMMixturePredictor
from stablemiss.mixture import Uncertainty
from stablemiss.tasks import Classification, Task

# Approximate maximum number of calibration rows to which the factors are fitted.
MAX_ROWS = 4000


def fit_error_factors(
    mixture: EMMixturePredictor, outputs: Floats, calibration: MaskedData, task: Task
) -> Floats:
    """Factors (2,) by which the mixture's expected squared errors are scaled, fitted by least squares.

    Parameters
    ----------
    mixture : EMMixturePredictor
    outputs : (n, d_output)
        Outputs of the ensemble for the calibration rows.
    calibration : MaskedData
        Rows that no member was trained on.
    task : Task

    Returns
    -------
    (2,)
        Factors of the error with complete rows, and of the error that missing values add.
    """
    rows = np.arange(0, len(calibration), max(1, len(calibration) // MAX_ROWS))
    subset, prediction = calibration.rows(rows), outputs[rows]
    target = subset.target
    if isinstance(task, Classification):
        prediction, target = task.probabilities(prediction), np.eye(task.d_output)[target]
    expected = _mixture_error(
        mixture, subset.values, subset.mask, subset.groups, np.ones(prediction.shape[1])
    )
    complete = expected.error_if_complete.sum(axis=1)
    terms = np.column_stack([complete, expected.error.sum(axis=1) - complete])
    root = np.sqrt(subset.weight)
    return nnls(root[:, None] * terms, root * ((prediction - target) ** 2).sum(axis=1))[0]


def scaled_error(
    mixture: EMMixturePredictor,
    factors: Floats,
    values: Floats,
    mask: Bools,
    groups: NDArray[np.int64],
    weight: Floats,
) -> Uncertainty:
    """Expected squared errors of the ensemble, summed over the outputs.

    Parameters
    ----------
    mixture : EMMixturePredictor
    factors : (2,)
        From `fit_error_factors`.
    values, mask : (n, d)
        Encoded rows; hidden values have no influence.
    groups : (d,)
        The column of the user's table that each encoded column belongs to.
    weight : (d_output,)
        Weight of each output's squared error in the sum.
    """
    expected = _mixture_error(mixture, values, mask, groups, weight)
    complete = expected.error_if_complete.sum(axis=1, keepdims=True)
    due_to_missing = expected.error.sum(axis=1, keepdims=True) - complete
    complete_factor, missing_factor = factors
    return Uncertainty(
        complete_factor * complete + missing_factor * due_to_missing,
        complete_factor * complete,
        missing_factor * expected.gain,
    )


def _mixture_error(
    mixture: EMMixturePredictor, values: Floats, mask: Bools, groups: NDArray[np.int64], weight: Floats
) -> Uncertainty:
    """Expected squared errors of the mixture's own predictions, multiplied by the weight of each output."""
    joint = mixture.joint()
    n_targets = joint.means.shape[1] - values.shape[1]
    # For classification, the indicator of the first class is one minus the sum of the others.
    identity = np.eye(n_targets)
    targets = identity if len(weight) == n_targets else np.hstack([-np.ones((n_targets, 1)), identity])
    return Uncertainty.of(joint, values, mask, groups, targets * np.sqrt(weight))
