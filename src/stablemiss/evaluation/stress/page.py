"""The result of a stress test as an HTML page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stablemiss.evaluation.stress.plots import N_BARS, column_plot, curve_plot
from stablemiss.evaluation.stress.settings import AS_GIVEN, DESCRIPTIONS
from stablemiss.evaluation.stress.text import first_worse_text, interval_text
from stablemiss.evaluation.stress.verdict import percent, sentences
from stablemiss.pages import make_environment

if TYPE_CHECKING:
    from stablemiss.evaluation.stress.result import StressResult

# Models in one plot of columns.
MAX_BAR_MODELS = 3
# Columns that are visible at once, and columns of all models together: thousands would make the page heavy.
N_VISIBLE, MAX_LISTED = 15, 1_500
N_PAIRS = 10


def render(result: StressResult) -> str:
    """The page: verdict, curves, table of mechanisms, columns, pairs, comparison, how it was measured."""
    environment = make_environment("stablemiss.evaluation.stress")
    environment.filters.update(number=result.number, percent=percent)
    environment.globals.update(
        first_worse=partial(first_worse_text, result), interval=partial(interval_text, result)
    )
    levels = sorted({score.level for score in result.scores if score.level is not None})
    return environment.get_template("stress.html.j2").render(
        result=result,
        sentences=sentences(result),
        levels=levels,
        has_drawn_masks=any(s.level is None and s.mechanism != AS_GIVEN for s in result.scores),
        curves=_curves(result),
        bars=column_plot(result, result.models[:MAX_BAR_MODELS], "columns"),
        bar_models=result.models[:MAX_BAR_MODELS],
        n_bars=min(N_BARS, result.n_columns),
        n_visible=N_VISIBLE,
        max_listed=max(N_VISIBLE, MAX_LISTED // len(result.models)),
        n_pairs=N_PAIRS,
        descriptions=DESCRIPTIONS,
    )


def _curves(result: StressResult) -> list[tuple[str, str]]:
    """Title and plot: all mechanisms in one plot for one model, otherwise all models for each mechanism."""
    if len(result.models) == 1:
        model = result.models[0]
        lines = [(model, mechanism, mechanism) for mechanism in result.mechanisms]
        return [(model, curve_plot(result, lines, "curves", f"Error of {model} against missing values"))]
    return [
        (
            mechanism,
            curve_plot(
                result,
                [(model, mechanism, model) for model in result.models],
                f"curves-{number}",
                f"Error against missing values, {mechanism}",
            ),
        )
        for number, mechanism in enumerate(result.mechanisms)
    ]
