"""What `stablemiss fit` prints: the facts about a fit, and their text."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stablemiss.cli.dialect import Dialect
from stablemiss.cli.models import MethodChoice
from stablemiss.cli.training import Roles, TrainingRows
from stablemiss.text import count, show_number, table_lines

if TYPE_CHECKING:
    from stablemiss.estimators.base import MissingEstimator

# Columns that are listed unless --all-columns is given.
MAX_COLUMNS = 30

Facts = dict[str, Any]


def collect_facts(
    estimator: MissingEstimator,
    rows: TrainingRows,
    choice: MethodChoice,
    roles: Roles,
    n_rows: int | None = None,
) -> Facts:
    """What a user wants to know about a fitted model, as data that JSON can hold.

    Parameters
    ----------
    estimator : MissingEstimator
        The fitted model.
    rows : TrainingRows
        What it was fitted to.
    choice : MethodChoice
        The method.
    roles : Roles
        What the columns are used for.
    n_rows : int, default=None
        Number of rows, if `rows` does not hold all of them.

    See Also
    --------
    render_facts : Their text.
    """
    n_rows = rows.features.num_rows if n_rows is None else n_rows
    used = [column for column in estimator.column_report_ if column.kind != "ignored"]
    n_missing = sum(column.n_missing for column in used)
    scores = estimator.validation_scores_
    return {
        "target": roles.target,
        "target_remarks": rows.remarks.of_column(roles.target),
        "task": "classification" if rows.classify else "regression",
        "method": choice.method,
        "params": choice.params or {},
        "n_rows": n_rows,
        "n_rows_without_target": rows.n_dropped,
        "n_columns": len(used),
        "missing_share": n_missing / (n_rows * max(len(used), 1)),
        "columns": [*_used_columns(estimator, rows), *_unused_columns(rows)],
        "validation": None if scores is None else {name: _finite(score) for name, score in scores.items()},
        "validation_rows": None if scores is None else _validation_rows(estimator, rows, roles),
        "learns_from_all_rows": estimator.method_.trains_on_validation,
        "dialect": asdict(rows.dialect) if rows.dialect else None,
    }


def render_facts(facts: Facts, all_columns: bool = False) -> str:
    """The facts about a fit as text.

    Parameters
    ----------
    facts : dict
        From `collect_facts`, with "seconds" and "model".
    all_columns : bool, default=False
        Whether to list all columns even if there are many.
    """
    lines = [_headline(facts), ""]
    lines += _column_lines(facts["columns"], facts["n_rows"], None if all_columns else MAX_COLUMNS)
    lines.append("")
    lines += [f"Target      {facts['target']} {remark}" for remark in facts["target_remarks"]]
    if facts["n_rows_without_target"]:
        lines.append(
            f"Dropped     {count(facts['n_rows_without_target'], 'row')} without {facts['target']!r}"
        )
    if facts["dialect"] and (dialect := Dialect(**facts["dialect"]).describe()):
        lines.append(f"File        {dialect}")
    options = suggested_options(facts["columns"])
    if options:
        lines.append(f"Consider    {' '.join(options)}")
    first, *others = validation_lines(facts)
    lines += [f"Validation  {first}", *(f"            {line}" for line in others)]
    lines.append(f"Model       {facts['model']}")
    return "\n".join(lines)


def validation_lines(facts: Facts) -> list[str]:
    """The error on validation rows beside that of a constant, as one or two lines.

    Parameters
    ----------
    facts : dict
        From `collect_facts`.

    Examples
    --------
    >>> scores = {"rmse": 123456.7, "rmse_constant": 367000.2, "r2": 0.887, "n_rows": 2594}
    >>> rows = {"chosen_by": "random"}
    >>> validation_lines({"validation": scores, "validation_rows": rows, "task": "regression"})
    ['RMSE 123,457 (always predicting the mean: 367,000), R² 0.887, on 2,594 rows held out (at random)']
    """
    scores = facts["validation"]
    if scores is None:
        reason = f", because {facts['method']} learns from all rows" if facts["learns_from_all_rows"] else ""
        return [f"not available{reason}; use: stablemiss evaluate {facts['model']} OTHER_ROWS"]
    held_out = f"on {count(scores['n_rows'], 'row')} held out ({_show_choice(facts['validation_rows'])})"
    if facts["task"] == "regression":
        r2 = "" if scores["r2"] is None else f", R² {show_r2(scores['r2'])}"
        return [
            f"RMSE {show_number(scores['rmse'])} (always predicting the mean: "
            f"{show_number(scores['rmse_constant'])}){r2}, {held_out}"
        ]
    return [
        f"log loss {scores['log_loss']:.4f} (always predicting the class frequencies: "
        f"{scores['log_loss_constant']:.4f}), {held_out}",
        f"accuracy {scores['accuracy']:.1%} (always the most frequent class: "
        f"{scores['accuracy_constant']:.1%})",
    ]


def suggested_options(columns: list[Facts]) -> list[str]:
    """Options of `fit` that follow from remarks on columns.

    Parameters
    ----------
    columns : list of dict
        From `collect_facts`.

    Examples
    --------
    >>> remarks = ["-999 in 3 rows may mean missing (others are 0 to 5)"]
    >>> suggested_options([{"name": "size", "read_as": "number", "remarks": remarks}])
    ['--missing-value -999']
    """
    used = [column for column in columns if column["read_as"] != "ignored"]
    identifiers = [
        f"--ignore {shlex.quote(column['name'])}"
        for column in used
        if any("identifier" in remark for remark in column["remarks"])
    ]
    codes = [
        f"--missing-value {shlex.quote(match[1])}"
        for column in used
        for remark in column["remarks"]
        if (match := re.match(r"(.+?) in [\d,]+ rows? may mean missing", remark))
    ]
    return list(dict.fromkeys([*identifiers, *codes]))


def show_r2(r2: float) -> str:
    """R² with three digits, never as -0.000.

    Examples
    --------
    >>> show_r2(0.8874), show_r2(-0.0001)
    ('0.887', '0.000')
    """
    return f"{round(r2, 3) + 0.0:.3f}"


def _headline(facts: Facts) -> str:
    method = facts["method"]
    if "budget" in facts["params"]:
        method += f" (budget {facts['params']['budget']})"
    return (
        f"Fitted {method} in {facts['seconds']:.1f} s: {facts['task']} of {facts['target']!r} from "
        f"{count(facts['n_columns'], 'column')} and {count(facts['n_rows'], 'row')}, "
        f"{facts['missing_share']:.1%} of the values missing."
    )


def _validation_rows(estimator: MissingEstimator, rows: TrainingRows, roles: Roles) -> Facts:
    """How the validation rows were chosen."""
    from stablemiss.estimators.validation import choose_validation_rows, read_row_labels
    from stablemiss.seeding import to_rng

    if not rows.split:
        return {"chosen_by": "random"}
    ((role, entries),) = rows.split.items()
    labels = read_row_labels(entries, len(entries), role)
    assert labels is not None
    # As in `fit`, where it is the first use of the random state.
    _, valid = choose_validation_rows(
        rows.target,
        estimator.validation_fraction,
        to_rng(estimator.random_state),
        groups=labels if role == "groups" else None,
        time=labels if role == "time" else None,
    )
    if role == "groups":
        n_groups = {"n_groups": len(set(labels.tolist())), "n_held_out": len(set(labels[valid].tolist()))}
        return {"chosen_by": role, "column": roles.groups, **n_groups}
    first = entries[valid[labels[valid].argmin()]]
    if entries.dtype.kind == "M":
        first = str(first.astype("datetime64[s]")).removesuffix("T00:00:00").replace("T", " ")
    return {"chosen_by": role, "column": roles.time, "first": str(first)}


def _show_choice(choice: Facts) -> str:
    if choice["chosen_by"] == "groups":
        return f"{choice['n_held_out']:,} of {choice['n_groups']:,} groups of {choice['column']!r}"
    return f"{choice['column']!r} from {choice['first']}" if choice["chosen_by"] == "time" else "at random"


def _used_columns(estimator: MissingEstimator, rows: TrainingRows) -> list[Facts]:
    return [
        {
            "name": column.name,
            "read_as": column.kind,
            "n_levels": column.n_levels,
            "n_missing": column.n_missing,
            "remarks": [*rows.remarks.of_column(column.name), *column.remarks],
        }
        for column in estimator.column_report_
    ]


def _unused_columns(rows: TrainingRows) -> list[Facts]:
    return [
        {"name": name, "read_as": "ignored", "n_levels": None, "n_missing": None, "remarks": [reason]}
        for name, reason in rows.unused.items()
    ]


def _column_lines(columns: list[Facts], n_rows: int, limit: int | None) -> list[str]:
    shown = columns
    if limit is not None and len(columns) > limit:
        # Columns with remarks are the ones to look at.
        with_remarks = [column for column in columns if column["remarks"]]
        chosen = {column["name"] for column in [*with_remarks, *columns][:limit]}
        shown = [column for column in columns if column["name"] in chosen]
    cells = [
        [
            column["name"],
            _show_kind(column),
            "" if column["n_missing"] is None else f"{column['n_missing'] / n_rows:.1%}",
            "; ".join(column["remarks"]),
        ]
        for column in shown
    ]
    lines = table_lines(["Column", "Read as", "Missing", "Remark"], cells, right=[2])
    n_more = len(columns) - len(shown)
    return [*lines, f"… and {n_more:,} more; --all-columns lists them."] if n_more else lines


def _show_kind(column: Facts) -> str:
    has_levels = column["read_as"] == "category" and column["n_levels"]
    return column["read_as"] + (f", {count(column['n_levels'], 'level')}" if has_levels else "")


def _finite(score: float) -> float | None:
    """JSON has no NaN."""
    return score if math.isfinite(score) else None
