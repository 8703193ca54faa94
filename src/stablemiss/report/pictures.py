"""Pictures of the reproduction as SVG text: the figures' lines, and masks."""

from __future__ import annotations

import re
from typing import Any

from stablemiss.report.comparison import reference_of, title_of
from stablemiss.report.plots import COLOURS, INK, MARKERS, STYLE, to_svg
from stablemiss.report.tables import percent


def figure_plot(comparison: dict[str, Any]) -> str:
    """Gap against the test level, one line for each variant; shaded: its spread over instances.

    Parameters
    ----------
    comparison : dict
        A figure, as `stablemiss.experiments.compare.compare` returns it.

    Returns
    -------
    str
        One ``<svg>`` element that scales with its box. Its ids are its own, so that several fit in a page.

    Examples
    --------
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.compare import compare
    >>> from stablemiss.experiments.exhibits import EXHIBITS
    >>> figure_plot(compare(EXHIBITS["figure2"], [], BUDGETS["quick"])).startswith("<svg")
    True
    """
    # Only a page needs matplotlib; without it tables are still there.
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.2, 4.6), layout="constrained")
        axes = figure.add_subplot()
        levels = [column["test_level"] for column in comparison["columns"]]
        for i, line in enumerate(comparison["lines"]):
            gaps = [cell["gap"] if cell else float("nan") for cell in line["cells"]]
            spreads = [(cell and cell["spread"]) or 0.0 for cell in line["cells"]]
            axes.plot(
                levels, gaps, color=COLOURS[i], marker=MARKERS[i], linewidth=2, label=title_of(line["label"])
            )
            low, high = ([gap + sign * s for gap, s in zip(gaps, spreads, strict=True)] for sign in (-1, 1))
            axes.fill_between(levels, low, high, color=COLOURS[i], alpha=0.15, linewidth=0)
        reference = reference_of(comparison)
        axes.set_xticks(levels, [percent(level) for level in levels])
        axes.set_xlabel("missing at test")
        axes.set_ylabel(f"RMSE minus {reference}'s RMSE")
        axes.axhline(0.0, color=INK, linewidth=1)
        axes.grid(axis="y", color=INK, alpha=0.12)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        svg = to_svg(figure, f"Gap to {reference} against the test level")
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{comparison['name']}-", svg)


def mask_picture(mask: list[str]) -> str:
    """Rows and columns of a mask; filled squares are observed cells.

    Examples
    --------
    >>> mask_picture(["10", "01"]).count("h.9v.9h-.9z")
    2
    """
    squares = "".join(
        f"M{x} {y}h.9v.9h-.9z" for y, row in enumerate(mask) for x, bit in enumerate(row) if bit == "1"
    )
    n_columns, n_rows = max(map(len, mask), default=0), len(mask)
    return (
        f'<svg viewBox="-.2 -.2 {n_columns + 0.3:g} {n_rows + 0.3:g}" role="img" '
        f'aria-label="{n_rows} rows of {n_columns} columns, observed cells filled">'
        f'<rect x="-.1" y="-.1" width="{n_columns + 0.1:g}" height="{n_rows + 0.1:g}" fill="none" '
        'stroke="currentColor" stroke-width=".1" opacity=".5"/>'
        f'<path d="{squares}" fill="currentColor"/></svg>'
    )
