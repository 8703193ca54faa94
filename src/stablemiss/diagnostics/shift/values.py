"""Tests that look at values: what missingness depends on, and whether the values themselves moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from stablemiss.data import Bools, Floats
from stablemiss.diagnostics.shift.tables import Sample

# Other columns that the values of a column are compared given.
MAX_COVARIATES = 12
# Probability with which the missingness of a column seems to depend on others, if it does not.
LINK_LEVEL = 0.05
# Rows with an observed value that a column needs in each table for a test of its values.
MIN_ROWS = 10


@dataclass(frozen=True, eq=False)
class Links:
    """Dependence of the missingness of column j (rows) on the value of column k (columns of the arrays).

    Attributes
    ----------
    reference_z, current_z, change_z : (d, d)
        z-statistics of the dependence in each table, and of its change; 0 where it is not defined.
    reference, current : (d, d)
        Difference of the missing rate between the highest and the lowest value of k, by a straight line in
        the ranks of k.
    """

    reference_z: Floats
    current_z: Floats
    change_z: Floats
    reference: Floats
    current: Floats

    @property
    def p_value(self) -> Floats:
        """Of the change, two-sided; 1 where it is not defined."""
        return 2 * norm.sf(np.abs(self.change_z))


def links(sample: Sample) -> Links:
    """Regress each mask indicator on the ranks of each other column, in each table.

    Only rows with an observed value of the other column count. If missingness does not depend on values, all
    slopes are zero, whatever the values are, so values that move do not look like a change of the masks.
    """
    d = sample.observed.shape[1]
    # The first feature: normal scores, or the indicator of the commonest category; bounded by ranks.
    scores = np.column_stack([one[:, 0] if one.shape[1] else np.zeros(len(one)) for one in sample.features])
    scores = norm.cdf(scores) - 0.5
    slopes, variances = [], []
    for is_table in (~sample.is_current, sample.is_current):
        slope, variance = _slopes(sample.observed[is_table], scores[is_table])
        slopes.append(slope)
        variances.append(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = [
            np.nan_to_num(slope / np.sqrt(variance), nan=0.0, posinf=0.0, neginf=0.0)
            for slope, variance in (
                (slopes[0], variances[0]),
                (slopes[1], variances[1]),
                (slopes[1] - slopes[0], variances[0] + variances[1]),
            )
        ]
    for matrix in (*z, *slopes):
        matrix[np.arange(d), np.arange(d)] = 0.0
    return Links(*z, *slopes)


def _slopes(observed: Bools, scores: Floats) -> tuple[Floats, Floats]:
    """Slopes of mask indicators (rows) on scores (columns) and their robust variances, each (d, d)."""
    missing, shown = (~observed).astype(np.float64), observed.astype(np.float64)
    n = shown.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        centred = (scores - (scores * shown).sum(axis=0) / n) * shown
        # Successive products are much faster than powers.
        tables = [shown, centred, centred**2, centred**2 * centred]
        # Sums over rows of powers of the score of k, and of these times the indicator of j.
        powers = [*(table.sum(axis=0) for table in tables), (tables[2] ** 2).sum(axis=0)]
        products = [missing.T @ table for table in tables]
        slope = products[1] / powers[2]
        level = products[0] / n
        # The square of a residual m − a − b u is m (1 − 2a − 2b u) + (a + b u)², because m is 0 or 1.
        squares = (1 - 2 * level) * products[2] - 2 * slope * products[3]
        squares += level**2 * powers[2] + 2 * level * slope * powers[3] + slope**2 * powers[4]
        variance = squares / powers[2] ** 2 * (n / np.maximum(n - 2, 1))
    # Too few rows, or hardly any variation of the indicator among them, for a normal approximation.
    counts = np.minimum(products[0], n - products[0])
    is_defined = (n >= MIN_ROWS) & (counts >= 5) & (powers[2] > 1e-12)
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
        this p-value and that of the observed values given those of other columns. 1 if there are too few.
    difference : (d,)
        Mean normal score in the current table minus that in the reference; NaN for categories, and where
        there are too few values.
    """

    p_value: Floats
    difference: Floats


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
    largest_z = np.maximum(np.abs(linked.reference_z), np.abs(linked.current_z)).max(axis=1)
    is_linked = largest_z > norm.isf(LINK_LEVEL / (4 * d))
    p_values, differences = np.ones(d), np.full(d, np.nan)
    covariates = _Covariates(sample)
    for j, features in enumerate(sample.features):
        rows = sample.observed[:, j]
        is_current = sample.is_current[rows]
        counts = is_current.sum(), (~is_current).sum()
        if not features.shape[1] or min(counts) < MIN_ROWS:
            continue
        targets = features[rows]
        of_features = _mean_p_values(targets[is_current], targets[~is_current])
        if is_linked[j]:
            given_others = _group_p_values(targets, is_current, covariates.of(j)[rows])
            of_features = np.maximum(of_features, given_others)
        p_values[j] = min(1.0, of_features.min() * len(of_features))
        if sample.is_number[j]:
            differences[j] = targets[is_current, 0].mean() - targets[~is_current, 0].mean()
    return ValueChanges(p_values, differences)


def _mean_p_values(first: Floats, second: Floats) -> Floats:
    """p-values (r,) of equal means of the columns of two tables, by the test of Welch."""
    shares = [table.var(axis=0, ddof=1) / len(table) for table in (first, second)]
    difference, variance = first.mean(axis=0) - second.mean(axis=0), shares[0] + shares[1]
    # Differences of columns that are constant up to rounding are certain, or zero.
    is_constant = variance <= 1e-20
    squares = shares[0] ** 2 / (len(first) - 1) + shares[1] ** 2 / (len(second) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        p_values = 2 * t.sf(np.abs(difference) / np.sqrt(variance), variance**2 / squares)
    return np.where(is_constant, np.where(np.abs(difference) > 1e-9, 0.0, 1.0), p_values)


class _Covariates:
    """Features of the columns that are most related to a column or to its missingness."""

    def __init__(self, sample: Sample):
        self.sample = sample
        self.first = np.column_stack(
            [one[:, 0] if one.shape[1] else np.zeros(len(one)) for one in sample.features]
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            standard = self.first / self.first.std(axis=0)
            masks = sample.observed - sample.observed.mean(axis=0)
            masks = masks / masks.std(axis=0)
        standard, masks = np.nan_to_num(standard), np.nan_to_num(masks)
        n = len(standard)
        self.relevance = np.maximum(np.abs(standard.T @ standard), np.abs(masks.T @ standard)) / n
        np.fill_diagonal(self.relevance, -1.0)

    def of(self, j: int) -> Floats:
        """Features and masks (n, r) of the other columns."""
        order = np.argsort(-self.relevance[j], kind="stable")[:MAX_COVARIATES]
        chosen = [k for k in order if k != j]
        parts = [self.sample.features[k] for k in chosen]
        masks = self.sample.observed[:, chosen]
        return np.column_stack([*parts, masks]) if chosen else np.zeros((len(self.first), 0))


def _group_p_values(targets: Floats, is_current: Bools, others: Floats) -> Floats:
    """p-values (r,) of the difference between tables of each target given other columns, by regression."""
    n = len(targets)
    varying = others[:, np.ptp(others, axis=0) > 0] if others.shape[1] else others
    # The group indicator is regressed on the others first; what is left of it identifies the difference.
    design = np.column_stack([np.ones(n), varying])
    group = is_current.astype(np.float64)
    gram = design.T @ design + 1e-8 * n * np.eye(design.shape[1])
    coefficients = np.linalg.solve(gram, design.T @ np.column_stack([group, targets]))
    residuals = np.column_stack([group, targets]) - design @ coefficients
    left, rest = residuals[:, 0], residuals[:, 1:]
    weight = float(left @ left)
    # Almost nothing of the group is left if the masks of other columns determine it.
    if weight < 1e-3 * n * group.mean() * (1 - group.mean()) or n <= design.shape[1] + 2:
        return np.ones(targets.shape[1])
    slope = left @ rest / weight
    errors = rest - np.outer(left, slope)
    scale = n / (n - design.shape[1] - 1)
    variance = scale * (left**2 @ errors**2) / weight**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(2 * norm.sf(np.abs(slope) / np.sqrt(variance)), nan=1.0)
