"""A fitted model as one ONNX file: assembly, self-test and writing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stablemiss import __version__
from stablemiss.anymask import AnyMaskPredictor
from stablemiss.base.method import Predictor
from stablemiss.data import Floats
from stablemiss.encoding import Encoded, OnOutOfRange, Table, TableEncoder
from stablemiss.encoding.fitted import Encoding
from stablemiss.encoding.table import DATE_DTYPE
from stablemiss.export.graph import CannotExportError, Graph
from stablemiss.export.intervals import add_interval
from stablemiss.export.predictors import add_predictor
from stablemiss.export.rows import (
    CATEGORIES_INPUT,
    DATES_INPUT,
    MISSING_TEXT,
    add_encoding,
    draw_inputs,
    input_columns,
    input_types,
)
from stablemiss.tasks import Classification, Regression, Task
from stablemiss.writing import atomic_write

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

# Rows of the self-test, each with its own mask, and the largest relative difference that is accepted. Numbers
# smaller than MIN_SIZE of the target's scale (of one, for probabilities) are compared with that size.
N_TEST_ROWS, MAX_MISMATCH, MIN_SIZE = 1000, 1e-5, 1e-3
PREDICTION, LABEL, PROBABILITIES, INTERVAL = "prediction", "label", "probabilities", "interval"


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The parts of a fitted estimator that an export needs.

    Attributes
    ----------
    encoder : TableEncoder
    task : Task
    predictor : Predictor
    on_out_of_range : "clip", "missing" or "raise"
        What happens to numbers far outside the range in training.
    coverage : float or None
        Coverage of the intervals to export; None exports none.
    """

    encoder: TableEncoder
    task: Task
    predictor: Predictor
    on_out_of_range: OnOutOfRange = "clip"
    coverage: float | None = None

    def predict(self, encoded: Encoded) -> dict[str, np.ndarray]:
        """What the ONNX model must return: name of each output → array."""
        outputs = self.predictor.predict(encoded.values, encoded.mask)
        decoded = self.task.decode(outputs)
        if isinstance(self.task, Classification):
            return {LABEL: decoded, PROBABILITIES: self.task.probabilities(outputs)}
        if self.coverage is None:
            return {PREDICTION: decoded}
        assert isinstance(self.predictor, AnyMaskPredictor)
        bounds = self.predictor.predict_interval(encoded.values, encoded.mask, self.coverage)
        rows, values, mask = encoded.without_out_of_range()
        if len(rows):
            others = self.predictor.predict_interval(values, mask, self.coverage)
            bounds[rows, :, 0] = np.minimum(bounds[rows, :, 0], others[:, :, 0])
            bounds[rows, :, 1] = np.maximum(bounds[rows, :, 1], others[:, :, 1])
        interval = np.stack([self.task.decode(bounds[:, :, side]) for side in (0, 1)], axis=-1)
        return {PREDICTION: decoded, INTERVAL: interval}


def write_onnx(path: str | Path, model: FittedModel) -> float:
    """Write a fitted model as one ONNX file, after a comparison of its predictions with those of the model.

    Parameters
    ----------
    path : path
        The file to write. An existing file is replaced only if the comparison succeeds.
    model : FittedModel

    Returns
    -------
    float
        The largest relative difference that was found on `N_TEST_ROWS` random masks.

    Raises
    ------
    CannotExportError
        If a part of the model has no equivalent in ONNX, or if the predictions differ.
    """
    check_can_export()
    content = make_model(model).SerializeToString()
    mismatch = measure_mismatch(content, model)
    if not mismatch <= MAX_MISMATCH:
        raise CannotExportError(
            "The ONNX model was not written, because its predictions differ from those of the fitted "
            "model by "
            f"a relative {mismatch:.1e} on random rows, and at most {MAX_MISMATCH:.0e} is accepted."
        )
    with atomic_write(path) as unfinished:
        unfinished.write_bytes(content)
    return mismatch


def check_can_export() -> None:
    """Raise ModuleNotFoundError if onnx, onnxruntime or onnxscript is not installed."""
    absent = [name for name in ("onnx", "onnxruntime", "onnxscript") if find_spec(name) is None]
    if absent:
        raise ModuleNotFoundError(
            f'to_onnx needs {" and ".join(absent)}; install with: pip install "stablemiss[onnx]".'
        )


def make_model(model: FittedModel) -> ModelProto:
    """The ONNX model of a fitted model, not tested yet."""
    if model.on_out_of_range == "raise":
        raise CannotExportError(
            'on_out_of_range="raise" cannot be exported, because an ONNX model cannot raise errors; set '
            "it to "
            '"clip" or "missing".'
        )
    graph, encoding = Graph(), Encoding.of(model.encoder)
    rows = add_encoding(graph, encoding, model.on_out_of_range)
    outputs: list[ValueInfoProto]
    if isinstance(model.task, Classification):
        outputs = _add_classes(graph, model.task, add_predictor(model.predictor, graph, rows))
    else:
        assert isinstance(model.task, Regression)
        if model.coverage is None:
            outputs = [
                _add_decoded(graph, model.task, add_predictor(model.predictor, graph, rows), PREDICTION)
            ]
        else:
            assert isinstance(model.predictor, AnyMaskPredictor)
            output, bounds = add_interval(graph, model.predictor, rows, model.coverage)
            outputs = [_add_decoded(graph, model.task, output, PREDICTION)]
            outputs.append(_add_bounds(graph, model.task, bounds))
    return graph.to_model(
        input_types(encoding), outputs, {"stablemiss": json.dumps(_description(model, encoding))}
    )


def _add_decoded(graph: Graph, task: Regression, output: str, name: str) -> ValueInfoProto:
    """Predictions in the units of the target, as an output of the model."""
    from onnx import TensorProto, helper

    decoded = graph.op("Add", graph.op("Mul", output, task.scale), task.mean)
    if task.single:
        decoded = graph.op("Squeeze", decoded, [1])
    graph.nodes.append(helper.make_node("Identity", [decoded], [name]))
    shape: list[str | int | None] = ["n"] if task.single else ["n", task.d_output]
    return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)


def _add_bounds(graph: Graph, task: Regression, bounds: tuple[str, str]) -> ValueInfoProto:
    """Bounds of intervals in the units of the target, as an output of the model."""
    from onnx import TensorProto, helper

    decoded = [graph.op("Add", graph.op("Mul", bound, task.scale), task.mean) for bound in bounds]
    sides = [graph.op("Unsqueeze", bound, [2]) for bound in decoded]
    interval = graph.op("Concat", *sides, axis=2)
    if task.single:
        interval = graph.op("Squeeze", interval, [1])
    graph.nodes.append(helper.make_node("Identity", [interval], [INTERVAL]))
    shape: list[str | int | None] = ["n", 2] if task.single else ["n", task.d_output, 2]
    return helper.make_tensor_value_info(INTERVAL, TensorProto.DOUBLE, shape)


def _add_classes(graph: Graph, task: Classification, output: str) -> list[ValueInfoProto]:
    """The most probable class and the probabilities of all, as outputs of the model."""
    from onnx import TensorProto, helper

    kinds = {"f": TensorProto.DOUBLE, "i": TensorProto.INT64, "u": TensorProto.INT64, "b": TensorProto.BOOL}
    kind = kinds.get(task.classes.dtype.kind, TensorProto.STRING)
    label = graph.op("Gather", task.classes, graph.op("ArgMax", output, axis=1, keepdims=0))
    probabilities = graph.op("Softmax", output, axis=1)
    for value, name in ((label, LABEL), (probabilities, PROBABILITIES)):
        graph.nodes.append(helper.make_node("Identity", [value], [name]))
    return [
        helper.make_tensor_value_info(LABEL, kind, ["n"]),
        helper.make_tensor_value_info(PROBABILITIES, TensorProto.DOUBLE, ["n", task.d_output]),
    ]


def _description(model: FittedModel, encoding: Encoding) -> dict[str, Any]:
    """What a caller of the ONNX model needs to know, stored in the file."""
    name = model.encoder.column_name
    description: dict[str, Any] = {
        "version": __version__,
        "inputs": {key: [name(j) for j in columns] for key, columns in input_columns(encoding).items()},
        "categories": {name(j): encoder.categories for j, encoder in encoding.categories.items()},
    }
    if isinstance(model.task, Classification):
        description["classes"] = model.task.classes.tolist()
    if model.coverage is not None:
        description["coverage"] = model.coverage
    return description


def measure_mismatch(content: bytes, model: FittedModel) -> float:
    """The largest relative difference between an ONNX model and the fitted model on random rows.

    Parameters
    ----------
    content : bytes
        The ONNX model.
    model : FittedModel
        The fitted model from which it was made.
    """
    import onnxruntime

    encoding = Encoding.of(model.encoder)
    inputs = draw_inputs(encoding, N_TEST_ROWS, np.random.default_rng(0))
    expected = model.predict(
        model.encoder.transform(
            _to_table(inputs, encoding, model.encoder), on_out_of_range=model.on_out_of_range
        )
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise CannotExportError(
            "The model cannot be exported, because onnxruntime lacks an operation in double precision "
            "that it "
            "needs."
        ) from error
    actual = dict(zip(expected, session.run(list(expected), inputs), strict=True))
    scale = model.task.scale if isinstance(model.task, Regression) else np.ones(1)
    return max(
        _label_mismatch(expected, actual)
        if name == LABEL
        else _relative_mismatch(array, actual[name], scale[:, None] if name == INTERVAL else scale)
        for name, array in expected.items()
    )


def _relative_mismatch(expected: Floats, actual: Floats, scale: Floats) -> float:
    if actual.shape != expected.shape or not np.isfinite(actual).all():
        return np.inf
    size = np.maximum(np.abs(expected), MIN_SIZE * (scale if expected.ndim > 1 else scale[0]))
    return float((np.abs(actual - expected) / size).max())


def _label_mismatch(expected: dict[str, np.ndarray], actual: dict[str, np.ndarray]) -> float:
    """Infinite if labels differ in a row where the most probable class is beyond doubt."""
    ranked = np.sort(expected[PROBABILITIES], axis=1)
    is_clear = ranked[:, -1] > ranked[:, -2] * (1 + MAX_MISMATCH)
    is_equal = np.asarray(actual[LABEL] == expected[LABEL])
    return 0.0 if is_equal[is_clear].all() else np.inf


def _to_table(inputs: dict[str, np.ndarray], encoding: Encoding, encoder: TableEncoder) -> Table:
    """The table whose columns are the inputs of an ONNX model."""
    n_rows = len(next(iter(inputs.values())))
    columns = [np.full(n_rows, np.nan) for _ in range(encoding.n_features)]
    for name, positions in input_columns(encoding).items():
        for i, j in enumerate(positions):
            column = inputs[name][:, i]
            if name == CATEGORIES_INPUT:
                column = np.array(
                    [None if entry == MISSING_TEXT else entry for entry in column], dtype=object
                )
            elif name == DATES_INPUT:
                column = column.astype(DATE_DTYPE)
            columns[j] = column
    return Table(encoder.names, encoder.labels, columns, n_rows)
