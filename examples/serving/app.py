"""A minimal service: predictions of an exported model over HTTP, with null for missing values.

It needs fastapi, uvicorn, numpy and onnxruntime, but neither stablemiss nor torch. Start it with

    MODEL=houses.onnx uvicorn --factory app:app
"""

import json
import os
from typing import Any

import numpy as np
import onnxruntime
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

Entry = bool | int | float | str | None


class Rows(BaseModel):
    """The body of a request: rows as objects, with null for a missing value."""

    rows: list[dict[str, Entry]] = Field(min_length=1, max_length=1000)


class Model:
    """An ONNX file written by `to_onnx`, which takes rows as dictionaries."""

    def __init__(self, path: str):
        options = onnxruntime.SessionOptions()
        # Requests are small and arrive in parallel: one thread for each.
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        description = json.loads(self.session.get_modelmeta().custom_metadata_map["stablemiss"])
        self.inputs: dict[str, list[str]] = description["inputs"]
        self.columns = [column for columns in self.inputs.values() for column in columns]
        self.outputs = [output.name for output in self.session.get_outputs()]

    def check(self, rows: list[dict[str, Entry]]) -> None:
        """Raise ValueError unless every row has exactly the columns of the model."""
        for i, row in enumerate(rows):
            absent = [column for column in self.columns if column not in row]
            unknown = [column for column in row if column not in self.columns]
            if absent or unknown:
                problem = f"lacks {', '.join(absent)}" if absent else f"has the unknown {', '.join(unknown)}"
                raise ValueError(
                    f"Row {i} {problem}; send every column of the model, with null if it is missing."
                )

    def predict(self, rows: list[dict[str, Entry]]) -> dict[str, Any]:
        """Name of each output → list with one entry per row."""
        self.check(rows)
        inputs = {
            name: np.array([[_convert(name, column, row[column]) for column in columns] for row in rows])
            for name, columns in self.inputs.items()
        }
        results = self.session.run(None, inputs)
        return {name: result.tolist() for name, result in zip(self.outputs, results, strict=True)}


def _convert(name: str, column: str, entry: Entry) -> Any:
    """An entry as the input of this name takes it."""
    if name == "categories":
        return "" if entry is None else str(entry)
    if name == "numbers":
        if isinstance(entry, str):
            raise ValueError(f"Column {column} takes numbers, but got {entry!r}.")
        return np.nan if entry is None else float(entry)
    try:
        # None becomes NaT, which means missing.
        return np.datetime64(entry, "us").astype(np.int64)
    except ValueError:
        raise ValueError(
            f"Column {column} takes dates such as 2014-10-13T18:00, but got {entry!r}."
        ) from None


def make_app(path: str) -> FastAPI:
    """The service for the model in an ONNX file."""
    model = Model(path)
    service = FastAPI(title="Predictions with missing values")

    @service.exception_handler(RequestValidationError)
    async def explain(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "body"
        return JSONResponse({"detail": f"{place}: {first['msg']}."}, status_code=422)

    @service.get("/columns")
    def columns() -> dict[str, list[str]]:
        return model.inputs

    @service.post("/predict")
    def predict(request: Rows) -> Any:
        try:
            return model.predict(request.rows)
        except ValueError as error:
            return JSONResponse({"detail": str(error)}, status_code=422)

    return service


def app() -> FastAPI:
    """The service for the model that the environment variable MODEL names."""
    return make_app(os.environ["MODEL"])
