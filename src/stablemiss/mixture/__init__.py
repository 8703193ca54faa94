"""Gaussian mixtures for incomplete rows: fitting by EM, and conditional expectations of missing values."""

from stablemiss.mixture.conditional import GaussianMixture
from stablemiss.mixture.em import EMRows
from stablemiss.mixture.fitting import RIDGES, MixtureFit
from stablemiss.mixture.uncertainty import Uncertainty

__all__ = ["RIDGES", "EMRows", "GaussianMixture", "MixtureFit", "Uncertainty"]
