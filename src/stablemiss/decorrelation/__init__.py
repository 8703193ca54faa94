"""Decorrelation: row weights under which columns and mask bits are as good as independent."""

from stablemiss.decorrelation.balancing import balance_weights
from stablemiss.decorrelation.channels import BatchWeights, ChannelDependence, Memory
from stablemiss.decorrelation.dependence import TERMS, Dependence, Form, dependence
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.decorrelation.permuting import permute_columns
from stablemiss.decorrelation.ratio import ratio_weights
from stablemiss.decorrelation.transport import sliced_distance, transport_weights
from stablemiss.decorrelation.weights import Weighting, critical_gamma, learn_weights, weigh_rows

__all__ = [
    "TERMS",
    "BatchWeights",
    "ChannelDependence",
    "Dependence",
    "Form",
    "Memory",
    "RandomFeatures",
    "Weighting",
    "balance_weights",
    "critical_gamma",
    "dependence",
    "learn_weights",
    "permute_columns",
    "ratio_weights",
    "sliced_distance",
    "transport_weights",
    "weigh_rows",
]
