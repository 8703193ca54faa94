"""Simple, strong models with which methods for images and sensor networks are compared."""

from stablemiss.experiments.references.images import FactorAnalysisEM, LabelGaussian, MeanImage
from stablemiss.experiments.references.sensors import (
    BoostingOnLags,
    DecayedLastValue,
    HourOfWeek,
    KalmanEM,
    LastValue,
    RidgeOnLags,
)

__all__ = [
    "BoostingOnLags",
    "DecayedLastValue",
    "FactorAnalysisEM",
    "HourOfWeek",
    "KalmanEM",
    "LabelGaussian",
    "LastValue",
    "MeanImage",
    "RidgeOnLags",
]
