"""What a fitted encoder of tables does, for those who repeat it elsewhere or turn it round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.encoding.categories import CategoryEncoder
from stablemiss.encoding.encoder import TableEncoder
from stablemiss.encoding.ranges import Ranges
from stablemiss.encoding.table import DATE_DTYPE, TIME_OF_DAY_DATE


@dataclass(frozen=True, eq=False)
class Encoding:
    """What a fitted `TableEncoder` does to a table, from its state.

    Attributes
    ----------
    n_features, kinds, groups, ever_missing
        As in `TableEncoder`.
    mean, scale : (d,)
        By which encoded columns are standardised.
    ranges : Ranges
    categories : dict
        Position of each categorical column → its encoder.
    date_parts : dict
        Position of each column of dates → the features it becomes.
    """

    n_features: int
    kinds: list[str]
    groups: NDArray[np.int64]
    ever_missing: Bools
    mean: Floats
    scale: Floats
    ranges: Ranges
    categories: dict[int, CategoryEncoder]
    date_parts: dict[int, list[str]]

    @classmethod
    def of(cls, encoder: TableEncoder) -> Encoding:
        """Read the state of an encoder."""
        state = encoder.state()
        return cls(
            encoder.n_features,
            encoder.kinds,
            encoder.groups,
            encoder.ever_missing,
            state["mean"],
            state["scale"],
            Ranges(**state["ranges"]),
            {
                int(j): CategoryEncoder(names, state["embedding"][j])
                for j, names in state["categories"].items()
            },
            {int(j): dates["parts"] for j, dates in state["dates"].items()},
        )

    @property
    def first(self) -> NDArray[np.int64]:
        """Position of the first encoded column of each column of the table, (n_features,)."""
        return np.searchsorted(self.groups, np.arange(self.n_features))

    def decode(self, j: int, values: Floats) -> NDArray:
        """The entries that encoded values stand for, (n,): floats, strings or datetime64[us].

        Numbers are kept within the range of the training rows. Of categories, the one with the largest
        indicator is chosen, or the one whose mean target is closest. Dates are exact to the day, or to the
        second if the column has hours.

        Parameters
        ----------
        j : int
            Position of a column of numbers, categories or dates.
        values : (n, width)
            Its encoded columns, standardised.
        """
        columns = self.groups == j
        scale = np.where(np.isfinite(self.scale[columns]), self.scale[columns], 0.0)
        numbers = values * scale + self.mean[columns]
        has_range = np.isfinite(self.ranges.lower[columns])
        numbers = np.where(
            has_range, np.clip(numbers, self.ranges.minimum[columns], self.ranges.maximum[columns]), numbers
        )
        if j in self.categories:
            return self._decode_categories(self.categories[j], numbers)
        return _decode_dates(self.date_parts[j], numbers) if j in self.date_parts else numbers[:, 0]

    def _decode_categories(self, encoder: CategoryEncoder, numbers: Floats) -> NDArray:
        distance = ((numbers[:, None] - encoder.embedding) ** 2).sum(axis=2)
        return np.array(encoder.categories, dtype=object)[distance.argmin(axis=1)]


def _decode_dates(parts: list[str], numbers: Floats) -> NDArray:
    """Dates (n,) from their year and hour."""
    features = dict(zip(parts, numbers.T, strict=True))
    # Only the hour varies: times of day.
    year = features.get("year", np.full(len(numbers), float(TIME_OF_DAY_DATE.year)))
    whole = np.floor(year)
    start = (whole.astype(np.int64) - 1970).astype("datetime64[Y]")
    n_days = ((start + 1).astype("datetime64[D]") - start.astype("datetime64[D]")).astype(np.int64)
    # Rounding must not move a date to the day before.
    days = start.astype("datetime64[D]") + np.floor((year - whole) * n_days + 1e-6).astype(np.int64)
    seconds = np.round(np.clip(features.get("hour", np.zeros(len(numbers))), 0, 24 - 1 / 3600) * 3600)
    return days.astype(DATE_DTYPE) + seconds.astype("timedelta64[s]")
