"""Reading the parts of a fitted object from a model file, which may have been manipulated.

The functions raise ValueError unless an entry has exactly the type, shape and range that the code relies on.
They compare sizes with the arrays in the file and allocate nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Item = TypeVar("Item")


def stored_array(
    state: Mapping[str, Any],
    name: str,
    shape: Sequence[int | None],
    dtype: DTypeLike = np.float64,
    *,
    lowest: float = -np.inf,
    highest: float = np.inf,
) -> NDArray:
    """The array `state[name]`, after a check of its type, shape and values. Numbers must be finite.

    Parameters
    ----------
    state : dict
        What an object's `state` returned before it was saved.
    name : str
        Key of the array.
    shape : sequence of int or None
        Length of each axis; None accepts any length of at least one.
    dtype : numpy type, default=float64
    lowest, highest : float, default=-inf and inf
        Range of the values, bounds included.

    See Also
    --------
    stored_list, stored_bool : The same for lists and booleans.

    Examples
    --------
    >>> stored_array({"mean": np.zeros(3)}, "mean", (3,))
    array([0., 0., 0.])
    >>> stored_array({"mean": np.zeros(3)}, "mean", (4,))
    Traceback (most recent call last):
    ValueError: mean must be an array of float64 with shape (4,), but is an array of float64 with shape (3,).
    """
    array, dtype = state[name], np.dtype(dtype)
    expected = f"an array of {dtype} with shape ({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} must be {expected}, but is a {type(array).__name__}.")
    fits = array.ndim == len(shape) and all(
        size == length if length is not None else size > 0
        for size, length in zip(array.shape, shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        given = f"an array of {array.dtype} with shape {array.shape}"
        raise ValueError(f"{name} must be {expected.replace('None', 'n')}, but is {given}.")
    if dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, but contains NaN or infinity.")
    if array.size and not (lowest <= array.min() and array.max() <= highest):
        raise ValueError(
            f"{name} must lie between {lowest} and {highest}, but lies between {array.min()} and "
            f"{array.max()}."
        )
    return array


def stored_list(
    state: Mapping[str, Any], name: str, item_type: type[Item], length: int | None = None
) -> list[Item]:
    """The list `state[name]`, after a check of its length and of the type of its items.

    Parameters
    ----------
    state : dict
    name : str
        Key of the list.
    item_type : type
        Type of all items.
    length : int, default=None
        Number of items; None accepts any number.

    See Also
    --------
    stored_array : The same for arrays.

    Examples
    --------
    >>> stored_list({"names": ["a", 1]}, "names", str)
    Traceback (most recent call last):
    ValueError: names must be a list of str, but contains int.
    """
    items = state[name]
    check_stored(isinstance(items, list), f"{name} must be a list, but is a {type(items).__name__}")
    others = {type(item).__name__ for item in items if not isinstance(item, item_type)}
    found = ", ".join(sorted(others))
    check_stored(not others, f"{name} must be a list of {item_type.__name__}, but contains {found}")
    check_stored(
        length is None or len(items) == length, f"{name} must have {length} items, but has {len(items)}"
    )
    return items


def stored_bool(state: Mapping[str, Any], name: str) -> bool:
    """The boolean `state[name]`; other types raise an error.

    Examples
    --------
    >>> stored_bool({"use_mask": True}, "use_mask")
    True
    """
    value = state[name]
    check_stored(isinstance(value, bool), f"{name} must be True or False, but is a {type(value).__name__}")
    return value


def stored_shape(state: Mapping[str, Any], name: str, size: int) -> tuple[int, ...]:
    """The shape of an array, a tuple `state[name]` of positive integers, after a check of its product.

    Parameters
    ----------
    state : dict
    name : str
        Key of the shape.
    size : int
        Number of elements of the array.

    Examples
    --------
    >>> stored_shape({"shape": (2, 3)}, "shape", 6)
    (2, 3)
    """
    shape = state[name]
    is_shape = isinstance(shape, tuple) and all(type(length) is int and length > 0 for length in shape)
    check_stored(is_shape and math.prod(shape) == size, f"{name} must be a shape with {size} elements")
    return shape


def check_stored(is_valid: bool | np.bool_, problem: str) -> None:
    """Raise ValueError with `problem` if a condition on the content of a model file does not hold."""
    if not is_valid:
        raise ValueError(f"{problem}.")
