"""The stack of AnyMask: how far to believe each member, depending on the share of a row that is observed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from stablemiss.data import Floats, MaskedData
from stablemiss.seeding import Rng

# Random parts of the judged rows whose stacks are averaged, and the share of the rows in each: a few rows far
# off decide the best weights of one part, but not of all.
PARTS, SHARE = 20, 0.3


def share_observed(mask: NDArray, groups: NDArray) -> Floats:
    """Share of the user's columns that each row has, (n,); columns of one group are one."""
    _, first = np.unique(groups, return_index=True)
    return mask[:, first].mean(axis=1)


def combine(member_predictions: Floats, share: Floats, member_weights: Floats, is_classes: bool) -> Floats:
    """Outputs (n, d_output) from what the members say.

    Parameters
    ----------
    member_predictions : (n_members, n, d_output)
        Outputs, or probabilities of classes.
    share : (n,)
        The share of a row's columns that is observed places it between the two ends.
    member_weights : (2, n_members, k), k = d_output or 1
        Weights of the members where nothing and where everything is observed.
    is_classes : bool
    """
    combined = _combined(member_predictions, share, member_weights)
    return np.log(np.maximum(combined, 1e-300)) if is_classes else combined


def _combined(member_predictions: Floats, share: Floats, member_weights: Floats) -> Floats:
    weight = np.einsum("en,emk->mnk", np.stack([1 - share, share]), member_weights)
    return (weight * member_predictions).sum(axis=0)


def learn_stack(member_predictions: Floats, judged: MaskedData, rng: Rng, n_copies: int) -> Floats:
    """How far to believe each member, (2, n_members, k), from rows that no member was fitted to.

    Weights are not negative and add up to one at each end. Those of many random parts of the rows are
    averaged: where members differ by chance this comes near their plain average, where one is clearly
    better it gets all the weight.

    Parameters
    ----------
    member_predictions : (n_members, n, d_output)
        Outputs, or probabilities where the target is one of several classes.
    judged : MaskedData
        The rows, `n_copies` augmented versions of the same ones after each other.
    rng : numpy Generator
    n_copies : int
    """
    n_members, n, d_output = member_predictions.shape
    k = 1 if judged.target.ndim == 1 else d_output
    if n_members == 1 or n == 0:
        return np.full((2, n_members, k), 1 / n_members)
    n_rows = n // n_copies
    share = share_observed(judged.mask, judged.groups)
    found = []
    for _ in range(PARTS):
        rows = rng.permutation(n_rows)[: max(2, round(SHARE * n_rows))]
        part = (np.arange(n_copies)[:, None] * n_rows + rows).ravel()
        found.append(_best_weights(member_predictions[:, part], share[part], judged.rows(part), k))
    return np.mean(found, axis=0)


def _best_weights(member_predictions: Floats, share: Floats, rows: MaskedData, k: int) -> Floats:
    """Weights (2, n_members, k) of least loss; softmax keeps them positive and adding up to one."""
    n_members, ends = len(member_predictions), np.stack([1 - share, share])

    def loss(logits: Floats) -> tuple[float, Floats]:
        weight = softmax(logits.reshape(2, n_members, k), axis=1)
        value, slope = _loss_and_slope(_combined(member_predictions, share, weight), rows)
        by_weight = np.einsum("en,mnk->emk", ends, slope * member_predictions)
        if by_weight.shape[2] != k:
            by_weight = by_weight.sum(axis=2, keepdims=True)
        by_logit = weight * (by_weight - (weight * by_weight).sum(axis=1, keepdims=True))
        # Where rows say nothing, the plain average stays.
        return value + 1e-4 * float(logits @ logits), by_logit.ravel() + 2e-4 * logits

    start = np.zeros(2 * n_members * k)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    return softmax(found.x.reshape(2, n_members, k), axis=1)


def _loss_and_slope(combined: Floats, rows: MaskedData) -> tuple[float, Floats]:
    """Weighted mean of log loss or squared error, and its slope by each number."""
    share = (rows.weight / rows.weight.sum())[:, None]
    if rows.target.ndim == 1:
        true = np.arange(len(combined)), rows.target
        picked = np.maximum(combined[true], 1e-12)
        slope = np.zeros_like(combined)
        slope[true] = -share[:, 0] / picked
        return float(-(share[:, 0] * np.log(picked)).sum()), slope
    error = combined - rows.target
    return float((share * error**2).sum()), 2 * share * error
