"""Statistics that are quoted in the conclusions of docs/reproduction.md.

A page quotes a statistic as ``2<!-- first.shift -->``: the number, then its name in a comment. A test checks
that quoted numbers and records agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean, median

from stablemiss.experiments.comparison import Comparison
from stablemiss.experiments.tables import ABLATION, LINEAR, OPTIMAL, PAPER_METHODS
from stablemiss.report.summary import SUBJECT, Summary, distinct_columns

UNWEIGHTED = "stablemiss_unweighted"
QUOTE = re.compile(r"([−-]?[\d.,]*\d)(%?)<!-- ([\w. ]+) -->")
Statistics = dict[str, float]


def statistics(summary: Summary) -> Statistics:
    """Name → value. Relative gaps and differences are fractions, not percentages."""
    tables = summary.tables
    values = _lead_of_subject(tables, "shift") | _lead_of_subject(tables, "same") | _sizes(tables)
    for comparison in tables:
        name = comparison.table.name
        values |= _wins(comparison)
        # The pairs give the unweighted variant relative to StableMiss, hence the sign.
        values |= {f"weights.{name}": -pair.mean for pair in comparison.pairs if pair.label == UNWEIGHTED}
        values |= _mean_of(f"agreement.{name}", comparison.agreement)
    values |= _mean_of("weights.mean", [v for key, v in values.items() if key.startswith("weights.")])
    agreements = [comparison.agreement[number] for comparison, number in distinct_columns(tables)]
    values |= _mean_of("agreement.mean", agreements)
    for result in summary.head_to_head:
        values[f"beaten.{result.label}"] = result.n_won
        values[f"beaten_by.{result.label}"] = result.n - result.n_won
        values[f"columns.{result.label}"] = result.n
        for outcome, n in zip(("lower", "higher", "neither"), result.clear, strict=True):
            values[f"clearly.{outcome}.{result.label}"] = n
    for comparison in summary.comparisons:
        values |= _variants(comparison) if comparison.table.is_figure else {}
    return values


def read_quotes(page: str) -> list[tuple[str, str, str]]:
    """Every quoted statistic of a page: its digits, its unit ("%" or ""), and its name."""
    return QUOTE.findall(page)


def format_like(value: float, digits: str, unit: str) -> str:
    """A value with the unit and the number of decimals of a quote.

    Examples
    --------
    >>> format_like(0.2702, "27.0", "%"), format_like(2.0, "2", "")
    ('27.0', '2')
    """
    decimals = len(digits.partition(".")[2])
    return f"{value * (100 if unit else 1):z.{decimals}f}".replace("-", "−")


def _mean_of(name: str, values: Sequence[float | None]) -> Statistics:
    known = [value for value in values if value is not None]
    return {name: fmean(known)} if known else {}


def _wins(comparison: Comparison) -> Statistics:
    """Number of columns in which a label has the smallest gap: of all labels, and of the paper's methods."""
    wins: Statistics = {}
    for number in range(len(comparison.columns)):
        cells = comparison.column(number)
        gaps = {label: cell.gap for label, cell in cells.items() if label != LINEAR}
        of_paper = {label: gap for label, gap in gaps.items() if label in PAPER_METHODS}
        for group, ranked in (("all", gaps), ("eight", of_paper)):
            for label, gap in ranked.items():
                if gap == min(ranked.values()):
                    key = f"wins.{comparison.table.name}.{group}.{label}"
                    wins[key] = wins.get(key, 0) + 1
    return wins


def _lead_of_subject(tables: Sequence[Comparison], name: str) -> Statistics:
    """How often StableMiss is best of the paper's methods, and its mean gap and that of the best other one.

    Computed over the columns with a shift if `name` is "shift", and over those without one if it is "same".
    """
    columns = []
    for comparison, number in distinct_columns(tables):
        cells = {
            label: cell
            for label, cell in comparison.column(number).items()
            if label in PAPER_METHODS and cell.published is not None
        }
        if len(cells) == len(PAPER_METHODS) and cells[SUBJECT].is_as_trained == (name == "same"):
            columns.append((comparison.table.reference == OPTIMAL, cells))
    values: Statistics = {f"columns.{name}": len(columns)}
    for suffix, gap, relative_gap in (
        ("", "gap", "relative_gap"),
        (".published", "published", "published_relative_gap"),
    ):
        is_first = [
            getattr(cells[SUBJECT], gap) == min(getattr(cell, gap) for cell in cells.values())
            for _, cells in columns
        ]
        values[f"first{suffix}.{name}"] = sum(is_first)
        # Relative gaps are averaged only where the reference is Optimal.
        relative_gaps = [
            {label: getattr(cell, relative_gap) for label, cell in cells.items()}
            for has_optimal, cells in columns
            if has_optimal
        ]
        values |= _mean_of(f"gap{suffix}.{name}", [gaps[SUBJECT] for gaps in relative_gaps])
        best_others = [min(gaps[label] for label in gaps if label != SUBJECT) for gaps in relative_gaps]
        values |= _mean_of(f"best_other{suffix}.{name}", best_others)
    return values


def _variants(figure: Comparison) -> Statistics:
    """Gaps of the full variant and the best other one, and the largest change of the RMSE due to weights."""
    columns = [figure.column(number) for number in range(len(figure.columns))]
    columns = [column for column in columns if column.keys() >= set(ABLATION)]
    if not columns:
        return {}
    name, subject = figure.table.name, figure.table.subject
    full = [column[subject].relative_gap for column in columns]
    others = [min(column[label].relative_gap for label in ABLATION if label != subject) for column in columns]
    changes = [abs(column[subject].rmse / column[UNWEIGHTED].rmse - 1) for column in columns]
    return {
        f"{name}.full": fmean(full),
        f"{name}.full.last": full[-1],
        f"{name}.best_other": fmean(others),
        f"{name}.best_other.last": others[-1],
        f"{name}.largest_change": max(changes),
    }


def _sizes(tables: Sequence[Comparison]) -> Statistics:
    """Median gaps, ours and published, and numbers of errors that exceed that of a constant."""
    cells = [
        (comparison.table.reference == OPTIMAL, cell)
        for comparison, number in distinct_columns(tables)
        for label, cell in comparison.column(number).items()
        if label in PAPER_METHODS
    ]
    known = [cell for _, cell in cells if cell.published_is_worse_than_constant is not None]
    values: Statistics = {
        "errors": len(known),
        "worse_than_constant": sum(cell.is_worse_than_constant for cell in known),
        "worse_than_constant.published": sum(bool(c.published_is_worse_than_constant) for c in known),
    }
    relative_gaps = [
        (cell.relative_gap, cell.published_relative_gap)
        for has_optimal, cell in cells
        if has_optimal and cell.published_relative_gap is not None
    ]
    if relative_gaps:
        values["median.optimal"] = median(ours for ours, _ in relative_gaps)
        values["median.optimal.published"] = median(published for _, published in relative_gaps)
    return values
