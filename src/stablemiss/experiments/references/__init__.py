"""Simple, strong models with which methods for images and sensor networks are compared."""

from stablemiss.experiments.references.combined import GaussianAndNetwork, NetworkAndRidge
from stablemiss.experiments.references.images import FactorAnalysisEM, LabelGaussian
from stablemiss.experiments.references.kalman import KalmanEM
from stablemiss.experiments.references.sensors import (
    BoostingOnLags,
    DecayedLastValue,
    HourOfWeek,
    LastValue,
    RidgeOnLags,
)

__all__ = [
    "BoostingOnLags",
    "DecayedLastValue",
    "FactorAnalysisEM",
    "GaussianAndNetwork",
    "HourOfWeek",
    "KalmanEM",
    "LabelGaussian",
    "LastValue",
    "NetworkAndRidge",
    "RidgeOnLags",
]
