"""Helpers for networks in which a latent vector z describes a row, and the target is one more column."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from stablemiss.checks import MAX_DRAWS
from stablemiss.networks.mlp import MLP

# Maximum number of elements of a tensor for a chunk of rows: small enough for the processor's cache.
MAX_ELEMENTS = 2**18


def target_columns(target: Tensor, d_output: int) -> Tensor:
    """Targets as columns (n, d_output): numbers unchanged, classes one-hot encoded.

    Examples
    --------
    >>> target_columns(torch.tensor([1, 0]), 2)
    tensor([[0., 1.],
            [1., 0.]])
    """
    if target.ndim == 2:
        return target
    return nn.functional.one_hot(target, d_output).to(torch.get_default_dtype())


def draw_target_mask(targets: Tensor, seen: Tensor | None = None) -> Tensor:
    """Random mask (n, k) of `targets` (n, k), 1 = shown to the encoder; about half of the rows are shown.

    Targets are available in training but never in prediction. An encoder that always read them in training
    would rely on them.

    Parameters
    ----------
    targets : (n, k)
    seen : (n, k), default=None
        1 = observed; targets that are not observed are never shown. None means that all are observed.
    """
    shown = (torch.rand(len(targets), 1, device=targets.device) < 0.5).to(targets)
    return shown.expand_as(targets) if seen is None else shown * seen


def fixed_draws(n_draws: int, d_latent: int) -> Tensor:
    """Standard normal draws (n_draws, d_latent), which predictions use for all rows.

    Parameters
    ----------
    n_draws : int
        At most 10,000. More draws make predictions less noisy; time and memory are proportional.
    d_latent : int
        Length of the latent vector z.
    """
    if not 1 <= n_draws <= MAX_DRAWS:
        raise ValueError(f"n_draws must be an integer between 1 and {MAX_DRAWS}; got {n_draws!r}.")
    return torch.randn(n_draws, d_latent)


def predict_in_chunks(
    predict: Callable[[Tensor, Tensor], Tensor], values: Tensor, mask: Tensor, elements_per_row: int
) -> Tensor:
    """Call `predict(values, mask)` on chunks of rows, so that no tensor exceeds `MAX_ELEMENTS`.

    Parameters
    ----------
    predict : callable
        Function from values (n, d) and mask (n, d) to (n, k), independent for each row.
    values, mask : (n, d)
    elements_per_row : int
        Number of elements of the largest tensor for a single row.
    """
    if torch.compiler.is_exporting():
        # The number of chunks would fix the number of rows of an exported network.
        return predict(values, mask)
    size = max(1, MAX_ELEMENTS // elements_per_row)
    chunks = zip(values.split(size), mask.split(size), strict=True)
    return torch.cat([predict(*chunk) for chunk in chunks])


def mean_over_draws(targets: Tensor, weight: Tensor, is_classes: bool) -> Tensor:
    """Outputs (n, k): the weighted mean of the decoded targets (n, L, k) of L draws.

    For classes, probabilities are averaged and the output is their logarithm.

    Parameters
    ----------
    targets : (n, L, k)
        Numbers, or log-odds of classes.
    weight : (n, L)
        Sums to one over the draws.
    is_classes : bool
        Whether the targets are classes.
    """
    if is_classes:
        targets = targets.softmax(dim=2)
    mean = (weight[:, :, None] * targets).sum(dim=1)
    return mean.clamp_min(1e-30).log() if is_classes else mean


def mean_target(decoder: MLP, hidden: Tensor, weight: Tensor, targets: slice, is_classes: bool) -> Tensor:
    """Outputs (n, k) as from `mean_over_draws`, but without decoding anything else, for many columns.

    Numbers are averaged before the last layer instead of after it. The layer is linear, so the result is the
    same up to rounding, and the cost does not grow with draws × targets.

    Parameters
    ----------
    decoder : MLP
    hidden : (n, L, h)
        Inputs of its last layer for L draws.
    weight : (n, L)
        Sums to one over the draws.
    targets : slice
        Position of the targets among the outputs of the decoder.
    is_classes : bool
        Whether the targets are classes.
    """
    last_weight, last_bias = decoder.last.weight[targets], decoder.last.bias[targets]
    if is_classes:
        return mean_over_draws(linear(hidden, last_weight, last_bias), weight, is_classes)
    return linear(torch.einsum("nl,nlh->nh", weight, hidden), last_weight, last_bias)


def init_target_outputs_to_zero(decoder: MLP, targets: slice) -> None:
    """Initialise the target outputs of a decoder to zero, the mean of standardised targets.

    Parameters
    ----------
    decoder : MLP
    targets : slice
        Position of the targets among the outputs.
    """
    with torch.no_grad():
        decoder.last.weight[targets] = 0.0
        decoder.last.bias[targets] = 0.0
