"""Graph attention (Veličković et al. 2018): each node reads a weighted mean of its neighbours' features."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

# Slope of the leaky ReLU of graph attention below zero, as in the paper that introduced it.
ATTENTION_SLOPE = 0.2


class Edges(NamedTuple):
    """Sources and targets of the edges of a graph, (n_edges,) each, with an edge from each node to itself."""

    source: Tensor
    target: Tensor


def linear(inputs: Tensor, matrix: Tensor) -> Tensor:
    """Linear layer on the last axis of inputs (n, …, d_in); the first row of its matrix is the bias.

    Parameters
    ----------
    inputs : (n, …, d_in)
    matrix : (d_in + 1, d_out) or (n, d_in + 1, d_out)
        Shared by all rows, or one for each row.
    """
    flat = inputs.flatten(1, -2)
    if matrix.ndim == 2:
        output = torch.nn.functional.linear(flat, matrix[1:].T, matrix[0])
    else:
        output = torch.baddbmm(matrix[:, :1], flat, matrix[:, 1:])
    return output.unflatten(1, inputs.shape[1:-1])


def graph_attention(inputs: Tensor, matrix: Tensor, scores: Tensor, edges: Edges) -> Tensor:
    """Means over the sources of each node's edges, weighted by a softmax of scores.

    Parameters
    ----------
    inputs : (n, n_nodes, d_in)
    matrix : (d_in + 1, heads · d) or (n, d_in + 1, heads · d)
        Linear layer from inputs to features, shared by all rows or one for each row.
    scores : (2 d, heads) or (n, 2 d, heads)
        Vectors whose products with the features of target and source give the score of an edge.
    edges : Edges
        With an edge from each node to itself.

    Returns
    -------
    (n, n_nodes, heads, d)

    Examples
    --------
    Without scores all sources count equally:

    >>> edges = Edges(torch.tensor([0, 0, 1]), torch.tensor([1, 0, 1]))  # 0 → 1, and both to themselves
    >>> values = torch.tensor([[[2.0], [4.0]]])
    >>> graph_attention(values, torch.tensor([[0.0], [1.0]]), torch.zeros(2, 1), edges).flatten().tolist()
    [2.0, 3.0]
    """
    heads = scores.shape[-1]
    by_head = matrix.unflatten(-1, (heads, -1))
    # A score is linear in the inputs too: the vectors of both linear maps, (…, d_in + 1, 2 heads).
    vectors = scores.unflatten(-2, (2, -1)).movedim(-3, 0).transpose(-1, -2)
    of_inputs = torch.einsum("...ihd,t...hd->...ith", by_head, vectors).flatten(-2)
    of_target, of_source = linear(inputs, of_inputs).transpose(0, 1).chunk(2, dim=-1)
    weight = _attention(of_target, of_source, edges)
    if inputs.shape[-1] >= by_head.shape[-1]:
        # Nodes come first, so that the features of a node in all rows are moved in one piece.
        features = linear(inputs, matrix).unflatten(2, (heads, -1)).transpose(0, 1).contiguous()
        return _WeightedSums.apply(features, weight, edges).transpose(0, 1)
    # Weights sum to one, so that means of features are the features of means: fewer numbers per edge.
    means = _WeightedSums.apply(inputs.transpose(0, 1).contiguous()[:, :, None], weight, edges)
    equation = "vnhi,ihd->nvhd" if matrix.ndim == 2 else "vnhi,nihd->nvhd"
    bias = by_head[..., 0, :, :] if matrix.ndim == 2 else by_head[:, 0, None]
    return torch.einsum(equation, means, by_head[..., 1:, :, :]) + bias


def _attention(of_target: Tensor, of_source: Tensor, edges: Edges) -> Tensor:
    """Weight of each edge, (n_edges, n, heads); those that end at a node sum to one.

    Parameters
    ----------
    of_target, of_source : (n_nodes, n, heads)
        Contributions of both ends of an edge to its score.
    edges : Edges
    """
    score = leaky_relu(of_target[edges.target] + of_source[edges.source], ATTENTION_SLOPE)
    index = edges.target[:, None, None].expand_as(score)
    zeros = torch.zeros_like(of_target)
    largest = zeros.scatter_reduce(0, index, score.detach(), "amax", include_self=False)
    weight = (score - largest[edges.target]).exp()
    return weight / zeros.index_add(0, edges.target, weight)[edges.target]


class _WeightedSums(torch.autograd.Function):
    """Sums over the edges that end at each node, (n_nodes, n, heads, d); nothing of edges is stored.

    The features of the sources are (n_nodes, n, heads, d), or (n_nodes, n, 1, d) if all heads read the same.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, edges: Edges) -> Tensor:
        ctx.save_for_backward(features, weight)
        ctx.edges = edges
        sums = features.new_zeros(*features.shape[:2], weight.shape[2], features.shape[3])
        return sums.index_add_(0, edges.target, features[edges.source] * weight[..., None])

    @staticmethod
    def backward(ctx: Any, *grad_output: Tensor) -> tuple[Tensor | None, Tensor, None]:
        features, weight = ctx.saved_tensors
        at_target = grad_output[0][ctx.edges.target]
        weight_gradient = (at_target * features[ctx.edges.source]).sum(dim=-1)
        if not ctx.needs_input_grad[0]:
            return None, weight_gradient, None
        of_edges = at_target.mul_(weight[..., None])
        if features.shape[2] != weight.shape[2]:
            of_edges = of_edges.sum(dim=2, keepdim=True)
        return torch.zeros_like(features).index_add_(0, ctx.edges.source, of_edges), weight_gradient, None
