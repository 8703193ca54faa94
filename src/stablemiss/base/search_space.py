"""Search spaces of hyper-parameters, as plain data that `stablemiss.tuning` searches."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from stablemiss.checks import check_bool, check_number


@dataclass(frozen=True)
class Range:
    """A range of numbers, or of integers if both bounds are integers.

    Parameters
    ----------
    low, high : float or int
        Bounds, both included.
    log : bool, default=False
        Search on a logarithmic scale.

    See Also
    --------
    Choice : A finite set of values.

    Examples
    --------
    >>> 0.003 in Range(1e-4, 1e-2, log=True), 2.5 in Range(1, 5)
    (True, False)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        check_number(self, low="(-inf, inf)", high="(-inf, inf)")
        check_bool(self, "log")
        if not self.low <= self.high or (self.log and not self.low > 0):
            raise ValueError(
                f"low must not exceed high, and must be positive on a logarithmic scale; got {self}."
            )

    @property
    def is_integer(self) -> bool:
        """Whether both bounds are integers."""
        return isinstance(self.low, Integral) and isinstance(self.high, Integral)

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        number = float(value)
        return self.low <= number <= self.high and (not self.is_integer or number.is_integer())


@dataclass(frozen=True, init=False)
class Choice:
    """A finite set of values of any type. A list, as read from JSON, counts as equal to a tuple.

    Parameters
    ----------
    *values
        The values, at least one.

    See Also
    --------
    Range : A range of numbers.

    Examples
    --------
    >>> Choice(128, 256).values
    (128, 256)
    >>> "auto" in Choice("auto", 1, 2), [32, 32] in Choice((32,), (32, 32))
    (True, True)
    """

    values: tuple[Any, ...]

    def __init__(self, *values: Any):
        if not values:
            raise ValueError("Choice needs at least one value; got none.")
        object.__setattr__(self, "values", to_tuples(values))

    def __contains__(self, value: Any) -> bool:
        return to_tuples(value) in self.values


Space = dict[str, Range | Choice]


def to_tuples(value: Any) -> Any:
    """Convert lists to tuples, including nested lists.

    Examples
    --------
    >>> to_tuples([1, [2, 3]]), to_tuples("auto")
    ((1, (2, 3)), 'auto')
    """
    return tuple(map(to_tuples, value)) if isinstance(value, list | tuple) else value
