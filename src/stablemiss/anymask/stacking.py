"""Stacking: member weights that depend on the fraction of a row's columns that is observed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from stablemiss.anymask.mixture_trees import MixtureTreesPredictor
from stablemiss.base.method import Predictor
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.methods.em_mixture import CompletedRows, EMMixturePredictor
from stablemiss.seeding import Rng

# Number of random subsets of the calibration rows whose best weights are averaged, and the fraction of the
# rows in each. Averaging limits the influence of outliers, which can dominate the best weights of a single
# subset.
N_SUBSETS, SUBSET_FRACTION = 20, 0.3
# Members may predict beyond the range of the n training targets by max(0.1, 5 / √n) times the range. The
# range of a small table is too narrow for new rows: for a linear target with little noise, where
# extrapolation is most useful, a margin of 0.1 increased the error by 26% with 60 rows and by 2% with 500.
# This margin increased it by less than 1% with 60 to 500 rows.
RANGE_MARGIN, SMALL_TABLE_MARGIN = 0.1, 5.0
# With fewer held-out rows, class probabilities are shrunk towards the class frequencies.
MIN_ROWS_FOR_CONFIDENCE = 20


def observed_fraction(mask: Bools, groups: NDArray[np.int64]) -> Floats:
    """Fraction of the columns of the user's table that are observed in each row, (n,).

    Parameters
    ----------
    mask : (n, d)
        1 = observed.
    groups : (d,)
        The column of the user's table that each encoded column belongs to.
    """
    _, first = np.unique(groups, return_index=True)
    return mask[:, first].mean(axis=1)


def output_bounds(train: MaskedData) -> Floats | None:
    """Lowest and highest prediction, (2, d_output), of a member; None for classes.

    The mixture extrapolates linearly and without limit: one cell far outside the range of its column would
    otherwise dominate the combined prediction.

    Parameters
    ----------
    train : MaskedData
        Training rows. The bounds are slightly wider than the range of their targets.
    """
    if train.target.ndim == 1:
        return None
    low, high = train.target.min(axis=0), train.target.max(axis=0)
    margin = max(RANGE_MARGIN, SMALL_TABLE_MARGIN / np.sqrt(len(train))) * (high - low)
    return np.stack([low - margin, high + margin])


def predict_members(
    members: dict[str, Predictor], values: Floats, mask: Bools, bounds: Floats | None
) -> Floats:
    """Prediction of each member, (n_members, n, d_output): outputs within bounds, or class probabilities.

    Class probabilities are later averaged rather than their logarithms, because a single member that is
    confident and wrong would dominate a mean of logarithms.

    Parameters
    ----------
    members : dict
        Name → fitted predictor. The mixture must precede the trees that read the rows it completes.
    values, mask : (n, d)
        Encoded rows.
    bounds : (2, d_output) or None
        From `output_bounds`; outputs outside are replaced by the nearer bound. None for classes.
    """
    predictions: list[Floats] = []
    completed: CompletedRows | None = None
    has_trees = any(isinstance(member, MixtureTreesPredictor) for member in members.values())
    for member in members.values():
        if isinstance(member, EMMixturePredictor) and has_trees:
            completed = member.complete(values, mask)
            predictions.append(completed.outputs)
        elif isinstance(member, MixtureTreesPredictor) and completed is not None:
            predictions.append(member.predict_from(completed, values, mask))
        else:
            predictions.append(member.predict(values, mask))
    outputs = np.stack(predictions)
    return softmax(outputs, axis=2) if bounds is None else outputs.clip(*bounds)


def combine(member_predictions: Floats, fraction: Floats, member_weights: Floats, is_classes: bool) -> Floats:
    """Combined outputs (n, d_output): a weighted mean of the members' predictions.

    Parameters
    ----------
    member_predictions : (n_members, n, d_output)
        Outputs, or class probabilities.
    fraction : (n,)
        Fraction of each row's columns that is observed, by which weights are interpolated.
    member_weights : (2, n_members, k), k = d_output or 1
        Weights of the members for rows with nothing observed and for complete rows.
    is_classes : bool
        Whether the target holds classes; the outputs are then log probabilities.
    """
    combined = _weighted_mean(member_predictions, fraction, member_weights)
    return np.log(np.maximum(combined, 1e-300)) if is_classes else combined


def learn_member_weights(
    member_predictions: Floats, calibration: MaskedData, rng: Rng, n_copies: int
) -> Floats:
    """Weight of each member, (2, n_members, k), from rows that no member was trained on.

    Both sets of weights (for rows with nothing observed and for complete rows) are non-negative and sum to
    one. The best weights of many random subsets of the rows are averaged. If members differ only by chance,
    the result is close to a plain mean; if one member is clearly better, it gets all the weight.

    Parameters
    ----------
    member_predictions : (n_members, n, d_output)
        Outputs, or class probabilities.
    calibration : MaskedData
        The rows: `n_copies` copies of the same rows under different masks, one copy after the other.
    rng : numpy Generator
        Draws the subsets.
    n_copies : int
        Number of copies of each row. A subset contains all copies of a row or none.
    """
    n_members, n, d_output = member_predictions.shape
    k = 1 if calibration.target.ndim == 1 else d_output
    if n_members == 1 or n == 0:
        return np.full((2, n_members, k), 1 / n_members)
    n_rows = n // n_copies
    fraction = observed_fraction(calibration.mask, calibration.groups)
    weights = []
    for _ in range(N_SUBSETS):
        rows = rng.permutation(n_rows)[: max(2, round(SUBSET_FRACTION * n_rows))]
        subset = (np.arange(n_copies)[:, None] * n_rows + rows).ravel()
        weights.append(
            _best_weights(member_predictions[:, subset], fraction[subset], calibration.rows(subset), k)
        )
    return np.mean(weights, axis=0)


def keep_constant(member_weights: Floats, n_rows: int) -> Floats:
    """Member weights in which the constant has at least the weight 1 / (n_rows + 2) if there are few rows.

    A member that is right in all of a few rows would otherwise get all the weight, however confident it is.
    By the rule of succession, it may still be wrong in about one of n_rows + 2 rows.

    Parameters
    ----------
    member_weights : (2, n_members, k)
        From `learn_member_weights`. The constant must be the first member.
    n_rows : int
        Number of held-out rows to which the weights were fitted.

    Examples
    --------
    >>> weights = np.array([[[0.0], [1.0]], [[0.5], [0.5]]])
    >>> keep_constant(weights, n_rows=2)[:, :, 0].tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    if n_rows >= MIN_ROWS_FOR_CONFIDENCE:
        return member_weights
    least, constant = 1 / (n_rows + 2), member_weights[:, :1]
    added = np.maximum(least - constant, 0) / np.maximum(1 - constant, least)
    weights = member_weights * (1 - added)
    weights[:, :1] += added
    return weights


def _weighted_mean(member_predictions: Floats, fraction: Floats, member_weights: Floats) -> Floats:
    weight = np.einsum("en,emk->mnk", np.stack([1 - fraction, fraction]), member_weights)
    return (weight * member_predictions).sum(axis=0)


def _best_weights(member_predictions: Floats, fraction: Floats, rows: MaskedData, k: int) -> Floats:
    """Weights (2, n_members, k) with the lowest loss, parametrised by a softmax over the members."""
    n_members, ends = len(member_predictions), np.stack([1 - fraction, fraction])

    def loss(logits: Floats) -> tuple[float, Floats]:
        weight = softmax(logits.reshape(2, n_members, k), axis=1)
        value, gradient = _loss_and_gradient(_weighted_mean(member_predictions, fraction, weight), rows)
        weight_gradient = np.einsum("en,mnk->emk", ends, gradient * member_predictions)
        if weight_gradient.shape[2] != k:
            weight_gradient = weight_gradient.sum(axis=2, keepdims=True)
        logit_gradient = weight * (weight_gradient - (weight * weight_gradient).sum(axis=1, keepdims=True))
        # The small penalty gives members equal weights if the rows do not favour any of them.
        return value + 1e-4 * float(logits @ logits), logit_gradient.ravel() + 2e-4 * logits

    equal = np.zeros(2 * n_members * k)
    result = minimize(loss, equal, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    return softmax(result.x.reshape(2, n_members, k), axis=1)


def _loss_and_gradient(combined: Floats, rows: MaskedData) -> tuple[float, Floats]:
    """Weighted mean of the log loss or squared error, and its gradient with respect to `combined`."""
    row_weight = (rows.weight / rows.weight.sum())[:, None]
    if rows.target.ndim == 1:
        true_class = np.arange(len(combined)), rows.target
        probability = np.maximum(combined[true_class], 1e-12)
        gradient = np.zeros_like(combined)
        gradient[true_class] = -row_weight[:, 0] / probability
        return float(-(row_weight[:, 0] * np.log(probability)).sum()), gradient
    error = combined - rows.target
    return float((row_weight * error**2).sum()), 2 * row_weight * error
