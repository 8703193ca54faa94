"""Matching of the columns of a new table with those of the training table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from numpy.typing import NDArray

from stablemiss.encoding.table import Table
from stablemiss.text import quoted


def match_columns(
    table: Table,
    labels: Sequence[str] | None,
    n_features: int,
    *,
    is_numbered: bool,
    dispensable: Collection[str],
    allow_missing_columns: bool,
    estimator_name: str,
) -> list[NDArray | None]:
    """The columns of `table` in the order of training; None for an absent column.

    Columns are matched by label, or by position if one of the two tables has no labels, or if the labels
    differ and those of one table are just 0, 1, … Raises ValueError if columns are new or absent.

    Parameters
    ----------
    table : Table
        New rows.
    labels : sequence of str, or None
        Column labels of the training table.
    n_features : int
        Number of columns of the training table.
    is_numbered : bool
        Whether the labels of the training table are just 0, 1, …
    dispensable : collection of str
        Labels of columns that may always be absent, because they are not used.
    allow_missing_columns : bool
        Whether all columns may be absent.
    estimator_name : str
        Name of the estimator, for error messages.
    """
    known = set(labels or [])
    unexpected = [label for label in table.labels or [] if label not in known]
    # Labels 0, 1, … are only positions, so they cannot be matched with the names of another table.
    cannot_match_labels = bool(unexpected) and (is_numbered or table.is_numbered)
    if labels is None or table.labels is None or cannot_match_labels:
        if len(table.columns) != n_features:
            raise ValueError(
                f"X has {len(table.columns)} features, but {estimator_name} is expecting {n_features} "
                "features as input. Without column names, columns are matched by position: pass all columns "
                "of the training table, in the same order."
            )
        return list(table.columns)
    column_of = dict(zip(table.labels, table.columns, strict=True))
    absent = [label for label in labels if label not in column_of and label not in dispensable]
    if unexpected or (absent and not allow_missing_columns):
        raise ValueError(_mismatch_message(unexpected, absent, estimator_name))
    return [column_of.get(label) for label in labels]


def _mismatch_message(unexpected: list[str], absent: list[str], estimator_name: str) -> str:
    problems, advice = [], []
    if unexpected:
        problems.append(f"not in the training table: {quoted(unexpected)}")
        advice.append("Drop columns that are new, and give renamed ones the names they had in training.")
    if absent:
        problems.append(f"in the training table but absent now: {quoted(absent)}")
        advice.append(
            "Add columns that are absent, or pass allow_missing_columns=True, so that they count as missing "
            "in every row."
        )
    return (
        f"The columns of X are not those that {estimator_name} was fitted with ({'; '.join(problems)}). "
        f"{' '.join(advice)}"
    )
