"""A small builder of ONNX graphs in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto

# Versions of the operators. TreeEnsemble, which reads and writes double precision, is in version 5 of
# ai.onnx.ml.
OPSET, ML_OPSET, IR_VERSION = 20, 5, 10
ML = "ai.onnx.ml"
# Larger constants that single precision represents exactly, as it does the weights of networks, are stored
# in single precision.
MIN_STORED_SINGLE = 256


class CannotExportError(ValueError):
    """The model, or a part of it, cannot be written as ONNX."""


class Graph:
    """Nodes and constants of an ONNX graph. A value of the graph is its name, a str.

    All numbers are double precision: with single precision, a value near the threshold of a tree would take
    the other branch, and a mixture would lose the digits that the export promises.

    Examples
    --------
    >>> import numpy as np
    >>> graph = Graph()
    >>> graph.op("Add", "x", np.array([1.0, 2.0]))
    'v1'
    >>> [node.op_type for node in graph.nodes], len(graph.constants)
    (['Add'], 1)
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, NDArray] = {}
        # Casts of constants, which come first.
        self._casts: list[NodeProto] = []
        self._names_of_constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._n_names = 0

    def op(self, kind: str, *inputs: str | ArrayLike, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output.

        Parameters
        ----------
        kind : str
            Name of the operator.
        *inputs : str or array-like
            Names of values, or constants: numbers become double precision, integers int64.
        domain : str, default=""
            Domain of the operator; "" is that of ONNX itself.
        **attributes
            Attributes of the operator.
        """
        from onnx import helper

        output = self.new_name()
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self.nodes.append(helper.make_node(kind, names, [output], domain=domain, **attributes))
        return output

    def constant(self, value: ArrayLike) -> str:
        """Name of a constant; equal constants are stored once."""
        from onnx import TensorProto, helper

        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        elif array.dtype.kind in "iu":
            array = array.astype(np.int64)
        array = np.asarray(array, order="C")
        content = repr(array.tolist()).encode() if array.dtype.kind in "OU" else array.tobytes()
        key = (array.dtype.kind, array.shape, content)
        if key in self._names_of_constants:
            return self._names_of_constants[key]
        name = self.new_name("c")
        self._names_of_constants[key] = name
        if array.dtype == np.float64 and array.size >= MIN_STORED_SINGLE:
            with np.errstate(over="ignore", under="ignore"):
                single = array.astype(np.float32)
            if np.array_equal(single, array):
                self.constants[f"{name}_single"] = single
                self._casts.append(
                    helper.make_node("Cast", [f"{name}_single"], [name], to=TensorProto.DOUBLE)
                )
                return name
        self.constants[name] = array
        return name

    def new_name(self, letter: str = "v") -> str:
        """A name that no other value has."""
        self._n_names += 1
        return f"{letter}{self._n_names}"

    def columns(self, value: str, first: int, stop: int, axis: int = 1) -> str:
        """The columns from `first` up to and without `stop`."""
        return self.op("Slice", value, [first], [stop], [axis])

    def total(self, value: str, axis: int, keepdims: int = 0) -> str:
        """Sum along an axis."""
        return self.op("ReduceSum", value, [axis], keepdims=keepdims)

    def choose(
        self, condition: str, then: Callable[[], Sequence[str]], otherwise: Sequence[str]
    ) -> list[str]:
        """Values that are computed only if a condition, a single bool, holds.

        Parameters
        ----------
        condition : str
        then : function
            Adds the nodes and returns the values.
        otherwise : sequence of str
            The values if the condition does not hold.
        """
        from onnx import TensorProto, helper

        outer, self.nodes = self.nodes, []
        branches = []
        for values in (then, lambda: otherwise):
            self.nodes = []
            outputs = [self.op("Identity", value) for value in values()]
            infos = [helper.make_tensor_value_info(output, TensorProto.DOUBLE, None) for output in outputs]
            branches.append(helper.make_graph(self.nodes, self.new_name("branch"), [], infos))
        self.nodes = outer
        names = [self.new_name() for _ in otherwise]
        self.nodes.append(
            helper.make_node("If", [condition], names, then_branch=branches[0], else_branch=branches[1])
        )
        return names

    def to_model(
        self,
        inputs: Sequence[ValueInfoProto],
        outputs: Sequence[ValueInfoProto],
        metadata: dict[str, str],
    ) -> ModelProto:
        """The finished model.

        Parameters
        ----------
        inputs, outputs : sequence of ValueInfoProto
            Their types and shapes.
        metadata : dict
            Key → text, stored in the file.
        """
        from onnx import helper, numpy_helper

        constants = [
            helper.make_tensor(
                name, _STRING, array.shape, [entry.encode() for entry in array.ravel().tolist()]
            )
            if array.dtype.kind in "OU"
            else numpy_helper.from_array(array, name)
            for name, array in self.constants.items()
        ]
        graph = helper.make_graph([*self._casts, *self.nodes], "stablemiss", inputs, outputs, constants)
        model = helper.make_model(
            graph,
            producer_name="stablemiss",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)],
        )
        helper.set_model_props(model, metadata)
        return model


# onnx.TensorProto.STRING, without the import.
_STRING = 8
