"""The paper's claim about each table and figure, what was measured, and whether it held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from stablemiss.experiments.array_comparison import ArrayComparison
from stablemiss.experiments.comparison import Comparison, Pair
from stablemiss.experiments.tables import ABLATION, PAPER_METHODS, WEIGHTED_ABLATION
from stablemiss.report.text import place_of

SUBJECT, UNWEIGHTED = "stablemiss", "stablemiss_unweighted"
HELD, IN_PART, NOT_HELD, UNDECIDED = "held", "in part", "not held", "not enough records"
VERDICTS = (HELD, IN_PART, NOT_HELD, UNDECIDED)
# With independent columns and masks, weights may change the RMSE by less than this in every column.
SMALL_CHANGE = 0.01
# A table gets a verdict only if all methods were run on this many instances, or on all that are planned.
MIN_INSTANCES = 3
OUR_FORM = "our form of the weights"
# What the verdicts mean, for the reader: what they are about → rule.
RULES = {
    "Tables": "Held: StableMiss has the lowest mean RMSE of the eight methods in every shifted column (a "
    "column whose test rows have other missingness than the training rows; columns without a shift do not "
    "count, also where the paper says always). In part: it is lowest in at "
    "least half of them, or its RMSE is on average over them lower than that of the best other method. Not "
    "held: otherwise; an interval that contains zero then means that the two cannot be told apart.",
    "Best other method": "Of the other seven, the one with the lowest RMSE relative to StableMiss's, mean "
    "over shifted columns. It is chosen after the fact, so the comparison with it is hard on StableMiss.",
    "Difference": "RMSE of StableMiss relative to the other's, minus one: below zero, StableMiss is better. "
    "Mean over shifted columns, and its 95% interval over instances, by Student's t. The instances of house "
    "sales (table 3) are splits of one table that share most of their rows, those of images (table 4) share "
    "images, and those of natural shifts of traffic (table 5) have the same windows, so their intervals are "
    "too narrow.",
    "Figure 2": "Held: all terms (full) have a lower RMSE than each other variant, with intervals that "
    "exclude zero. In part: lower than without weights, with an interval that excludes zero. Not held: "
    "otherwise.",
    "Figure 3": f"Held: with all terms and without weights, the RMSE differs by less than "
    f"{100 * SMALL_CHANGE:g}% in every column. Not held: otherwise.",
}


@dataclass(frozen=True)
class Lead:
    """How a subject compares with the best other method, over the shifted columns of a table."""

    n_first: int  # columns in which the subject has the lowest mean RMSE
    n: int
    best_other: str  # its label
    mean: float  # relative difference of the subject's RMSE from the best other method's
    interval: tuple[float, float] | None = None  # 95% interval of the mean, over instances


@dataclass(frozen=True)
class Claim:
    """A claim of the paper beside what was measured."""

    name: str  # of the table or figure
    text: str  # what the paper says
    form: str  # empty for the paper's form of the weights
    measured: Lead | None  # None if columns or methods are missing
    published: Lead | None  # None for figures and other data than the paper's: there are no published numbers
    verdict: str  # one of VERDICTS
    largest_change: float | None = None  # of the RMSE due to weights, in any column; for figure 3 only


def judge_claims(comparisons: Iterable[Comparison], arrays: Iterable[ArrayComparison] = ()) -> list[Claim]:
    """One claim for each table, and two for each figure: with the paper's form of the weights, and with ours.

    Parameters
    ----------
    comparisons : iterable of Comparison
    arrays : iterable of ArrayComparison, default=()
        Tables of images and sensor networks.

    Examples
    --------
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.comparison import compare
    >>> from stablemiss.experiments.tables import TABLES
    >>> [claim] = judge_claims([compare(TABLES["table1"], [], BUDGETS["quick"])])
    >>> claim.verdict
    'not enough records'
    """
    claims = []
    for comparison in comparisons:
        if comparison.table.is_figure:
            claims.append(_judge_figure(comparison, ABLATION, ""))
            claims.append(_judge_figure(comparison, (*WEIGHTED_ABLATION, UNWEIGHTED), OUR_FORM))
        elif comparison.table.claim:
            published = published_lead(comparison, SUBJECT, PAPER_METHODS)
            claims.append(_judge_table(comparison, published))
    claims += [_judge_table(comparison, published_array_lead(comparison)) for comparison in arrays]
    return sorted(claims, key=lambda claim: place_of(claim.name))


def measured_lead(
    comparison: Comparison | ArrayComparison, subject: str, labels: Sequence[str]
) -> Lead | None:
    """The lead of a subject over the others of some labels; None unless all of them were run."""
    columns = [comparison.column(number) for number in comparison.shifted]
    pairs = [
        pair
        for label in labels
        if label != subject and (pair := comparison.pair(subject, label, comparison.shifted))
    ]
    if not columns or any(label not in column for column in columns for label in labels):
        return None
    best = max(pairs, key=lambda pair: pair.mean)
    n_first = sum(column[subject].rmse == min(column[label].rmse for label in labels) for column in columns)
    return Lead(n_first, len(columns), best.label, best.mean, best.interval)


def published_lead(comparison: Comparison, subject: str, labels: Sequence[str]) -> Lead | None:
    """The same with the published numbers, which are those of a single draw."""
    columns = [comparison.published_column(number) for number in comparison.shifted]
    return _lead(
        # The published RMSE, divided by that of the reference.
        [
            {label: 1 + cell.relative_gap for label, cell in column.items() if cell.relative_gap is not None}
            for column in columns
        ],
        subject,
        labels,
    )


def published_array_lead(comparison: ArrayComparison) -> Lead | None:
    """The same for a table of images or sensor networks."""
    lines = {line.label: line.published for line in comparison.lines if not line.is_retrained}
    columns = [{label: rmse[number] for label, rmse in lines.items()} for number in comparison.shifted]
    known = [{label: rmse for label, rmse in column.items() if rmse is not None} for column in columns]
    return _lead(known, SUBJECT, PAPER_METHODS)


def _lead(errors: Sequence[Mapping[str, float]], subject: str, labels: Sequence[str]) -> Lead | None:
    """The lead of a subject, from the error of each label in each column; None unless all are there."""
    if not errors or any(label not in column for column in errors for label in labels):
        return None
    means = {
        label: fmean(column[subject] / column[label] - 1 for column in errors)
        for label in labels
        if label != subject
    }
    best = max(means, key=lambda label: means[label])
    n_first = sum(column[subject] == min(column[label] for label in labels) for column in errors)
    return Lead(n_first, len(errors), best, means[best])


def _judge_table(comparison: Comparison | ArrayComparison, published: Lead | None) -> Claim:
    measured = measured_lead(comparison, SUBJECT, PAPER_METHODS)
    if measured is None or not _has_enough_instances(comparison):
        verdict = UNDECIDED
    elif measured.n_first == measured.n:
        verdict = HELD
    else:
        is_often_first = 2 * measured.n_first >= measured.n
        verdict = IN_PART if is_often_first or measured.mean < 0 else NOT_HELD
    return Claim(comparison.table.name, comparison.table.claim, "", measured, published, verdict)


def _has_enough_instances(comparison: Comparison | ArrayComparison) -> bool:
    """Whether all methods were run on at least three instances, or on all if fewer are planned."""
    needed = min(MIN_INSTANCES, comparison.n_instances)
    return all(len(comparison.instances[number]) >= needed for number in comparison.shifted)


def _judge_figure(comparison: Comparison, variants: Sequence[str], form: str) -> Claim:
    """A figure about variants of StableMiss; the first one uses all terms."""
    table, full = comparison.table, variants[0]
    measured = measured_lead(comparison, full, variants)
    change = None
    if table.name == "figure3":
        measured, change = _judge_change(comparison, full, measured)
        verdict = UNDECIDED if change is None else HELD if change < SMALL_CHANGE else NOT_HELD
    else:
        pairs = [comparison.pair(full, label, comparison.shifted) for label in variants[1:]]
        verdict = UNDECIDED if measured is None else _judge_pairs(pairs)
    return Claim(table.name, table.claim, form, measured, None, verdict, change)


def _judge_pairs(pairs: Sequence[Pair | None]) -> str:
    known = [pair for pair in pairs if pair is not None and pair.interval is not None]
    if len(known) < len(pairs):
        return UNDECIDED
    if all(pair.is_clearly_lower for pair in known):
        return HELD
    return IN_PART if any(one.is_clearly_lower for one in known if one.label == UNWEIGHTED) else NOT_HELD


def _judge_change(
    comparison: Comparison, full: str, measured: Lead | None
) -> tuple[Lead | None, float | None]:
    """All terms against no weights: the mean difference, and the largest difference in any column."""
    columns = [comparison.column(number) for number in range(len(comparison.columns))]
    pair = comparison.pair(full, UNWEIGHTED, comparison.shifted)
    if measured is None or pair is None or any(not {full, UNWEIGHTED} <= column.keys() for column in columns):
        return None, None
    changes = [abs(column[full].rmse / column[UNWEIGHTED].rmse - 1) for column in columns]
    lead = Lead(measured.n_first, measured.n, UNWEIGHTED, pair.mean, pair.interval)
    return lead, max(changes)
