"""Gaussian mixtures for incomplete rows: fitting by EM, and conditional expectations of missing values."""

from stablemiss.mixture.class_densities import ClassDensities
from stablemiss.mixture.conditional import GaussianMixture
from stablemiss.mixture.em import EMRows
from stablemiss.mixture.fitting import RIDGES, MixtureFit, numbers_of_components
from stablemiss.mixture.uncertainty import ConditionalVariance, Uncertainty

__all__ = [
    "RIDGES",
    "ClassDensities",
    "ConditionalVariance",
    "EMRows",
    "GaussianMixture",
    "MixtureFit",
    "Uncertainty",
    "numbers_of_components",
]
