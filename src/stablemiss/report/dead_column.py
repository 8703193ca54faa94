"""The first part of the demo, a column that dies, on the terminal and as sections of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stablemiss.pages import COLOURS, INK, picture

if TYPE_CHECKING:
    from stablemiss.experiments.dead_column import DeadColumn

# As in `stablemiss.experiments.dead_column`, which imports torch.
BEFORE, NOW = "before", "now"
LIGHTGBM, ANYMASK, ADAPTED = "LightGBM", "AnyMask", "AnyMask, adapted"
# Flats in the pictures: more would hide each other.
N_POINTS, N_INTERVALS = 250, 30
CODE = """\
from stablemiss import AnyMaskRegressor, diagnose, stress_test

model = AnyMaskRegressor().fit(X_train, y_train)       # rows may be incomplete
model.predict_interval(X_new, coverage=0.9)            # any column may be missing now
diagnose(X_holdout, X_new, model, y_holdout)           # what moved, and what it will cost
stress_test(model, X_holdout, y_holdout)               # what would break, for any scikit-learn model
model.adapt(X_new, X_train, y_train)                   # if the change stays; no new labels"""


def headline(story: DeadColumn) -> str:
    """What happened, in two sentences with their numbers."""
    r2 = {label: [_r2(story, label, when) for when in (BEFORE, NOW)] for label in (LIGHTGBM, ANYMASK)}
    return (
        f"The column {story.column!r} of a table of flats to let stops arriving. LightGBM goes on answering, "
        f"and its R² falls from {r2[LIGHTGBM][0]} to {r2[LIGHTGBM][1]} without a warning; that of AnyMask, "
        f"fitted to the same complete rows, falls from {r2[ANYMASK][0]} to {r2[ANYMASK][1]}."
    )


def error_rows(story: DeadColumn) -> list[tuple[str, str, str, str, str]]:
    """Model, RMSE before and now, R² now, and seconds of the fit, as text."""
    rows = []
    for label, record in story.records.items():
        errors = [story.score(label, when) for when in (BEFORE, NOW)]
        before, now = ("–" if one is None else f"{one.error:,.0f}" for one in errors)
        seconds = "–" if record.fit_seconds is None else f"{record.fit_seconds:.1f} s"
        rows.append((label, before, now, _r2(story, label, NOW), seconds))
    return rows


def interval_rows(story: DeadColumn) -> list[tuple[str, str, str]]:
    """Rows, coverage and mean width of AnyMask's 90% intervals, as text."""
    lines = (
        ("complete rows", ANYMASK, BEFORE),
        (f"without {story.column!r}", ANYMASK, NOW),
        (f"without {story.column!r}, adapted", ADAPTED, NOW),
    )
    rows = []
    for title, label, when in lines:
        score = story.score(label, when)
        assert score is not None
        rows.append((title, f"{100 * score.extra['coverage']:.0f}%", f"{score.extra['width']:,.0f}"))
    return rows


def forecast_sentence(story: DeadColumn) -> str:
    """The forecast of the diagnosis beside the error that came out."""
    forecast, actual = story.diagnosis.forecast, story.score(LIGHTGBM, NOW)
    if forecast is None or actual is None:
        return ""
    low, high = forecast.interval
    return (
        f"Forecast for LightGBM without any new rent: RMSE {forecast.after:,.0f} (95% interval {low:,.0f} to "
        f"{high:,.0f}). With the rents, it turned out to be {actual.error:,.0f}."
    )


def print_dead_column(story: DeadColumn, console: Console | None = None) -> None:
    """Print the story.

    Parameters
    ----------
    story : DeadColumn
    console : Console, default=None
        None prints to standard output.
    """
    console = console or Console()
    console.print(Text("A column dies", style="bold"))
    console.print(Text(headline(story)))
    console.print()
    view = _view(["RMSE in euros per month", BEFORE, NOW, "R² now", "fit"])
    for row in error_rows(story):
        view.add_row(*row, style="bold" if row[0] == ANYMASK else "")
    console.print(view)
    for title, text in (
        ("diagnose", f"{story.diagnosis.summary}\n{forecast_sentence(story)}"),
        ("stress_test", story.stress.verdict),
    ):
        console.print()
        console.print(Text(f"{title}:", style="bold"), Text(text))
    console.print()
    view = _view(["90% intervals of AnyMask", "contain the rent", "mean width in euros"])
    for interval_row in interval_rows(story):
        view.add_row(*interval_row)
    console.print(view)
    console.print()


def sections(story: DeadColumn) -> dict[str, Any]:
    """What the template of the page shows."""
    curves, bars = story.stress_plots()
    return {
        "headline": headline(story),
        "column": story.column,
        "n_rows": story.records[ANYMASK].n_rows,
        "n_test_rows": story.records[ANYMASK].n_test_rows,
        "features": story.data.feature_names,
        "errors": error_rows(story),
        "intervals": interval_rows(story),
        "diagnosis": story.diagnosis.summary,
        "forecast": forecast_sentence(story),
        "verdict": story.stress.verdict,
        "scatter": _scatter(story),
        "curves": curves,
        "bars": bars,
        "interval_plot": _interval_plot(story),
        "code": CODE,
    }


def _scatter(story: DeadColumn) -> str:
    """Predicted against actual rents without the column, one panel for each model."""
    chosen = slice(0, N_POINTS)
    with picture((8.0, 4.2)) as drawing:
        panels = drawing.figure.subplots(1, 2, sharex=True, sharey=True)
        limit = float(np.quantile(story.actual, 0.995)) * 1.05
        for axes, label, colour in zip(panels, (LIGHTGBM, ANYMASK), COLOURS, strict=False):
            axes.plot([0, limit], [0, limit], color=INK, linewidth=1, linestyle="--")
            axes.scatter(
                story.actual[chosen],
                story.predictions[label][chosen],
                s=10,
                color=colour,
                alpha=0.7,
                linewidths=0,
            )
            axes.set_title(f"{label}: R² {_r2(story, label, NOW)}")
            axes.set_xlabel("actual rent, euros")
            axes.set_xlim(0, limit)
            axes.set_ylim(0, limit)
        panels[0].set_ylabel("predicted rent, euros")
    return drawing.svg("scatter", f"Predicted against actual rents without the column {story.column}")


def _interval_plot(story: DeadColumn) -> str:
    """Intervals of some flats with and without the column, and their rents."""
    order = np.argsort(story.actual[:N_INTERVALS], kind="stable")
    x = np.arange(len(order))
    with picture((8.0, 3.8)) as drawing:
        axes = drawing.figure.add_subplot()
        styles = ((BEFORE, -0.18, COLOURS[1], "complete"), (NOW, 0.18, COLOURS[0], f"without {story.column}"))
        for when, shift, colour, label in styles:
            low, high = story.intervals[when][order].T
            axes.vlines(x + shift, low, high, color=colour, linewidth=4, alpha=0.75, label=label)
        axes.scatter(x, story.actual[order], color=INK, s=14, zorder=3, label="actual rent")
        axes.set_xticks([])
        axes.set_xlabel(f"{len(order)} flats, by rent")
        axes.set_ylabel("euros per month")
        axes.set_ylim(bottom=0)
        drawing.figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return drawing.svg("intervals", "90% intervals of AnyMask with and without the column, and actual rents")


def _view(header: list[str]) -> Table:
    view = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        view.add_column(name, justify="left" if name == header[0] else "right", no_wrap=True)
    return view


def _r2(story: DeadColumn, label: str, when: str) -> str:
    value = story.r2(label, when)
    return "–" if value is None else f"{value:.2f}"
