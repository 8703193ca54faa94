"""Gaussian mixtures as tensor operations.

ONNX has no factorisation of matrices. Instead the columns are taken one after the other: if a column is
observed, the mean and covariance of all later columns are replaced by those given its value, and its log
density is added. This is the elimination by which a Cholesky factor is computed, and needs no operator but
arithmetic. The same operations serve every mask: the update of a missing column is multiplied by zero.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stablemiss.export.graph import Graph
from stablemiss.mixture import GaussianMixture


class Conditioned(NamedTuple):
    """Values of the graph that describe a mixture given the observed columns.

    Attributes
    ----------
    log_density : str
        Log density of the observed values under each component, (n, K).
    mean : str or None
        Conditional mean of the last columns under each component, (n, K, t); None if there are none.
    variance : str or None
        Their conditional variance, (n, K, t).
    """

    log_density: str
    mean: str | None
    variance: str | None


def condition(graph: Graph, mixture: GaussianMixture, values: str, mask: str, n_columns: int) -> Conditioned:
    """Condition a mixture on the observed ones of its first columns.

    Parameters
    ----------
    graph : Graph
    mixture : GaussianMixture
        Over d + t columns.
    values, mask : str
        (n, d); the mask as numbers, 1 = observed. Values are zero where missing.
    n_columns : int
        d
    """
    means, covariances = mixture.means, mixture.covariances
    # One covariance for all components needs to be updated only once.
    if (covariances == covariances[:1]).all():
        covariances = covariances[:1]
    n_left = means.shape[1]
    mean, covariance = graph.constant(means[None]), graph.constant(covariances[None])
    log_density: str | None = None
    values_3d, mask_3d = (graph.op("Unsqueeze", table, [2]) for table in (values, mask))
    for j in range(n_columns):
        value, observed = (graph.columns(table, j, j + 1) for table in (values_3d, mask_3d))
        n_left -= 1
        pivot = graph.columns(graph.columns(covariance, 0, 1, 2), 0, 1, 3)
        variance = graph.op("Squeeze", pivot, [3])
        deviation = graph.op("Mul", graph.op("Sub", value, graph.columns(mean, 0, 1, 2)), observed)
        distance = graph.op("Div", graph.op("Mul", deviation, deviation), variance)
        log_variance = graph.op(
            "Mul", graph.op("Add", graph.op("Log", variance), math.log(2 * math.pi)), observed
        )
        term = graph.op("Add", distance, log_variance)
        log_density = term if log_density is None else graph.op("Add", log_density, term)
        if not n_left:
            break
        row = graph.columns(graph.columns(covariance, 0, 1, 2), 1, n_left + 1, 3)
        column = graph.op("Transpose", row, perm=[0, 1, 3, 2])
        gain = graph.op("Mul", graph.op("Div", column, pivot), graph.op("Unsqueeze", observed, [3]))
        update = graph.op("Mul", graph.op("Squeeze", gain, [3]), deviation)
        mean = graph.op("Add", graph.columns(mean, 1, n_left + 1, 2), update)
        rest = graph.columns(graph.columns(covariance, 1, n_left + 1, 2), 1, n_left + 1, 3)
        covariance = graph.op("Sub", rest, graph.op("Mul", gain, row))
    assert log_density is not None
    log_density = graph.op("Squeeze", graph.op("Mul", log_density, -0.5), [2])
    if not n_left:
        return Conditioned(log_density, None, None)
    variance = graph.total(graph.op("Mul", covariance, np.eye(n_left)), axis=3)
    return Conditioned(log_density, mean, variance)


def mean_and_deviation(
    graph: Graph, mixture: GaussianMixture, values: str, mask: str, n_columns: int
) -> tuple[str, str]:
    """Conditional mean and standard deviation, both (n, t), of the last columns of a mixture."""
    conditioned = condition(graph, mixture, values, mask, n_columns)
    assert conditioned.mean is not None
    assert conditioned.variance is not None
    with np.errstate(divide="ignore"):
        log_weights = np.maximum(np.log(mixture.weights), -1e300)
    log_joint = graph.op("Add", conditioned.log_density, log_weights)
    responsibility = graph.op("Unsqueeze", graph.op("Softmax", log_joint, axis=1), [2])
    mean = graph.total(graph.op("Mul", responsibility, conditioned.mean), axis=1)
    difference = graph.op("Sub", conditioned.mean, graph.op("Unsqueeze", mean, [1]))
    spread = graph.op("Add", conditioned.variance, graph.op("Mul", difference, difference))
    variance = graph.total(graph.op("Mul", responsibility, spread), axis=1)
    return mean, graph.op("Sqrt", graph.op("Max", variance, 0.0))


def with_copies(mixture: GaussianMixture, n_columns: int) -> GaussianMixture:
    """The mixture with its first columns once more as its last, whose conditional mean completes a row."""
    order = np.concatenate([np.arange(mixture.means.shape[1]), np.arange(n_columns)])
    covariances = mixture.covariances[:, order][:, :, order]
    return GaussianMixture(mixture.weights, mixture.means[:, order], covariances)


def log_likelihood(graph: Graph, mixture: GaussianMixture, values: str, mask: str) -> str:
    """Log density of the observed values of each row, (n, 1)."""
    conditioned = condition(graph, mixture, values, mask, mixture.means.shape[1])
    with np.errstate(divide="ignore"):
        log_weights = np.maximum(np.log(mixture.weights), -1e300)
    log_joint = graph.op("Add", conditioned.log_density, log_weights)
    return graph.op("ReduceLogSumExp", log_joint, [1], keepdims=1)
