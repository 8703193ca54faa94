"""Statistics that the conclusions in docs/reproduction.md quote, by name; a test compares both.

A page quotes a statistic as ``2<!-- first.shift -->``: the number, then its name in a comment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean, median

from stablemiss.experiments.comparison import Comparison
from stablemiss.experiments.tables import ABLATION, EIGHT, LINEAR, OPTIMAL
from stablemiss.report.summary import SUBJECT, Summary, distinct_columns

UNWEIGHTED = "stablemiss_unweighted"
QUOTE = re.compile(r"([−-]?[\d.,]*\d)(%?)<!-- ([\w. ]+) -->")
Statistics = dict[str, float]


def statistics(summary: Summary) -> Statistics:
    """Name → value; shares are fractions of one."""
    tables = summary.tables
    found = _ahead(tables, "shift") | _ahead(tables, "same") | _sizes(tables)
    for one in tables:
        name = one.table.name
        found |= _wins(one)
        found |= {f"weights.{name}": -pair.mean for pair in one.pairs if pair.label == UNWEIGHTED}
        found |= _mean_of(f"agreement.{name}", one.agreement)
    found |= _mean_of("weights.mean", [value for key, value in found.items() if key.startswith("weights.")])
    columns = [one.agreement[number] for one, number in distinct_columns(tables)]
    found |= _mean_of("agreement.mean", columns)
    for duel in summary.duels:
        found[f"beaten.{duel.label}"], found[f"beaten_by.{duel.label}"] = duel.n_won, duel.n - duel.n_won
        found[f"columns.{duel.label}"] = duel.n
        for verdict, n in zip(("lower", "higher", "neither"), duel.clear, strict=True):
            found[f"clearly.{verdict}.{duel.label}"] = n
    for one in summary.comparisons:
        found |= _variants(one) if one.table.is_figure else {}
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


def _mean_of(name: str, values: Sequence[float | None]) -> Statistics:
    known = [value for value in values if value is not None]
    return {name: fmean(known)} if known else {}


def _wins(comparison: Comparison) -> Statistics:
    """Columns in which no other ranked label has a smaller gap: of all labels, and of the paper's eight."""
    wins: Statistics = {}
    for number in range(len(comparison.columns)):
        gaps = {k: cell.gap for k, cell in comparison.column(number).items() if k != LINEAR}
        of_eight = {k: gap for k, gap in gaps.items() if k in EIGHT}
        for group, ranked in (("all", gaps), ("eight", of_eight)):
            for label in (k for k, gap in ranked.items() if gap == min(ranked.values())):
                key = f"wins.{comparison.table.name}.{group}.{label}"
                wins[key] = wins.get(key, 0) + 1
    return wins


def _ahead(tables: Sequence[Comparison], name: str) -> Statistics:
    """How often the paper's method is first of the eight, and its mean gap beside the best other's.

    Over the columns with a shift or, if `name` is "same", without one.
    """
    columns = []
    for one, number in distinct_columns(tables):
        cells = {
            k: cell for k, cell in one.column(number).items() if k in EIGHT and cell.published is not None
        }
        if len(cells) == len(EIGHT) and cells[SUBJECT].is_as_trained == (name == "same"):
            columns.append((one.table.reference == OPTIMAL, cells))
    found: Statistics = {f"columns.{name}": len(columns)}
    for suffix, gap, share in (("", "gap", "share"), (".published", "published", "published_share")):
        is_first = [
            getattr(cells[SUBJECT], gap) == min(getattr(cell, gap) for cell in cells.values())
            for _, cells in columns
        ]
        found[f"first{suffix}.{name}"] = sum(is_first)
        drawn = [
            {k: getattr(cell, share) for k, cell in cells.items()} for is_drawn, cells in columns if is_drawn
        ]
        found |= _mean_of(f"gap{suffix}.{name}", [shares[SUBJECT] for shares in drawn])
        others = [min(value for k, value in shares.items() if k != SUBJECT) for shares in drawn]
        found |= _mean_of(f"best_other{suffix}.{name}", others)
    return found


def _variants(figure: Comparison) -> Statistics:
    """Gaps of the full variant and of the best other one, and the largest change of the RMSE by weights."""
    columns = [figure.column(number) for number in range(len(figure.columns))]
    columns = [column for column in columns if column.keys() >= set(ABLATION)]
    if not columns:
        return {}
    name, subject = figure.table.name, figure.table.subject
    full = [column[subject].share for column in columns]
    others = [min(column[k].share for k in ABLATION if k != subject) for column in columns]
    increases = [abs(column[subject].rmse / column[UNWEIGHTED].rmse - 1) for column in columns]
    return {
        f"{name}.full": fmean(full),
        f"{name}.full.last": full[-1],
        f"{name}.best_other": fmean(others),
        f"{name}.best_other.last": others[-1],
        f"{name}.largest_change": max(increases),
    }


def _sizes(tables: Sequence[Comparison]) -> Statistics:
    """Median gaps, ours and published, and errors that exceed a constant's."""
    places = [
        (one.table.reference == OPTIMAL, cell)
        for one, number in distinct_columns(tables)
        for label, cell in one.column(number).items()
        if label in EIGHT
    ]
    known = [cell for _, cell in places if cell.published_is_worse_than_constant is not None]
    found: Statistics = {
        "errors": len(known),
        "worse_than_constant": sum(cell.is_worse_than_constant for cell in known),
        "worse_than_constant.published": sum(bool(c.published_is_worse_than_constant) for c in known),
    }
    shares = [(c.share, c.published_share) for drawn, c in places if drawn and c.published_share is not None]
    if shares:
        found["median.optimal"] = median(share for share, _ in shares)
        found["median.optimal.published"] = median(share for _, share in shares)
    return found
