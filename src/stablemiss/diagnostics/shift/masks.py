"""Tests of masks: rates of columns, pairs of columns that vanish together, and all columns jointly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, fisher_exact, norm, rankdata

from stablemiss.data import Bools, Floats
from stablemiss.diagnostics.shift.tables import design_effect
from stablemiss.seeding import Rng, draw_seed

# Below this expected count, the exact test replaces chi-square, whose small p-values are too small there.
MIN_EXPECTED = 50.0
MIN_PERMUTATIONS, MAX_PERMUTATIONS = 999, 50_000
# Rows whose masks are correlated more than this with those of the rows before are not used by the classifier.
MAX_AUTOCORRELATION = 0.1
# The classifier of masks: small trees, which find interactions of a few columns.
_TREES: dict[str, Any] = {
    "n_estimators": 60,
    "num_leaves": 8,
    "learning_rate": 0.1,
    "min_child_samples": 20,
    "n_jobs": 1,
    "verbose": -1,
    "deterministic": True,
    "force_row_wise": True,
}


def rate_p_values(reference: Bools, current: Bools, effect: Floats | None = None) -> Floats:
    """p-values (d,) of equal missing rates: exact where counts are small, else chi-square.

    Parameters
    ----------
    reference, current : (n, d) bool
        Masks, True = observed.
    effect : (d,), default=None
        Design effects: how much larger the variance of a rate is than for independent rows. None: 1.

    Examples
    --------
    >>> before, after = np.ones((40, 1), bool), np.zeros((3, 1), bool)
    >>> bool(rate_p_values(before, after)[0] < 0.001)
    True
    """
    sizes = np.array([[len(reference)], [len(current)]])
    missing = np.stack([(~reference).sum(axis=0), (~current).sum(axis=0)])
    pooled = missing.sum(axis=0) / sizes.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = pooled * (1 - pooled) * (1 / sizes).sum()
        difference = missing[1] / sizes[1] - missing[0] / sizes[0]
        p_values = chi2.sf(difference**2 / variance / (1.0 if effect is None else effect), df=1)
    p_values[variance == 0] = 1.0
    is_small = (sizes * np.minimum(pooled, 1 - pooled)).min(axis=0) < MIN_EXPECTED
    # The exact test has no design effect.
    is_independent = np.ones(len(pooled), dtype=bool) if effect is None else effect == 1
    for j in np.flatnonzero(is_small & (variance > 0) & is_independent):
        counts = np.stack([missing[:, j], sizes[:, 0] - missing[:, j]])
        p_values[j] = fisher_exact(counts).pvalue
    return p_values


@dataclass(frozen=True, eq=False)
class PairChanges:
    """Change of the correlation of the mask indicators of each pair of columns, (d, d), symmetric.

    Attributes
    ----------
    p_value : (d, d)
        NaN on the diagonal, and for pairs of which a column is always or never missing in a table.
    reference, current : (d, d)
        Correlation of the indicators in each table; NaN where an indicator is constant.
    """

    p_value: Floats
    reference: Floats
    current: Floats


def pair_changes(reference: Bools, current: Bools, correlation: Floats | None = None) -> PairChanges:
    """Test for each pair of columns whether they are missing together more, or less, often than before.

    A change of the rates alone does not count: correlations of columns that are missing independently, or
    always together, stay 0 or 1.

    Parameters
    ----------
    reference, current : (n, d) bool
        Masks, True = observed.
    correlation : (d,), default=None
        Autocorrelation of the rows of each mask. None: independent rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> apart, both = rng.random((500, 2)) < 0.7, np.repeat(rng.random((500, 1)) < 0.7, 2, axis=1)
    >>> bool(pair_changes(apart, both).p_value[0, 1] < 1e-6)
    True
    """
    tables = [(~mask).astype(np.float64) for mask in (reference, current)]
    sizes = [len(table) for table in tables]
    rates = [table.mean(axis=0) for table in tables]
    correlations = [_correlations(table, rate) for table, rate in zip(tables, rates, strict=True)]
    pooled_rate, pooled = (np.average(np.stack(two), axis=0, weights=sizes) for two in (rates, correlations))
    # A table of few rows may by chance contain no row without both columns, and seem certain.
    least = _correlation_variance(pooled, pooled_rate)
    variance = sum(
        np.maximum(_correlation_variance(correlation, rate), least) / n
        for correlation, rate, n in zip(correlations, rates, sizes, strict=True)
    )
    if correlation is not None:
        # The product of two series is correlated as the product of their autocorrelations.
        variance = variance * design_effect(np.outer(correlation, correlation))
    difference = correlations[1] - correlations[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(np.abs(difference) < 1e-9, 0.0, difference / np.sqrt(variance))
    p_value = 2 * norm.sf(np.abs(z))
    p_value[np.isnan(difference)] = np.nan
    np.fill_diagonal(p_value, np.nan)
    return PairChanges(p_value, *correlations)


def _correlations(missing: Floats, rate: Floats) -> Floats:
    spread = np.sqrt(rate * (1 - rate))
    with np.errstate(divide="ignore", invalid="ignore"):
        return (missing.T @ missing / len(missing) - np.outer(rate, rate)) / np.outer(spread, spread)


def _correlation_variance(correlation: Floats, rate: Floats) -> Floats:
    """Variance (d, d) of the correlation of two indicators, times the number of rows, by the delta method.

    With standardised indicators z and c = (1 − 2p) / √(p (1 − p)), z² = 1 + c z, so that all moments follow
    from the correlation.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        skew = (1 - 2 * rate) / np.sqrt(rate * (1 - rate))
        product, squares = np.outer(skew, skew), np.add.outer(skew**2, skew**2)
        variance = 1 + product * correlation - correlation**2 * (1 + 0.75 * squares)
        return np.maximum(variance + 0.5 * product * correlation**3, 0.0)


@dataclass(frozen=True)
class JointTest:
    """Result of the classifier two-sample test.

    Attributes
    ----------
    auc : float
        Area under the ROC curve of a classifier that tells rows of both tables apart by their masks, on rows
        that it was not trained on. 0.5 means that it cannot.
    p_value : float
        By permuting labels.
    """

    auc: float
    p_value: float


def joint_test(observed: Bools, is_current: Bools, threshold: float, rng: Rng) -> JointTest:
    """Whether boosted trees can tell masks of two tables apart, on rows they were not trained on.

    It finds changes of any kind, also of three and more columns together, and names none.

    Parameters
    ----------
    observed : (n, d) bool
        Masks of both tables.
    is_current : (n,) bool
        Which of the rows belong to the current table.
    threshold : float
        The p-value below which the result counts. A smaller one takes more permutations.
    rng : numpy Generator
        Draws folds and permutations.
    """
    bits = observed[:, observed.any(axis=0) & ~observed.all(axis=0)]
    if bits.shape[1] == 0 or min(is_current.sum(), (~is_current).sum()) < 4:
        return JointTest(0.5, 1.0)
    from lightgbm import LGBMClassifier

    folds = _stratified_halves(is_current, rng)
    n_permutations = int(np.clip(np.ceil(4 / threshold), MIN_PERMUTATIONS, MAX_PERMUTATIONS))
    aucs, p_values = [], []
    for fold in (False, True):
        held_out = folds == fold
        model = LGBMClassifier(**_TREES, random_state=draw_seed(rng) % 2**31)
        model.fit(bits[~held_out].astype(np.float32), is_current[~held_out])
        # The booster, because the classifier would warn that arrays have no column names.
        scores = model.booster_.predict(bits[held_out].astype(np.float32))
        ranks, labels = rankdata(scores), is_current[held_out]
        n_positive = int(labels.sum())
        total = float(ranks[labels].sum())
        permuted = np.array([rng.permutation(ranks)[:n_positive].sum() for _ in range(n_permutations)])
        aucs.append((total / n_positive - (n_positive + 1) / 2) / (len(labels) - n_positive))
        # One-sided: below 0.5 the classifier is no better than chance.
        p_values.append((1 + (permuted >= total).sum()) / (1 + n_permutations))
    # Each half is a valid test. The halves are dependent, so their p-values are combined by Bonferroni.
    return JointTest(float(np.mean(aucs)), min(1.0, 2 * float(min(p_values))))


def _stratified_halves(labels: Bools, rng: Rng) -> Bools:
    folds = np.zeros(len(labels), dtype=bool)
    for value in (False, True):
        rows = rng.permutation(np.flatnonzero(labels == value))
        folds[rows[: len(rows) // 2]] = True
    return folds


@dataclass(frozen=True)
class UnseenMasks:
    """Rows of the current table whose mask does not occur in the reference.

    Attributes
    ----------
    share : float
        Of the rows of the current table.
    expected_share : float
        If nothing had changed: the share of masks that occur once in the reference (Good and Turing).
    """

    share: float
    expected_share: float


def unseen_masks(reference: Bools, current: Bools) -> UnseenMasks:
    """How many masks of the current table are new.

    Examples
    --------
    >>> unseen_masks(np.array([[True, True], [True, True]]), np.array([[True, False], [True, True]]))
    UnseenMasks(share=0.5, expected_share=0.0)
    """
    before, after = (_pack(mask) for mask in (reference, current))
    masks, counts = np.unique(before, return_counts=True)
    return UnseenMasks(float(np.mean(~np.isin(after, masks))), float((counts == 1).sum() / len(before)))


def _pack(mask: Bools) -> NDArray:
    """One item per row, equal for equal masks."""
    packed = np.ascontiguousarray(np.packbits(mask, axis=1))
    return packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
