"""Missingness mechanisms, which hide values of a table, and mask augmentation."""

from collections.abc import Callable

from stablemiss.missingness.augmentation import GivenMasks, MaskAugmentation, MaskSource
from stablemiss.missingness.mar import MAR
from stablemiss.missingness.mcar import MCARIndependent, MCARWindow
from stablemiss.missingness.mechanism import LEVELS, Mechanism
from stablemiss.missingness.mnar import MNAR
from stablemiss.missingness.only import Only
from stablemiss.missingness.outage import Outage
from stablemiss.missingness.resampled import Resampled
from stablemiss.missingness.sensor_outage import SensorOutage

# Mechanisms whose only required argument is the level, by name: MECHANISMS["mar"](0.5).
MECHANISMS: dict[str, Callable[..., Mechanism]] = {
    "mcar_independent": MCARIndependent,
    "mcar_window": MCARWindow,
    "mar": MAR,
    "mnar": MNAR,
}

__all__ = [
    "LEVELS",
    "MAR",
    "MECHANISMS",
    "MNAR",
    "GivenMasks",
    "MCARIndependent",
    "MCARWindow",
    "MaskAugmentation",
    "MaskSource",
    "Mechanism",
    "Only",
    "Outage",
    "Resampled",
    "SensorOutage",
]
