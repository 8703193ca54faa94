"""Dependence matrices as heat maps side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from stablemiss.data import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GREY = "#333333", "#d9d9d9"
# Up to so many columns each has its name beside the picture; more could not be read.
MOST_NAMED = 25
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "text.parse_math": False,  # a dollar in a column's name is a dollar
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def draw_matrices(names: Sequence[str], matrices: Mapping[str, Floats]) -> Figure:
    """One heat map for each title, all on one colour scale, with the blocks of columns and bits marked.

    Parameters
    ----------
    names : (d,)
        The columns.
    matrices : title → (2d, 2d)
        As `dependence_matrix` returns them; NaN and the diagonal are left grey.

    Examples
    --------
    >>> figure = draw_matrices(["a", "b"], {"before": np.eye(4), "after": np.eye(4)})
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['before', 'after']
    """
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError(
            'The picture needs matplotlib; install with: pip install "stablemiss[report]".'
        )
    # Only the picture needs matplotlib; numbers and text are there without it.
    import matplotlib
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure

    d = len(names)
    off_diagonal = [np.where(np.eye(2 * d, dtype=bool), np.nan, matrix) for matrix in matrices.values()]
    highest = max(np.nanmax(matrix, initial=0.0) for matrix in off_diagonal)
    # Dependences are squares: under a square root weak ones are told apart too.
    norm = PowerNorm(0.5, vmin=0.0, vmax=highest or 1.0)
    colours = matplotlib.colormaps["magma_r"].with_extremes(bad=GREY)
    with matplotlib.rc_context(STYLE):
        side = np.clip(0.16 * 2 * d, 4.2, 7.5)
        figure = Figure(figsize=(len(matrices) * side + 1.4, side + 0.9), layout="constrained")
        panels = figure.subplots(1, len(matrices), sharey=True, squeeze=False)[0]
        for axes, title, matrix in zip(panels, matrices, off_diagonal, strict=True):
            image = axes.imshow(matrix, cmap=colours, norm=norm, interpolation="nearest")
            axes.set_title(title, pad=10)
            _mark_blocks(axes, names)
        bar = figure.colorbar(image, ax=list(panels), shrink=0.9, pad=0.02)
        bar.set_label("dependence (0: none, 1: copies of each other)")
        bar.outline.set_visible(False)
    return figure


def _mark_blocks(axes: Axes, names: Sequence[str]) -> None:
    """Names below and on the left, where they can be read; columns and mask bits on the other two sides."""
    d = len(names)
    places = np.arange(2 * d) if d <= MOST_NAMED else np.empty(0)
    labels = [_shortened(name) for name in [*names, *names][: len(places)]]
    axes.set_xticks(places, labels, rotation=90, fontsize=7)
    axes.set_yticks(places, labels, fontsize=7)
    for line in (axes.axvline, axes.axhline):
        line(d - 0.5, color="white", linewidth=2.5)
    middles = [(d - 1) / 2, d + (d - 1) / 2]
    above, beside = axes.secondary_xaxis("top"), axes.secondary_yaxis("right")
    above.set_xticks(middles, ["columns", "mask bits"])
    beside.set_yticks(middles, ["columns", "mask bits"], rotation=270, va="center")
    for edge in (above, beside):
        edge.tick_params(length=0)
        edge.spines[:].set_visible(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _shortened(name: str, longest: int = 14) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
