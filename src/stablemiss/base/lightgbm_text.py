"""Reading LightGBM models from text that may have been manipulated.

LightGBM trusts the text of a model: a wrong index in it makes LightGBM read foreign memory, run for ever or
kill the process. Therefore every tree is checked here first, and LightGBM reads a new text, which contains
only what was checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stablemiss.stored import check_stored

if TYPE_CHECKING:
    import lightgbm

# What LightGBM writes before the trees, one line each, and at the end "tree_sizes".
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


def _list_of(number: str) -> str:
    """Pattern of the rest of a line: numbers separated by single spaces, or nothing."""
    return rf"(?:{number}(?: (?!\n)|(?=\n)))*+"


INDICES, CHILDREN = _list_of("[0-9]{1,9}+"), _list_of("-?+[0-9]{1,9}+")
# Leaf values are below 1e117, so the sum over all trees is finite too.
LEAF_VALUES = _list_of(r"-?+[0-9]{1,17}+(?:\.[0-9]++)?+(?:e(?:-[0-9]++|\+[0-9]{2}))?+")
# A split between missing and observed values has the threshold inf.
THRESHOLDS = _list_of(r"-?+(?:inf|[0-9]{1,17}+(?:\.[0-9]++)?+(?:e[-+][0-9]++)?+)")
# A tree as LightGBM writes it, without categorical splits and without linear models in its leaves.
# Predictions need the named groups; the other lines describe the training rows and are dropped.
TREE = re.compile(
    r"Tree=[0-9]++\n"
    r"num_leaves=(?P<num_leaves>[1-9][0-9]{0,8}+)\n"
    r"num_cat=0\n"
    rf"split_feature=(?P<split_feature>{INDICES})\n"
    r"split_gain=.*+\n"
    rf"threshold=(?P<threshold>{THRESHOLDS})\n"
    rf"decision_type=(?P<decision_type>{INDICES})\n"
    rf"left_child=(?P<left_child>{CHILDREN})\n"
    rf"right_child=(?P<right_child>{CHILDREN})\n"
    rf"leaf_value=(?P<leaf_value>{LEAF_VALUES})\n"
    r"leaf_weight=.*+\n"
    r"leaf_count=.*+\n"
    r"internal_value=.*+\n"
    r"internal_weight=.*+\n"
    r"internal_count=.*+\n"
    r"is_linear=0\n"
    r"shrinkage=.*+\n\n\n"
)
# Field of a tree → its text in each tree.
Fields = Mapping[str, Sequence[str]]


def load_booster(text: str, n_features: int, objective: str) -> lightgbm.Booster:
    """Check a model in LightGBM's text format, then let LightGBM read it. It predicts raw scores.

    Parameters
    ----------
    text : str
        Written by ``Booster.model_to_string``, and possibly manipulated since.
    n_features : int
        Number of features of the rows to predict.
    objective : str
        The objective as LightGBM writes it, for instance "regression" or "multiclass num_class:3".

    Raises
    ------
    ValueError
        If the text is not a complete model with this number of features and this objective.

    Examples
    --------
    >>> import lightgbm
    >>> data = lightgbm.Dataset(np.arange(100.0)[:, None], np.arange(100) >= 50)
    >>> text = lightgbm.train({"num_leaves": 2, "verbosity": -1}, data, num_boost_round=1).model_to_string()
    >>> load_booster(text, n_features=1, objective="regression").predict([[0.0], [99.0]]).round(2).tolist()
    [0.45, 0.55]
    >>> load_booster(text.replace("left_child=-1", "left_child=0"), n_features=1, objective="regression")
    Traceback (most recent call last):
    ValueError: A LightGBM model is invalid: a split leads to a place that is not below it.
    """
    body, has_end, _ = text.partition("end of trees\n")
    header, has_trees, trees = body.partition("\n\n")
    _check(has_end != "" and has_trees != "", "the text is incomplete")
    n_scores = _check_header(header, n_features, objective)
    matches = list(TREE.finditer(trees))
    _check(sum(match.end() - match.start() for match in matches) == len(trees), "a tree is malformed")
    _check(len(matches) > 0 and len(matches) % n_scores == 0, f"there are {len(matches)} trees")
    fields = dict(zip(TREE.groupindex, zip(*map(re.Match.groups, matches), strict=True), strict=True))
    _check_trees(fields, n_features)
    # Imported late, so that the estimators can be imported quickly.
    import lightgbm

    return lightgbm.Booster(model_str=_write(fields, n_features, n_scores))


def _check_header(header: str, n_features: int, objective: str) -> int:
    """Check what precedes the trees. Returns the number of scores per row; each has a tree per iteration."""
    first, *lines = header.split("\n")
    if lines and lines[-1].startswith("tree_sizes="):
        lines.pop()
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


def _check_trees(fields: Fields, n_features: int) -> None:
    """Check the numbers in all trees; the trees are concatenated, because there are many small ones."""
    n_leaves = np.array([int(number) for number in fields["num_leaves"]])
    n_nodes = n_leaves - 1
    _check_lengths(fields, "threshold", n_nodes)
    _check_lengths(fields, "leaf_value", n_leaves)
    split_feature, decision_type, left, right = (
        _integers(fields, name, n_nodes)
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


def _check_lengths(fields: Fields, name: str, lengths: NDArray[np.int64]) -> None:
    """Check that the field has this number of entries in each tree."""
    counts = [text.count(" ") + (text != "") for text in fields[name]]
    _check(np.array_equal(counts, lengths), f"the length of {name} contradicts num_leaves")


def _integers(fields: Fields, name: str, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The integers of a field in all trees, with this number of entries in each tree."""
    _check_lengths(fields, name, lengths)
    return np.fromstring(" ".join(fields[name]), dtype=np.int64, sep=" ")


def _write(fields: Fields, n_features: int, n_scores: int) -> str:
    """The model in LightGBM's text format, without an objective, so that predictions are raw scores."""
    # Without the line tree_sizes, LightGBM finds the trees by reading one after the other.
    header = {
        "version": "v4",
        "num_class": n_scores,
        "num_tree_per_iteration": n_scores,
        "label_index": 0,
        "max_feature_idx": n_features - 1,
        "feature_names": " ".join(f"Column_{feature}" for feature in range(n_features)),
        "feature_infos": " ".join(["none"] * n_features),
    }
    lines = ["tree", *(f"{key}={value}" for key, value in header.items()), ""]
    for number, tree in enumerate(zip(*fields.values(), strict=True)):
        lines.append(f"Tree={number}")
        lines.append("num_cat=0")
        lines += [f"{name}={text}" for name, text in zip(fields, tree, strict=True)]
        lines += ["is_linear=0", "shrinkage=1", "", ""]
    return "\n".join([*lines, "end of trees", ""])


def _check(is_valid: bool | np.bool_, problem: str) -> None:
    check_stored(is_valid, f"A LightGBM model is invalid: {problem}")
