"""A Gaussian mixture on incomplete rows: fitting by EM, and what it expects of the cells that are missing."""

from stablemiss.mixture.conditional import GaussianMixture
from stablemiss.mixture.em import Rows
from stablemiss.mixture.fitting import RIDGES, MixtureFit
from stablemiss.mixture.uncertainty import Uncertainty

__all__ = ["RIDGES", "GaussianMixture", "MixtureFit", "Rows", "Uncertainty"]
