"""Rows → the paper's table as plain data: methods down, test levels across, gaps to Optimal in the cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

Row = Mapping[str, Any]

# Rows of one table share these; a mean over anything else that differs (seeds) is a mean of repetitions.
SETTING = ("dataset", "mechanism", "train_level")


def gap_table(rows: Iterable[Row]) -> dict[str, Any]:
    """The table of one experiment, as plain data for a terminal, a page or a plot to show.

    Parameters
    ----------
    rows : result rows
        All from one data set, one mechanism and one training level. Rows that differ only in their seed are
        averaged: more seeds make steadier cells.

    Returns
    -------
    dict
        ``train_level``, ``test_levels``, ``decimals`` (enough to tell the cells apart), ``methods`` and
        ``references`` (each a list of lines ``{"method", "cells"}``), ``optimal_rmse`` and ``constant_rmse``
        (one per level). A cell holds ``gap`` (RMSE minus Optimal's), ``share`` (gap ÷ Optimal's RMSE),
        ``mark`` ("best", "second" or ""; references do not compete), ``same_level`` (test level = training
        level) and ``worse_than_constant``; it is None where nothing was scored.

    Examples
    --------
    >>> row = {"dataset": "toy", "mechanism": "MAR", "train_level": 0.1, "test_level": 0.1, "optimal_rmse": 10.0}
    >>> table = gap_table([
    ...     {**row, "method": "optimal", "role": "reference", "rmse": 10.0},
    ...     {**row, "method": "constant", "role": "reference", "rmse": 30.0},
    ...     {**row, "method": "ols", "role": "method", "rmse": 12.0},
    ... ])
    >>> cell = table["methods"][0]["cells"][0]
    >>> cell["gap"], cell["share"], cell["mark"], cell["same_level"]
    (2.0, 0.2, 'best', True)
    """
    rows = list(rows)
    setting = _the_setting(rows)
    levels = sorted({row["test_level"] for row in rows})
    optimal = {
        level: fmean(row["optimal_rmse"] for row in rows if row["test_level"] == level) for level in levels
    }
    rmse = _mean_rmse(rows)
    names = {
        role: list(dict.fromkeys(row["method"] for row in rows if row["role"] == role)) for role in ROLES
    }

    constant = [rmse.get(("constant", level)) for level in levels]
    cells = {
        name: [
            _cell(rmse.get((name, level)), optimal[level], abs(level - setting["train_level"]) < 1e-9, bar)
            for level, bar in zip(levels, constant, strict=True)
        ]
        for name in [*names["method"], *names["reference"]]
    }
    for column in range(len(levels)):
        _mark_best([cells[name][column] for name in names["method"]])
    return {
        **setting,
        "test_levels": levels,
        "decimals": 0 if max(optimal.values()) >= 100 else 2,
        "methods": [{"method": name, "cells": cells[name]} for name in names["method"]],
        "references": [
            {"method": name, "cells": cells[name]} for name in names["reference"] if name != "optimal"
        ],
        "optimal_rmse": list(optimal.values()),
        "constant_rmse": constant,
    }


ROLES = ("method", "reference")


def percent(share: float) -> str:
    """A level or share as people write it.

    Examples
    --------
    >>> percent(0.1), percent(0.125)
    ('10%', '12.5%')
    """
    return f"{round(100 * share, 6):g}%"


def _the_setting(rows: list[Row]) -> dict[str, Any]:
    if not rows:
        raise ValueError("A table needs at least one result row; none came.")
    settings = {tuple(row[key] for key in SETTING) for row in rows}
    if len(settings) > 1:
        raise ValueError(
            f"A table shows one data set, mechanism and training level, but the rows hold {len(settings)} of them: "
            f"{sorted(settings)}. Make one table for each."
        )
    return dict(zip(SETTING, settings.pop(), strict=True))


def _mean_rmse(rows: list[Row]) -> dict[tuple[str, float], float]:
    scores: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        scores.setdefault((row["method"], row["test_level"]), []).append(row["rmse"])
    return {key: fmean(values) for key, values in scores.items()}


def _cell(
    rmse: float | None, optimal: float, same_level: bool, constant: float | None
) -> dict[str, Any] | None:
    if rmse is None:
        return None
    return {
        "gap": rmse - optimal,
        "share": (rmse - optimal) / optimal,
        "mark": "",
        "same_level": same_level,
        "worse_than_constant": constant is not None and rmse > constant,
    }


def _mark_best(column: list[dict[str, Any] | None]) -> None:
    ranked = sorted((cell for cell in column if cell is not None), key=lambda cell: cell["gap"])
    for mark, cell in zip(("best", "second"), ranked, strict=False):
        cell["mark"] = mark
