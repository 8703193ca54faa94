"""Ours beside the paper's: gaps with their spread over instances, who ranks where, paired differences."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from scipy.stats import spearmanr, t

from stablemiss.experiments.budgets import Budget
from stablemiss.experiments.exhibit import EIGHT, LINEAR, Column, Exhibit
from stablemiss.experiments.published import read_published

CONSTANT = "constant"
Row = dict[str, Any]
Printed = dict[tuple[str, float], float]
# (label, train level, test level, instance) → RMSE
Scores = dict[tuple[str, float, float, int], float]


def compare(exhibit: Exhibit, rows: Iterable[Row], budget: Budget) -> dict[str, Any]:
    """A table or figure as plain data.

    Parameters
    ----------
    exhibit : Exhibit
    rows : result rows
        Of any exhibits; what does not belong to this one is left background.
    budget : Budget
        Whose rows to take.

    Returns
    -------
    dict
        ``columns``, ``lines`` (for each method a cell for each column, None where nothing was run),
        ``reference`` (ours and published), ``agreement`` (rank correlation of ours and the paper's for each
        column, where all eight methods were run), ``paired`` (how StableMiss does against every other method
        on the same rows), ``failures``. Marks rank the paper's methods and those beside them apart.
    """
    # Other exhibits may have run a fit on more instances; lines are compared over the same ones.
    instances = budget.instances(exhibit)
    rows = [
        row
        for row in rows
        if row["budget"] == budget.name and "label" in row and row["instance"] in instances
    ]
    scores = _scores(exhibit, rows)
    columns = budget.columns(exhibit)
    printed = read_published(exhibit.name)
    shared = {column: _shared(exhibit, column, scores) for column in columns}
    lines = [_line(exhibit, label, shared, scores, printed) for label in exhibit.methods]
    mark_best(lines, "gap", "mark")
    mark_best(lines, "published", "published_mark")
    return {
        "name": exhibit.name,
        "title": exhibit.title,
        "claim": exhibit.claim,
        "is_figure": exhibit.is_figure,
        "subject": exhibit.subject,
        "reference_label": exhibit.reference,
        "reference_in_place": exhibit.reference_in_place,
        "columns": [_column(exhibit, column) for column in columns],
        "lines": lines,
        "reference": {
            "rmse": [
                _mean(_own(scores, exhibit, column)[one] for one in shared[column]) for column in columns
            ],
            "published": [printed.get(("reference", _varying(exhibit, column))) for column in columns],
            "published_is_worse_than_constant": [
                _is_worse(0.0, _printed_reference(exhibit, column, printed), exhibit, column, scores, shared)
                for column in columns
            ],
        },
        # Of each column; those that other columns have may have failed there.
        "instances": [shared[column] for column in columns],
        "n_instances": len(instances),
        "agreement": [_agreement(lines, number) for number in range(len(columns))],
        "paired": _paired(exhibit, columns, scores),
        "failures": _failures(exhibit, columns, rows),
    }


def _scores(exhibit: Exhibit, rows: list[Row]) -> Scores:
    return {
        (row["label"], row["train_level"], score["level"], row["instance"]): score["rmse"]
        for row in rows
        if (row["dataset"], row["train_mechanism"]) == (exhibit.dataset, exhibit.train_mechanism)
        for score in row["scores"]
        if score["mechanism"] == exhibit.test_mechanism
    }


def _own(scores: Scores, exhibit: Exhibit, column: Column) -> dict[int, float]:
    """The reference's RMSE in a column, by instance."""
    return _by_instance(scores, exhibit.reference, exhibit.reference_level(column), column.test_level)


def _at(scores: Scores, label: str, column: Column) -> dict[int, float]:
    return _by_instance(scores, label, column.train_level, column.test_level)


def _by_instance(scores: Scores, label: str, train_level: float, test_level: float) -> dict[int, float]:
    return {
        instance: rmse
        for (one, train, test, instance), rmse in scores.items()
        if (one, train, test) == (label, train_level, test_level)
    }


def _shared(exhibit: Exhibit, column: Column, scores: Scores) -> list[int]:
    """Of the reference's instances those that most lines have: lines are compared over the same ones."""
    lines = [_at(scores, label, column) for label in exhibit.methods]
    having = {one: sum(one in line for line in lines) for one in _own(scores, exhibit, column)}
    return sorted(one for one, n in having.items() if n == max(having.values()) > 0)


def _line(
    exhibit: Exhibit, label: str, shared: dict[Column, list[int]], scores: Scores, printed: Printed
) -> dict[str, Any]:
    cells: list[dict[str, Any] | None] = []
    for column, instances in shared.items():
        ours, reference = _at(scores, label, column), _own(scores, exhibit, column)
        if not instances or not ours.keys() >= set(instances):
            cells.append(None)
            continue
        gap, best = (
            printed.get((label, _varying(exhibit, column))),
            _printed_reference(exhibit, column, printed),
        )
        gaps = [ours[one] - reference[one] for one in instances]
        constant = _at(scores, CONSTANT, column)
        cells.append(
            {
                "gap": fmean(gaps),
                "spread": stdev(gaps) if len(gaps) > 1 else None,
                "share": fmean(ours[one] / reference[one] - 1 for one in instances),
                "rmse": fmean(ours[one] for one in instances),
                "n": len(instances),
                "mark": "",
                "is_as_trained": exhibit.train_mechanism == exhibit.test_mechanism
                and column.train_level == column.test_level,
                "is_worse_than_constant": constant.keys() >= set(instances)
                and fmean(ours[one] for one in instances) > fmean(constant[one] for one in instances),
                "published": gap,
                "published_mark": "",
                "published_share": gap / best if gap is not None and best else None,
                "published_is_worse_than_constant": _is_worse(gap, best, exhibit, column, scores, shared),
            }
        )
    return {"label": label, "is_of_the_paper": label in EIGHT or exhibit.is_figure, "cells": cells}


def _is_worse(
    gap: float | None,
    best: float | None,
    exhibit: Exhibit,
    column: Column,
    scores: Scores,
    shared: dict[Column, list[int]],
) -> bool | None:
    """Whether a printed error is above that of a constant; None if that cannot be said.

    The paper prints no constant. Of house prices the standard deviation over the whole table stands in: the
    paper's test rows are some of them, and single splits differ by much. Elsewhere it is ours, in multiples
    of the error of the exact answer that is linear in the observed cells, to which the paper's Optimal is
    closest (for one Gaussian it is the optimum).
    """
    if gap is not None and best is not None and exhibit.target_sd is not None:
        return gap + best > exhibit.target_sd
    constant, instances = _at(scores, CONSTANT, column), shared[column]
    if gap is None or best is None or not instances or not constant.keys() >= set(instances):
        return None
    mean = fmean(constant[one] for one in instances)
    linear = _at(scores, LINEAR, column)
    if not linear.keys() >= set(instances):
        return None
    return (gap + best) / best > mean / fmean(linear[one] for one in instances)


def _printed_reference(exhibit: Exhibit, column: Column, printed: Printed) -> float | None:
    # The table that is tested at one level prints its reference once.
    return printed.get(
        ("reference", _varying(exhibit, column)), printed.get(("reference", column.test_level))
    )


def mark_best(lines: list[dict[str, Any]], value: str, place: str) -> None:
    """Write "best" and "second" at `place` of the cells with the least and second least `value` of a column.

    The paper ranks its own methods, so what it leaves out is ranked apart, and `linear` not at all.

    Examples
    --------
    >>> cells = [{"gap": 2.0, "mark": ""}, {"gap": 1.0, "mark": ""}, {"gap": 1.0, "mark": ""}, None]
    >>> lines = [{"label": "…", "is_of_the_paper": True, "cells": [cell]} for cell in cells]
    >>> mark_best(lines, "gap", "mark")
    >>> [cell["mark"] for cell in cells[:3]]
    ['second', 'best', 'best']
    """
    for of_paper in (True, False):
        group = [
            line["cells"] for line in lines if line["is_of_the_paper"] == of_paper and line["label"] != LINEAR
        ]
        for column in zip(*group, strict=True):
            known = [cell for cell in column if cell is not None and cell[value] is not None]
            ranked = sorted({cell[value] for cell in known})
            for mark, least in zip(("best", "second"), ranked, strict=False):
                for cell in known:
                    if cell[value] == least:
                        cell[place] = mark


def _column(exhibit: Exhibit, column: Column) -> dict[str, float]:
    return {
        "train_level": column.train_level,
        "test_level": column.test_level,
        "level": _varying(exhibit, column),
    }


def _varying(exhibit: Exhibit, column: Column) -> float:
    """The level by which a column is named: the one that differs from column to column."""
    is_tested_at_one = len({one.test_level for one in exhibit.columns}) == 1
    return column.train_level if is_tested_at_one else column.test_level


def _agreement(lines: list[dict[str, Any]], number: int) -> float | None:
    """Spearman's rank correlation of our gaps and the published ones, once all eight methods have both."""
    cells = [line["cells"][number] for line in lines]
    both = [(cell["gap"], cell["published"]) for cell in cells if cell and cell["published"] is not None]
    if len(both) < len(EIGHT):
        return None
    return float(spearmanr(*zip(*both, strict=True)).statistic)


def _paired(exhibit: Exhibit, columns: list[Column], scores: Scores) -> list[dict[str, Any]]:
    """How much more each other method errs than the subject on the same rows, as a share of its RMSE."""
    found = []
    for label in exhibit.methods:
        if label == exhibit.subject:
            continue
        differences: dict[int, list[float]] = {}
        for column in columns:
            ours, theirs = _at(scores, exhibit.subject, column), _at(scores, label, column)
            for instance in ours.keys() & theirs.keys():
                differences.setdefault(instance, []).append(theirs[instance] / ours[instance] - 1)
        if differences:
            means = [fmean(values) for values in differences.values()]
            every = [value for values in differences.values() for value in values]
            found.append(
                {
                    "label": label,
                    "mean": fmean(means),
                    "spread": stdev(means) if len(means) > 1 else None,
                    "is_clear": _is_clear(means),
                    "n_won": sum(value > 0 for value in every),
                    "n": len(every),
                }
            )
    return found


def _is_clear(differences: list[float]) -> bool | None:
    """Whether the 95% interval of a mean over instances leaves out zero; None with a single instance."""
    n = len(differences)
    if n < 2:
        return None
    return bool(abs(fmean(differences)) > t.ppf(0.975, n - 1) * stdev(differences) / sqrt(n))


def _failures(exhibit: Exhibit, columns: list[Column], rows: list[Row]) -> list[dict[str, Any]]:
    needed = {(label, column.train_level) for label in exhibit.methods for column in columns}
    needed |= {(exhibit.reference, exhibit.reference_level(column)) for column in columns}
    return [
        {key: row[key] for key in ("label", "train_level", "instance", "error")}
        for row in rows
        if row["error"] is not None
        and (row["dataset"], row["train_mechanism"]) == (exhibit.dataset, exhibit.train_mechanism)
        and (row["label"], row["train_level"]) in needed
    ]


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return fmean(values) if values else None
