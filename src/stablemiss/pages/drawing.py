"""Plots as SVG text that inherits the text colour of the page around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Visible on white and on near-black, and distinguishable with colour blindness.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8a6fd1", "#7f7f7f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# Placeholder that is replaced by the text colour of the page; no method has this colour.
INK = "#010203"
STYLE: dict[Any, Any] = {
    "font.size": 12,
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's font
    "svg.hashsalt": "stablemiss",
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


@dataclass(frozen=True)
class Drawing:
    """A matplotlib figure that becomes an ``<svg>`` element."""

    figure: Figure

    def svg(self, prefix: str, title: str) -> str:
        """One ``<svg>`` element in the text colour of the page and as wide as its container.

        Parameters
        ----------
        prefix : str
            Start of its ids, which must differ between the drawings of a page.
        title : str
            Read aloud instead of the drawing.
        """
        import matplotlib

        text = StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(text, format="svg", transparent=True, metadata=metadata)
        document = text.getvalue()
        svg = document[document.index("<svg") :].replace(INK, "currentColor")
        head, rest = svg.split(">", 1)
        attributes = [part for part in head.split('" ') if not part.startswith(("width=", "height="))]
        svg = '" '.join(attributes) + f' role="img" aria-label="{escape(title)}">' + rest
        return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)


@contextmanager
def picture(size: tuple[float, float]) -> Iterator[Drawing]:
    """An empty figure of a width and height in inches, in the style of all pictures of a page."""
    # matplotlib is an optional dependency.
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        yield Drawing(Figure(figsize=size, layout="constrained"))
