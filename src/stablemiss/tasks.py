"""Regression and classification: encoding of targets, link function and loss, independent of the method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Floats, centre_and_common_scale, centre_and_scale
from stablemiss.stored import check_stored, stored_array, stored_bool, stored_shape

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
    output_shape : tuple of int
        Shape of the outputs of one row; (d_output,) unless the target is an array.

    See Also
    --------
    Regression : One or several numbers per row.
    Classification : One class per row.
    """

    kind: str
    d_output: int

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.d_output,)

    @abstractmethod
    def encode(self, y: NDArray) -> NDArray:
        """Convert the user's target to standardised numbers (n, d_output) or class codes (n,)."""

    @abstractmethod
    def decode(self, output: Floats) -> NDArray:
        """Convert raw outputs (n, d_output) to predictions in the units of the user's target."""

    @abstractmethod
    def row_loss(
        self, output: torch.Tensor, target: torch.Tensor, seen: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Loss of each row, (n,): squared error summed over observed outputs, or cross-entropy.

        Parameters
        ----------
        output : (n, d_output)
        target : (n, d_output) or (n,)
            Target, encoded by the task.
        seen : (n, d_output), default=None
            1 = observed target, 0 = not observed, without influence. None means that all are observed.
        """

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

    Each output is standardised; constant outputs are centred but not scaled. The cells of a target that is an
    array share one scale, so that each counts in the loss by its variance, as in an RMSE over all cells.

    Parameters
    ----------
    mean, scale : (d_output,)
        Mean and standard deviation of each output.
    single : bool
        Whether the user's target is one-dimensional. Predictions then have shape (n,), otherwise
        (n, d_output).
    shape : tuple of int, default=None
        Shape of one row of a target that is an array, such as (height, width); its product is d_output.
        Predictions then have shape (n, *shape).

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

    Images of 4 × 4 pixels:

    >>> images = np.random.default_rng(0).normal(size=(10, 4, 4))
    >>> task = Regression.of(images, common_scale=True, shape=(4, 4))
    >>> task.encode(images).shape, task.decode(np.zeros((2, 16))).shape
    ((10, 16), (2, 4, 4))
    """

    kind = "regression"

    def __init__(self, mean: Floats, scale: Floats, single: bool, shape: tuple[int, ...] | None = None):
        self.mean = np.asarray(mean, dtype=np.float64)
        self.scale = np.asarray(scale, dtype=np.float64)
        self.single = bool(single)
        self.shape = shape
        self.d_output = len(self.mean)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.d_output,) if self.shape is None else self.shape

    @classmethod
    def of(
        cls,
        y: NDArray,
        weight: NDArray | None = None,
        common_scale: bool = False,
        shape: tuple[int, ...] | None = None,
    ) -> Regression:
        """Create with the mean and standard deviation of the training targets.

        Parameters
        ----------
        y : (n,), (n, d_output) or (n, *shape)
            Targets of the training rows; NaN where not observed, which is allowed if `shape` is given.
        weight : (n,), default=None
            Sample weights. None gives all rows the same weight.
        common_scale : bool, default=False
            Whether all outputs share one scale, the root of their mean variance.
        shape : tuple of int, default=None
            Shape of one row of a target that is an array.
        """
        y = np.asarray(y, dtype=np.float64)
        columns = y.reshape(len(y), -1)
        if common_scale:
            mean, common = centre_and_common_scale(columns, weight)
            return cls(mean, np.full(len(mean), common), single=y.ndim == 1, shape=shape)
        mean, scale = centre_and_scale(columns, weight)
        # A constant target has an infinite scale, but decoded predictions must be finite.
        return cls(mean, np.where(np.isinf(scale), 1.0, scale), single=y.ndim == 1, shape=shape)

    def encode(self, y: NDArray) -> Floats:
        columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        return (columns - self.mean) / self.scale

    def decode(self, output: Floats) -> Floats:
        prediction = output * self.scale + self.mean
        if self.shape is not None:
            return prediction.reshape(len(prediction), *self.shape)
        return prediction[:, 0] if self.single else prediction

    def row_loss(
        self, output: torch.Tensor, target: torch.Tensor, seen: torch.Tensor | None = None
    ) -> torch.Tensor:
        squares = (output - target) ** 2
        return (squares if seen is None else squares * seen).sum(dim=1)

    def state(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "mean": self.mean,
            "scale": self.scale,
            "single": self.single,
            "shape": self.shape,
        }


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

    def row_loss(
        self, output: torch.Tensor, target: torch.Tensor, seen: torch.Tensor | None = None
    ) -> torch.Tensor:
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
        # Files of earlier versions do not have it.
        shape = None if state.get("shape") is None else stored_shape(state, "shape", len(mean))
        return Regression(mean, scale, single, shape)
    classes = state["classes"]
    check_stored(
        isinstance(classes, np.ndarray) and classes.ndim == 1 and len(classes) >= 2,
        "classes must be an array of at least two labels",
    )
    if classes.dtype.kind == "O":
        check_stored(all(isinstance(label, str) for label in classes), "classes must be labels of one type")
    check_stored((classes[:-1] < classes[1:]).all(), "classes must be sorted and distinct")
    return Classification(classes)
