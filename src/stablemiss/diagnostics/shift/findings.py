"""Findings of a comparison of two tables: what moved, how much, and how certain that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import false_discovery_control, norm
from threadpoolctl import threadpool_limits

from stablemiss.data import Bools, Floats
from stablemiss.diagnostics.shift.masks import (
    JointTest,
    PairChanges,
    UnseenMasks,
    joint_test,
    pair_changes,
    rate_p_values,
    unseen_masks,
)
from stablemiss.diagnostics.shift.tables import TwoTables
from stablemiss.diagnostics.shift.values import Links, ValueChanges, links, value_changes
from stablemiss.seeding import Rng

Verdict = Literal["shift", "no shift", "cannot tell"]
Kind = Literal["rate", "pair", "link", "joint", "value"]
# How the probability of a false alarm about masks is divided between the kinds of tests.
SHARES: dict[Kind, float] = {"rate": 0.6, "pair": 0.15, "link": 0.15, "joint": 0.1}
# The probability of a false alarm about values is this share of α, so that a shift of the masks is seldom
# accompanied by one.
VALUE_SHARE = 0.4
# Without a finding, "no shift" is said only if a change of a rate by this much would have been found.
MAX_UNDETECTED = 0.35
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
        Missing rates; correlations of the mask indicators; difference of the missing rate between high and
        low values of the driver; 0.5 and the area under the ROC curve; 0 and the mean normal score.
    p_value : float
        Adjusted for the number of tests of this kind, so that it can be compared with `threshold`.
    threshold : float
    n_alike : int, default=0
        Number of further columns that are missing in the same rows as the first, of which it stands for all.
    """

    kind: Kind
    columns: tuple[str, ...]
    before: float
    after: float
    p_value: float
    threshold: float
    n_alike: int = 0

    @property
    def sentence(self) -> str:
        """What moved, in plain words."""
        first, last = [*map(repr, self.columns), "", ""][:2]
        alike = f" (like {self.n_alike} more, missing in the same rows)" if self.n_alike else ""
        if self.kind == "rate":
            return f"{first}{alike} is missing in {self.after:.1%} of the rows; before, {self.before:.1%}."
        if self.kind == "pair":
            how = "together" if self.after > self.before else "apart"
            return (
                f"{first} and {last} are missing {how} more often: correlation {self.after:.2f} instead of "
                f"{self.before:.2f}."
            )
        if self.kind == "link":
            return (
                f"Whether {first}{alike} is missing depends on {last} in another way: from low to high "
                f"values of {last} its missing rate changes by {100 * self.after:+.0f} points, before by "
                f"{100 * self.before:+.0f}."
            )
        if self.kind == "joint":
            return f"The masks of both tables can be told apart (AUC {self.after:.2f}; 0.50 would be chance)."
        if np.isnan(self.after):
            return f"The categories of {first} have other frequencies."
        direction = "higher" if self.after > 0 else "lower"
        return f"The values of {first} are {direction}, by {abs(self.after):.2f} standard deviations."


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything that was computed from two tables.

    Attributes
    ----------
    tables : TwoTables
    alpha : float
        Probability of a false alarm about masks.
    rate_p, value_p : (d,)
        p-values of each column, adjusted for their number.
    pairs : PairChanges
    links : Links
    joint : JointTest
    values : ValueChanges
    unseen : UnseenMasks
    findings : list of Finding
        Most certain first within each kind; kinds in the order of `SHARES`, values last.
    """

    tables: TwoTables
    alpha: float
    rate_p: Floats
    value_p: Floats
    pairs: PairChanges
    links: Links
    joint: JointTest
    values: ValueChanges
    unseen: UnseenMasks
    findings: Sequence[Finding]

    @property
    def detectable_change(self) -> float:
        """Change of a missing rate of 30% that would be found with a probability of 80%."""
        threshold = self.alpha * SHARES["rate"] / len(self.tables.names)
        variance = TYPICAL_RATE * (1 - TYPICAL_RATE)
        n = sum(1 / len(mask) for mask in (self.tables.reference, self.tables.current))
        return float((norm.isf(threshold / 2) + norm.ppf(POWER)) * np.sqrt(variance * n))

    @property
    def verdict(self) -> Verdict:
        """Whether the masks moved."""
        if any(finding.kind != "value" for finding in self.findings) or self.tables.absent:
            return "shift"
        return "no shift" if self.detectable_change <= MAX_UNDETECTED else "cannot tell"

    @property
    def values_verdict(self) -> Verdict:
        """Whether the values moved."""
        if any(finding.kind == "value" for finding in self.findings):
            return "shift"
        return "no shift" if self.detectable_change <= MAX_UNDETECTED else "cannot tell"


def compare_tables(tables: TwoTables, alpha: float, rng: Rng) -> Comparison:
    """Run all tests on two tables.

    Parameters
    ----------
    tables : TwoTables
    alpha : float
        Probability of a false alarm about masks if nothing changed, divided between the kinds of tests.
    rng : numpy Generator
        Draws rows of large tables, folds and permutations.
    """
    sample = tables.sample(rng)
    rate_p = _adjusted(rate_p_values(tables.reference, tables.current))
    pairs = pair_changes(tables.reference, tables.current)
    linked = links(sample)
    joint = joint_test(sample.observed, sample.is_current, rng)
    # Many small matrix products are fastest on one thread, above all beside other processes.
    with threadpool_limits(1):
        values = value_changes(sample, linked)
    value_p = _adjusted(values.p_value)
    comparison = Comparison(
        tables,
        alpha,
        rate_p,
        value_p,
        pairs,
        linked,
        joint,
        values,
        unseen_masks(tables.reference, tables.current),
        findings=(),
    )
    findings = sorted(
        _findings(comparison),
        key=lambda one: ([*SHARES, "value"].index(one.kind), one.p_value, -abs(one.after - one.before)),
    )
    return Comparison(**{**vars(comparison), "findings": findings})


def _findings(comparison: Comparison) -> Iterator[Finding]:
    tables, names, alpha = comparison.tables, comparison.tables.names, comparison.alpha
    limits: dict[Kind, float] = {kind: share * alpha for kind, share in SHARES.items()}
    # Columns that are missing in the same rows, such as the channels of one sensor, are reported once.
    n_alike = tables.n_alike()
    is_first = n_alike >= 0
    before, after = 1 - tables.reference.mean(axis=0), 1 - tables.current.mean(axis=0)
    for i in np.flatnonzero((comparison.rate_p <= limits["rate"]) & is_first):
        rates, p_value = (float(before[i]), float(after[i])), float(comparison.rate_p[i])
        yield Finding("rate", (names[i],), *rates, p_value, limits["rate"], int(n_alike[i]))
    pairs, linked = comparison.pairs, comparison.links
    upper = np.triu(np.outer(is_first, is_first), 1) & ~np.isnan(pairs.p_value)
    for j, k, p_value in _small(pairs.p_value, upper, limits["pair"]):
        first, second = float(pairs.reference[j, k]), float(pairs.current[j, k])
        yield Finding("pair", (names[j], names[k]), first, second, p_value, limits["pair"])
    is_tested = (linked.change_z != 0) & is_first[:, None]
    named: set[int] = set()
    changes = _small(linked.p_value, is_tested, limits["link"])
    for j, k, p_value in sorted(changes, key=lambda one: -abs(linked.change_z[one[0], one[1]])):
        # Of several columns that are related to each other, only the clearest driver is named.
        if j not in named:
            named.add(j)
            first, second = (float(np.clip(one[j, k], -1, 1)) for one in (linked.reference, linked.current))
            columns = names[j], names[k]
            yield Finding("link", columns, first, second, p_value, limits["link"], int(n_alike[j]))
    if comparison.joint.p_value <= limits["joint"]:
        yield Finding("joint", (), 0.5, comparison.joint.auc, comparison.joint.p_value, limits["joint"])
    for i in np.flatnonzero(comparison.value_p <= VALUE_SHARE * alpha):
        difference, p_value = float(comparison.values.difference[i]), float(comparison.value_p[i])
        yield Finding("value", (names[i],), 0.0, difference, p_value, VALUE_SHARE * alpha)


def _small(p_values: Floats, is_tested: Bools, threshold: float) -> Iterator[tuple[int, int, float]]:
    """Positions and adjusted p-values of the tests whose adjusted p-value does not exceed a threshold."""
    if is_tested.any():
        positions = np.argwhere(is_tested)
        for (j, k), p_value in zip(positions, _adjusted(p_values[is_tested]), strict=True):
            if p_value <= threshold:
                yield int(j), int(k), float(p_value)


def _adjusted(p_values: Floats) -> Floats:
    """p-values of Benjamini and Hochberg: comparing them with α keeps the false discovery rate at α."""
    return false_discovery_control(np.clip(p_values, 0, 1))
