"""Networks: plain modules, without loss and without optimiser."""

from stablemiss.networks.hyper import GeneratedMLP, ParameterGenerator
from stablemiss.networks.latent import PointNet, averaged, gaussian_divergence, label_columns, show_half
from stablemiss.networks.miwae import MIWAENet
from stablemiss.networks.mlp import MLP
from stablemiss.networks.neumiss import NeuMissNet
from stablemiss.networks.p_bigan import PairCritic, PBiGANNet
from stablemiss.networks.partial_vae import PartialVAENet

__all__ = [
    "MLP",
    "GeneratedMLP",
    "MIWAENet",
    "NeuMissNet",
    "PBiGANNet",
    "PairCritic",
    "ParameterGenerator",
    "PartialVAENet",
    "PointNet",
    "averaged",
    "gaussian_divergence",
    "label_columns",
    "show_half",
]
