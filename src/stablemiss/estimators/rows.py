"""Reading targets and sample weights, and splitting the rows into training and validation rows."""

from __future__ import annotations

import warnings
from collections import Counter
from datetime import date, time, timedelta
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from stablemiss.checks import shown
from stablemiss.data import Floats, missing_cells, scale_to_one, to_array
from stablemiss.encoding import SuspiciousDataWarning
from stablemiss.seeding import Rng
from stablemiss.text import count

Indices = NDArray[np.int64]

# Largest target of a regressor. Predictions outside the range of the training targets must not overflow.
MAX_TARGET = 1e300
# Standardised targets are clipped here. Only validation rows can lie this far from the mean of the training
# rows; their squared errors must not overflow in single precision.
MAX_DEVIATION = 1e6
# Rows whose weight is a smaller fraction of the largest weight are ignored.
MIN_RELATIVE_WEIGHT = 1e-12
# The date and time types of pandas are subclasses of these.
TIME_TYPES = (date, time, timedelta, np.datetime64, np.timedelta64)


def read_numbers(y: Any, n_rows: int) -> Floats:
    """Read the target of a regressor: (n_rows,), or (n_rows, d_output) for several numbers per row."""
    target = _to_array(y, n_rows)
    if target.dtype.kind == "O":
        target = np.where(missing_cells(target), np.nan, target)
    numbers = np.empty(target.shape)
    for j, (cells, column) in enumerate(zip(np.atleast_2d(target.T), np.atleast_2d(numbers.T), strict=True)):
        try:
            if cells.dtype.kind in "mM":
                raise ValueError("dates and durations are not numbers")
            column[:] = cells.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"The target of a regressor must be numeric, but the entries{_named(y, j)} cannot be read as "
                f"numbers ({error}). Convert them to numbers, or use a classifier if they are classes."
            ) from error
    _check_finite(numbers, y)
    return numbers


def check_size(target: Floats, y: Any) -> None:
    """Raise ValueError if the target of a regressor is too large to be standardised.

    Parameters
    ----------
    target : (n,) or (n, d_output)
        The target of the rows that are used.
    y : any
        The target as the user passed it, whose column names are used in messages.
    """
    for j, column in enumerate(np.atleast_2d(target.T)):
        row = np.abs(column).argmax()
        if abs(column[row]) > MAX_TARGET:
            raise ValueError(
                f"The target y{_named(y, j)} must lie between {-MAX_TARGET:g} and {MAX_TARGET:g}, but has "
                f"the value {column[row]:g}. Rescale it before fit, for instance divide it by {MAX_TARGET:g}."
            )


def warn_if_constant(target: Floats, y: Any, n_rows: int | None = None) -> None:
    """Warn if the target of a regressor is the same in all rows.

    Parameters
    ----------
    target : (n,) or (n, d_output)
        The target of the rows that are used, or its smallest and its largest value.
    y : any
        As in `check_size`.
    n_rows : int, default=None
        Number of rows that are used, if `target` does not have all of them.
    """
    for j, column in enumerate(np.atleast_2d(target.T)):
        if column.min() == column.max():
            # Level 3 is the user's call: 1 is this function, 2 `fit`.
            rows = count(len(column) if n_rows is None else n_rows, "row")
            warnings.warn(
                f"The target y{_named(y, j)} is constant: it is {column[0]:g} in all {rows}, so every "
                "prediction will be this number. Check which column and which rows were passed to fit.",
                SuspiciousDataWarning,
                stacklevel=3,
            )


def read_labels(y: Any, n_rows: int) -> NDArray:
    """Read the target of a classifier: labels (n_rows,)."""
    target = _to_array(y, n_rows)
    if target.ndim != 1:
        raise ValueError(
            f"y should be a 1d array of labels, but has shape {target.shape}. Fit one classifier per column."
        )
    # numpy turns NaN into the text 'nan' and numbers into text if a list also contains text.
    labels = np.asarray(y, dtype=object).reshape(target.shape) if isinstance(y, list | tuple) else target
    # In an array of text, NaN has been converted already.
    is_converted = isinstance(y, np.ndarray) and labels.dtype.kind == "U"
    _check_no_missing(labels == "nan" if is_converted else missing_cells(labels), y)
    _check_no_times(labels, y)
    _check_one_type(labels, y)
    if target.dtype.kind == "O" and not isinstance(target[0], str):
        target = np.array(target.tolist())
        if target.dtype.kind == "O":
            raise ValueError(
                f"The labels{_named(y)} must be text, or numbers of at most 64 bits; got {shown(target[0])}. "
                "Convert them to text."
            )
    elif target.dtype.kind == "f":
        _check_finite(target, y)
    try:
        check_classification_targets(target)
    except ValueError as error:
        raise ValueError(f"{error} Use a regressor, or convert the target to classes.") from error
    return target


def read_weight(sample_weight: Any, n_rows: int) -> Floats:
    """Read sample weights (n_rows,): non-negative, and scaled so that the largest is about one; ones if None.

    Weights below `MIN_RELATIVE_WEIGHT` of the largest become zero: such rows would have no influence, and
    their weights could underflow.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    weight = _read_numeric_weight(sample_weight)
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one number for each of the {n_rows} rows of X, but has shape "
            f"{weight.shape}. Pass one weight per row, or None for equal weights."
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        row = int(np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))[0])
        raise ValueError(
            f"sample_weight must be finite and non-negative, but that of row {row} is {weight[row]}. Use "
            "weight 0 for rows to be ignored."
        )
    if not weight.any():
        raise ValueError(
            "sample_weight must not be all zero, because no row is left to train on. Give some rows a "
            "positive weight."
        )
    scaled = scale_to_one(weight)
    scaled[scaled < MIN_RELATIVE_WEIGHT * scaled.max()] = 0.0
    if np.count_nonzero(scaled) < 2 <= np.count_nonzero(weight):
        raise ValueError(
            f"sample_weight must have at least 2 weights of similar size, but only one exceeds "
            f"{MIN_RELATIVE_WEIGHT:g} times the largest, {weight.max():g}. Give rows more similar weights."
        )
    return scaled


def _read_numeric_weight(sample_weight: Any) -> Floats:
    """Convert sample weights to an array of numbers of any shape, NaN where missing."""
    frame = nw.from_native(sample_weight, allow_series=True, pass_through=True)
    try:
        array = frame.to_numpy() if isinstance(frame, nw.Series | nw.DataFrame) else np.asarray(sample_weight)
        if array.dtype.kind == "O":
            if any(isinstance(entry, str | bytes) for entry in array.flat):
                raise ValueError("it contains text")
            array = np.where(missing_cells(array), np.nan, array)
        elif array.dtype.kind not in "fiub":
            raise ValueError(f"its type is {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"sample_weight must have one number for each row of X; got {shown(sample_weight)} ({error}). "
            "Convert the weights to numbers, or pass None for equal weights."
        ) from error


def split_rows(strata: NDArray, validation_fraction: float, rng: Rng) -> tuple[Indices, Indices]:
    """Positions of the training rows and of the validation rows, drawn at random and stratified.

    Parameters
    ----------
    strata : (n,)
        Class of each row (all the same for regression). At least one row of each class is a training row,
        so that no class is unknown to the model. If every row is the only one of its class, all rows are used
        for both training and validation.
    validation_fraction : float in (0, 1)
        Share of validation rows; there is at least one validation row and one training row.
    rng : numpy Generator
        Draws the split.
    """
    n = len(strata)
    order = rng.permutation(n)
    _, stratum, size = np.unique(strata[order], return_inverse=True, return_counts=True)
    rank = np.empty(n, dtype=np.int64)
    rank[np.argsort(stratum, kind="stable")] = np.arange(n) - np.repeat(np.cumsum(size) - size, size)
    # Each row gets a quantile within its stratum, and the rows with the lowest quantiles become validation
    # rows. So every stratum contributes the same share of its rows.
    quantile = (rank + rng.uniform(size=n)) / size[stratum]
    n_valid = min(max(1, round(validation_fraction * n)), n - len(size))
    if n_valid == 0:
        return np.arange(n), np.arange(n)
    quantile[rank == size[stratum] - 1] = np.inf
    is_valid = np.zeros(n, dtype=bool)
    is_valid[order[np.argsort(quantile, kind="stable")[:n_valid]]] = True
    return np.flatnonzero(~is_valid), np.flatnonzero(is_valid)


def _to_array(y: Any, n_rows: int) -> NDArray:
    """Convert a target to an array of `n_rows` rows; a single column is flattened with a warning."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None.")
    frame = nw.from_native(y, allow_series=True, pass_through=True)
    target = frame.to_numpy() if isinstance(frame, nw.Series | nw.DataFrame) else np.asarray(y)
    if isinstance(y, np.ma.MaskedArray) or target.dtype.kind == "T":
        target = to_array(y).astype(object)
    if target.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: the target is complex. Fit its real and imaginary parts separately."
        )
    if target.ndim not in (1, 2) or (target.ndim == 2 and target.shape[1] == 0):
        raise ValueError(
            f"y should be a 1d array, or 2d with one column per output, but it has shape {target.shape}. "
            "Pass one target per row."
        )
    if len(target) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows but y has {len(target)}: inconsistent numbers of samples. Pass one target "
            "per row."
        )
    if target.ndim == 2 and target.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is read as one target per row. "
            "Pass y.ravel(), or one column of the frame, to avoid this warning.",
            DataConversionWarning,
            stacklevel=4,
        )
        target = target[:, 0]
    return target


def _check_no_times(labels: NDArray, y: Any) -> None:
    if labels.dtype.kind not in "mMO":
        return
    example = next((label for label in labels if isinstance(label, TIME_TYPES)), None)
    if example is not None:
        raise ValueError(
            f"The labels{_named(y)} must be classes, but are dates, times or durations, such as {example}. "
            "Convert them to text if each is a separate class, or to the classes that they stand for."
        )


def _check_one_type(labels: NDArray, y: Any) -> None:
    """Raise ValueError unless the labels are all text, all numbers or all booleans."""
    if labels.dtype.kind in "fiubU":
        return
    kinds = {str: "text", bytes: "bytes", bool: "booleans", np.bool_: "booleans"}
    examples: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for type_, n in Counter(map(type, labels.tolist())).items():
        kind = next((kind for base, kind in kinds.items() if issubclass(type_, base)), None)
        kind = kind or ("numbers" if issubclass(type_, Number) else f"objects of type {type_.__name__}")
        counts[kind] += n
        examples.setdefault(kind, next(label for label in labels.tolist() if type(label) is type_))
    if len(counts) > 1:
        listed = ", ".join(
            f"{kind} ({n}, such as {shown(examples[kind])})" for kind, n in counts.most_common()
        )
        raise ValueError(
            f"The labels{_named(y)} mix types: {listed}. Convert all labels to text, or all to numbers."
        )
    if "bytes" in counts:
        raise ValueError(
            f"The labels{_named(y)} are bytes, such as {shown(examples['bytes'])}. Convert them to text, for "
            "example with y.astype(str)."
        )


def _check_finite(target: Floats, y: Any) -> None:
    _check_no_missing(np.isnan(target), y)
    if np.isinf(target).any():
        row, column = np.argwhere(np.isinf(target.reshape(len(target), -1)))[0]
        raise ValueError(
            f"Input y contains infinity (first in row {row}{_named(y, column)}). Remove such rows or give "
            "them a finite target."
        )


def _check_no_missing(missing: NDArray[np.bool_], y: Any) -> None:
    if not missing.any():
        return
    cells = np.argwhere(missing.reshape(len(missing), -1))
    n_rows = len(np.unique(cells[:, 0]))
    row, column = cells[0]
    if missing.all():
        raise ValueError(
            f"Input y contains NaN and nothing else{_named(y)}: every target is missing. Check which column "
            "holds the target."
        )
    raise ValueError(
        f"Input y contains NaN: the target is missing in {n_rows} of {len(missing)} rows (first in row {row}"
        f"{_named(y, column)}). Rows without a target cannot be used for training; remove them before fit."
    )


def target_name(y: Any, column: int = 0) -> str | None:
    """Name of a column of `y`, a series or a data frame; None if it has no name."""
    frame = nw.from_native(y, allow_series=True, pass_through=True)
    name = frame.columns[column] if isinstance(frame, nw.DataFrame) else getattr(frame, "name", None)
    return name if isinstance(name, str) and name else None


def _named(y: Any, column: int = 0) -> str:
    """Refer to a column of `y` in a message by its name; an empty string if it has no name."""
    name = target_name(y, column)
    return "" if name is None else f" of column {name!r}"
