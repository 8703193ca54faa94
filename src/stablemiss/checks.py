"""Checks of parameters: each raises ValueError with the name, the given value and what is allowed.

The first argument of each check holds the parameters: an object with attributes, such as a method or an
estimator, or a dictionary of arguments.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

# Largest integer that LightGBM and torch accept everywhere.
MAX_INTEGER = 2**31 - 1
# Largest integer that torch and numpy convert to a float themselves.
MAX_INT64 = 2**63 - 1
# Largest width of a layer. A square matrix of this width has 17 GB in single precision.
MAX_WIDTH = 2**16
# Largest number of hidden layers of a network.
MAX_LAYERS = 100
# Largest number of draws of a latent vector for a prediction, which multiply the memory that a row needs.
MAX_DRAWS = 10_000
# Default of `unless`, because None is a value that parameters may have.
_NOTHING = object()


def shown(value: object, max_length: int = 60) -> str:
    """The value as it is written in an error message: on one line, and shortened if it is long.

    Scalars of numpy are written as those of Python: 1 instead of np.int64(1).

    Examples
    --------
    >>> shown("a"), shown(list(range(100)), 20)
    ("'a'", '[0, 1, 2, 3, 4, 5...')
    """
    try:
        plain = value.item() if isinstance(value, np.number | np.bool_ | np.str_) else value
        text = " ".join(repr(plain).split())
    except Exception:  # An integer of more than 4300 digits, or an object whose `repr` fails.
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def is_integer(value: object) -> bool:
    """Whether the value is an integer of Python or numpy; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: object) -> bool:
    """Whether the value is an integer or a float of Python or numpy; True and False are not."""
    return is_integer(value) or isinstance(value, float | np.floating)


def check_integer(parameters: object, *, unless: Any = _NOTHING, **bounds: int | tuple[int, int]) -> None:
    """Raise ValueError if a parameter is not an integer within its bounds.

    Parameters
    ----------
    parameters : object or dict
        Has the parameters as attributes or items.
    unless : default: nothing
        A value that is allowed as well, such as None or "auto".
    **bounds : int or (int, int)
        Parameter name → minimum, or minimum and maximum. Without a maximum it is 2³¹ − 1.

    See Also
    --------
    check_number : The same for numbers that need not be integers.
    check_widths : The same for layer widths.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_integer(SimpleNamespace(depth=3, rank=None), depth=1, rank=1, unless=None)
    >>> check_integer(SimpleNamespace(depth=2.5), depth=1)
    Traceback (most recent call last):
    ValueError: depth must be an integer of at least 1; got 2.5.
    """
    for name, bound in bounds.items():
        value = _get(parameters, name)
        if _is_same(value, unless):
            continue
        low, high = bound if isinstance(bound, tuple) else (bound, MAX_INTEGER)
        if not is_integer(value) or not low <= value <= high:
            is_too_large = is_integer(value) and value > high
            allowed = (
                f"from {low} to {high}" if is_too_large or isinstance(bound, tuple) else f"of at least {low}"
            )
            raise _error(name, f"an integer {allowed}", value, unless)


def check_number(parameters: object, *, unless: Any = _NOTHING, **intervals: str) -> None:
    """Raise ValueError if a parameter is not a finite number in its interval.

    Parameters
    ----------
    parameters : object or dict
        Has the parameters as attributes or items.
    unless : default: nothing
        A value that is allowed as well, such as None or "auto".
    **intervals : str
        Parameter name → interval, such as "[0, inf)" or "(0, 1]". A round bracket excludes the bound.

    See Also
    --------
    check_integer : The same for integers.

    Examples
    --------
    >>> check_number({"learning_rate": 0.1, "ridge": 0}, learning_rate="(0, 1]", ridge="[0, inf)")
    >>> check_number({"learning_rate": -1}, learning_rate="(0, 1]")
    Traceback (most recent call last):
    ValueError: learning_rate must be a number above 0 and at most 1; got -1.
    """
    for name, interval in intervals.items():
        value = _get(parameters, name)
        if _is_same(value, unless):
            continue
        if not is_real(value) or not _is_in(value, interval):
            raise _error(name, _described(interval), value, unless)
        if isinstance(value, int) and abs(value) > MAX_INT64:
            raise ValueError(
                f"{name} is the integer {shown(value)}, which is too large. Use a float: {value:.0e}."
            )


def check_choice(parameters: object, **choices: Sequence[str]) -> None:
    """Raise ValueError if a parameter is not one of the given strings.

    Parameters
    ----------
    parameters : object or dict
        Has the parameters as attributes or items.
    **choices : sequence of str
        Parameter name → allowed values.

    Examples
    --------
    >>> check_choice({"start": "a"}, start=("data", "random"))
    Traceback (most recent call last):
    ValueError: start must be 'data' or 'random'; got 'a'.
    """
    for name, allowed in choices.items():
        value = _get(parameters, name)
        if not isinstance(value, str) or value not in allowed:
            *others, last = map(repr, allowed)
            raise _error(name, f"{', '.join(others)} or {last}" if others else last, value)


def check_bool(parameters: object, *names: str) -> None:
    """Raise ValueError if a parameter is neither True nor False (1 and 0 count as these).

    Parameters
    ----------
    parameters : object or dict
        Has the parameters as attributes or items.
    *names : str
        Parameters to check.

    Examples
    --------
    >>> check_bool({"use_mask": "yes"}, "use_mask")
    Traceback (most recent call last):
    ValueError: use_mask must be True or False; got 'yes'.
    """
    for name in names:
        value = _get(parameters, name)
        if not isinstance(value, bool | np.bool_) and not (is_integer(value) and value in (0, 1)):
            raise _error(name, "True or False", value)


def check_widths(parameters: object, *names: str) -> None:
    """Raise ValueError if a parameter is not a sequence of layer widths; it may be empty.

    Parameters
    ----------
    parameters : object or dict
        Has the parameters as attributes or items.
    *names : str
        Parameters to check.

    See Also
    --------
    check_integer : The same for single integers.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> check_widths(SimpleNamespace(encoder=(64, 32), decoder=[]), "encoder", "decoder")
    >>> check_widths(SimpleNamespace(hidden=128), "hidden")
    Traceback (most recent call last):
    ValueError: hidden must be a sequence of layer widths; got 128. For a single layer use (128,).
    """
    for name in names:
        widths = _get(parameters, name)
        if is_integer(widths) and 1 <= widths <= MAX_WIDTH:
            raise ValueError(
                f"{name} must be a sequence of layer widths; got {widths}. "
                f"For a single layer use ({widths},)."
            )
        if isinstance(widths, str | bytes) or not isinstance(widths, Sequence):
            raise _error(name, "a sequence of layer widths, such as (128, 64)", widths)
        if not all(is_integer(width) and 1 <= width <= MAX_WIDTH for width in widths):
            raise ValueError(
                f"{name} must contain only integers from 1 to {MAX_WIDTH}, the widths of the layers; got "
                f"{shown(widths)}."
            )


def check_path(name: str, path: object) -> None:
    """Raise TypeError unless an argument is a path.

    Examples
    --------
    >>> check_path("study", 5)
    Traceback (most recent call last):
    TypeError: study must be a path, such as 'folder/file' or a pathlib.Path; got 5.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be a path, such as 'folder/file' or a pathlib.Path; got {shown(path)}.")


def to_list(collection: object) -> list[Any] | None:
    """The elements of a list, tuple, set, array or index; None for text, a dictionary and single values.

    Examples
    --------
    >>> to_list(("a", "b")), to_list("ab"), to_list(5)
    (['a', 'b'], None, None)
    """
    is_collection = isinstance(collection, Iterable) and not isinstance(collection, str | bytes | Mapping)
    try:
        return list(collection) if is_collection else None  # type: ignore[call-overload]
    except TypeError:  # an array without dimensions
        return None


def _get(parameters: object, name: str) -> Any:
    return parameters[name] if isinstance(parameters, Mapping) else getattr(parameters, name)


def _is_same(value: object, allowed: object) -> bool:
    """Whether a parameter has the extra value that is allowed, which is None, a string or an integer."""
    return value is allowed or ((isinstance(value, str) or is_integer(value)) and value == allowed)


def _is_in(value: Any, interval: str) -> bool:
    low, high = map(float, interval[1:-1].split(","))
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the range of floats
        return False
    is_above = number > low if interval[0] == "(" else number >= low
    is_below = number < high if interval[-1] == ")" else number <= high
    return math.isfinite(number) and is_above and is_below


def _described(interval: str) -> str:
    """An interval in words, such as "a number above 0 and at most 1"."""
    low, high = (bound.strip() for bound in interval[1:-1].split(","))
    if interval[0] == "[" and interval[-1] == "]":
        return f"a number from {low} to {high}"
    parts = [("above " if interval[0] == "(" else "of at least ") + low] if float(low) > -math.inf else []
    parts += [("below " if interval[-1] == ")" else "at most ") + high] if float(high) < math.inf else []
    return f"a {'' if len(parts) == 2 else 'finite '}number {' and '.join(parts)}".strip()


def _error(name: str, allowed: str, value: object, unless: object = _NOTHING) -> ValueError:
    extra = "" if unless is _NOTHING else f", or {unless!r}"
    return ValueError(f"{name} must be {allowed}{extra}; got {shown(value)}.")
