"""Decorrelation: row weights under which columns and mask indicators are less dependent."""

from stablemiss.decorrelation.balancing import BalancingDecorrelator
from stablemiss.decorrelation.channels import BatchDecorrelator, ChannelDependence, Memory
from stablemiss.decorrelation.dependence import TERMS, Dependence, Form, dependence
from stablemiss.decorrelation.features import RandomFeatures
from stablemiss.decorrelation.global_balance import GlobalBalance, JointBalancer
from stablemiss.decorrelation.objective import Weighting, critical_gamma
from stablemiss.decorrelation.permuting import permute_columns
from stablemiss.decorrelation.ratio import RatioDecorrelator
from stablemiss.decorrelation.transport import TransportDecorrelator, sliced_distance
from stablemiss.decorrelation.weights import Decorrelator, learn_weights

__all__ = [
    "TERMS",
    "BalancingDecorrelator",
    "BatchDecorrelator",
    "ChannelDependence",
    "Decorrelator",
    "Dependence",
    "Form",
    "GlobalBalance",
    "JointBalancer",
    "Memory",
    "RandomFeatures",
    "RatioDecorrelator",
    "TransportDecorrelator",
    "Weighting",
    "critical_gamma",
    "dependence",
    "learn_weights",
    "permute_columns",
    "sliced_distance",
]
