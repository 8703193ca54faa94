"""Statistics that the conclusions in docs/reproduction.md quote, by name; a test compares both.

A page quotes a statistic as ``2<!-- first.shift -->``: the number, then its name in a comment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean, median

from stablemiss.experiments.comparison import Cell, Comparison
from stablemiss.experiments.tables import ABLATION, EIGHT, LINEAR, OPTIMAL
from stablemiss.report.summary import SUBJECT, Summary, distinct_columns

UNWEIGHTED = "stablemiss_unweighted"
QUOTE = re.compile(r"([−-]?[\d.,]*\d)(%?)<!-- ([\w. ]+) -->")


def statistics(summary: Summary) -> dict[str, float]:
    """Name → value; shares are fractions of one."""
    tables = [one for one in summary.comparisons if not one.table.is_figure]
    figures = [one for one in summary.comparisons if one.table.is_figure]
    found: dict[str, float] = {}
    for one in tables:
        for group, labels in (("all", None), ("eight", EIGHT)):
            for label, n in _wins(one, labels).items():
                found[f"wins.{one.table.name}.{group}.{label}"] = n
    for name, is_as_trained in (("shift", False), ("same", True)):
        found |= {f"{key}.{name}": value for key, value in _ahead(tables, is_as_trained).items()}
    for duel in summary.duels:
        found[f"beaten.{duel.label}"], found[f"beaten_by.{duel.label}"] = duel.n_won, duel.n - duel.n_won
        found[f"columns.{duel.label}"] = duel.n
        for name, n in zip(("lower", "higher", "neither"), duel.clear, strict=True):
            found[f"clearly.{name}.{duel.label}"] = n
    found |= _weights(tables)
    for one in figures:
        found |= {f"{one.table.name}.{key}": value for key, value in _variants(one).items()}
    found |= _sizes(tables)
    agreement = {one.table.name: [a for a in one.agreement if a is not None] for one in tables}
    found |= {f"agreement.{name}": fmean(values) for name, values in agreement.items() if values}
    columns = [one.agreement[number] for one, number in distinct_columns(tables).values()]
    known = [value for value in columns if value is not None]
    if known:
        found["agreement.mean"] = fmean(known)
    return found


def read_quotes(page: str) -> list[tuple[str, str, str]]:
    """Every quoted statistic of a page: its digits, "%" or "", and its name."""
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


def _wins(comparison: Comparison, labels: Sequence[str] | None) -> dict[str, int]:
    """Label → columns in which no ranked label has a smaller gap."""
    wins: dict[str, int] = {}
    for number in range(len(comparison.columns)):
        column = {k: cell for k, cell in comparison.column(number).items() if k != LINEAR}
        gaps = {k: cell.gap for k, cell in column.items() if labels is None or k in labels}
        for label in (k for k, gap in gaps.items() if gap == min(gaps.values())):
            wins[label] = wins.get(label, 0) + 1
    return wins


def _ahead(tables: Sequence[Comparison], is_as_trained: bool) -> dict[str, float]:
    """How often the paper's method is first of the eight, and its mean gap beside the best other's."""
    found: dict[str, float] = {}
    every: list[dict[str, Cell]] = []
    drawn: list[dict[str, Cell]] = []
    for one, number in distinct_columns(tables).values():
        column = {k: cell for k, cell in one.column(number).items() if k in EIGHT}
        is_complete = len(column) == len(EIGHT) and all(c.published is not None for c in column.values())
        if is_complete and column[SUBJECT].is_as_trained == is_as_trained:
            every.append(column)
            if one.table.reference == OPTIMAL:
                drawn.append(column)
    found["columns"] = len(every)
    for suffix, gap, share in (("", "gap", "share"), (".published", "published", "published_share")):
        found[f"first{suffix}"] = sum(
            getattr(column[SUBJECT], gap) == min(getattr(cell, gap) for cell in column.values())
            for column in every
        )
        if drawn:
            found[f"gap{suffix}"] = fmean(getattr(column[SUBJECT], share) for column in drawn)
            found[f"best_other{suffix}"] = fmean(
                min(getattr(cell, share) for k, cell in column.items() if k != SUBJECT) for column in drawn
            )
    return found


def _weights(tables: Sequence[Comparison]) -> dict[str, float]:
    """Relative increase of the RMSE by the decorrelation weights, mean over tables and per table."""
    increases = {
        one.table.name: -pair.mean for one in tables for pair in one.pairs if pair.label == UNWEIGHTED
    }
    found = {f"weights.{name}": value for name, value in increases.items()}
    return found | ({"weights.mean": fmean(increases.values())} if increases else {})


def _variants(figure: Comparison) -> dict[str, float]:
    columns = [figure.column(number) for number in range(len(figure.columns))]
    columns = [column for column in columns if column.keys() >= set(ABLATION)]
    if not columns:
        return {}
    subject = figure.table.subject
    full = [column[subject].share for column in columns]
    others = [min(column[k].share for k in ABLATION if k != subject) for column in columns]
    increases = [column[subject].rmse / column[UNWEIGHTED].rmse - 1 for column in columns]
    return {
        "full": fmean(full),
        "best_other": fmean(others),
        "full.last": full[-1],
        "best_other.last": others[-1],
        "increase": fmean(increases),
        "increase.largest abs": max(map(abs, increases)),
    }


def _sizes(tables: Sequence[Comparison]) -> dict[str, float]:
    """Median gaps, ours and published, and errors that exceed a constant's."""
    found: dict[str, float] = {}
    places = [
        (one, label, cell)
        for one, number in distinct_columns(tables).values()
        for label, cell in one.column(number).items()
        if label in EIGHT
    ]
    for name, is_drawn in (("optimal", True), ("stablemiss_id", False)):
        group = [c for one, _, c in places if (one.table.reference == OPTIMAL) == is_drawn]
        shares = [(c.share, c.published_share) for c in group if c.published_share is not None]
        if shares:
            found[f"median.{name}"] = median(share for share, _ in shares)
            found[f"median.{name}.published"] = median(share for _, share in shares)
    known = [(label, cell) for _, label, cell in places if cell.published_is_worse_than_constant is not None]
    found["errors"] = len(known)
    found["worse_than_constant"] = sum(cell.is_worse_than_constant for _, cell in known)
    worse = [label for label, cell in known if cell.published_is_worse_than_constant]
    found["worse_than_constant.published"] = len(worse)
    return found | {f"worse_than_constant.published.{label}": worse.count(label) for label in EIGHT}
