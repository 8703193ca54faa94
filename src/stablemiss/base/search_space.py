"""Where the good values of a method's parameters may lie: plain data, which `stablemiss.tuning` searches."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`, whole ones if both are whole; on a logarithmic scale if `log`.

    Examples
    --------
    >>> 0.003 in Range(1e-4, 1e-2, log=True), 2.5 in Range(1, 5)
    (True, False)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low <= self.high or (self.log and not self.low > 0):
            raise ValueError(
                f"{self} holds no numbers to search: low must not lie above high, and must be positive on a "
                "logarithmic scale."
            )

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, Integral) and isinstance(self.high, Integral)

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        number = float(value)
        return self.low <= number <= self.high and (not self.is_whole or number.is_integer())


@dataclass(frozen=True, init=False)
class Choice:
    """One of a few values, of any kind; lists, as JSON has them, count as tuples.

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
            raise ValueError("A Choice needs at least one value to choose, but none came.")
        object.__setattr__(self, "values", to_tuples(values))

    def __contains__(self, value: Any) -> bool:
        return to_tuples(value) in self.values


Space = dict[str, Range | Choice]


def to_tuples(value: Any) -> Any:
    """A value with tuples for all lists, also those within.

    Examples
    --------
    >>> to_tuples([1, [2, 3]]), to_tuples("auto")
    ((1, (2, 3)), 'auto')
    """
    return tuple(map(to_tuples, value)) if isinstance(value, list | tuple) else value
