"""What records keep of single predictions, so that pictures can be drawn from records alone."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.floating]


class Shown(ABC):
    """What the record of a score keeps for one kind of picture."""

    key: ClassVar[str]  # in `Score.extra`

    @abstractmethod
    def to_extra(self) -> dict[str, Any]:
        """As dictionaries, lists, numbers and text, which JSON can represent."""

    @classmethod
    @abstractmethod
    def from_extra(cls, extra: Mapping[str, Any]) -> Self:
        """From the result of `to_extra`."""


@dataclass(frozen=True, eq=False)
class ShownDigits(Shown):
    """Some test images: complete, which pixels were missing, and the completion by one method.

    Examples
    --------
    >>> image = np.arange(4.0).reshape(1, 2, 2)
    >>> digits = ShownDigits.of(image, np.where(image > 2, np.nan, image), image + 0.7)
    >>> again = ShownDigits.from_extra(digits.to_extra())
    >>> again.predicted[0].tolist(), int(again.missing.sum())
    ([[1, 2], [3, 4]], 1)
    """

    key: ClassVar[str] = "digits"

    complete: Bytes  # (k, height, width)
    missing: Bools
    predicted: Bytes

    @classmethod
    def of(cls, complete: Numbers, incomplete: Numbers, predicted: Numbers) -> Self:
        """Images of brightness 0 to 255; predictions beyond are cut off."""
        return cls(_to_bytes(complete), np.isnan(incomplete), _to_bytes(predicted))

    def to_extra(self) -> dict[str, Any]:
        return {
            "shape": list(self.complete.shape),
            "complete": _pack(self.complete),
            "missing": _pack(np.packbits(self.missing)),
            "predicted": _pack(self.predicted),
        }

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any]) -> Self:
        shape = tuple(extra["shape"])
        complete, predicted = (_unpack(extra[name]).reshape(shape) for name in ("complete", "predicted"))
        missing = np.unpackbits(_unpack(extra["missing"]), count=complete.size).astype(bool).reshape(shape)
        return cls(complete, missing, predicted)


def _to_bytes(images: Numbers) -> Bytes:
    return np.clip(np.round(images), 0, 255).astype(np.uint8)


def _pack(array: Bytes) -> str:
    return b64encode(zlib.compress(array.tobytes(), 9)).decode("ascii")


def _unpack(text: str) -> Bytes:
    return np.frombuffer(zlib.decompress(b64decode(text)), dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class ShownSensors(Shown):
    """Place, missing rate and RMSE of each sensor. A sensor without an observed target has RMSE NaN."""

    key: ClassVar[str] = "sensors"

    latitude: Floats  # (n_sensors,)
    longitude: Floats
    missing: Floats  # share of its test histories that is missing
    rmse: Floats

    @classmethod
    def of(cls, places: Floats, histories: Numbers, target: Numbers, predicted: Numbers) -> Self:
        """From places (n_sensors, 2) and arrays (n, n_sensors, steps), NaN where missing."""
        squared = np.square(predicted - target)
        seen = np.isfinite(squared)
        count = seen.sum(axis=(0, 2))
        total = np.where(seen, squared, 0.0).sum(axis=(0, 2))
        rmse = np.sqrt(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))
        return cls(places[:, 0], places[:, 1], np.isnan(histories).mean(axis=(0, 2)), rmse)

    def to_extra(self) -> dict[str, Any]:
        return {
            "latitude": _to_numbers(self.latitude, 5),
            "longitude": _to_numbers(self.longitude, 5),
            "missing": _to_numbers(self.missing, 3),
            "rmse": _to_numbers(self.rmse, 2),
        }

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any]) -> Self:
        return cls(*(_from_numbers(extra[name]) for name in ("latitude", "longitude", "missing", "rmse")))


@dataclass(frozen=True, eq=False)
class ShownOutage(Shown):
    """Readings of one sensor while it is dark, and what was predicted: one entry for each hour."""

    key: ClassVar[str] = "outage"

    sensor: str
    start: str  # time of the first entry
    is_dark: Bools  # whether its reading is missing in the histories
    observed: Floats  # NaN where not observed
    predicted: Floats

    def to_extra(self) -> dict[str, Any]:
        return {
            "sensor": self.sensor,
            "start": self.start,
            "is_dark": "".join("01"[int(bit)] for bit in self.is_dark),
            "observed": _to_numbers(self.observed, 1),
            "predicted": _to_numbers(self.predicted, 1),
        }

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any]) -> Self:
        return cls(
            extra["sensor"],
            extra["start"],
            np.array([bit == "1" for bit in extra["is_dark"]]),
            _from_numbers(extra["observed"]),
            _from_numbers(extra["predicted"]),
        )


def _to_numbers(values: Floats, decimals: int) -> list[float | None]:
    """Rounded numbers; None for NaN, which JSON does not have."""
    return [None if np.isnan(value) else round(float(value), decimals) for value in values]


def _from_numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


class Outage(NamedTuple):
    """A run of missing readings of one sensor."""

    first: int
    length: int
    column: int


def longest_outage(is_missing: Bools, is_target: Bools, n_before: int) -> Outage | None:
    """The longest run of missing readings that shows what is predicted during it; None if there is none.

    Parameters
    ----------
    is_missing : (n, n_sensors)
        Missing readings of each sensor, in the order of time.
    is_target : (n, n_sensors)
        Whether there is something to compare predictions with. Runs with fewer than half of them are ignored.
    n_before : int
        Number of readings before the run that must not be missing.

    Examples
    --------
    >>> is_missing = np.array([[0, 1], [0, 0], [1, 1], [1, 1], [0, 1]], dtype=bool)
    >>> longest_outage(is_missing, np.ones_like(is_missing), n_before=1)
    Outage(first=2, length=3, column=1)
    """
    best: Outage | None = None
    for column in range(is_missing.shape[1]):
        padded = np.concatenate([[False], is_missing[:, column], [False]])
        changes = np.flatnonzero(padded[1:] != padded[:-1])
        for first, stop in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True):
            had_readings = first >= n_before and not is_missing[first - n_before : first, column].any()
            is_longer = best is None or stop - first > best.length
            if is_longer and had_readings and is_target[first:stop, column].mean() >= 0.5:
                best = Outage(first, stop - first, column)
    return best
