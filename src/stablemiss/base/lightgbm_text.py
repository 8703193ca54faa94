"""LightGBM models as text that may have been manipulated.

LightGBM trusts the text of a model: a wrong index in it makes LightGBM read foreign memory, run for ever or
kill the process. Therefore every tree is checked here first, and LightGBM reads only what was checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stablemiss.stored import check_stored

if TYPE_CHECKING:
    import lightgbm

# What LightGBM writes before the trees, one line each.
HEADER_KEYS = [
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
    "feature_names",
    "feature_infos",
]
# The lines of a tree that predictions need, and the characters that may follow the name. There are no
# categorical splits and no linear models in the leaves. A split between missing and observed values has the
# threshold inf.
TREE_LINES = {
    "Tree": b"0123456789",
    "num_leaves": b"0123456789",
    "num_cat": b"0",
    "split_feature": b"0123456789 ",
    "threshold": b"0123456789 -+.einf",
    "decision_type": b"0123456789 ",
    "left_child": b"0123456789 -",
    "right_child": b"0123456789 -",
    "leaf_value": b"0123456789 -.e",
    "is_linear": b"0",
    "shrinkage": b"0123456789-+.e",
}
# Two empty lines follow each tree.
N_LINES = len(TREE_LINES) + 2
# Statistics of the training rows, and the sizes of the trees in bytes, by which LightGBM would find them.
STATISTICS = re.compile(r"^(?:split_gain|leaf_weight|leaf_count|internal_\w+|tree_sizes)=.*+\n", re.MULTILINE)
# What LightGBM writes after the last tree. Its parameters follow.
END = "end of trees\n"
# Maximum number of characters of a leaf value. Without a positive exponent, the sum of all leaves is finite.
MAX_LEAF_LENGTH = 30

Indices = NDArray[np.int64]


def model_text(booster: lightgbm.Booster, n_iterations: int | None = None) -> str:
    """A model in LightGBM's text format, reduced to what predictions need.

    Parameters
    ----------
    booster : lightgbm.Booster
    n_iterations : int, default=None
        Number of iterations to keep; None keeps those up to the best one, or all.

    See Also
    --------
    load_booster : The inverse.
    """
    return _reduced(booster.model_to_string(num_iteration=n_iterations))


def load_booster(text: str, n_features: int, objective: str) -> lightgbm.Booster:
    """Check a model in LightGBM's text format, then let LightGBM read it. It predicts raw scores.

    Parameters
    ----------
    text : str
        From `model_text` or ``Booster.model_to_string``, and possibly manipulated since.
    n_features : int
        Number of features of the rows to predict.
    objective : str
        The objective as LightGBM writes it, for instance "regression" or "multiclass num_class:3".

    Raises
    ------
    ValueError
        If the text is not a complete model with this number of features and this objective.

    See Also
    --------
    model_text : Writes such a text.

    Examples
    --------
    >>> import lightgbm
    >>> data = lightgbm.Dataset(np.arange(100.0)[:, None], np.arange(100) >= 50)
    >>> text = model_text(lightgbm.train({"num_leaves": 2, "verbosity": -1}, data, num_boost_round=1))
    >>> load_booster(text, n_features=1, objective="regression").predict([[0.0], [99.0]]).round(2).tolist()
    [0.45, 0.55]
    >>> load_booster(text.replace("left_child=-1", "left_child=0"), n_features=1, objective="regression")
    Traceback (most recent call last):
    ValueError: A LightGBM model is invalid: a split leads to a place that is not below it.
    """
    if not text.endswith(END):
        text = _reduced(text)
    header, _, trees = text.removesuffix(END).partition("\n\n")
    n_scores = _check_header(header, n_features, objective)
    *lines, rest = trees.encode().split(b"\n")
    n_trees = len(lines) // N_LINES
    _check(len(lines) % N_LINES == 0 and not rest, "a tree is incomplete")
    _check(n_trees > 0 and n_trees % n_scores == 0, f"there are {n_trees} trees")
    _check(not any(lines[N_LINES - 2 :: N_LINES] + lines[N_LINES - 1 :: N_LINES]), "a tree is malformed")
    columns = {name: _column(name, lines[i::N_LINES]) for i, name in enumerate(TREE_LINES)}
    _check_trees(columns, n_features)
    # Imported late, so that the estimators can be imported quickly.
    import lightgbm

    return lightgbm.Booster(model_str=f"{_header(n_features, n_scores)}\n\n{trees}{END}")


def _reduced(text: str) -> str:
    """The text without statistics and without what follows the trees."""
    end = text.find(END)
    _check(end > 0, "the text is incomplete")
    return STATISTICS.sub("", text[: end + len(END)])


def _header(n_features: int, n_scores: int) -> str:
    """What precedes the trees. There is no objective, so that predictions are raw scores."""
    values = {
        "version": "v4",
        "num_class": n_scores,
        "num_tree_per_iteration": n_scores,
        "label_index": 0,
        "max_feature_idx": n_features - 1,
        "feature_names": " ".join(f"Column_{feature}" for feature in range(n_features)),
        "feature_infos": " ".join(["none"] * n_features),
    }
    return "\n".join(["tree", *(f"{key}={value}" for key, value in values.items())])


def _check_header(header: str, n_features: int, objective: str) -> int:
    """Check what precedes the trees. Returns the number of scores per row; each has a tree per iteration."""
    first, *lines = header.split("\n")
    keys = [line.partition("=")[0] for line in lines]
    _check(first == "tree" and keys == HEADER_KEYS, "the header is malformed")
    stored = {key: line.removeprefix(f"{key}=") for key, line in zip(keys, lines, strict=True)}
    n_scores = int(objective.split("num_class:")[1]) if "num_class:" in objective else 1
    expected = {
        "num_class": str(n_scores),
        "num_tree_per_iteration": str(n_scores),
        "max_feature_idx": str(n_features - 1),
        "objective": objective,
    }
    for key, value in expected.items():
        _check(stored[key] == value, f"{key} must be {value!r}, but is {stored[key][:40]!r}")
    return n_scores


def _column(name: str, lines: Sequence[bytes]) -> bytes:
    """What follows "name=" in each of the lines, one line per tree."""
    prefix, column = f"\n{name}=".encode(), b"\n" + b"\n".join(lines) + b"\n"
    values = column.replace(prefix, b"\n")
    is_valid = column.count(prefix) == len(lines) and not values.translate(None, TREE_LINES[name] + b"\n")
    _check(is_valid, f"a line with {name} is malformed")
    return values[1:]


def _check_trees(columns: dict[str, bytes], n_features: int) -> None:
    """Check the numbers in all trees; the trees are concatenated, because there are many small ones."""
    n_leaves = np.fromstring(columns["num_leaves"], dtype=np.int64, sep=" ")
    _check(len(n_leaves) == columns["num_leaves"].count(b"\n") and (n_leaves > 0).all(), "a tree has no leaf")
    n_nodes = n_leaves - 1
    _entry_lengths(columns["threshold"], n_nodes)
    _check_leaf_values(columns["leaf_value"], n_leaves)
    split_feature, decision_type, left, right = (
        _integers(columns[name], n_nodes)
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    _check((split_feature < n_features).all(), f"a tree uses more than {n_features} features")
    # 2 if missing values go left, plus 4 times what counts as missing: 0 nothing, 1 zero, 2 NaN. Odd numbers
    # are categorical splits.
    is_numeric_split = (decision_type % 2 == 0) & (decision_type <= 10)
    _check(is_numeric_split.all(), "a tree has a split of an unknown type")

    # Nodes of a tree are numbered 0, 1, … and its leaves −1, −2, …
    first_node = np.cumsum(n_nodes) - n_nodes
    node = np.arange(len(left)) - np.repeat(first_node, n_nodes)
    first_place, n_nodes_here, n_leaves_here = (
        np.repeat(numbers, n_nodes)
        for numbers in (first_node + np.cumsum(n_leaves) - n_leaves, n_nodes, n_leaves)
    )
    n_visits = np.zeros(n_nodes.sum() + n_leaves.sum(), dtype=np.int64)
    for child in (left, right):
        # A child comes after its parent, so descending from the root always ends at a leaf.
        is_valid = np.where(child < 0, ~child < n_leaves_here, (node < child) & (child < n_nodes_here))
        _check(is_valid.all(), "a split leads to a place that is not below it")
        place = first_place + np.where(child < 0, n_nodes_here + ~child, child)
        n_visits += np.bincount(place, minlength=len(n_visits))
    # A tree has as many children as nodes and leaves other than its root, so all of them occur once.
    _check((n_visits <= 1).all(), "two splits lead to the same node or leaf")


def _check_leaf_values(column: bytes, n_leaves: Indices) -> None:
    """Check that each tree has a finite number for each leaf."""
    lengths = _entry_lengths(column, n_leaves)
    characters = np.frombuffer(column, dtype=np.uint8)
    after_e = characters[np.flatnonzero(characters == ord("e")) + 1]
    is_finite = (after_e == ord("-")).all() and lengths.max() <= MAX_LEAF_LENGTH
    _check(is_finite, "a leaf value is too large")


def _integers(column: bytes, n_entries: Indices) -> Indices:
    """The integers of a column, with a given number of entries in each tree."""
    _entry_lengths(column, n_entries)
    characters = np.frombuffer(b"\n" + column, dtype=np.uint8)
    minus = np.flatnonzero(characters == ord("-"))
    # A minus sign stands between a separator and a digit; separators precede it in ASCII, digits follow it.
    is_sign = (characters[minus - 1] < ord("-")).all() and (characters[minus + 1] > ord("-")).all()
    _check(is_sign, "an entry of a tree is not a number")
    return np.fromstring(column, dtype=np.int64, sep=" ")


def _entry_lengths(column: bytes, n_entries: Indices) -> Indices:
    """Number of characters of each entry, after a check that each tree has its number of entries."""
    characters = np.frombuffer(column, dtype=np.uint8)
    separators = np.flatnonzero(characters <= ord(" "))
    lengths = np.diff(separators, prepend=-1) - 1
    line_ends = np.flatnonzero(characters[separators] == ord("\n"))
    # A line without entries looks like a line with one empty entry.
    n_found = np.diff(line_ends, prepend=-1)
    is_empty = lengths == 0
    is_valid = (
        np.array_equal(n_found, np.maximum(n_entries, 1))
        and np.array_equal(is_empty[line_ends], n_entries == 0)
        and is_empty.sum() == (n_entries == 0).sum()
    )
    _check(is_valid, "the number of entries in a tree contradicts num_leaves")
    return lengths


def _check(is_valid: bool | np.bool_, problem: str) -> None:
    check_stored(is_valid, f"A LightGBM model is invalid: {problem}")
