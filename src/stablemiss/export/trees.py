"""LightGBM models as ONNX operators.

onnxmltools could convert them too, but rounds thresholds and values to single precision, and would add a
dependency for what are a few arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats
from stablemiss.export.graph import ML, CannotExportError, Graph

# LightGBM's `decision_type`: bit 1 marks categories, bit 2 that missing values go left, and the next two
# bits say what is missing.
CATEGORICAL, DEFAULT_LEFT = 1, 2
NOTHING_MISSING, ZERO_MISSING = 0, 1
# ONNX's mode of a node: left if the value is at most the threshold.
LESS_OR_EQUAL = 0
# ONNX's aggregation of the trees.
SUM = 1


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree. Nodes are numbered 0, 1, … and leaves −1, −2, …

    Attributes
    ----------
    feature, left, right : (n_nodes,) int
        The feature that a node compares, and the node or leaf that follows.
    threshold : (n_nodes,)
        Values up to the threshold go left.
    nan_goes_left : (n_nodes,) bool
    leaf_value : (n_leaves,)
    """

    feature: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    threshold: Floats
    nan_goes_left: NDArray[np.bool_]
    leaf_value: Floats


def read_trees(text: str) -> list[Tree]:
    """The trees of a model in LightGBM's text format.

    Examples
    --------
    >>> import lightgbm
    >>> data = lightgbm.Dataset(np.arange(100.0)[:, None], np.arange(100) >= 50)
    >>> booster = lightgbm.train({"num_leaves": 2, "verbosity": -1}, data, num_boost_round=1)
    >>> (tree,) = read_trees(booster.model_to_string())
    >>> tree.feature.tolist(), tree.leaf_value.round(2).tolist()
    ([0], [0.45, 0.55])
    """
    blocks = text.partition("end of trees")[0].split("\nTree=")[1:]
    return [_read_tree(dict(line.partition("=")[::2] for line in block.split("\n")[1:])) for block in blocks]


def _read_tree(lines: dict[str, str]) -> Tree:
    feature, left, right, decision = (
        np.array(lines.get(name, "").split(), dtype=np.int64)
        for name in ("split_feature", "left_child", "right_child", "decision_type")
    )
    threshold, leaf_value = (
        np.array(lines.get(name, "").split(), dtype=np.float64) for name in ("threshold", "leaf_value")
    )
    missing_type = decision >> 2 & 3
    if (decision & CATEGORICAL).any() or (missing_type == ZERO_MISSING).any() or lines["is_linear"] != "0":
        raise CannotExportError(
            "These trees cannot be exported: they have categorical splits or linear leaves, or treat zero as "
            "missing."
        )
    # Where nothing was missing in training, LightGBM reads NaN as zero.
    nan_goes_left = np.where(missing_type == NOTHING_MISSING, threshold >= 0, decision & DEFAULT_LEFT > 0)
    return Tree(feature, left, right, threshold, nan_goes_left, leaf_value)


def add_trees(graph: Graph, models: Sequence[str], table: str, n_scores: int = 1) -> str:
    """Raw scores of several models side by side, (n, n_models · n_scores).

    Parameters
    ----------
    graph : Graph
    models : sequence of str
        In LightGBM's text format.
    table : str
        Features (n, p), NaN where missing.
    n_scores : int, default=1
        Number of scores of each model: as many as classes, if there are more than two.
    """
    scores = [_add_model(graph, read_trees(text), table, n_scores) for text in models]
    return scores[0] if len(scores) == 1 else graph.op("Concat", *scores, axis=1)


def _add_model(graph: Graph, trees: list[Tree], table: str, n_scores: int) -> str:
    """Trees of one model; they belong to the scores in turn."""
    # Trees of a single leaf, which ONNX does not have, are constants.
    constant = np.zeros(n_scores)
    kept: list[tuple[int, Tree]] = []
    for i, tree in enumerate(trees):
        if len(tree.feature):
            kept.append((i % n_scores, tree))
        else:
            constant[i % n_scores] += tree.leaf_value[0]
    if not kept:
        first = graph.op("Where", graph.op("IsNaN", graph.columns(table, 0, 1)), 0.0, 0.0)
        return graph.op("Add", first, constant)
    n_nodes = np.array([len(tree.feature) for _, tree in kept])
    n_leaves = n_nodes + 1
    first_node, first_leaf = (np.repeat(np.cumsum(n) - n, n_nodes) for n in (n_nodes, n_leaves))

    def joined(name: str) -> NDArray:
        return np.concatenate([getattr(tree, name) for _, tree in kept])

    def children(name: str) -> tuple[list[int], list[int]]:
        child = joined(name)
        is_leaf = child < 0
        return np.where(is_leaf, first_leaf + ~child, first_node + child).tolist(), is_leaf.astype(
            int
        ).tolist()

    (true_ids, true_leaves), (false_ids, false_leaves) = children("left"), children("right")
    targets = np.repeat([score for score, _ in kept], n_leaves)
    scores = graph.op(
        "TreeEnsemble",
        table,
        domain=ML,
        aggregate_function=SUM,
        n_targets=n_scores,
        nodes_featureids=joined("feature").tolist(),
        nodes_modes=_tensor(np.full(n_nodes.sum(), LESS_OR_EQUAL, dtype=np.uint8)),
        nodes_splits=_tensor(joined("threshold")),
        nodes_truenodeids=true_ids,
        nodes_trueleafs=true_leaves,
        nodes_falsenodeids=false_ids,
        nodes_falseleafs=false_leaves,
        nodes_missing_value_tracks_true=joined("nan_goes_left").astype(int).tolist(),
        leaf_targetids=targets.tolist(),
        leaf_weights=_tensor(joined("leaf_value")),
        tree_roots=(np.cumsum(n_nodes) - n_nodes).tolist(),
    )
    return graph.op("Add", scores, constant) if constant.any() else scores


def _tensor(array: NDArray) -> object:
    from onnx import numpy_helper

    return numpy_helper.from_array(array)
