"""Network modules shared by several methods, without losses and optimisers."""

from stablemiss.networks.hyper import GeneratedMLP, ParameterGenerator
from stablemiss.networks.latent import (
    draw_label_mask,
    init_label_outputs_to_zero,
    label_columns,
    mean_over_draws,
    predict_in_chunks,
)
from stablemiss.networks.mlp import MLP

__all__ = [
    "MLP",
    "GeneratedMLP",
    "ParameterGenerator",
    "draw_label_mask",
    "init_label_outputs_to_zero",
    "label_columns",
    "mean_over_draws",
    "predict_in_chunks",
]
