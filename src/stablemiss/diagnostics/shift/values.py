"""Tests that look at values: what missingness depends on, and whether the values themselves moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from stablemiss.data import Bools, Floats
from stablemiss.diagnostics.shift.masks import rate_p_values
from stablemiss.diagnostics.shift.tables import Sample, autocorrelation, design_effect

# Other columns that the values of a column are compared given.
MAX_COVARIATES = 12
# Probability with which the missingness of a column seems to depend on others, if it does not.
LINK_LEVEL = 0.05
# Rows with an observed value that a column needs in each table for a test of its values.
MIN_ROWS = 10
# Missing, and observed, values that a dependence needs in a table for a normal approximation.
MIN_COUNT = 5


@dataclass(frozen=True, eq=False)
class Links:
    """Dependence of the missingness of column j (rows) on the value of column k (columns of the arrays).

    Attributes
    ----------
    reference_z, current_z : (d, d)
        z-statistics of the dependence in each table, by the feature of k with the largest one; 0 where it is
        not defined.
    p_value : (d, d)
        Of the change, by the feature of k with the clearest one, corrected for their number; NaN where it is
        not defined.
    feature : (d, d) int
        Position of that feature.
    reference, current : (d, d)
        Difference of the missing rate of j over the range of that feature, by a straight line.
    """

    reference_z: Floats
    current_z: Floats
    p_value: Floats
    feature: NDArray[np.int64]
    reference: Floats
    current: Floats

    def driver(self, j: int, is_current: bool, level: float) -> int | None:
        """The column on whose value the missingness of j depends most, None if on none.

        Parameters
        ----------
        j : int
        is_current : bool
            In which of the tables.
        level : float
            Probability to name one although there is none.
        """
        z = np.abs((self.current_z if is_current else self.reference_z)[j])
        k = int(z.argmax())
        return k if z[k] > norm.isf(level / (4 * len(z))) else None


def links(sample: Sample) -> Links:
    """Regress each mask indicator on each feature of each other column, in each table.

    Only rows with an observed value of the other column count. If missingness does not depend on values, all
    slopes are zero, whatever the values are, so values that move do not look like a change of the masks.
    """
    d = sample.observed.shape[1]
    owner = np.repeat(np.arange(d), [one.values.shape[1] for one in sample.features])
    scores = np.concatenate([one.values for one in sample.features], axis=1)
    effect = design_effect(
        np.outer(
            autocorrelation(sample.observed.astype(np.float64), sample.is_current),
            autocorrelation(scores, sample.is_current),
        )
    )
    slopes, variances = [], []
    for is_table in (~sample.is_current, sample.is_current):
        slope, variance = _slopes(sample.observed[is_table], scores[is_table], owner)
        slopes.append(slope)
        variances.append(variance * effect)
    z = [_z(slope, variance) for slope, variance in zip(slopes, variances, strict=True)]
    change = np.abs(_z(slopes[1] - slopes[0], variances[0] + variances[1]))
    change[np.isinf(variances[0] + variances[1]) | (variances[0] + variances[1] == 0)] = np.nan
    zeros = [np.zeros((d, d)) for _ in range(4)]
    p_value, feature = np.full((d, d), np.nan), np.zeros((d, d), np.int64)
    result = Links(zeros[0], zeros[1], p_value, feature, zeros[2], zeros[3])
    rows = np.arange(d)
    for k in range(d):
        own = np.flatnonzero(owner == k)
        if not len(own):
            continue
        for table, target in zip(z, (result.reference_z, result.current_z), strict=True):
            target[:, k] = table[rows, own[np.abs(table[:, own]).argmax(axis=1)]]
        best = own[np.nan_to_num(change[:, own], nan=-1.0).argmax(axis=1)]
        result.feature[:, k] = best - own[0]
        result.p_value[:, k] = np.minimum(1.0, len(own) * 2 * norm.sf(change[rows, best]))
        result.reference[:, k], result.current[:, k] = slopes[0][rows, best], slopes[1][rows, best]
    for matrix in (result.reference_z, result.current_z, result.reference, result.current):
        np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(result.p_value, np.nan)
    return result


def _z(slope: Floats, variance: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(slope / np.sqrt(variance), nan=0.0, posinf=0.0, neginf=0.0)


def _slopes(observed: Bools, scores: Floats, owner: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Slopes of mask indicators (rows) on scores (columns) and their robust variances, each (d, r).

    The variance is 0 where the indicator is constant, and infinite where there are too few values.
    """
    missing, shown = (~observed).astype(np.float64), observed[:, owner].astype(np.float64)
    n = shown.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        centred = (scores - (scores * shown).sum(axis=0) / n) * shown
        # Successive products are much faster than powers.
        tables = [shown, centred, centred**2, centred**2 * centred]
        # Sums over rows of powers of the score, and of these times the indicator.
        powers = [*(table.sum(axis=0) for table in tables), (tables[2] ** 2).sum(axis=0)]
        products = [missing.T @ table for table in tables]
        slope = products[1] / powers[2]
        level = products[0] / n
        # The square of a residual m − a − b u is m (1 − 2a − 2b u) + (a + b u)², because m is 0 or 1.
        squares = (1 - 2 * level) * products[2] - 2 * slope * products[3]
        squares += level**2 * powers[2] + 2 * level * slope * powers[3] + slope**2 * powers[4]
        variance = squares / powers[2] ** 2 * (n / np.maximum(n - 2, 1))
        # Not below the variance without dependence: a small category in which by chance nothing is missing,
        # or a rule without exceptions, has no residuals.
        variance = np.maximum(variance, level * (1 - level) / powers[2])
    counts = np.minimum(products[0], n - products[0])
    is_defined = (n >= MIN_ROWS) & (counts >= MIN_COUNT) & (powers[2] > 1e-12)
    # Missingness that does not occur, or always, depends on nothing.
    is_constant = (n >= MIN_ROWS) & (counts == 0)
    slope, variance = np.where(is_defined, slope, 0.0), np.where(is_defined, variance, np.inf)
    return slope, np.where(is_constant, 0.0, variance)


@dataclass(frozen=True, eq=False)
class ValueChanges:
    """Whether the values of each column moved.

    Attributes
    ----------
    p_value : (d,)
        Of the observed values; if the missingness of the column depends on other columns, the larger one of
        this p-value and that of the observed values given those of other columns. NaN if it was not tested.
    feature : (d,) int
        Position of the feature that moved most clearly.
    reference, current : (d,)
        Mean of that feature in each table.
    """

    p_value: Floats
    feature: NDArray[np.int64]
    reference: Floats
    current: Floats


def value_changes(sample: Sample, linked: Links) -> ValueChanges:
    """Test for each column whether its values moved in a way that no change of the masks explains.

    If the missingness of a column depends on other columns, its observed values move when that dependence
    changes, although its values do not. Given the observed values of other columns they stay, unless
    missingness depends on the missing value itself. So such a column counts as moved if both its observed
    values, and these given other columns, moved.

    Parameters
    ----------
    sample : Sample
    linked : Links
        On which columns the missingness of each column depends.
    """
    d = sample.observed.shape[1]
    result = ValueChanges(np.full(d, np.nan), np.zeros(d, np.int64), np.full(d, np.nan), np.full(d, np.nan))
    covariates = _Covariates(sample)
    for j, features in enumerate(sample.features):
        rows = sample.observed[:, j]
        is_current = sample.is_current[rows]
        if not features.values.shape[1] or min(is_current.sum(), (~is_current).sum()) < MIN_ROWS:
            continue
        targets = features.values[rows]
        effect = design_effect(autocorrelation(targets, is_current))
        if features.categories is None:
            p_values = _mean_p_values(targets, is_current, effect)
        else:
            is_category = targets > 0
            p_values = rate_p_values(is_category[~is_current], is_category[is_current], effect)
        if any(linked.driver(j, is_table, LINK_LEVEL) is not None for is_table in (False, True)):
            given_others = _group_p_values(targets, is_current, covariates.of(j)[rows], effect)
            p_values = np.maximum(p_values, given_others)
        best = int(p_values.argmin())
        result.p_value[j] = min(1.0, p_values[best] * len(p_values))
        result.feature[j] = best
        result.reference[j], result.current[j] = (
            targets[~is_current, best].mean(),
            targets[is_current, best].mean(),
        )
    return result


def _mean_p_values(targets: Floats, is_current: Bools, effect: Floats) -> Floats:
    """p-values (r,) of equal means of the columns in both tables, with the variance of both together."""
    n_current = int(is_current.sum())
    n_reference = len(targets) - n_current
    difference = targets[is_current].mean(axis=0) - targets[~is_current].mean(axis=0)
    variance = targets.var(axis=0) * (1 / n_reference + 1 / n_current) * effect
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = 2 * t.sf(np.abs(difference) / np.sqrt(variance), len(targets) - 2)
    return np.nan_to_num(p_values, nan=1.0)


class _Covariates:
    """Features of the columns that are most related to a column or to its missingness."""

    def __init__(self, sample: Sample):
        self.sample = sample
        first = np.column_stack(
            [
                one.values[:, 0] if one.values.shape[1] else np.zeros(len(one.values))
                for one in sample.features
            ]
        )
        standard, masks = _standardised(first), _standardised(sample.observed.astype(np.float64))
        n = len(standard)
        self.relevance = np.maximum(np.abs(standard.T @ standard), np.abs(masks.T @ standard)) / n
        np.fill_diagonal(self.relevance, -1.0)

    def of(self, j: int) -> Floats:
        """Features and masks (n, r) of the other columns."""
        order = np.argsort(-self.relevance[j], kind="stable")[:MAX_COVARIATES]
        chosen = [k for k in order if k != j]
        parts = [self.sample.features[k].values for k in chosen]
        return np.column_stack([*parts, self.sample.observed[:, chosen]])


def _standardised(columns: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num((columns - columns.mean(axis=0)) / columns.std(axis=0))


def _group_p_values(targets: Floats, is_current: Bools, others: Floats, effect: Floats) -> Floats:
    """p-values (r,) of the difference between tables of each target given other columns, by regression."""
    n = len(targets)
    varying = others[:, np.ptp(others, axis=0) > 0]
    # The group indicator is regressed on the others first; what is left of it identifies the difference.
    design = np.column_stack([np.ones(n), varying])
    group = is_current.astype(np.float64)
    gram = design.T @ design + 1e-8 * n * np.eye(design.shape[1])
    both = np.column_stack([group, targets])
    residuals = both - design @ np.linalg.solve(gram, design.T @ both)
    left, rest = residuals[:, 0], residuals[:, 1:]
    weight = float(left @ left)
    # Almost nothing of the group is left if the masks of other columns determine it.
    if weight < 1e-3 * n * group.mean() * (1 - group.mean()) or n <= design.shape[1] + 2:
        return np.ones(targets.shape[1])
    slope = left @ rest / weight
    errors = rest - np.outer(left, slope)
    scale = n / (n - design.shape[1] - 1)
    variance = effect * scale * (left**2 @ errors**2) / weight**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(2 * norm.sf(np.abs(slope) / np.sqrt(variance)), nan=1.0)
