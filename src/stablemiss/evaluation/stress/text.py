"""The result of a stress test as text for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stablemiss.evaluation.stress.verdict import percent
from stablemiss.text import count, table_lines

if TYPE_CHECKING:
    from stablemiss.evaluation.stress.result import ColumnCost, ModelComparison, PairCost, StressResult

WIDTH = 100
N_COLUMNS = 10
N_PAIRS = 5
# Levels of the table, because nine do not fit a terminal.
SHOWN_LEVELS = 5


def to_text(result: StressResult) -> str:
    """The verdict, errors under each mechanism, the first level worse than a constant, and columns."""
    parts = [textwrap.fill(result.verdict, WIDTH), "", _rows(result)]
    for model in result.models:
        parts += ["", *_errors(result, model), "", *_columns(result, model)]
        if pairs := list(_pairs(result, model)):
            parts += ["", *pairs]
    if result.notes:
        parts.append("")
    parts += [textwrap.fill(f"Note: {note}", WIDTH, subsequent_indent="      ") for note in result.notes]
    return "\n".join(parts)


def _rows(result: StressResult) -> str:
    return (
        f"{result.metric} on {count(result.n_rows, 'row')} of {count(result.n_columns, 'column')}; a "
        f"constant has {result.number(result.constant)}."
    )


def _errors(result: StressResult, model: str) -> Iterator[str]:
    given = result.baseline(model)
    how = ", cross-fitted" if model in result.cross_fitted else ""
    share = f" ({percent(given.missing_share)} of the values missing)" if given.missing_share else ""
    yield f"{model}{how}: {result.number(given.error)} as given{share}"
    levels = shown_levels(result)
    rows = []
    for mechanism in result.mechanisms:
        by_level = {score.level: score for score in result.curve(model, mechanism)}
        cells = [result.number(by_level[level].error) if level in by_level else "" for level in levels]
        natural = [result.number(by_level[None].error) if None in by_level else ""]
        rows.append([mechanism, *natural, *cells, first_worse_text(result, model, mechanism)])
    has_natural = any(row[1] for row in rows)
    header = ["missing", "masks as drawn", *map(percent, levels), "worse than a constant"]
    if not has_natural:
        header, rows = [header[0], *header[2:]], [[row[0], *row[2:]] for row in rows]
    yield from table_lines(header, rows, right=range(1, len(header)))


def shown_levels(result: StressResult) -> list[float]:
    """Some of the levels, the lowest and the highest among them."""
    levels = sorted({score.level for score in result.scores if score.level is not None})
    step = max(1, math.ceil((len(levels) - 1) / (SHOWN_LEVELS - 1)))
    return levels if len(levels) <= SHOWN_LEVELS else levels[::step]


def first_worse_text(result: StressResult, model: str, mechanism: str) -> str:
    """From which level on a constant is better, such as "from 60%"."""
    score = result.first_worse(model, mechanism)
    if score is None:
        return "never"
    return "as drawn" if score.level is None else f"from {percent(score.level)}"


def _columns(result: StressResult, model: str) -> Iterator[str]:
    costs = result.column_costs(model)
    rows = [
        [cost.column, result.number(cost.cost), interval_text(result, cost), percent(cost.reliance)]
        for cost in costs[:N_COLUMNS]
    ]
    header = ["without column", f"{result.metric} +", "95% interval", "reliance"]
    yield from table_lines(header, rows, right=[1, 2, 3])
    if len(costs) > N_COLUMNS:
        yield f"… and {len(costs) - N_COLUMNS:,} more in columns_frame()."


def _pairs(result: StressResult, model: str) -> Iterator[str]:
    rows = [
        [f"{pair.first}, {pair.second}", result.number(pair.cost), result.number(pair.excess)]
        for pair in result.pair_costs(model)[:N_PAIRS]
    ]
    if rows:
        header = ["without both", f"{result.metric} +", "more than the sum of both"]
        yield from table_lines(header, rows, right=[1, 2])


def interval_text(result: StressResult, cost: ColumnCost | PairCost | ModelComparison) -> str:
    """A 95% interval, such as "0.1 to 0.3"."""
    return f"{result.number(cost.low)} to {result.number(cost.high)}"
