"""All tables of the reproduction at a glance: one number for each method and table."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from stablemiss.experiments.compare import mark_best


def overview(comparisons: list[dict[str, Any]]) -> dict[str, Any]:
    """Gaps as shares of the reference's RMSE, each a mean over the columns of a table.

    Shares can be compared between populations, and so with the paper; gaps cannot.

    Parameters
    ----------
    comparisons : list of dict
        As `stablemiss.experiments.compare.compare` returns them; figures are left background.

    Returns
    -------
    dict
        ``names`` of the tables; ``lines``, each with a label and, for each table, a cell (``share``,
        ``published_share``, ``mark``), or None unless all columns of that table have a score.

    Examples
    --------
    >>> overview([])
    {'names': [], 'lines': []}
    """
    tables = [one for one in comparisons if not one["is_figure"]]
    lines: dict[str, dict[str, Any]] = {}
    for table in tables:
        for line in table["lines"]:
            lines.setdefault(
                line["label"],
                {"label": line["label"], "is_of_the_paper": line["is_of_the_paper"], "cells": []},
            )
    for table in tables:
        of_table = {line["label"]: _cell(line["cells"]) for line in table["lines"]}
        for label, line in lines.items():
            line["cells"].append(of_table.get(label))
    mark_best(list(lines.values()), "share", "mark")
    return {"names": [table["name"] for table in tables], "lines": list(lines.values())}


def _cell(cells: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [cell for cell in cells if cell is not None]
    if not known or len(known) < len(cells):
        return None
    printed = [cell["published_share"] for cell in known]
    return {
        "share": fmean(cell["share"] for cell in known),
        "published_share": None if None in printed else fmean(printed),
        "mark": "",
    }
