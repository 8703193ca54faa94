"""Gaussian mixtures for incomplete rows: fitting by EM, and conditional expectations of missing values."""

from stablemiss.mixture.conditional import GaussianMixture
from stablemiss.mixture.em import Rows
from stablemiss.mixture.fitting import RIDGES, MixtureFit
from stablemiss.mixture.uncertainty import Uncertainty

__all__ = ["RIDGES", "GaussianMixture", "MixtureFit", "Rows", "Uncertainty"]
