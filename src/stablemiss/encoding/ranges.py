"""Numbers far outside the range of the training rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats


@dataclass(frozen=True, eq=False)
class Ranges:
    """The range of each encoded column in the training rows, and the limits that follow from it.

    Values further outside the range than half its width count as far outside. In small tables the limits are
    wider, by 20 / n widths for n observed training values, because the range of few values is narrow: with
    20 training rows from a normal distribution, one in a million new values exceeds the limits.

    Attributes
    ----------
    minimum, maximum : (d,) float64
        Smallest and largest value in the training rows; zero for columns without limits.
    lower, upper : (d,) float64
        Limits; infinite for columns that have none: categories, cycles of dates and constant columns.

    Examples
    --------
    >>> numbers = np.linspace(0.0, 10.0, 1000)[:, None]
    >>> ranges = Ranges.of(numbers, np.arange(1000), has_limits=np.array([True]))
    >>> ranges.beyond(np.array([[-4.0], [15.0], [16.0], [np.nan]])).ravel().tolist()
    [False, False, True, False]
    """

    minimum: Floats
    maximum: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, numbers: Floats, rows: NDArray[np.integer], has_limits: Bools) -> Ranges:
        """Find the ranges of encoded columns.

        Parameters
        ----------
        numbers : (n, d)
            Encoded columns before standardisation, NaN where missing.
        rows : (n_train,) int
            Indices of the training rows.
        has_limits : (d,) bool
            Columns whose values may lie outside the range.
        """
        minimum, maximum, n_observed = np.zeros((3, len(has_limits)))
        for k in np.flatnonzero(has_limits):
            sample = numbers[rows, k]
            observed = sample[~np.isnan(sample)]
            minimum[k], maximum[k], n_observed[k] = observed.min(), observed.max(), len(observed)
        return cls.from_extremes(minimum, maximum, n_observed, has_limits)

    @classmethod
    def from_extremes(cls, minimum: Floats, maximum: Floats, n_observed: Floats, has_limits: Bools) -> Ranges:
        """The same from the extremes and the number of observed values of each column, (d,) each."""
        # The width of a range of huge numbers may overflow; the limits are then the largest finite numbers.
        with np.errstate(over="ignore"):
            margin = (0.5 + 20.0 / np.maximum(n_observed, 1.0)) * (maximum - minimum)
            lower, upper = np.nan_to_num(minimum - margin), np.nan_to_num(maximum + margin)
        return cls(
            minimum, maximum, np.where(has_limits, lower, -np.inf), np.where(has_limits, upper, np.inf)
        )

    @classmethod
    def joined(cls, ranges: Iterable[Ranges], sizes: Iterable[int]) -> Ranges:
        """Ranges of a single column each, repeated for as many columns as `sizes` says."""
        parts = [
            [np.repeat(array, size) for array in one.state().values()]
            for one, size in zip(ranges, sizes, strict=True)
        ]
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def beyond(self, numbers: Floats) -> Bools:
        """Which cells (n, d) lie outside the limits; False where missing."""
        return (numbers < self.lower) | (numbers > self.upper)

    def state(self) -> dict[str, Any]:
        """Arrays from which `Ranges(**state)` recreates the object."""
        return {
            "minimum": self.minimum,
            "maximum": self.maximum,
            "lower": self.lower,
            "upper": self.upper,
        }
