"""Network modules shared by several methods, without losses and optimisers."""

from stablemiss.networks.cnn import GeneratedCNN, ModulatedCNN, PartialCNN, SharedCNN
from stablemiss.networks.graph_temporal import (
    GeneratedGraphTemporal,
    ModulatedGraphTemporal,
    SharedGraphTemporal,
)
from stablemiss.networks.hyper import GeneratedMLP, ParameterGenerator
from stablemiss.networks.latent import (
    draw_target_mask,
    fixed_draws,
    init_target_outputs_to_zero,
    mean_over_draws,
    predict_in_chunks,
    target_columns,
)
from stablemiss.networks.mlp import MLP

__all__ = [
    "MLP",
    "GeneratedCNN",
    "GeneratedGraphTemporal",
    "GeneratedMLP",
    "ModulatedCNN",
    "ModulatedGraphTemporal",
    "ParameterGenerator",
    "PartialCNN",
    "SharedCNN",
    "SharedGraphTemporal",
    "draw_target_mask",
    "fixed_draws",
    "init_target_outputs_to_zero",
    "mean_over_draws",
    "predict_in_chunks",
    "target_columns",
]
