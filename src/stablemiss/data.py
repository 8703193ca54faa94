"""The one currency inside the library (values, mask, target, weight), and how users' arrays are read.

NaN, and all else that means missing, ends before `MaskedData`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def hide(values: Floats, mask: Bools) -> Floats:
    """`values` with zeros wherever `mask` is False, whatever stood there (NaN and inf included)."""
    return np.where(mask, values, 0.0)


def centre_and_scale(columns: Floats, weight: Floats | None = None) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column over its cells that are not NaN.

    Parameters
    ----------
    columns : (n, d)
    weight : (n,), optional
        How much each row counts in both; a row of weight zero not at all.

    Returns
    -------
    centre : (d,)
        Zero for a column without cells.
    scale : (d,)
        Infinite for a column whose cells are equal up to rounding: dividing by it leaves nothing of them.

    Examples
    --------
    >>> centre_and_scale(np.array([[1.0, 7.0], [3.0, 7.0], [np.nan, 7.0]]))
    (array([2., 7.]), array([ 1., inf]))
    """
    weight = np.ones(len(columns)) if weight is None else weight
    pairs = [_centre_and_scale(column, weight) for column in columns.T]
    return np.array([centre for centre, _ in pairs]), np.array([scale for _, scale in pairs])


def _centre_and_scale(column: Floats, weight: Floats) -> tuple[float, float]:
    counts = ~np.isnan(column) & (weight > 0)
    cells, weight = column[counts], weight[counts]
    if len(cells) == 0:
        return 0.0, np.inf
    if cells.min() == cells.max():
        return float(cells[0]), np.inf
    # In units of the largest cell, squares neither overflow nor vanish, and rounding has a known size.
    unit = float(np.abs(cells).max())
    mean = np.average(cells / unit, weights=weight)
    spread = float(np.sqrt(np.average((cells / unit - mean) ** 2, weights=weight)))
    scale = spread * unit if spread > 1e-15 else 0.0
    return float(mean * unit), scale or np.inf


def is_missing(entry: Any) -> bool:
    """Whether an entry of a user's table or target says "missing": None, NaN, NaT or pd.NA."""
    if isinstance(entry, str):
        return False
    # pandas need not be installed, so its NA and NaT are known by the names of their types.
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(entry, Decimal):  # whose signalling NaN refuses to be compared
        return entry.is_nan()
    return isinstance(entry, Number | np.generic) and bool(entry != entry)


def missing_cells(array: NDArray) -> Bools:
    """Where an array of numbers, or of anything as objects, is missing; of the same shape."""
    if array.dtype.kind in "fiub":
        return np.isnan(array)
    return np.fromiter(map(is_missing, array.ravel()), dtype=bool, count=array.size).reshape(array.shape)


def to_array(X: Any) -> NDArray:
    """Nested lists, a frame or an array as an array of numbers or of objects; masked cells become None."""
    if isinstance(X, np.ma.MaskedArray):
        objects = X.data.astype(object)
        objects[np.ma.getmaskarray(X)] = None
        return objects
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(
            "X cannot be read as a table; most often its rows differ in length. Give every row one entry per "
            f"column, and None where a value is missing. ({error})"
        ) from error
    if array.dtype.kind in "US" and not hasattr(X, "dtype"):
        # Numbers beside strings in a list would all have been turned into strings, and None into 'None'.
        return np.asarray(X, dtype=object)
    return array


def to_table(X: Any) -> Floats:
    """X as an (n, d) float64 array, NaN where missing; anything but finite numbers is refused.

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
            f"X must be a table of numbers, with NaN for cells that are missing, but {error}. "
            "Encode text and dates as numbers first."
        ) from error
    if np.isinf(table).any():
        raise ValueError("X holds infinite values. Replace them by finite numbers, or by NaN where unknown.")
    return table


def check_is_table(array: NDArray) -> None:
    """Refuse what has no rows and columns; a table without rows is one."""
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"X must be a table of rows and columns, but has shape {array.shape}. "
            "Reshape it to (n_rows, n_columns) with at least one column."
        )


@dataclass(frozen=True, eq=False)
class MaskedData:
    """Encoded rows of a table with holes.

    Attributes
    ----------
    values : (n, d) float64
        Features, roughly standardised; exactly zero where hidden.
    mask : (n, d) bool
        True = observed.
    target : (n, d_target) float64 for regression, (n,) int64 class codes for classification
        As the task encoded it.
    weight : (n,) float64
        One number per row, positive or zero, mean one over the whole table.
    groups : (d,) int64
        Which column of the user's table each encoded column came from. The columns of a one-hot code share
        a group and are observed or hidden together.
    """

    values: Floats
    mask: Bools
    target: NDArray
    weight: Floats
    groups: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        values: NDArray,
        mask: NDArray,
        target: NDArray,
        weight: NDArray | None = None,
        groups: NDArray | None = None,
    ) -> MaskedData:
        """Build from arrays: hidden cells become zero, weights get mean one, shapes are checked."""
        mask = np.asarray(mask, dtype=bool)
        values = np.asarray(values, dtype=np.float64)
        target = np.asarray(target)
        n, d = values.shape
        weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        groups = np.arange(d) if groups is None else np.asarray(groups, dtype=np.int64)
        if mask.shape != (n, d) or len(target) != n or weight.shape != (n,) or groups.shape != (d,):
            raise ValueError(
                f"values {values.shape}, mask {mask.shape}, target {target.shape} and weight {weight.shape} "
                f"must agree in their rows, and values, mask and groups {groups.shape} in their columns."
            )
        values = hide(values, mask)
        if not np.isfinite(values).all():
            raise ValueError("Observed values must be finite; mark NaN and inf as hidden or remove them.")
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError("The weights must be finite and not negative; rows to be ignored weigh 0.")
        if n and not weight.any():
            raise ValueError("The weights must not all be zero.")
        weight = weight * (n / weight.sum()) if n else weight
        return cls(values, mask, target, weight, groups)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_columns(self) -> int:
        return self.values.shape[1]

    def column_means(self) -> Floats:
        """Weighted mean (d,) of each column's observed cells; zero for a column never observed."""
        seen = self.weight @ self.mask
        return (self.weight @ self.values) / np.where(seen > 0, seen, 1.0)

    def rows(self, index: NDArray) -> MaskedData:
        """The chosen rows. Weights stay as they are, so that parts of a table can be put together again."""
        return replace(
            self,
            values=self.values[index],
            mask=self.mask[index],
            target=self.target[index],
            weight=self.weight[index],
        )

    def hidden_where(self, keep: Bools) -> MaskedData:
        """The same rows with every cell hidden where `keep` (n, d) is False."""
        mask = self.mask & keep
        return replace(self, values=hide(self.values, mask), mask=mask)
