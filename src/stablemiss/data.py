"""The data structure shared by all methods (values, mask, target, weight), and reading of numeric arrays.

`MaskedData` holds no NaN: missing values are marked in its mask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.checks import shown

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def zero_where_missing(values: Floats, mask: Bools) -> Floats:
    """Return `values` with zeros where `mask` is False, even if a value there is NaN or infinite."""
    return np.where(mask, values, 0.0)


def centre_and_scale(columns: Floats, weight: Floats | None = None) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, ignoring NaN.

    Parameters
    ----------
    columns : (n, d)
        NaN where missing.
    weight : (n,), default=None
        Sample weights. Rows of weight zero are ignored. None gives all rows the same weight.

    Returns
    -------
    centre : (d,)
        Mean of each column; zero if all its values are missing.
    scale : (d,)
        Standard deviation of each column; infinite if its values are all missing or equal up to rounding, so
        that dividing by it gives zeros.

    Examples
    --------
    >>> centre_and_scale(np.array([[1.0, 7.0], [3.0, 7.0], [np.nan, 7.0]]))
    (array([2., 7.]), array([ 1., inf]))
    """
    weight = np.ones(len(columns)) if weight is None else weight
    pairs = [_centre_and_scale(column, weight) for column in columns.T]
    return np.array([centre for centre, _ in pairs]), np.array([scale for _, scale in pairs])


def _centre_and_scale(column: Floats, weight: Floats) -> tuple[float, float]:
    is_used = ~np.isnan(column) & (weight > 0)
    values, weight = column[is_used], weight[is_used]
    if len(values) == 0:
        return 0.0, np.inf
    if values.min() == values.max():
        return float(values[0]), np.inf
    # Dividing by the largest absolute value prevents squares from overflowing or underflowing, and bounds
    # the rounding errors.
    unit = float(np.abs(values).max())
    mean = np.average(values / unit, weights=weight)
    deviation = float(np.sqrt(np.average((values / unit - mean) ** 2, weights=weight)))
    scale = deviation * unit if deviation > 1e-15 else 0.0
    return float(mean * unit), scale or np.inf


def centre_and_common_scale(columns: Floats, weight: Floats | None = None) -> tuple[Floats, float]:
    """Mean of each column and one standard deviation for all of them, ignoring NaN.

    For cells of arrays, which have the same unit. With one scale each, cells that hardly vary, such as pixels
    at the border of an image, would get the same influence as the others.

    Parameters
    ----------
    columns : (n, d)
        NaN where missing.
    weight : (n,), default=None
        Sample weights. Rows of weight zero are ignored. None gives all rows the same weight.

    Returns
    -------
    centre : (d,)
        Mean of each column; the mean of the others if all its values are missing.
    scale : float
        Root of the mean squared deviation of all values from the mean of their column; 1 if there is none.

    See Also
    --------
    centre_and_scale : One scale for each column.

    Examples
    --------
    >>> centre_and_common_scale(np.array([[1.0, 7.0, np.nan], [3.0, 9.0, np.nan]]))
    (array([2., 8., 5.]), 1.0)
    """
    weight = np.ones(len(columns)) if weight is None else weight
    is_used = ~np.isnan(columns) & (weight > 0)[:, None]
    total = weight @ is_used
    if not is_used.any():
        return np.zeros(columns.shape[1]), 1.0
    # As in `centre_and_scale`: no overflow, and bounded rounding errors.
    unit = float(np.abs(columns, where=is_used, out=np.zeros(columns.shape)).max()) or 1.0
    scaled = np.where(is_used, columns, 0.0) / unit
    has_values = total > 0
    centre = (weight @ scaled) / np.where(has_values, total, 1.0)
    centre[~has_values] = centre[has_values].mean()
    scaled -= centre
    deviation = float(np.sqrt((weight @ (scaled**2 * is_used)).sum() / total.sum()))
    return centre * unit, deviation * unit if deviation > 1e-15 else 1.0


def is_missing(entry: Any) -> bool:
    """Whether an entry of a table or target means "missing": None, NaN, NaT or pd.NA."""
    if isinstance(entry, str):
        return False
    # pandas may not be installed, so its NA and NaT are recognised by the names of their types.
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(entry, Decimal):  # comparing a signalling NaN would raise
        return entry.is_nan()
    return isinstance(entry, Number | np.generic) and bool(entry != entry)


def missing_cells(array: NDArray) -> Bools:
    """Boolean array of the same shape, True where an entry of a numeric or object array is missing."""
    if array.dtype.kind in "fiub":
        return np.isnan(array)
    return np.fromiter(map(is_missing, array.ravel()), dtype=bool, count=array.size).reshape(array.shape)


def to_array(X: Any) -> NDArray:
    """Convert nested lists, a data frame or an array to a numeric or object array.

    Masked values of a masked array become None.
    """
    if isinstance(X, np.ma.MaskedArray):
        objects = X.data.astype(object)
        objects[np.ma.getmaskarray(X)] = None
        return objects
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"X must be a table; got {shown(X)}, whose rows differ in length. Every row needs one entry per "
            "column, with None for missing values."
        ) from error
    if array.dtype.kind in "US" and not hasattr(X, "dtype"):
        # numpy turns numbers in a list with strings into strings, and None into 'None'.
        return np.asarray(X, dtype=object)
    return array


def to_table(X: Any) -> Floats:
    """Convert X to an (n, d) float64 array with NaN where missing.

    Raises ValueError if X contains anything other than finite numbers and missing values.

    Examples
    --------
    >>> to_table([[1, None], [True, 2.5]]).tolist()
    [[1.0, nan], [1.0, 2.5]]
    """
    table = to_array(X)
    check_is_table(table)
    try:
        if table.dtype.kind not in "fiub":
            table = table.astype(object)
            missing = missing_cells(table)
            for kind in {type(entry) for entry in table[~missing]}:
                if not issubclass(kind, Number | np.bool_):
                    raise TypeError(f"there are entries of type {kind.__name__}")
            table = np.where(missing, np.nan, table)
        table = table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must be a table of numbers, with NaN for missing values, but {error}. "
            "Encode text and dates as numbers first."
        ) from error
    if np.isinf(table).any():
        raise ValueError(
            "X contains infinite values. Replace them with finite numbers, or with NaN if unknown."
        )
    return table


def check_is_table(array: NDArray) -> None:
    """Raise ValueError unless `array` is two-dimensional with at least one column. It may have no rows."""
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"X must be a table of rows and columns; got shape {array.shape}. "
            "Reshape it to (n_rows, n_columns) with at least one column."
        )


def scale_to_one(weight: Floats) -> Floats:
    """Scale weights by a power of two, so that the largest lies between one half and one.

    Sums of huge weights then do not overflow, and tiny weights are not lost. A power of two changes no digit,
    so results are bit-identical for all scales of the same weights.

    Examples
    --------
    >>> scale_to_one(np.array([3.0, 6.0]))
    array([0.375, 0.75 ])
    """
    return np.ldexp(weight, -np.frexp(weight.max())[1])


def to_numbers(name: str, array: Any, dtype: Any = np.float64) -> NDArray:
    """Convert an argument to an array of numbers; raise ValueError if that is impossible."""
    try:
        return np.asarray(array, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must be an array of numbers; got {shown(array)}. Convert it to numbers first."
        ) from error


@dataclass(frozen=True, eq=False)
class MaskedData:
    """Encoded rows of a table or of arrays with missing values.

    Arrays such as images are flattened: a cell is a column.

    Attributes
    ----------
    values : (n, d) float64
        Features, roughly standardised; exactly zero where missing.
    mask : (n, d) bool
        True = observed.
    target : (n, d_target) float64 for regression, (n,) int64 class codes for classification
        Target, encoded by the task.
    weight : (n,) float64
        Sample weights: non-negative, mean one over the whole table.
    groups : (d,) int64
        Index of the input column that each encoded column belongs to. The columns of a one-hot encoding
        share a group and are observed or missing together.
    target_mask : (n, d_target) bool, or None
        True = observed target; the target is exactly zero elsewhere. None means that all are observed, as in
        every table: only targets that are arrays may be observed in part.
    row_shape : tuple of int, or None
        Shape of one row before it was flattened, such as (height, width). None for a table.
    """

    values: Floats
    mask: Bools
    target: NDArray
    weight: Floats
    groups: NDArray[np.int64]
    target_mask: Bools | None = None
    row_shape: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls,
        values: NDArray,
        mask: NDArray,
        target: NDArray | None = None,
        weight: NDArray | None = None,
        groups: NDArray | None = None,
        target_mask: NDArray | None = None,
        row_shape: tuple[int, ...] | None = None,
    ) -> MaskedData:
        """Create from arrays: checks shapes, sets missing values to zero, scales weights to mean one.

        Parameters
        ----------
        values : (n, d)
            Features. Values where `mask` is False are ignored.
        mask : (n, d)
            True = observed.
        target : (n, d_target) or (n,), default=None
            Target, encoded by the task. None sets it to zero, for code that does not use it.
        weight : (n,), default=None
            Non-negative sample weights. None gives all rows the same weight.
        groups : (d,), default=None
            Index of the input column of each encoded column. None means that every column is its own group.
        target_mask : (n, d_target), default=None
            True = observed target. Targets elsewhere are ignored. None means that all are observed.
        row_shape : tuple of int, default=None
            Shape of one row before it was flattened. None for a table.
        """
        values = to_numbers("values", values)
        mask = to_numbers("mask", mask, bool)
        if values.ndim != 2:
            raise ValueError(
                f"values must have rows and columns; got shape {values.shape}. Reshape it to (n, d)."
            )
        n, d = values.shape
        target = np.zeros(n) if target is None else np.asarray(target)
        weight = np.ones(n) if weight is None else to_numbers("weight", weight)
        groups = np.arange(d) if groups is None else to_numbers("groups", groups, np.int64)
        if mask.shape != (n, d) or len(target) != n or weight.shape != (n,) or groups.shape != (d,):
            raise ValueError(
                f"values {values.shape}, mask {mask.shape}, target {target.shape} and weight {weight.shape} "
                f"must agree in the number of rows, and values, mask and groups {groups.shape} in the number "
                "of columns."
            )
        if target_mask is not None:
            target_mask = to_numbers("target_mask", target_mask, bool)
            if target_mask.shape != target.shape:
                raise ValueError(
                    f"target_mask must have the shape of the target, {target.shape}; got {target_mask.shape}."
                )
            target = zero_where_missing(target, target_mask)
        if row_shape is not None and math.prod(row_shape) != d:
            raise ValueError(f"row_shape must have {d} cells, one for each column; got {row_shape}.")
        values = zero_where_missing(values, mask)
        if not np.isfinite(values).all():
            raise ValueError("Observed values must be finite. Set mask to False for NaN and inf.")
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError("Weights must be finite and not negative. Use weight 0 to ignore a row.")
        if n and not weight.any():
            raise ValueError("Weights must not all be zero. Give at least one row a positive weight.")
        if n:
            weight = scale_to_one(weight)
            weight = weight * (n / weight.sum())
        return cls(values, mask, target, weight, groups, target_mask, row_shape)

    def check_has_rows(self) -> None:
        """Raise ValueError if there are no rows."""
        if not len(self):
            raise ValueError(f"The table must have at least one row; got shape {self.values.shape}.")

    @classmethod
    def of_complete(
        cls, columns: NDArray, weight: NDArray | None = None, groups: NDArray | None = None
    ) -> MaskedData:
        """Create from complete columns (n, d), which are standardised; `weight` and `groups` as in `of`."""
        columns = to_numbers("columns", columns)
        data = cls.of(columns, np.ones(columns.shape), None, weight, groups)
        scaled_weight = None if weight is None else scale_to_one(to_numbers("weight", weight))
        centre, scale = centre_and_scale(columns, scaled_weight)
        return replace(data, values=(columns - centre) / scale)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_columns(self) -> int:
        return self.values.shape[1]

    def column_means(self) -> Floats:
        """Weighted mean of the observed values of each column, (d,); zero if there are none."""
        observed_weight = self.weight @ self.mask
        return (self.weight @ self.values) / np.where(observed_weight > 0, observed_weight, 1.0)

    def rows(self, index: NDArray) -> MaskedData:
        """Select rows. Weights are not rescaled, so subsets keep their proportions to each other."""
        return replace(
            self,
            values=self.values[index],
            mask=self.mask[index],
            target=self.target[index],
            weight=self.weight[index],
            target_mask=None if self.target_mask is None else self.target_mask[index],
        )

    def keep_where(self, keep: Bools) -> MaskedData:
        """Return the same rows in which values stay observed only where `keep` (n, d) is True."""
        mask = self.mask & keep
        return replace(self, values=zero_where_missing(self.values, mask), mask=mask)
