"""Reading and encoding of rows that are arrays, such as images, as flat values and mask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stablemiss.checks import shown
from stablemiss.data import Bools, Floats, centre_and_common_scale, missing_cells, to_array
from stablemiss.encoding.check_state import check_ranges
from stablemiss.encoding.encoded import Encoded, OnOutOfRange, OutOfRange, check_in_range
from stablemiss.encoding.ranges import Ranges
from stablemiss.encoding.report import ColumnSummary
from stablemiss.encoding.table import INFINITY_ADVICE
from stablemiss.seeding import Rng
from stablemiss.stored import check_stored, stored_array, stored_shape
from stablemiss.tasks import Task

# As in tables: values and their squares stay finite in single precision.
_MAX_DEVIATION = 1e6


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows that are arrays of the same shape, flattened.

    Attributes
    ----------
    cells : (n, d) float64
        NaN = missing.
    shape : tuple of int
        Shape of one row, such as (height, width); its product is d.

    See Also
    --------
    read_array : Creates `ArrayRows` from an array or a list of arrays.
    """

    cells: Floats
    shape: tuple[int, ...]
    # Columns of a table have labels, cells have none.
    labels: ClassVar[None] = None

    @property
    def n_rows(self) -> int:
        return len(self.cells)

    def rows(self, index: NDArray) -> ArrayRows:
        """Select rows."""
        return replace(self, cells=self.cells[index])


def is_array(X: Any) -> bool:
    """Whether each row of X is an array of at least two dimensions, such as an image.

    Examples
    --------
    >>> is_array(np.zeros((5, 8, 8))), is_array([np.zeros((8, 8))]), is_array([[1.0, 2.0]])
    (True, True, False)
    """
    n_dimensions = 0
    while isinstance(X, list | tuple) and len(X):
        X, n_dimensions = X[0], n_dimensions + 1
    n_more = getattr(X, "ndim", 0)
    return n_dimensions + (n_more if isinstance(n_more, int) else 0) > 2


def read_array(X: Any, name: str = "X") -> ArrayRows:
    """Read rows that are arrays: (n, *shape) with at least three dimensions, or a list of n arrays.

    Parameters
    ----------
    X : array-like
        Numbers; NaN, None and the masked entries of a masked array mean missing. It is not modified.
    name : str, default="X"
        Name of the argument, for error messages.

    See Also
    --------
    ArrayEncoder : Encodes the rows.

    Examples
    --------
    >>> rows = read_array([[[1, None], [3, 4]], [[5, 6], [7, 8]]])
    >>> rows.shape, rows.cells.tolist()
    ((2, 2), [[1.0, nan, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    """
    array = _to_floats(X, name)
    if array.ndim < 3 or 0 in array.shape:
        raise ValueError(
            f"{name} must contain arrays such as images, with shape (n, height, width) or (n, channels, "
            f"height, width) and none of them empty; got shape {array.shape}. Reshape it."
        )
    if np.isinf(array).any():
        raise ValueError(f"{name} contains infinite values. {INFINITY_ADVICE}")
    return ArrayRows(array.reshape(len(array), -1), array.shape[1:])


def _to_floats(X: Any, name: str) -> Floats:
    """Convert to a float64 array of any shape, NaN where missing."""
    try:
        if isinstance(X, np.ma.MaskedArray):
            X = to_array(X)
        array = np.asarray(X)
        if array.dtype.kind == "O":
            missing = missing_cells(array)
            if not all(isinstance(entry, Number | np.bool_) for entry in array[~missing]):
                raise ValueError("it contains other objects than numbers")
            array = np.where(missing, np.nan, array)
        elif array.dtype.kind not in "fiub":
            raise ValueError(f"its type is {array.dtype}")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must contain arrays of numbers of one shape, with NaN for missing values; got "
            f"{shown(X)} ({error}). Convert it to such an array."
        ) from error


class ArrayEncoder:
    """Encodes rows that are arrays as flat numbers with a mask; fitted on the training rows.

    Each cell is centred by its mean, so that zero, which fills missing cells, means the mean array. All cells
    share one scale: with one scale each, cells that hardly vary, such as pixels at the border, would
    dominate. Only the context of sensor windows, such as the calendar, has its own scale, because its unit is
    another one. New values far outside the range of all training cells that share their scale are clipped
    near it, count as missing, or raise an error.

    Attributes
    ----------
    shape : tuple of int
        Shape of one row.
    n_features : int
        Number of cells of one row.
    groups : (n_features,) int64
        0, 1, …: each cell is a column of its own.
    ever_missing : (n_features,) bool
        Which cells were missing in a row passed to `fit_transform`.

    See Also
    --------
    read_array : Reads the rows to encode.
    TableEncoder : The same for tables.

    Examples
    --------
    >>> images = np.arange(12.0).reshape(3, 2, 2)
    >>> images[0, 0, 0] = np.nan
    >>> encoder = ArrayEncoder()
    >>> values, mask = encoder.fit_transform(read_array(images), np.arange(3))
    >>> values.shape, mask[0].tolist(), float(values[0, 0])
    ((3, 4), [False, True, True, True], 0.0)
    >>> encoder.encode(images[:1]).values.shape
    (1, 4)
    """

    # How messages call the parts of a row.
    unit: ClassVar[str] = "cell"
    # Cells have no names and no types; the columns of a table do.
    names: ClassVar[None] = None
    kinds: ClassVar[Sequence[str]] = ()
    column_report: ClassVar[list[ColumnSummary]] = []

    shape: tuple[int, ...]
    n_features: int
    groups: NDArray[np.int64]
    ever_missing: Bools

    def fit_transform(
        self,
        table: ArrayRows,
        rows: NDArray[np.integer],
        target: NDArray | None = None,
        task: Task | None = None,
        rng: Rng | None = None,
    ) -> tuple[Floats, Bools]:
        """Fit on the training rows and encode all rows.

        Parameters
        ----------
        table : ArrayRows
            Training and validation rows together.
        rows : (n_train,) int
            Indices of the training rows. Means, scale and range are computed from them alone.
        task : Task, default=None
            Its shape tells which rows of a window are context.
        target, rng : any, default=None
            Not used; the encoder of tables needs them.

        Returns
        -------
        values : (n, d) float64
            Centred and scaled, exactly zero where missing.
        mask : (n, d) bool
            True = observed.
        """
        train = table.cells[rows]
        self._set_shape(table.shape)
        self.ever_missing = np.logical_or.reduce(np.isnan(table.cells), axis=0)
        parts = np.split(train, [self._n_before_context(task)], axis=1)
        centres, scales = zip(*map(centre_and_common_scale, parts), strict=True)
        sizes = [part.shape[1] for part in parts]
        self._centre, self._scale = np.concatenate(centres), np.repeat(scales, sizes)
        self._ranges = Ranges.joined(map(_common_range, parts), sizes)
        # Only validation rows can exceed the limits.
        return self._standardise(np.clip(table.cells, self._ranges.lower, self._ranges.upper))

    def encode(
        self,
        X: Any,
        *,
        allow_missing_columns: bool = False,
        on_out_of_range: OnOutOfRange = "clip",
        estimator_name: str = "the model",
    ) -> Encoded:
        """Read and encode new rows as in training.

        Parameters
        ----------
        X : array-like (n, *shape)
        allow_missing_columns : bool, default=False
            Not used: arrays have no columns that can be absent. Missing cells are NaN.
        on_out_of_range : "clip", "missing" or "raise", default="clip"
            What happens to values far outside the range in training (see `Ranges`): "clip" moves them to the
            limit, "missing" makes them missing, "raise" raises ValueError.
        estimator_name : str, default="the model"
            Name of the estimator, for error messages.
        """
        expected = (
            f"X must have shape (n, {', '.join(map(str, self.shape))}), as in the fit of {estimator_name}"
        )
        if getattr(X, "shape", None) == self.shape:
            raise ValueError(f"{expected}; got shape {self.shape}, a single row. Pass X[None].")
        if not is_array(X):
            got = f"shape {X.shape}" if isinstance(X, np.ndarray) else shown(X)
            raise ValueError(f"{expected}; got {got}. Pass an array, with NaN for missing cells.")
        table = read_array(X)
        if table.shape != self.shape:
            raise ValueError(
                f"{expected}; got {(table.n_rows, *table.shape)}. Pass images of the same size, or windows "
                "of the same sensors, times and calendar, with NaN for unknown cells."
            )
        beyond = self._ranges.beyond(table.cells)
        if not beyond.any():
            return Encoded(*self._standardise(table.cells.copy()), beyond)
        exceeded = (self._describe_beyond(table.cells, beyond),)
        check_in_range(exceeded, on_out_of_range)
        cells = np.where(beyond, np.nan, table.cells) if on_out_of_range == "missing" else table.cells
        return Encoded(
            *self._standardise(np.clip(cells, self._ranges.lower, self._ranges.upper)), beyond, exceeded
        )

    def unseen_missing(self, encoded: Encoded) -> dict[str, int]:
        """Cells that were never missing in training but are missing now, with the number of rows."""
        n_missing = (~encoded.mask & ~encoded.out_of_range).sum(axis=0)
        return {
            self.column_name(int(j)): int(n_missing[j])
            for j in np.flatnonzero((n_missing > 0) & ~self.ever_missing)
        }

    def column_name(self, j: int) -> str:
        """Name of a cell in messages: its position in the array."""
        return f"cell {tuple(int(i) for i in np.unravel_index(j, self.shape))}"

    def state(self) -> dict[str, Any]:
        """Arrays and numbers from which `from_state` recreates the encoder."""
        return {
            "kind": "array",
            "shape": self.shape,
            "centre": self._centre,
            "scale": self._scale,
            "ever_missing": self.ever_missing,
            "ranges": self._ranges.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ArrayEncoder:
        """Create an encoder from the result of `state`; raises ValueError if the state is invalid."""
        encoder = cls()
        encoder._centre = stored_array(state, "centre", (None,))
        encoder._set_shape(stored_shape(state, "shape", len(encoder._centre)))
        encoder._scale = stored_array(state, "scale", (encoder.n_features,))
        check_stored((encoder._scale > 0).all(), "scale must be positive")
        encoder.ever_missing = stored_array(state, "ever_missing", (encoder.n_features,), np.bool_)
        check_ranges(state["ranges"], encoder.n_features)
        encoder._ranges = Ranges(**state["ranges"])
        return encoder

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        self.shape, self.n_features = shape, math.prod(shape)
        self.groups = np.arange(self.n_features)

    def _n_before_context(self, task: Task | None) -> int:
        """Number of cells before the rows of a window that have no counterpart in the target."""
        target_shape: tuple[int, ...] = getattr(task, "shape", None) or ()
        is_window = len(self.shape) == len(target_shape) == 2
        n_nodes = target_shape[0] if is_window else self.shape[0]
        return min(n_nodes, self.shape[0]) * math.prod(self.shape[1:])

    def _standardise(self, cells: Floats) -> tuple[Floats, Bools]:
        """Centre and scale in place; returns values and mask."""
        mask = ~np.isnan(cells)
        with np.errstate(over="ignore"):
            cells -= self._centre
            cells /= self._scale
        np.clip(cells, -_MAX_DEVIATION, _MAX_DEVIATION, out=cells)
        cells[~mask] = 0.0
        return cells, mask

    def _describe_beyond(self, cells: Floats, beyond: Bools) -> OutOfRange:
        values, ranges, columns = cells[beyond], self._ranges, beyond.any(axis=0)
        ends = values.min(), values.max(), ranges.minimum[columns].min(), ranges.maximum[columns].max()
        smallest, largest, *seen = (f"{end:.6g}" for end in ends)
        n_rows = int(beyond.any(axis=1).sum())
        return OutOfRange(0, "cells of X", n_rows, smallest, largest, " to ".join(seen))


def _common_range(cells: Floats) -> Ranges:
    """One range for all cells (n, d)."""
    observed = cells[~np.isnan(cells)]
    return Ranges.of(observed[:, None], np.arange(len(observed)), np.array([len(observed) > 0]))
