"""Plots of a stress test as SVG text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stablemiss.evaluation.stress.verdict import percent
from stablemiss.pages import COLOURS, INK, MARKERS, picture
from stablemiss.row_losses import Z

if TYPE_CHECKING:
    from stablemiss.evaluation.stress.result import StressResult

# Bars of columns; more do not fit.
N_BARS = 15
# Names of columns are cut at this length beside bars.
MAX_NAME = 24


def curve_plot(result: StressResult, lines: Sequence[tuple[str, str, str]], prefix: str, title: str) -> str:
    """Errors against the share of missing values, with the constant as a dashed line.

    Parameters
    ----------
    result : StressResult
    lines : sequence of (model, mechanism, label)
        The curves.
    prefix : str
        Start of the plot's ids.
    title : str
        Read aloud instead of the plot.
    """
    with picture((6.2, 4.4)) as drawing:
        axes = drawing.figure.add_subplot()
        for number, (model, mechanism, label) in enumerate(lines):
            scores = [result.baseline(model), *result.curve(model, mechanism)]
            shares, errors = [score.missing_share for score in scores], [score.error for score in scores]
            widths = [Z * score.standard_error for score in scores]
            colour = COLOURS[number % len(COLOURS)]
            marker = MARKERS[number % len(MARKERS)]
            axes.plot(shares, errors, label=label, color=colour, marker=marker, linewidth=2)
            low, high = ([e + sign * w for e, w in zip(errors, widths, strict=True)] for sign in (-1, 1))
            # Shades of many lines must not hide them.
            axes.fill_between(
                shares, low, high, color=colour, alpha=0.12 if len(lines) < 5 else 0.05, linewidth=0
            )
        axes.axhline(result.constant, color=INK, linestyle="--", linewidth=1.2, label="constant")
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(*_limits(result))
        ticks = [0, 0.2, 0.4, 0.6, 0.8, 1.0]
        axes.set_xticks(ticks, [percent(tick) for tick in ticks])
        axes.set_xlabel("values missing")
        axes.set_ylabel(result.metric)
        axes.grid(axis="y", color=INK, alpha=0.12)
        drawing.figure.legend(loc="outside lower center", ncols=3, frameon=False, handlelength=2.4)
    return drawing.svg(prefix, title)


def column_plot(result: StressResult, models: Sequence[str], prefix: str) -> str:
    """Costs of losing the most important columns as bars, with their 95% intervals.

    Parameters
    ----------
    result : StressResult
    models : sequence of str
        One bar for each of them; the columns are those of the first one.
    prefix : str
        Start of the plot's ids.
    """
    columns = [cost.column for cost in result.column_costs(models[0])[:N_BARS]]
    height = 0.8 / len(models)
    with picture((6.2, 1.4 + 0.32 * len(columns) * max(1.0, 0.6 * len(models)))) as drawing:
        axes = drawing.figure.add_subplot()
        for number, model in enumerate(models):
            costs = {cost.column: cost for cost in result.column_costs(model)}
            drawn = [costs[column] for column in columns]
            places = [row + (number - (len(models) - 1) / 2) * height for row in range(len(columns))]
            values = [cost.cost for cost in drawn]
            widths = [[c.cost - c.low for c in drawn], [c.high - c.cost for c in drawn]]
            colour = COLOURS[number % len(COLOURS)]
            style: dict[str, Any] = {"ecolor": INK, "error_kw": {"elinewidth": 1, "alpha": 0.7}}
            axes.barh(places, values, height * 0.9, xerr=widths, color=colour, label=model, **style)
        axes.set_yticks(range(len(columns)), [_short(column) for column in columns])
        axes.invert_yaxis()
        axes.axvline(0.0, color=INK, linewidth=1)
        axes.set_xlabel(f"increase of the {result.metric}")
        axes.grid(axis="x", color=INK, alpha=0.12)
        if len(models) > 1:
            drawing.figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return drawing.svg(prefix, "Cost of losing each column")


def _limits(result: StressResult) -> tuple[float, float]:
    """Limits of an axis on which all errors are visible, to compare plots with each other."""
    errors = [score.error for score in result.scores if math.isfinite(score.error)]
    low, high = min(*errors, result.constant), max(*errors, result.constant)
    # A model that ignores its input has the same error everywhere.
    margin = 0.06 * (high - low) or 0.06 * (abs(high) or 1.0)
    return low - margin, high + margin


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
