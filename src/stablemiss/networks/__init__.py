"""Networks: plain modules, without loss and without optimiser."""

from stablemiss.networks.columns import ColumnNet
from stablemiss.networks.hyper import GeneratedMLP, ParameterGenerator
from stablemiss.networks.mlp import MLP

__all__ = ["MLP", "ColumnNet", "GeneratedMLP", "ParameterGenerator"]
