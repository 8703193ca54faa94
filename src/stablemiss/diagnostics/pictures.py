"""Pictures of missing values: of one table, and of how two tables differ."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from stablemiss.data import Bools, Floats
from stablemiss.diagnostics.shift.tables import TwoTables
from stablemiss.encoding import observed_cells, read_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEFORE, NOW = "#0072b2", "#d55e00"
# Rows of the picture of a table, and columns with a name of their own.
MAX_ROWS, MAX_COLUMNS = 400, 40


def plot_missingness(X: Any, ax: Axes | None = None) -> Axes:
    """Draw which values of a table are missing: rows down, columns across, missing values dark.

    Parameters
    ----------
    X : table
        numpy, pandas, polars or pyarrow. Of a long table, rows at equal distances are drawn.
    ax : matplotlib Axes, default=None
        Where to draw. None creates a new figure.

    Returns
    -------
    matplotlib Axes

    See Also
    --------
    plot_missingness_shift : Missing rates of two tables.

    Examples
    --------
    >>> axes = plot_missingness([[1.0, None], [None, 2.0]])
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['0 (50%)', '1 (50%)']
    """
    table = read_table(X)
    observed = observed_cells(table)
    names = table.labels or [str(j) for j in range(observed.shape[1])]
    ax = ax if ax is not None else _new_axes((max(4.0, min(14.0, 0.35 * len(names))), 5.0))
    draw_matrix(ax, observed, names)
    return ax


def plot_missingness_shift(reference: Any, current: Any, ax: Axes | None = None) -> Axes:
    """Draw the missing rate of each column in two tables, the most changed column first.

    Parameters
    ----------
    reference, current : table
        As in `diagnose`.
    ax : matplotlib Axes, default=None
        Where to draw. None creates a new figure.

    Returns
    -------
    matplotlib Axes

    See Also
    --------
    diagnose : Tests which of the changes are more than chance.

    Examples
    --------
    >>> axes = plot_missingness_shift([[1.0, 2.0], [3.0, 4.0]], [[1.0, None], [3.0, 4.0]])
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['1', '0']
    """
    tables = TwoTables.of(reference, current)
    before, now = (1 - mask.mean(axis=0) for mask in (tables.reference, tables.current))
    shown = min(len(tables.names), MAX_COLUMNS)
    ax = ax if ax is not None else _new_axes((7.0, 1.2 + 0.3 * shown))
    draw_rates(ax, tables.names, before, now)
    return ax


def draw_matrix(ax: Axes, observed: Bools, names: Sequence[str]) -> None:
    """Missing cells of some rows, dark on a light ground."""
    n, d = observed.shape
    rows = np.unique(np.linspace(0, n - 1, min(n, MAX_ROWS)).round().astype(int))
    ax.imshow(~observed[rows], aspect="auto", cmap="Greys", vmin=0, vmax=1.4, interpolation="nearest")
    rates = 1 - observed.mean(axis=0)
    ticks = np.arange(d) if d <= MAX_COLUMNS else np.empty(0)
    labels = [f"{_shorten(names[j])} ({rates[j]:.0%})" for j in range(len(ticks))]
    ax.set_xticks(ticks, labels, rotation=90)
    ax.set_xlabel(f"{d} columns" if d > MAX_COLUMNS else "")
    ax.set_yticks([])
    ax.set_ylabel(f"{n:,} rows")
    ax.tick_params(length=0)


def draw_rates(ax: Axes, names: Sequence[str], before: Floats, now: Floats) -> None:
    """Missing rates of the most changed columns in both tables, joined by a line."""
    order = np.argsort(-np.abs(now - before), kind="stable")[:MAX_COLUMNS]
    y = np.arange(len(order))
    ax.hlines(y, before[order], now[order], color="#999999", linewidth=2, zorder=1)
    ax.scatter(before[order], y, color=BEFORE, marker="o", label="before", zorder=2)
    ax.scatter(now[order], y, color=NOW, marker="D", label="now", zorder=3)
    ax.set_yticks(y, [_shorten(names[j], 24) for j in order])
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
    ax.set_xlabel("missing")
    ax.grid(axis="x", alpha=0.2)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)


def _new_axes(size: tuple[float, float]) -> Axes:
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError(
            'Plotting requires matplotlib; install it with: pip install "stablemiss[report]".'
        )
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").add_subplot()


def _shorten(name: str, max_length: int = 16) -> str:
    return name if len(name) <= max_length else name[: max_length - 1] + "…"
