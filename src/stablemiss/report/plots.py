"""Plots of gaps and masks as SVG text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stablemiss.data import Bools
from stablemiss.experiments.comparison import Comparison
from stablemiss.experiments.tables import ABLATION, WEIGHTED_ABLATION
from stablemiss.pages import COLOURS, INK, MARKERS, picture
from stablemiss.report.text import percent, reference_title, title_of

# Reference methods are drawn as thin lines without markers.
DASHED = {"linear": "--", "constant": ":"}
# Figures: the same terms have the same colour and marker; our form of the weights is dashed, markers hollow.
VARIANTS = {
    label: {
        "color": COLOURS[i],
        "marker": MARKERS[i],
        "linewidth": 2,
        "linestyle": "--" if is_ours else "-",
        "markerfacecolor": "none" if is_ours else COLOURS[i],
    }
    for is_ours, labels in enumerate((ABLATION, WEIGHTED_ABLATION))
    for i, label in enumerate(labels)
}


def gap_plot(comparison: Comparison, prefix: str = "", limits: tuple[float, float] | None = None) -> str:
    """Gap against the test level, one line per method; the shading is the spread over instances.

    Parameters
    ----------
    comparison : Comparison
    prefix : str, default=""
        Start of the plot's ids, for a second plot of the same table on a page.
    limits : tuple of float, default=None
        Lowest and highest gap of the axis, to compare plots with each other. None fits the axis to the gaps.

    Returns
    -------
    str
        One ``<svg>`` element that scales with its container. Its ids are unique to the table.

    Examples
    --------
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.comparison import compare
    >>> from stablemiss.experiments.tables import TABLES
    >>> gap_plot(compare(TABLES["figure2"], [], BUDGETS["quick"])).startswith("<svg")
    True
    """
    reference = reference_title(comparison)
    with picture((6.2, 5.0)) as drawing:
        figure = drawing.figure
        axes = figure.add_subplot()
        levels = [column.test_level for column in comparison.columns]
        lines = [line for line in comparison.lines if any(line.cells)]
        # Shades of many lines must not hide them.
        shade = 0.15 if len(lines) < 6 else 0.06
        for i, line in enumerate(lines):
            gaps = [cell.gap if cell else float("nan") for cell in line.cells]
            style = _style(line.label, i, comparison.table.is_figure)
            axes.plot(levels, gaps, label=title_of(line.label), **style)
            spreads = [(cell and cell.spread) or 0.0 for cell in line.cells]
            low, high = ([gap + sign * s for gap, s in zip(gaps, spreads, strict=True)] for sign in (-1, 1))
            axes.fill_between(levels, low, high, color=style["color"], alpha=shade, linewidth=0)
        axes.set_xticks(levels, [percent(level) for level in levels])
        axes.set_xlabel("missing at test")
        axes.set_ylabel(f"RMSE minus {reference}'s RMSE")
        axes.axhline(0.0, color=INK, linewidth=1)
        axes.grid(axis="y", color=INK, alpha=0.12)
        if limits is not None:
            axes.set_ylim(*limits)
        if lines:
            figure.legend(loc="outside lower center", ncols=2, frameon=False, handlelength=3.2)
    return drawing.svg(f"{prefix}{comparison.table.name}", f"Gap to {reference} against the test level")


def gap_limits(comparisons: Iterable[Comparison]) -> tuple[float, float] | None:
    """Limits of an axis on which all gaps and their spreads are visible; None without gaps."""
    cells = [cell for one in comparisons for line in one.lines for cell in line.cells if cell is not None]
    if not cells:
        return None
    low = min(0.0, *(cell.gap - (cell.spread or 0.0) for cell in cells))
    high = max(0.0, *(cell.gap + (cell.spread or 0.0) for cell in cells))
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def mask_plot(mask: Bools) -> str:
    """A mask as an ``<svg>`` element; filled squares are observed values.

    Examples
    --------
    >>> import numpy as np
    >>> mask_plot(np.eye(2, dtype=bool)).count("h.9v.9h-.9z")
    2
    """
    squares = "".join(
        f"M{x} {y}h.9v.9h-.9z" for y, row in enumerate(mask) for x, bit in enumerate(row) if bit
    )
    n_rows, n_columns = mask.shape
    return (
        f'<svg viewBox="-.2 -.2 {n_columns + 0.3:g} {n_rows + 0.3:g}" role="img" '
        f'aria-label="{n_rows} rows of {n_columns} columns, observed values filled">'
        f'<rect x="-.1" y="-.1" width="{n_columns + 0.1:g}" height="{n_rows + 0.1:g}" fill="none" '
        'stroke="currentColor" stroke-width=".1" opacity=".5"/>'
        f'<path d="{squares}" fill="currentColor"/></svg>'
    )


def _style(label: str, number: int, is_figure: bool) -> dict[str, Any]:
    """Colour, marker and line of a method."""
    if label in DASHED:
        return {"color": INK, "alpha": 0.6, "linestyle": DASHED[label]}
    if is_figure and label in VARIANTS:
        return dict(VARIANTS[label])
    return {"color": COLOURS[number % 8], "marker": MARKERS[number % 8], "linewidth": 2}
