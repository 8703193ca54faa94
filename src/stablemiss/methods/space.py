"""Where the good values of a method's parameters may lie: plain data, which `stablemiss.tuning` searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`, whole ones if both are whole; on a logarithmic scale if `log`."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True, init=False)
class Choice:
    """One of a few values.

    Examples
    --------
    >>> Choice(128, 256).values
    (128, 256)
    """

    values: tuple[Any, ...]

    def __init__(self, *values: Any):
        object.__setattr__(self, "values", values)


Space = dict[str, Range | Choice]
