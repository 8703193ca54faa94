"""Sensor outages: in a table of readings over time, sensors or whole districts are dark for days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from stablemiss.checks import check_number
from stablemiss.data import Bools, Floats, to_numbers
from stablemiss.missingness.mechanism import Mechanism
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class SensorOutage(Mechanism):
    """Hides columns for many rows in a row: each sensor fails at random times and stays dark for a while.

    Rows are successive times, unlike those of the other mechanisms. A sensor alternates between working and
    failing, independently of its readings and of the other sensors, unless they share a district. Both
    periods have random lengths without memory (geometric).

    Parameters
    ----------
    level : float
        Share of the time for which a sensor is dark, from 0 to 1.
    duration : float, default=48
        Mean number of rows of an outage, at least 1: 48 are two days of hourly readings. Raising it gives
        fewer and longer outages at the same level.
    districts : (d,) int, default=None
        District of each column; the sensors of a district fail together. None: each column fails alone.

    See Also
    --------
    Outage : Hides given columns in random rows.
    SensorWindows.with_inputs : Shows the table with outages to a method, while what is predicted stays.

    Examples
    --------
    >>> readings = np.zeros((10_000, 3))
    >>> mask = SensorOutage(0.2, duration=48, districts=[0, 0, 1]).draw(readings, np.random.default_rng(0))
    >>> bool((mask[:, 0] == mask[:, 1]).all()), bool((mask[:, 0] == mask[:, 2]).all())
    (True, False)
    """

    level: float
    duration: float = 48.0
    districts: Sequence[int] | None = None

    def __post_init__(self) -> None:
        check_number(self, level="[0, 1]", duration="[1, inf)")
        # Periods without an outage have at least one row, too.
        if self.level < 1 and self.level > self.duration * (1 - self.level):
            raise ValueError(
                f"With duration={self.duration:g} the level can be at most "
                f"{self.duration / (1 + self.duration):g}, or 1; got {self.level:g}. Raise the duration."
            )
        if self.districts is not None:
            districts = to_numbers("districts", self.districts, np.int64)
            object.__setattr__(self, "districts", tuple(districts.tolist()))

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """Return the mechanism itself: nothing is estimated."""
        return self

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def _draw(self, table: Floats, rng: Rng) -> Bools:
        n, d = table.shape
        districts = np.arange(d) if self.districts is None else np.array(self.districts)
        if districts.shape != (d,):
            raise ValueError(
                f"districts must have one entry for each of the {d} columns; got {len(districts)}."
            )
        names, district = np.unique(districts, return_inverse=True)
        if self.level in (0, 1):
            return np.full((n, d), self.level == 0)
        fails = self.level / ((1 - self.level) * self.duration)
        is_dark = np.empty((n, len(names)), dtype=bool)
        state = rng.random(len(names)) < self.level
        for row, draw in enumerate(rng.random((n, len(names)))):
            is_dark[row] = state
            state = np.where(state, draw >= 1 / self.duration, draw < fails)
        return ~is_dark[:, district]
