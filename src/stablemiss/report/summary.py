"""Rows → everything a report shows, as plain data: what was run, what came out in words, the table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from stablemiss.report.tables import Row, gap_table, percent


def summarise(rows: Iterable[Row]) -> dict[str, Any]:
    """What a report says, before it looks like anything.

    Parameters
    ----------
    rows : result rows
        Of one data set, mechanism and training level, as `stablemiss.evaluation.score_under_shift` returns them.

    Returns
    -------
    dict
        ``title``; ``settings`` (pairs of name and value); ``findings`` (sentences); ``table`` (see
        `gap_table`); ``configurations`` (one dict per method: its parameters, its seconds of fitting).

    Examples
    --------
    >>> row = {"dataset": "toy", "mechanism": "MAR", "train_level": 0.1, "test_level": 0.9, "optimal_rmse": 10.0,
    ...        "n_rows": 100, "n_test_rows": 50, "seed": 0, "config": {}, "fit_seconds": 0.1,
    ...        "versions": {"python": "3.11"}, "finished": "2025-01-01T00:00:00+00:00"}
    >>> summary = summarise([
    ...     {**row, "method": "constant", "role": "reference", "rmse": 30.0},
    ...     {**row, "method": "ols", "role": "method", "rmse": 12.0},
    ... ])
    >>> summary["findings"][0]
    "ols comes closest to Optimal at every test level: its gap is 20% of Optimal's RMSE."
    """
    rows = list(rows)
    table = gap_table(rows)
    trained = percent(table["train_level"])
    return {
        "title": f"{table['dataset']} under {table['mechanism']}, trained at {trained} missing",
        "settings": _settings(rows),
        "findings": [
            *_who_is_best(table),
            *_how_the_shift_costs(table),
            *_who_is_worse_than_constant(table),
            *_what_linear_leaves(table),
        ],
        "table": table,
        "configurations": _configurations(rows),
    }


def _settings(rows: list[Row]) -> list[tuple[str, str]]:
    def seen(key: str) -> list[Any]:
        return list(dict.fromkeys(row[key] for row in rows))

    versions = dict.fromkeys(f"{name} {version}" for row in rows for name, version in row["versions"].items())
    return [
        ("Data", ", ".join(seen("dataset"))),
        ("Missingness mechanism", ", ".join(seen("mechanism"))),
        ("Missing in training", ", ".join(percent(level) for level in seen("train_level"))),
        ("Missing at test", ", ".join(percent(level) for level in sorted(seen("test_level")))),
        (
            "Rows",
            " / ".join(f"{n:,} to train" for n in seen("n_rows"))
            + "; "
            + " / ".join(f"{n:,} to test" for n in seen("n_test_rows")),
        ),
        ("Seed", ", ".join(str(seed) for seed in seen("seed"))),
        ("Versions", ", ".join(versions)),
        ("Finished", max(seen("finished"))),
    ]


def _configurations(rows: list[Row]) -> list[dict[str, Any]]:
    """One line per method; with several seeds, the first one's configuration and the slowest fit."""
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault(
            row["method"],
            {
                "method": row["method"],
                "config": json.dumps(row["config"], ensure_ascii=False),
                "fit_seconds": None,
            },
        )
        if row["fit_seconds"] is not None:
            line["fit_seconds"] = max(line["fit_seconds"] or 0.0, row["fit_seconds"])
    return list(lines.values())


def _who_is_best(table: dict[str, Any]) -> list[str]:
    wins: dict[str, list[int]] = {}
    for column in range(len(table["test_levels"])):
        for line in table["methods"]:
            if line["cells"][column] and line["cells"][column]["mark"] == "best":
                wins.setdefault(line["method"], []).append(column)
    shares = {line["method"]: [cell and cell["share"] for cell in line["cells"]] for line in table["methods"]}
    where = {
        name: "every test level" if len(wins) == 1 else _levels(table, columns)
        for name, columns in wins.items()
    }
    return [
        f"{name} comes closest to Optimal at {where[name]}: its gap is "
        f"{_range([shares[name][column] for column in columns])} of Optimal's RMSE."
        for name, columns in wins.items()
    ]


def _how_the_shift_costs(table: dict[str, Any]) -> list[str]:
    """Each method where it was trained and where it does worst: the difference is the price of the shift."""
    levels = table["test_levels"]
    home = min(range(len(levels)), key=lambda column: abs(levels[column] - table["train_level"]))
    costs = []
    for line in table["methods"]:
        scored = [(cell["share"], column) for column, cell in enumerate(line["cells"]) if cell]
        if line["cells"][home] and scored:
            worst, column = max(scored)
            at_home = _share(line["cells"][home]["share"])
            costs.append(f"{line['method']} {at_home}, {_share(worst)} (at {percent(levels[column])})")
    if len(levels) == 1 or not costs:
        return []
    return [
        f"The gap at {percent(levels[home])} missing and at its worst, as a share of Optimal's RMSE: "
        f"{'; '.join(costs)}."
    ]


def _who_is_worse_than_constant(table: dict[str, Any]) -> list[str]:
    if all(rmse is None for rmse in table["constant_rmse"]):
        return []
    worse = {
        line["method"]: [i for i, cell in enumerate(line["cells"]) if cell and cell["worse_than_constant"]]
        for line in table["methods"]
    }
    named = [f"{name} at {_levels(table, columns)}" for name, columns in worse.items() if columns]
    if not named:
        return ["No method is worse than predicting the mean at any test level."]
    return [f"Worse than predicting the mean: {'; '.join(named)}."]


def _what_linear_leaves(table: dict[str, Any]) -> list[str]:
    return [
        f"A predictor that is linear in the observed cells and knows the true means and covariances leaves "
        f"{_range([cell['share'] for cell in line['cells'] if cell])} of Optimal's RMSE."
        for line in table["references"]
        if line["method"] == "linear"
    ]


def _levels(table: dict[str, Any], columns: list[int]) -> str:
    """Levels in words, neighbours joined: 10–30% and 90%."""
    runs: list[list[int]] = []
    for column in columns:
        if runs and column == runs[-1][-1] + 1:
            runs[-1].append(column)
        else:
            runs.append([column])
    words = []
    for run in runs:
        first, last = percent(table["test_levels"][run[0]]), percent(table["test_levels"][run[-1]])
        words.append(first if len(run) == 1 else f"{first.removesuffix('%')}–{last}")
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _share(share: float) -> str:
    """Two figures are all that one run can carry; below ten per cent one decimal is worth reading."""
    return f"{100 * share:.1f}%" if abs(share) < 0.0995 else f"{100 * share:.0f}%"


def _range(shares: list[float]) -> str:
    low, high = _share(min(shares)), _share(max(shares))
    return low if low == high else f"{low} to {high}"
