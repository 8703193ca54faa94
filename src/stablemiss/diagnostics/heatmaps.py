"""Heat maps of dependence matrices."""

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
# With more columns than this, column names are not shown, because they would be illegible.
MAX_NAMED_COLUMNS = 25
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "text.parse_math": False,  # show a dollar sign in a column name as it is
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def draw_matrices(names: Sequence[str], matrices: Mapping[str, Floats]) -> Figure:
    """Draw dependence matrices as heat maps side by side, on a common colour scale.

    Parameters
    ----------
    names : sequence of str, (d,)
        Column names.
    matrices : mapping from str to (2d, 2d) array
        Titles and matrices, as returned by `dependence_matrix`. NaN and the diagonal are grey.

    Returns
    -------
    matplotlib Figure

    See Also
    --------
    stablemiss.diagnostics.WeightReport.plot : Matrices before and after weighting.

    Examples
    --------
    >>> figure = draw_matrices(["a", "b"], {"before": np.eye(4), "after": np.eye(4)})
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['before', 'after']
    """
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError(
            'Plotting requires matplotlib; install it with: pip install "stablemiss[report]".'
        )
    # Imported here, because only plots require matplotlib.
    import matplotlib
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure

    d = len(names)
    off_diagonal = [np.where(np.eye(2 * d, dtype=bool), np.nan, matrix) for matrix in matrices.values()]
    vmax = max(np.nanmax(matrix, initial=0.0) for matrix in off_diagonal)
    # Dependences are squares; a square-root scale makes weak ones visible.
    norm = PowerNorm(0.5, vmin=0.0, vmax=vmax or 1.0)
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
        bar.set_label("dependence (0: independent, 1: identical)")
        bar.outline.set_visible(False)
    return figure


def _mark_blocks(axes: Axes, names: Sequence[str]) -> None:
    """Label the columns below and on the left, and the two blocks above and on the right."""
    d = len(names)
    ticks = np.arange(2 * d) if d <= MAX_NAMED_COLUMNS else np.empty(0)
    labels = [_shorten(name) for name in [*names, *names][: len(ticks)]]
    axes.set_xticks(ticks, labels, rotation=90, fontsize=7)
    axes.set_yticks(ticks, labels, fontsize=7)
    for line in (axes.axvline, axes.axhline):
        line(d - 0.5, color="white", linewidth=2.5)
    middles = [(d - 1) / 2, d + (d - 1) / 2]
    top, right = axes.secondary_xaxis("top"), axes.secondary_yaxis("right")
    top.set_xticks(middles, ["columns", "mask indicators"])
    right.set_yticks(middles, ["columns", "mask indicators"], rotation=270, va="center")
    for edge in (top, right):
        edge.tick_params(length=0)
        edge.spines[:].set_visible(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _shorten(name: str, max_length: int = 14) -> str:
    return name if len(name) <= max_length else name[: max_length - 1] + "…"
