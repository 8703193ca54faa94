"""Decorrelation: row weights under which columns and mask bits are as good as independent."""

from stablemiss.decorrelation.dependence import TERMS, Dependence, dependence
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.decorrelation.weights import Weighting, critical_gamma, learn_weights, weigh_rows

__all__ = [
    "TERMS",
    "Dependence",
    "RandomFeatures",
    "Weighting",
    "critical_gamma",
    "dependence",
    "learn_weights",
    "weigh_rows",
]
