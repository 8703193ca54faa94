"""Export of fitted models as one ONNX file, checked against the model before it is kept."""

from stablemiss.export.model import FittedModel, write_onnx

__all__ = ["FittedModel", "write_onnx"]
