"""Checks of an encoder from a model file, which may have been manipulated."""

from __future__ import annotations

from typing import Any

import numpy as np

from stablemiss.encoding.columns import CATEGORIES, CONSTANT, DATES, IGNORED, NEVER_OBSERVED, NUMBERS
from stablemiss.encoding.dates import DATE_PARTS
from stablemiss.stored import check_stored, stored_array, stored_bool, stored_list

KINDS = {NUMBERS, CATEGORIES, DATES, CONSTANT, NEVER_OBSERVED, IGNORED}
SUMMARY_KINDS = {"number", "category", "date", "ignored"}


def check_state(state: dict[str, Any]) -> None:
    """Raise ValueError unless `state`, the result of `TableEncoder.state` read from a file, is valid."""
    kinds = stored_list(state, "kinds", str)
    n_features = len(kinds)
    check_stored(n_features > 0 and set(kinds) <= KINDS, "kinds must be the types of at least one column")
    max_one_hot = state["max_one_hot"]
    check_stored(type(max_one_hot) is int and max_one_hot >= 2, "max_one_hot must be an integer above 1")
    for name in ("names", "labels"):
        if state[name] is not None:
            stored_list(state, name, str, n_features)
    check_stored(
        state["names"] is None or state["names"] == state["labels"], "names must be the labels, or None"
    )
    stored_bool(state, "is_numbered")
    stored_bool(state, "date_features")
    stored_array(state, "ever_missing", (n_features,), np.bool_)
    widths = [
        _embedding_width(state, j) if kind == CATEGORIES else _n_date_parts(state, j) if kind == DATES else 1
        for j, kind in enumerate(kinds)
    ]
    for name, kind in (("categories", CATEGORIES), ("embedding", CATEGORIES), ("dates", DATES)):
        check_stored(len(state[name]) == kinds.count(kind), f"{name} must belong to columns of {kind}")
    groups = stored_array(state, "groups", (None,), np.int64)
    check_stored(
        np.array_equal(np.repeat(np.arange(n_features), widths), groups),
        "groups must number the encoded columns by their column",
    )
    stored_array(state, "mean", groups.shape)
    # The scale of a constant column is infinite, and so are the limits of a column that has none.
    _check_finite_or_infinite(state, "scale", len(groups))
    check_stored((state["scale"] > 0).all(), "scale must be positive")
    check_ranges(state["ranges"], len(groups))
    _check_report(stored_list(state, "column_report", dict, n_features))


def _embedding_width(state: dict[str, Any], j: int) -> int:
    """Check the categories of column `j`, and return the number of its encoded columns."""
    categories = stored_list(state["categories"], str(j), str)
    check_stored(
        len(set(categories)) == len(categories) > 0, f"the categories of column {j} must be distinct"
    )
    return stored_array(state["embedding"], str(j), (len(categories), None)).shape[1]


def _n_date_parts(state: dict[str, Any], j: int) -> int:
    """Check the date features of column `j`, and return their number."""
    dates = state["dates"][str(j)]
    parts = stored_list(dates, "parts", str)
    check_stored(
        len(set(parts)) == len(parts) > 0 and set(parts) <= set(DATE_PARTS),
        f"the date features of column {j} must be distinct and known",
    )
    text_format = dates["text_format"]
    check_stored(
        text_format.keys() == {"day_first", "is_time_of_day", "is_ambiguous"},
        f"the date format of column {j} must have three settings",
    )
    for name in text_format:
        if name != "day_first" or text_format[name] is not None:
            stored_bool(text_format, name)
    return len(parts)


def _check_finite_or_infinite(state: dict[str, Any], name: str, length: int) -> None:
    """Check an array (length,) that may contain infinity, but not NaN."""
    array = state[name]
    check_stored(isinstance(array, np.ndarray) and array.dtype == np.float64, f"{name} must contain floats")
    stored_array({name: np.where(np.isinf(array), 1.0, array)}, name, (length,))


def check_ranges(ranges: dict[str, Any], length: int) -> None:
    """Raise ValueError unless `ranges`, the result of `Ranges.state` read from a file, is valid."""
    names = {"minimum", "maximum", "lower", "upper"}
    check_stored(ranges.keys() == names, "ranges must have minimum, maximum, lower and upper")
    for name in ("minimum", "maximum"):
        stored_array(ranges, name, (length,))
    for name in ("lower", "upper"):
        _check_finite_or_infinite(ranges, name, length)
    check_stored((ranges["lower"] <= ranges["upper"]).all(), "lower limits must be below upper limits")


def _check_report(summaries: list[dict[str, Any]]) -> None:
    for summary in summaries:
        fields = {"name", "kind", "n_levels", "n_missing", "remarks"}
        check_stored(summary.keys() == fields, "a column summary must have five fields")
        check_stored(
            isinstance(summary["name"], str) and summary["kind"] in SUMMARY_KINDS,
            "a column summary must have a name and a kind",
        )
        counts = summary["n_missing"], summary["n_levels"] or 0
        check_stored(all(type(n) is int and n >= 0 for n in counts), "counts of a column must be integers")
        check_stored(
            isinstance(summary["remarks"], list | tuple)
            and all(isinstance(remark, str) for remark in summary["remarks"]),
            "the remarks about a column must be text",
        )
