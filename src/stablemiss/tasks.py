"""Regression and classification: encoding of targets, link function and loss, independent of the method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats, centre_and_scale
from stablemiss.stored import check_stored, stored_array, stored_bool

if TYPE_CHECKING:
    import torch


class Task(ABC):
    """Encodes targets for the methods and decodes their outputs into predictions.

    Methods are fitted to the encoded `target` and return the raw `output`; the user gets the decoded
    `prediction`.

    Attributes
    ----------
    kind : str
        "regression" or "classification".
    d_output : int
        Number of raw outputs per row: the number of targets, or the number of classes.

    See Also
    --------
    Regression : One or several numbers per row.
    Classification : One class per row.
    """

    kind: str
    d_output: int

    @abstractmethod
    def encode(self, y: NDArray) -> NDArray:
        """Convert the user's target to standardised numbers (n, d_output) or class codes (n,)."""

    @abstractmethod
    def decode(self, output: Floats) -> NDArray:
        """Convert raw outputs (n, d_output) to predictions in the units of the user's target."""

    @abstractmethod
    def row_loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Loss of each row, (n,): squared error summed over outputs, or cross-entropy."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what a model file stores. `task_from_state` is the inverse."""

    def loss(self, output: Floats, target: NDArray, weight: Floats) -> float:
        """Weighted mean of `row_loss`, for numpy arrays."""
        import torch

        rows = self.row_loss(torch.as_tensor(output), torch.as_tensor(target)).numpy()
        return float(np.average(rows, weights=weight))


class Regression(Task):
    """Prediction of one or several numbers per row.

    Each output is standardised; constant outputs are centred but not scaled.

    Parameters
    ----------
    mean, scale : (d_output,)
        Mean and standard deviation of each output.
    single : bool
        Whether the user's target is one-dimensional. Predictions then have shape (n,), otherwise
        (n, d_output).

    See Also
    --------
    Classification : One class per row.

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
        """Create with the mean and standard deviation of the training targets.

        Parameters
        ----------
        y : (n,) or (n, d_output)
            Targets of the training rows.
        weight : (n,), default=None
            Sample weights. None gives all rows the same weight.
        """
        y = np.asarray(y, dtype=np.float64)
        columns = y.reshape(len(y), -1)
        mean, scale = centre_and_scale(columns, weight)
        # A constant target has an infinite scale, but decoded predictions must be finite.
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
    """Prediction of one class per row. The class probabilities are the softmax of the outputs.

    Parameters
    ----------
    classes : (n_classes,)
        Sorted distinct labels.

    See Also
    --------
    Regression : One or several numbers per row.

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
        """Create with the sorted distinct labels of y."""
        return cls(np.unique(y))

    def encode(self, y: NDArray) -> NDArray[np.int64]:
        codes = np.searchsorted(self.classes, y).astype(np.int64)
        unknown = self.classes[np.minimum(codes, self.d_output - 1)] != y
        if unknown.any():
            raise ValueError(
                f"Labels must be among the classes {', '.join(map(str, self.classes))}; got "
                f"{np.asarray(y)[unknown][0]}. Remove such rows, or include the class in the training data."
            )
        return codes

    def decode(self, output: Floats) -> NDArray:
        return self.classes[np.argmax(output, axis=1)]

    def probabilities(self, output: Floats) -> Floats:
        """Convert raw outputs to class probabilities (n, n_classes)."""
        exponentials = np.exp(output - output.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def row_loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import cross_entropy

        return cross_entropy(output, target, reduction="none")

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "classes": self.classes}


def task_from_state(state: dict[str, Any]) -> Task:
    """Create a task from `Task.state`; raises ValueError if the state is invalid."""
    check_stored(state["kind"] in (Regression.kind, Classification.kind), "the task is unknown")
    if state["kind"] == Regression.kind:
        mean = stored_array(state, "mean", (None,))
        scale = stored_array(state, "scale", mean.shape)
        check_stored((scale > 0).all(), "scale must be positive")
        single = stored_bool(state, "single")
        check_stored(len(mean) == 1 or not single, "a one-dimensional target has a single mean")
        return Regression(mean, scale, single)
    classes = state["classes"]
    check_stored(
        isinstance(classes, np.ndarray) and classes.ndim == 1 and len(classes) >= 2,
        "classes must be an array of at least two labels",
    )
    if classes.dtype.kind == "O":
        check_stored(all(isinstance(label, str) for label in classes), "classes must be labels of one type")
    check_stored((classes[:-1] < classes[1:]).all(), "classes must be sorted and distinct")
    return Classification(classes)
