"""What is predicted: how targets are encoded, the link, the loss; independent of method and network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats, centre_and_scale

if TYPE_CHECKING:
    import torch


class Task(ABC):
    """How a target becomes numbers a method learns, and a method's outputs become predictions.

    `target` is what methods see, `output` what they return, `prediction` what the user gets.
    """

    kind: str
    d_output: int

    @abstractmethod
    def encode(self, y: NDArray) -> NDArray:
        """User's target → target."""

    @abstractmethod
    def decode(self, output: Floats) -> NDArray:
        """Raw outputs (n, d_output) → predictions in the user's units."""

    @abstractmethod
    def row_loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Loss of each row, (n,): squared error summed over outputs, or cross-entropy."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What the archive stores; `task_from_state` reads it back."""

    def loss(self, output: Floats, target: NDArray, weight: Floats) -> float:
        """Weighted mean of `row_loss` for arrays."""
        import torch

        rows = self.row_loss(torch.as_tensor(output), torch.as_tensor(target)).numpy()
        return float(np.average(rows, weights=weight))


class Regression(Task):
    """One or several numbers per row; targets are standardised per output, constants left unscaled.

    Examples
    --------
    >>> task = Regression.of(np.array([1.0, 3.0]))
    >>> task.encode(np.array([1.0, 3.0])).ravel().tolist()
    [-1.0, 1.0]
    >>> task.decode(np.array([[0.0]])).tolist()
    [2.0]
    """

    kind = "regression"

    def __init__(self, mean: Floats, scale: Floats, single: bool):
        self.mean = np.asarray(mean, dtype=np.float64)
        self.scale = np.asarray(scale, dtype=np.float64)
        self.single = bool(single)
        self.d_output = len(self.mean)

    @classmethod
    def of(cls, y: NDArray, weight: NDArray | None = None) -> Regression:
        """Mean and standard deviation from the training rows' targets, (n,) or (n, d)."""
        y = np.asarray(y, dtype=np.float64)
        columns = y.reshape(len(y), -1)
        mean, scale = centre_and_scale(columns, weight)
        # A constant target has no scale, but its outputs must be decoded to something finite.
        return cls(mean, np.where(np.isinf(scale), 1.0, scale), single=y.ndim == 1)

    def encode(self, y: NDArray) -> Floats:
        columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        return (columns - self.mean) / self.scale

    def decode(self, output: Floats) -> Floats:
        prediction = output * self.scale + self.mean
        return prediction[:, 0] if self.single else prediction

    def row_loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return ((output - target) ** 2).sum(dim=1)

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "mean": self.mean, "scale": self.scale, "single": self.single}


class Classification(Task):
    """One of several classes per row. Outputs are log-odds whose softmax are the class probabilities.

    Examples
    --------
    >>> task = Classification(np.array(["no", "yes"]))
    >>> task.encode(np.array(["yes", "no"])).tolist()
    [1, 0]
    >>> task.decode(np.array([[0.0, 2.0]])).tolist()
    ['yes']
    """

    kind = "classification"

    def __init__(self, classes: NDArray):
        self.classes = np.asarray(classes)
        self.d_output = len(self.classes)

    @classmethod
    def of(cls, y: NDArray) -> Classification:
        """The sorted distinct labels of y."""
        return cls(np.unique(y))

    def encode(self, y: NDArray) -> NDArray[np.int64]:
        codes = np.searchsorted(self.classes, y).astype(np.int64)
        unknown = self.classes[np.minimum(codes, self.d_output - 1)] != y
        if unknown.any():
            raise ValueError(
                f"The classes are {', '.join(map(str, self.classes))}, but the label "
                f"{np.asarray(y)[unknown][0]} came. Leave such rows out, or learn the classes from them too."
            )
        return codes

    def decode(self, output: Floats) -> NDArray:
        return self.classes[np.argmax(output, axis=1)]

    def probabilities(self, output: Floats) -> Floats:
        """Class probabilities (n, n_classes) of raw outputs."""
        shifted = np.exp(output - output.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    def row_loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import cross_entropy

        return cross_entropy(output, target, reduction="none")

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "classes": self.classes}


def task_from_state(state: dict[str, Any]) -> Task:
    """The task that `Task.state` described."""
    if state["kind"] == Regression.kind:
        return Regression(state["mean"], state["scale"], state["single"])
    return Classification(state["classes"])
