"""Decorrelation: row weights under which columns and mask bits are as good as independent."""

from stablemiss.decorrelation.dependence import TERMS, Dependence, Form, dependence
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.decorrelation.permuting import permute_columns
from stablemiss.decorrelation.transport import sliced_distance, transport_weights
from stablemiss.decorrelation.weights import Weighting, critical_gamma, learn_weights, weigh_rows

__all__ = [
    "TERMS",
    "Dependence",
    "Form",
    "RandomFeatures",
    "Weighting",
    "critical_gamma",
    "dependence",
    "learn_weights",
    "permute_columns",
    "sliced_distance",
    "transport_weights",
    "weigh_rows",
]
