"""Plots as SVG text: the same input gives the same bytes, and the page's own text colour shows through."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

from stablemiss.report.tables import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Mid tones that stand out on white and on near-black alike, told apart by colour-blind readers too.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8a6fd1", "#7f7f7f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# Stands for the colour of the text around the plot; no line of the plot uses this very colour.
INK = "#010203"

STYLE: dict[Any, Any] = {
    "font.size": 12,
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's font
    "svg.hashsalt": "stablemiss",
    "text.parse_math": False,  # a dollar in a method's name is a dollar
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def gap_plot(table: dict[str, Any]) -> str:
    """Gap to Optimal against the test level, one line per method; references are dashed.

    Parameters
    ----------
    table : dict
        What `gap_table` computed.

    Returns
    -------
    str
        One ``<svg>`` element that scales with its box.

    Examples
    --------
    >>> row = {"dataset": "toy", "mechanism": "MAR", "train_level": 0.1, "test_level": 0.1, "optimal_rmse": 10.0}
    >>> from stablemiss.report.tables import gap_table
    >>> svg = gap_plot(gap_table([{**row, "method": "ols", "role": "method", "rmse": 12.0}]))
    >>> svg.startswith("<svg"), svg.rstrip().endswith("</svg>")
    (True, True)
    """
    # Only a report needs matplotlib; without it tables are still there.
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.2, 5.2), layout="constrained")
        axes = figure.add_subplot()
        levels = [100 * level for level in table["test_levels"]]
        trained = 100 * table["train_level"]
        axes.axvline(trained, color=INK, alpha=0.35, linewidth=1, linestyle=(0, (1, 2)))
        axes.annotate(
            f" trained at {percent(table['train_level'])}",
            (trained, 1.0),
            xycoords=("data", "axes fraction"),
            va="bottom",
            ha="left" if trained < 60 else "right",
        )
        for number, line in enumerate(table["methods"]):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            axes.plot(levels, _gaps(line), color=colour, marker=marker, linewidth=2, label=line["method"])
        for number, line in enumerate(table["references"]):
            axes.plot(
                levels,
                _gaps(line),
                color=INK,
                alpha=0.6,
                linestyle=("--", ":", "-.")[number % 3],
                label=line["method"],
            )
        axes.axhline(0.0, color=INK, linewidth=1)
        axes.set_xticks(levels, [percent(level) for level in table["test_levels"]])
        axes.set_xlabel("missing at test")
        axes.set_ylabel("RMSE minus Optimal's RMSE")
        axes.grid(axis="y", color=INK, alpha=0.12)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        return to_svg(figure, "Gap to Optimal against the test level")


def _gaps(line: dict[str, Any]) -> list[float]:
    return [float("nan") if cell is None else cell["gap"] for cell in line["cells"]]


def to_svg(figure: Figure, title: str) -> str:
    """One ``<svg>`` element in the page's text colour and as wide as its box; `title` is read aloud."""
    text = StringIO()
    figure.savefig(
        text,
        format="svg",
        transparent=True,
        metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")),
    )
    document = text.getvalue()
    svg = document[document.index("<svg") :].replace(INK, "currentColor")
    head, rest = svg.split(">", 1)
    attributes = [part for part in head.split('" ') if not part.startswith(("width=", "height="))]
    return '" '.join(attributes) + f' role="img" aria-label="{title}">' + rest
