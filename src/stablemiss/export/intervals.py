"""Prediction intervals of AnyMask as tensor operations."""

from __future__ import annotations

import numpy as np

from stablemiss.anymask import AnyMaskPredictor
from stablemiss.anymask.calibration import MIN_EXPECTED_ERROR
from stablemiss.export.graph import Graph
from stablemiss.export.predictors import add_anymask, rounded
from stablemiss.export.rows import Rows
from stablemiss.export.trees import add_trees


def add_interval(
    graph: Graph, predictor: AnyMaskPredictor, rows: Rows, coverage: float
) -> tuple[str, tuple[str, str]]:
    """Outputs (n, d_output), and lower and upper bounds (n, d_output), of encoded targets.

    Parameters
    ----------
    graph : Graph
    predictor : AnyMaskPredictor
    rows : Rows
    coverage : float between 0 and 1
    """
    output, low, high = _interval(graph, predictor, rows, coverage)
    is_out = graph.op("And", rows.mask, rows.out_of_range)
    # In a branch, because it doubles the work and few tables have such values.
    any_out = graph.op(
        "Greater", graph.op("ReduceMax", graph.op("Cast", is_out, to=_DOUBLE), keepdims=0), 0.5
    )

    def wider() -> list[str]:
        _, other_low, other_high = _interval(graph, predictor, rows.without_out_of_range(graph), coverage)
        return [graph.op("Min", low, other_low), graph.op("Max", high, other_high)]

    low, high = graph.choose(any_out, wider, (low, high))
    return output, (low, high)


def _interval(graph: Graph, predictor: AnyMaskPredictor, rows: Rows, coverage: float) -> tuple[str, str, str]:
    """Outputs and bounds, without regard to values out of range."""
    output, deviation = add_anymask(graph, predictor, rows)
    calibrator = predictor.calibrator
    _, first = np.unique(calibrator.groups, return_index=True)
    observed = graph.op("Gather", rows.observed(graph), first, axis=1)
    n_missing = graph.op("Sub", float(len(first)), graph.total(observed, axis=1, keepdims=1))
    margins = calibrator.margins(coverage)
    index = graph.op("Cast", graph.op("Squeeze", n_missing, [1]), to=_INT64)
    margin = graph.op("Gather", margins, index)
    one = graph.op("Add", graph.op("Mul", output, 0.0), 1.0)
    expected = one if deviation is None else graph.op("Max", deviation, MIN_EXPECTED_ERROR)
    if any(calibrator.models):
        computed = rounded(graph, graph.op("Concat", output, expected, axis=1))
        table = graph.op("Concat", rows.with_nan(graph), n_missing, computed, axis=1)
        factors = [
            graph.op("Exp", graph.op("ReduceMean", add_trees(graph, models, table), [1], keepdims=1))
            if models
            else graph.columns(one, 0, 1)
            for models in calibrator.models
        ]
        margin = graph.op("Mul", margin, graph.op("Concat", *factors, axis=1))
    margin = graph.op("Mul", margin, expected)
    return output, graph.op("Sub", output, margin), graph.op("Add", output, margin)


# onnx.TensorProto.DOUBLE and INT64, without the import.
_DOUBLE, _INT64 = 11, 7
