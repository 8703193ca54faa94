"""Networks as ONNX: the column network as an explicit graph, all others by torch's exporter.

AnyMask needs only the explicit graph, which has a quarter of the nodes that the exporter writes and does not
depend on its versions. The exporter also does not know `searchsorted`, which the column network uses. The
networks of the other methods are many, and are of torch's standard layers.
"""

from __future__ import annotations

import logging
import warnings

import numpy as np
import torch
from torch import Tensor, nn

from stablemiss.export.graph import OPSET, CannotExportError, Graph
from stablemiss.export.rows import Rows
from stablemiss.methods.column_net import D_EMBEDDING, ColumnNetwork

# Rows of the example with which the exporter traces a network: a number that no layer has.
N_EXAMPLE_ROWS = 7


def add_column_network(graph: Graph, network: ColumnNetwork, rows: Rows) -> str:
    """Outputs (n, d_output) of a column network."""
    state = {name: _array(value) for name, value in network.state_dict().items()}
    d, n_pieces = state["piece_start"].shape
    piece = graph.constant(n_pieces * np.arange(d)[None])
    if n_pieces > 1:
        is_above = graph.op("GreaterOrEqual", graph.op("Unsqueeze", rows.values, [2]), state["inner_edges"])
        piece = graph.op("Add", graph.total(graph.op("Cast", is_above, to=_INT64), axis=2), piece)
    else:
        piece = graph.op("Add", graph.op("Cast", graph.op("Mul", rows.values, 0.0), to=_INT64), piece)
    start, inverse_length = (
        graph.op("Gather", state[name].ravel(), piece) for name in ("piece_start", "inverse_length")
    )
    position = graph.op(
        "Clip", graph.op("Mul", graph.op("Sub", rows.values, start), inverse_length), 0.0, 1.0
    )
    with torch.no_grad():
        table = _array(network.lookup_table())
    intercept, slope = (graph.op("Gather", part, piece) for part in np.split(table, [D_EMBEDDING], axis=1))
    columns = graph.op("Add", intercept, graph.op("Mul", graph.op("Unsqueeze", position, [2]), slope))
    is_observed = graph.op("Unsqueeze", rows.mask, [2])
    columns = graph.op("Where", is_observed, graph.op("Relu", columns), state["missing_embedding"])
    hidden = graph.op("Concat", graph.op("Reshape", columns, [0, -1]), rows.observed(graph), axis=1)
    for layer in network.layers:
        if isinstance(layer, nn.Linear):
            hidden = _linear(graph, layer, hidden)
        else:
            assert isinstance(layer, nn.SiLU)
            hidden = graph.op("Mul", hidden, graph.op("Sigmoid", hidden))
    return _linear(graph, network.prediction_head, hidden)


def add_network(graph: Graph, network: nn.Module, rows: Rows) -> str:
    """Outputs (n, d_output) of any other network, by torch's exporter."""
    from onnx import compose

    example = torch.zeros(2, N_EXAMPLE_ROWS, rows.n_columns, dtype=torch.float64)
    n = torch.export.Dim("n", min=1)
    # The exporter warns of its own changes and of packages that are not needed, and logs errors before it
    # raises them.
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                network,
                (example[0], example[1] + 1),
                dynamo=True,
                dynamic_shapes=({0: n}, {0: n}),
                input_names=["values", "mask"],
                output_names=["outputs"],
                opset_version=OPSET,
                verbose=False,
            )
    except Exception as error:
        raise CannotExportError(
            f"{type(network).__name__} cannot be exported, because torch's exporter does not know an "
            "operation "
            "in it. Use a method that can, such as AnyMask."
        ) from error
    finally:
        logging.disable(disabled)
    assert program is not None
    exported = program.model_proto
    if exported.graph.input[0].type.tensor_type.shape.dim[0].dim_value:
        raise CannotExportError(
            f"{type(network).__name__} cannot be exported, because torch's exporter fixes its number of "
            "rows. "
            "Use a method that can, such as AnyMask."
        )
    return _insert(graph, compose.add_prefix(exported, f"{graph.new_name('net')}_"), rows)


def _insert(graph: Graph, exported: object, rows: Rows) -> str:
    """Insert the nodes of an exported network; returns the name of its outputs."""
    from onnx import ModelProto, numpy_helper

    assert isinstance(exported, ModelProto)
    if exported.functions:
        raise CannotExportError("The network cannot be exported, because it needs functions of its own.")
    renamed = {
        info.name: value
        for info, value in zip(exported.graph.input, (rows.values, rows.observed(graph)), strict=True)
    }
    for initializer in exported.graph.initializer:
        renamed[initializer.name] = graph.constant(numpy_helper.to_array(initializer))
    for node in exported.graph.node:
        inputs = [renamed.get(name, name) for name in node.input]
        if node.op_type == "Softplus":
            # onnxruntime has it in single precision only: log(1 + eˣ) = max(x, 0) + log(1 + e^−|x|).
            size = graph.op("Exp", graph.op("Neg", graph.op("Abs", inputs[0])))
            logarithm = graph.op("Log", graph.op("Add", size, 1.0))
            renamed[node.output[0]] = graph.op("Add", graph.op("Max", inputs[0], 0.0), logarithm)
            continue
        del node.input[:]
        node.input.extend(inputs)
        graph.nodes.append(node)
    (output,) = exported.graph.output
    return renamed.get(output.name, output.name)


def _linear(graph: Graph, layer: nn.Linear, inputs: str) -> str:
    product = graph.op("MatMul", inputs, _array(layer.weight).T)
    return graph.op("Add", product, _array(layer.bias))


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


# onnx.TensorProto.INT64, without the import.
_INT64 = 7
