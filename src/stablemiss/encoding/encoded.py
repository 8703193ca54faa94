"""Encoded rows, and descriptions of their unusual values for messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, zero_where_missing
from stablemiss.text import count, quoted

# What happens to numbers far outside the range of the training rows.
OnOutOfRange = Literal["clip", "missing", "raise"]


@dataclass(frozen=True)
class OutOfRange:
    """Values of one column that are far outside the range of the training rows, for messages.

    Attributes
    ----------
    column : int
        Position of the input column.
    label : str
        The column as named in messages.
    n_rows : int
        Number of rows with such values.
    smallest, largest : str
        The smallest and the largest such value.
    seen : str
        Range of the column in the training rows.
    """

    column: int
    label: str
    n_rows: int
    smallest: str
    largest: str
    seen: str

    def __str__(self) -> str:
        values = self.smallest if self.smallest == self.largest else f"{self.smallest} to {self.largest}"
        return f"{self.label} ({values} in {count(self.n_rows, 'row')}; {self.seen} in training)"


@dataclass(frozen=True)
class UnknownCategories:
    """Categories of one column that did not occur in training, for messages.

    Attributes
    ----------
    column : int
        Position of the input column.
    label : str
        The column as named in messages.
    entries : tuple of str
        The distinct unknown categories.
    n_rows : int
        Number of rows with unknown categories.
    """

    column: int
    label: str
    entries: tuple[str, ...]
    n_rows: int

    def __str__(self) -> str:
        return f"{self.label} has {quoted(self.entries, 3)} in {count(self.n_rows, 'row')}"


class Encoded(NamedTuple):
    """Encoded rows, and which of their values were unusual.

    Attributes
    ----------
    values : (n, d) float64
        Standardised, exactly zero where missing.
    mask : (n, d) bool
        True = observed.
    out_of_range : (n, d) bool
        True for all encoded columns of an input column whose value was far outside the range in training.
        Such values were clipped, or count as missing.
    exceeded : tuple of OutOfRange
        Description of these values, one per input column.
    unknown : tuple of UnknownCategories
        Categories that did not occur in training, one per input column. They count as missing.
    """

    values: Floats
    mask: Bools
    out_of_range: Bools
    exceeded: tuple[OutOfRange, ...] = ()
    unknown: tuple[UnknownCategories, ...] = ()

    def without_out_of_range(self) -> tuple[NDArray[np.int64], Floats, Bools]:
        """The rows with observed values out of range, if these values were missing: index, values, mask."""
        hidden = self.mask & self.out_of_range
        rows = np.flatnonzero(hidden.any(axis=1))
        mask = (self.mask & ~hidden)[rows]
        return rows, zero_where_missing(self.values[rows], mask), mask


def check_in_range(exceeded: Sequence[OutOfRange], on_out_of_range: OnOutOfRange) -> None:
    """Raise ValueError if values are far outside the range in training and `on_out_of_range` is "raise"."""
    if exceeded and on_out_of_range == "raise":
        raise ValueError(
            f"Values are far outside the range in training: {listed(exceeded)}. Correct them, or set "
            'on_out_of_range="clip" to move them to the limit of the range or '
            'on_out_of_range="missing" to treat them as missing.'
        )


def listed(problems: Sequence[object], limit: int = 5, unit: str = "column") -> str:
    """Enumerate descriptions of columns, or another unit, in a message, at most `limit` of them."""
    shown = ", ".join(map(str, problems[:limit]))
    return shown if len(problems) <= limit else f"{shown} and {len(problems) - limit} more {unit}s"
