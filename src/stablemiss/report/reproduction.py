"""Rows of the reproduction → plain data → one HTML file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.cells import cells_of, is_of
from stablemiss.experiments.compare import Row, compare
from stablemiss.experiments.exhibit import Exhibit
from stablemiss.experiments.exhibits import EXHIBITS
from stablemiss.experiments.patterns import SHOWN
from stablemiss.report.comparison import (
    as_percent,
    axis_of,
    decimals_of,
    exhibit_of,
    instances_of,
    number,
    reference_of,
    title_of,
)
from stablemiss.report.html import environment
from stablemiss.report.overview import overview
from stablemiss.report.pictures import figure_plot, mask_picture
from stablemiss.report.tables import percent
from stablemiss.report.verdicts import STAND_IN, verdicts
from stablemiss.writing import whole_file

# PAPER: its names of the three mechanisms.
PATTERN_TITLES = {"mcar_independent": "MCAR-Ind", "mcar_window": "MCAR", "mar": "MAR"}


def summarise_reproduction(rows: Iterable[Row], budget: Budget) -> dict[str, Any]:
    """What a page or document about the reproduction says, before it looks like anything.

    Parameters
    ----------
    rows : result rows
        As `stablemiss.experiments.store.Store` gives them, in any order; those of other budgets are left
        background.
    budget : Budget
        Whose rows to show.

    Returns
    -------
    dict
        ``findings`` (see `stablemiss.report.verdicts.verdicts`); ``comparisons`` (tables and figures that
        have a score or a failure, each with ``n_done`` of ``n_fits``); ``overview`` (see
        `stablemiss.report.overview.overview`); ``patterns`` (title → mask);
        ``settings`` (pairs of name and value); ``times`` and ``configurations`` (a line for each label).

    Examples
    --------
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.patterns import pattern_rows
    >>> list(summarise_reproduction(pattern_rows("quick"), BUDGETS["quick"])["patterns"])
    ['MCAR-Ind', 'MCAR', 'MAR']
    """
    rows = sorted((row for row in rows if row.get("budget") == budget.name), key=lambda row: row["key"])
    if not rows:
        raise ValueError(
            f"There are no result rows of the budget {budget.name} to show; make some with: "
            f"stablemiss reproduce table1 --budget {budget.name}."
        )
    fits = [row for row in rows if "label" in row]
    comparisons = [_compared(exhibit, fits, budget) for exhibit in EXHIBITS.values()]
    shown = [one for one in comparisons if _is_shown(one)]
    masks = {row["train_mechanism"]: row["mask"] for row in rows if "mask" in row}
    return {
        "findings": verdicts(comparisons, fits),
        "comparisons": shown,
        "overview": overview(shown),
        "patterns": {PATTERN_TITLES[name]: masks[name] for name in SHOWN if name in masks},
        "settings": _settings(rows, fits, budget),
        "times": _times(fits),
        "configurations": _configurations(fits),
    }


def render_reproduction(rows: Iterable[Row], budget: Budget) -> str:
    """The page: what held in words, every table beside the paper's, figures, patterns, settings.

    The same rows give the same text, whatever their order.

    Parameters
    ----------
    rows, budget
        See `summarise_reproduction`.

    Examples
    --------
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.patterns import pattern_rows
    >>> "The three missing patterns" in render_reproduction(pattern_rows("quick"), BUDGETS["quick"])
    True
    """
    templates = environment()
    templates.filters.update(title=title_of, exhibit=exhibit_of, number=number, as_percent=as_percent)
    summary = summarise_reproduction(rows, budget)
    shown = summary["comparisons"]
    return templates.get_template("reproduction.html.j2").render(
        summary=summary,
        budget=budget,
        stand_in=STAND_IN,
        axis_of=axis_of,
        instances_of=instances_of,
        reference_of=reference_of,
        decimals_of=decimals_of,
        plots={one["name"]: figure_plot(one) for one in shown if one["is_figure"]},
        pictures={
            f"{title}, {percent(round(_missing(mask), 2))} missing": mask_picture(mask)
            for title, mask in summary["patterns"].items()
        },
    )


def write_reproduction(rows: Iterable[Row], budget: Budget, path: str | Path) -> Path:
    """Write `render_reproduction` to `path`; a file that was there is replaced only by a complete new one.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from stablemiss.experiments.budgets import BUDGETS
    >>> from stablemiss.experiments.patterns import pattern_rows
    >>> with TemporaryDirectory() as folder:
    ...     write_reproduction(pattern_rows("quick"), BUDGETS["quick"], Path(folder) / "a.html").name
    'a.html'
    """
    page = render_reproduction(rows, budget)
    with whole_file(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return Path(path)


def _missing(mask: list[str]) -> float:
    return "".join(mask).count("0") / len("".join(mask))


def _compared(exhibit: Exhibit, fits: list[Row], budget: Budget) -> dict[str, Any]:
    stored = {fit["key"]: fit for fit in fits}
    cells = cells_of([exhibit.name], budget)
    n_done = sum(cell.key in stored and is_of(stored[cell.key], cell) for cell in cells)
    return {**compare(exhibit, fits, budget), "n_done": n_done, "n_fits": len(cells)}


def _is_shown(comparison: dict[str, Any]) -> bool:
    return bool(comparison["failures"]) or any(any(line["cells"]) for line in comparison["lines"])


def _settings(rows: list[Row], fits: list[Row], budget: Budget) -> list[tuple[str, str]]:
    data: dict[str, set[int]] = {}
    for fit in fits:
        # A fit that failed does not know its rows.
        if "n_rows" in fit:
            size = f"{fit['n_rows']:,} rows of {fit['n_features']} columns"
            what = f"{fit['dataset']}: {size} to train, {fit['n_test_rows']:,} rows to test"
            data.setdefault(what, set()).add(fit["instance"])
    versions = sorted({f"{name} {one}" for fit in fits for name, one in fit["versions"].items()})
    minutes = sum(fit["seconds"] for fit in fits) / 60
    duration = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
    return [
        ("Budget", budget.name),
        ("Data", "; ".join(f"{what} (instances: {len(found)})" for what, found in sorted(data.items()))),
        ("Missing levels", ", ".join(percent(level) for level in budget.levels)),
        ("Training", _training(fits, budget)),
        ("Fits", f"{len(fits):,}, each on one thread; {duration} in all"),
        ("Time", _time(fits, budget)),
        ("Versions", ", ".join(versions)),
        (
            "Code",
            ", ".join(sorted({fit.get("source", "unknown") for fit in fits})) + " (digests of the source)",
        ),
        ("Last row finished", max(row["finished"] for row in rows)),
    ]


def _time(fits: list[Row], budget: Budget) -> str:
    # A fit that failed has no time of its own; what its row took counts.
    took = [(fit["fit_seconds"] if "fit_seconds" in fit else fit["seconds"], fit["label"]) for fit in fits]
    over = [label for seconds, label in took if seconds > budget.seconds]
    named = ", ".join(sorted({title_of(label) for label in over}))
    return (
        f"the same for all methods: a fit should end by itself within {budget.seconds:,.0f} s, and none is "
        "cut off; " + (f"{len(over)} of {len(fits)} took longer ({named})" if over else "none took longer")
    )


def _training(fits: list[Row], budget: Budget) -> str:
    epochs: dict[int, dict[str, None]] = {}
    patient: dict[str, None] = {}
    for fit in fits:
        config = fit.get("config") or {}
        if "max_epochs" in config:
            epochs.setdefault(config["max_epochs"], {})[title_of(fit["label"])] = None
        if "patience" in config:
            patient[title_of(fit["label"])] = None
    limits = [f"at most {n} epochs: {', '.join(sorted(names))}" for n, names in sorted(epochs.items())]
    if patient:
        limits.append(f"stopped early on validation rows: {', '.join(sorted(patient))}")
    search = f"a search of {budget.n_trials} trials before each fit" if budget.n_trials else "no search"
    return "; ".join([*limits, search])


def _times(fits: list[Row]) -> list[dict[str, Any]]:
    lines = []
    for label in dict.fromkeys(fit["label"] for fit in fits):
        own = [fit for fit in fits if fit["label"] == label and fit["error"] is None]
        if own:
            seconds = [fit["fit_seconds"] for fit in own]
            lines.append(
                {
                    "label": label,
                    "n": len(own),
                    "median": median(seconds),
                    "largest": max(seconds),
                    "predicting": median(fit.get("predict_seconds", 0.0) for fit in own),
                    "megabytes": max(fit["peak_memory"] for fit in own) / 1e6,
                }
            )
    return sorted(lines, key=lambda line: line["median"])


def _configurations(fits: list[Row]) -> list[dict[str, Any]]:
    """Label and settings, with the data sets they were used for; what is searched differs from fit to fit."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for fit in fits:
        if fit.get("config"):
            settings = json.dumps(fit["config"], ensure_ascii=False)
            found.setdefault((fit["label"], settings), {})[fit["dataset"]] = None
    return [
        {"label": label, "config": config, "datasets": ", ".join(names)}
        for (label, config), names in sorted(found.items())
    ]
