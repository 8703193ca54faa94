"""Checks of an encoder from a model file, which may have been manipulated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stablemiss.stored import check_stored, stored_array, stored_bool, stored_list


def check_state(state: dict[str, Any], widths: Mapping[str, int | None]) -> None:
    """Raise an error unless `state` describes an encoder.

    Parameters
    ----------
    state : dict
        Result of `TableEncoder.state`, read from a file.
    widths : dict
        Type of a column → number of its encoded columns; None for categories, whose embedding defines it.
    """
    kinds = stored_list(state, "kinds", str)
    n_features = len(kinds)
    check_stored(
        n_features > 0 and set(kinds) <= set(widths), "kinds must be the types of at least one column"
    )
    max_one_hot = state["max_one_hot"]
    check_stored(isinstance(max_one_hot, int) and max_one_hot >= 2, "max_one_hot must be an integer above 1")
    for name in ("names", "labels"):
        if state[name] is not None:
            stored_list(state, name, str, n_features)
    check_stored(
        state["names"] is None or state["names"] == state["labels"], "names must be the labels, or None"
    )
    stored_bool(state, "is_numbered")
    stored_array(state, "ever_missing", (n_features,), np.bool_)

    encoded_widths, n_categorical = [], 0
    for j, kind in enumerate(kinds):
        width = widths[kind]
        n_categorical += width is None
        encoded_widths.append(_embedding_width(state, j) if width is None else width)
    check_stored(
        len(state["categories"]) == len(state["embedding"]) == n_categorical,
        "only categorical columns have categories",
    )
    groups = stored_array(state, "groups", (None,), np.int64)
    check_stored(
        np.array_equal(np.repeat(np.arange(n_features), encoded_widths), groups),
        "groups must number the encoded columns by their column",
    )
    stored_array(state, "mean", groups.shape)
    scale = state["scale"]
    # The scale of a constant column is infinite.
    stored_array({"scale": np.where(np.isinf(scale), 1.0, scale)}, "scale", groups.shape)
    check_stored((scale > 0).all(), "scale must be positive")


def _embedding_width(state: dict[str, Any], j: int) -> int:
    """Check the categories of column `j`, and return the number of its encoded columns."""
    categories = stored_list(state["categories"], str(j), str)
    check_stored(
        len(set(categories)) == len(categories) > 0, f"the categories of column {j} must be distinct"
    )
    return stored_array(state["embedding"], str(j), (len(categories), None)).shape[1]
