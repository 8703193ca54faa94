"""Findings of a comparison of two tables: what moved, how much, and how certain that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.stats import false_discovery_control, norm
from threadpoolctl import threadpool_limits

from stablemiss.data import Bools, Floats
from stablemiss.diagnostics.shift.masks import (
    MAX_AUTOCORRELATION,
    JointTest,
    PairChanges,
    UnseenMasks,
    joint_test,
    pair_changes,
    rate_p_values,
    unseen_masks,
)
from stablemiss.diagnostics.shift.tables import Sample, TwoTables, autocorrelation, design_effect
from stablemiss.diagnostics.shift.values import Links, ValueChanges, links, value_changes
from stablemiss.seeding import Rng

Verdict = Literal["shift", "no shift", "cannot tell"]
Kind = Literal["rate", "pair", "link", "joint", "value"]
# Kinds of findings and their titles, in the order in which they are shown.
TITLES: dict[Kind, str] = {
    "rate": "Missing rates",
    "pair": "Columns that are missing together",
    "link": "What missingness depends on",
    "joint": "All columns together",
    "value": "Values that moved",
}
# How the probability of a false alarm about masks is divided between the kinds of tests. Their sum is below
# 1, because the small p-values of approximate tests are a little too small.
SHARES: dict[Kind, float] = {"rate": 0.5, "pair": 0.125, "link": 0.125, "joint": 0.1}
# The probability of a false alarm about values is this share of α, so that a shift of the masks is seldom
# accompanied by one.
VALUE_SHARE = 0.4
# Without a finding, "no shift" is said only if a change of a rate by this much would have been found.
MAX_UNDETECTED = 0.35
# With fewer rows in one of the tables nothing is said about masks, however unlikely they are.
MIN_ROWS = 5
# Probability with which such a change is found.
POWER = 0.8
# A missing rate around which the smallest change that can be found is computed.
TYPICAL_RATE = 0.3


@dataclass(frozen=True)
class Finding:
    """One thing that moved.

    Attributes
    ----------
    kind : {"rate", "pair", "link", "joint", "value"}
        A column's missing rate; two columns that are missing together more or less often; missingness that
        depends on the value of another column; a change that only all columns together show; values.
    columns : tuple of str
        The column; the pair; the column that is missing and the one that drives it; none.
    before, after : float
        Missing rates; correlations of the mask indicators; difference of the missing rate over the range of
        the driver; 0.5 and the area under the ROC curve; 0.5 and the probability that a current value is
        larger than one from before, or shares of a category.
    p_value : float
        Adjusted for the number of tests of this kind, so that it can be compared with `threshold`.
    threshold : float
    sentence : str
        What moved, in plain words.
    alike : tuple of str, default=()
        Further columns that are missing in the same rows as the first.
    """

    kind: Kind
    columns: tuple[str, ...]
    before: float
    after: float
    p_value: float
    threshold: float
    sentence: str
    alike: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything that was computed from two tables.

    Attributes
    ----------
    tables : TwoTables
    sample : Sample
        The rows on which tests that need values are based.
    alpha : float
        Probability of a false alarm about masks.
    min_change : float
        Smaller changes are not reported.
    autocorrelation : (d,)
        Of the masks, in the order of the rows.
    rate_p, value_p : (d,)
        p-values of each column, adjusted for their number; NaN if its values were not tested.
    pairs : PairChanges
    links : Links
    joint : JointTest
    values : ValueChanges
    unseen : UnseenMasks
    """

    tables: TwoTables
    sample: Sample
    alpha: float
    min_change: float
    autocorrelation: Floats
    rate_p: Floats
    value_p: Floats
    pairs: PairChanges
    links: Links
    joint: JointTest
    values: ValueChanges
    unseen: UnseenMasks

    @cached_property
    def findings(self) -> list[Finding]:
        """What moved; most certain first within each kind, kinds in the order of `TITLES`."""
        return sorted(
            _findings(self),
            key=lambda one: (list(TITLES).index(one.kind), one.p_value, -abs(one.after - one.before)),
        )

    @property
    def has_runs(self) -> bool:
        """Whether values go missing in runs of rows, so that rows are not independent."""
        return bool(self.autocorrelation.max(initial=0.0) > MAX_AUTOCORRELATION)

    @property
    def detectable_change(self) -> float:
        """Change of a missing rate of 30% that would be found with a probability of 80%."""
        threshold = self.alpha * SHARES["rate"] / len(self.tables.names)
        variance = TYPICAL_RATE * (1 - TYPICAL_RATE) * float(np.median(design_effect(self.autocorrelation)))
        n = sum(1 / len(mask) for mask in (self.tables.reference, self.tables.current))
        return min(1.0, float((norm.isf(threshold / 2) + norm.ppf(POWER)) * np.sqrt(variance * n)))

    @property
    def verdict(self) -> Verdict:
        """Whether the masks moved."""
        if self.tables.absent:
            return "shift"
        if min(len(self.tables.reference), len(self.tables.current)) < MIN_ROWS:
            return "cannot tell"
        if any(finding.kind != "value" for finding in self.findings):
            return "shift"
        return "no shift" if self.detectable_change <= MAX_UNDETECTED else "cannot tell"

    @property
    def values_verdict(self) -> Verdict:
        """Whether the values moved; "cannot tell" also if most columns have too few to compare."""
        if any(finding.kind == "value" for finding in self.findings):
            return "shift"
        is_tested = ~np.isnan(self.value_p)
        has_power = self.detectable_change <= MAX_UNDETECTED and is_tested.mean() >= 0.5
        return "no shift" if has_power else "cannot tell"


def compare_tables(tables: TwoTables, alpha: float, min_change: float, rng: Rng) -> Comparison:
    """Run all tests on two tables.

    Parameters
    ----------
    tables : TwoTables
    alpha : float
        Probability of a false alarm about masks if nothing changed, divided between the kinds of tests.
    min_change : float
        Smaller changes of rates, correlations and the like are not reported.
    rng : numpy Generator
        Draws rows of large tables, folds and permutations.
    """
    sample = tables.sample(rng)
    both = np.concatenate([tables.reference, tables.current])
    is_current = np.repeat([False, True], [len(tables.reference), len(tables.current)])
    correlation = autocorrelation(both.astype(np.float32), is_current)
    joint = JointTest(0.5, 1.0)
    if correlation.max(initial=0.0) <= MAX_AUTOCORRELATION:
        joint = joint_test(sample.observed, sample.is_current, SHARES["joint"] * alpha, rng)
    # Many small matrix products are fastest on one thread, above all beside other processes.
    with threadpool_limits(1):
        linked = links(sample)
        values = value_changes(sample, linked)
    rate_p = rate_p_values(tables.reference, tables.current, design_effect(correlation))
    return Comparison(
        tables=tables,
        sample=sample,
        alpha=alpha,
        min_change=min_change,
        autocorrelation=correlation,
        rate_p=_adjusted(rate_p),
        value_p=_adjusted(values.p_value),
        pairs=pair_changes(tables.reference, tables.current, correlation),
        links=linked,
        joint=joint,
        values=values,
        unseen=unseen_masks(tables.reference, tables.current),
    )


def _findings(comparison: Comparison) -> Iterator[Finding]:
    for finding in (
        *_rate_findings(comparison),
        *_pair_findings(comparison),
        *_link_findings(comparison),
        *_joint_findings(comparison),
        *_value_findings(comparison),
    ):
        if abs(finding.after - finding.before) >= comparison.min_change:
            yield finding


def _rate_findings(comparison: Comparison) -> Iterator[Finding]:
    tables, threshold = comparison.tables, SHARES["rate"] * comparison.alpha
    rates = [1 - mask.mean(axis=0) for mask in (tables.reference, tables.current)]
    # Columns that are missing in the same rows, such as the channels of one sensor, are reported once.
    for j, *others in tables.alike():
        if comparison.rate_p[j] <= threshold:
            before, after = (float(rate[j]) for rate in rates)
            sentence = (
                f"{_named(tables, j, others)} missing in {after:.1%} of the rows; before, {before:.1%}."
            )
            yield Finding(
                "rate",
                (tables.names[j],),
                before,
                after,
                float(comparison.rate_p[j]),
                threshold,
                sentence,
                tuple(tables.names[k] for k in others),
            )


def _pair_findings(comparison: Comparison) -> Iterator[Finding]:
    tables, pairs, threshold = comparison.tables, comparison.pairs, SHARES["pair"] * comparison.alpha
    is_first = _is_first(tables)
    is_tested = np.triu(np.outer(is_first, is_first), 1) & ~np.isnan(pairs.p_value)
    for j, k, p_value in _small(pairs.p_value, is_tested, threshold):
        before, after = float(pairs.reference[j, k]), float(pairs.current[j, k])
        how = "together" if after > before else "apart"
        columns = tables.names[j], tables.names[k]
        sentence = (
            f"{columns[0]!r} and {columns[1]!r} are missing {how} more often: correlation {after:.2f}, "
            f"before {before:.2f}."
        )
        yield Finding("pair", columns, before, after, p_value, threshold, sentence)


def _link_findings(comparison: Comparison) -> Iterator[Finding]:
    tables, linked, threshold = comparison.tables, comparison.links, SHARES["link"] * comparison.alpha
    groups = {group[0]: group[1:] for group in tables.alike()}
    is_tested = ~np.isnan(linked.p_value) & _is_first(tables)[:, None]
    moved = {names for finding in _value_findings(comparison) for names in finding.columns}
    named: set[int] = set()
    for j, k, p_value in sorted(_small(linked.p_value, is_tested, threshold), key=lambda one: one[2]):
        # Of several columns that are related to each other, only the clearest driver is named.
        if j in named:
            continue
        named.add(j)
        before, after = (float(np.clip(one[j, k], -1, 1)) for one in (linked.reference, linked.current))
        column, driver = tables.names[j], tables.names[k]
        categories = comparison.sample.features[k].categories
        if categories is not None:
            one = f"in rows with {driver!r} = {categories[linked.feature[j, k]]!r}"
            other = "in others"
        else:
            one, middle = ("for extreme", "middle") if linked.feature[j, k] else ("for high", "low")
            other = f"for {middle} values of {driver!r}"
        sentence = (
            f"{_named(tables, j, groups[j])} now missing {_how_often(after, one, other)}; before, "
            f"{_how_often(before)}."
        )
        if driver in moved:
            sentence = sentence[:-1] + f" (or this looks so because the values of {driver!r} moved)."
        alike = tuple(tables.names[other] for other in groups[j])
        yield Finding("link", (column, driver), before, after, p_value, threshold, sentence, alike)


def _joint_findings(comparison: Comparison) -> Iterator[Finding]:
    joint, threshold = comparison.joint, SHARES["joint"] * comparison.alpha
    if joint.p_value <= threshold:
        sentence = f"The masks of both tables can be told apart (AUC {joint.auc:.2f}; 0.50 would be chance)."
        yield Finding("joint", (), 0.5, joint.auc, joint.p_value, threshold, sentence)


def _value_findings(comparison: Comparison) -> Iterator[Finding]:
    values, threshold = comparison.values, VALUE_SHARE * comparison.alpha
    for j in np.flatnonzero(comparison.value_p <= threshold).tolist():
        name = comparison.tables.names[j]
        before, after = float(values.reference[j]), float(values.current[j])
        categories = comparison.sample.features[j].categories
        if categories is not None:
            category = categories[values.feature[j]]
            sentence = f"{name!r} is {category!r} in {after:.1%} of the rows; before, {before:.1%}."
        elif values.feature[j]:
            how = "more" if after > before else "less"
            sentence = f"The values of {name!r} are {how} spread out."
        else:
            # The difference of mean ranks is the probability that one value is larger than another, minus ½.
            before, after = 0.5, 0.5 + after - before
            how = "higher" if after > before else "lower"
            sentence = (
                f"The values of {name!r} are {how}: a current value is larger than one from before in "
                f"{after:.0%} of the cases."
            )
        p_value = float(comparison.value_p[j])
        yield Finding("value", (name,), before, after, p_value, threshold, sentence)


def _named(tables: TwoTables, j: int, others: list[int]) -> str:
    """The subject of a sentence: a column, and how many are missing in the same rows."""
    if not others:
        return f"{tables.names[j]!r} is"
    return f"{tables.names[j]!r} and {len(others)} more, which are missing in the same rows, are"


def _how_often(difference: float, one: str = "", other: str = "") -> str:
    """Compare the missing rates of two kinds of rows; without them, only by how much."""
    points = f"{abs(100 * difference):.0f} percentage points {'more' if difference > 0 else 'less'} often"
    if not one:
        return "equally often" if abs(difference) < 0.005 else points
    return f"as often {one} as {other}" if abs(difference) < 0.005 else f"{points} {one} than {other}"


def _is_first(tables: TwoTables) -> Bools:
    """Whether a column is the first of those that are missing in the same rows."""
    is_first = np.zeros(len(tables.names), dtype=bool)
    is_first[[group[0] for group in tables.alike()]] = True
    return is_first


def _small(p_values: Floats, is_tested: Bools, threshold: float) -> Iterator[tuple[int, int, float]]:
    """Positions and adjusted p-values of the tests whose adjusted p-value does not exceed a threshold."""
    if is_tested.any():
        positions = np.argwhere(is_tested)
        for (j, k), p_value in zip(positions, _adjusted(p_values[is_tested]), strict=True):
            if p_value <= threshold:
                yield int(j), int(k), float(p_value)


def _adjusted(p_values: Floats) -> Floats:
    """p-values of Benjamini and Hochberg: comparing them with α keeps the false discovery rate at α.

    NaN, for what was not tested, stays.
    """
    adjusted = np.full(p_values.shape, np.nan)
    is_tested = ~np.isnan(p_values)
    adjusted[is_tested] = false_discovery_control(np.clip(p_values[is_tested], 0, 1))
    return adjusted
