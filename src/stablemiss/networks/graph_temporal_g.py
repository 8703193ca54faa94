"""g for sensor networks: graph attention, attention over time and convolutions over time, and back."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, pad, scaled_dot_product_attention

from stablemiss.networks.graph_attention import Edges, graph_attention, linear

# Initial parameters of the layers that add to the output, relative to He initialisation. Initial outputs are
# then near zero, the mean, but gradients reach all layers in the first step.
INITIAL_OUTPUT_SCALE = 0.01
OUTPUT_LAYERS = ("gat_out", "self_out", "last")

# Gain and bias of the activations at one place of g, (n, nodes, times, channels) each.
Modulation = dict[str, tuple[Tensor, Tensor]]


class _Layer(NamedTuple):
    """A linear layer of g. Its parameters are a matrix (d_in + 1, d_out), whose first row is the bias."""

    name: str
    d_in: int
    d_out: int


class Place(NamedTuple):
    """Where g can be modulated: the number of halvings of time, and the channels."""

    name: str
    level: int
    channels: int


class GraphTemporalG:
    """g: a graph attention layer, attention over time and convolutions over time, and back.

    The convolutions halve the number of times twice and restore it, with additive skips. Beside each graph
    attention layer, a linear layer reads the node itself, because the history of a node is more informative
    than those of its neighbours; a last linear layer connects the history with the output. It holds no
    parameters; they are arguments of `forward`.

    Parameters
    ----------
    n_past, n_future : int
        Times to predict from, and to predict.
    d_context : int
        Inputs that all nodes read, such as the calendar; may be 0.
    channels : int
        Channels of each time; twice and four times as many after one and two halvings. A multiple of
        `heads`.
    heads : int
        Heads of all attention layers.
    mask_input : bool, default=False
        Whether each node also reads the mask of its history, after the history.
    """

    def __init__(
        self,
        n_past: int,
        n_future: int,
        d_context: int,
        channels: int,
        heads: int,
        mask_input: bool = False,
    ):
        self.n_past, self.n_future, self.d_context = n_past, n_future, d_context
        self.channels, self.heads = channels, heads
        c, wide = channels, channels * n_past
        d_node = n_past * (1 + mask_input)
        self.layers = [
            _Layer("gat_in", d_node, wide),
            _Layer("gat_in.scores", 2 * c // heads * n_past - 1, heads),
            _Layer("self_in", d_node, wide),
            *([_Layer("context", d_context, c)] if d_context else []),
            _Layer("attention_in", c, 3 * c),
            _Layer("attention_in.out", c, c),
            _Layer("down_1", 3 * c, 2 * c),
            _Layer("down_2", 6 * c, 4 * c),
            # The parameters up to here are those of `encode`.
            _Layer("up_1", 12 * c, 2 * c),
            _Layer("up_2", 6 * c, c),
            _Layer("attention_out", c, 3 * c),
            _Layer("attention_out.out", c, c),
            _Layer("gat_out", wide, heads * n_future),
            _Layer("gat_out.scores", 2 * n_future - 1, heads),
            _Layer("self_out", wide, n_future),
            _Layer("last", d_node, n_future),
        ]
        self.places = [
            Place("in", 0, c),
            Place("down_1", 1, 2 * c),
            Place("down_2", 2, 4 * c),
            Place("up_1", 1, 2 * c),
            Place("up_2", 0, c),
            Place("last", 0, 1),
        ]

    @property
    def sizes(self) -> list[int]:
        """Number of parameters of each layer."""
        return [(layer.d_in + 1) * layer.d_out for layer in self.layers]

    def encoder_only(self) -> GraphTemporalG:
        """The same with the layers of `encode` alone."""
        encoder = GraphTemporalG(self.n_past, self.n_future, self.d_context, self.channels, self.heads)
        names = [layer.name for layer in encoder.layers]
        encoder.layers = encoder.layers[: names.index("up_1")]
        return encoder

    def init_parameters(self) -> Tensor:
        """Initial parameters (sum of sizes,): He initialisation, smaller in the output layers; no biases."""
        parts = []
        for layer in self.layers:
            matrix = torch.randn(layer.d_in + 1, layer.d_out) * self.initial_scale(layer)
            if not layer.name.endswith(".scores"):
                matrix[0] = 0.0
            parts.append(matrix.flatten())
        return torch.cat(parts)

    def initial_scale(self, layer: _Layer) -> float:
        """Standard deviation of the initial parameters of a layer, which keeps the size of activations."""
        scale = math.sqrt(1 / (layer.d_in + 1) if "." in layer.name else 2 / layer.d_in)
        return scale * (INITIAL_OUTPUT_SCALE if layer.name in OUTPUT_LAYERS else 1.0)

    def encode(
        self, history: Tensor, context: Tensor, parameters: Tensor, edges: Edges, embedding: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Activations with all times, half and a quarter of them, without modulation.

        Parameters are those of `forward`.
        """
        matrices = self._matrices(parameters)
        tokens = self._tokens(history, context, matrices, edges, embedding).relu()
        tokens = self._attend(tokens, matrices, "attention_in")
        half = _convolve(tokens, matrices["down_1"], 2).relu()
        return tokens, half, _convolve(half, matrices["down_2"], 2).relu()

    def forward(
        self,
        history: Tensor,
        context: Tensor,
        parameters: Tensor,
        edges: Edges,
        embedding: Tensor,
        modulation: Modulation | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Apply g; also return the inputs of its last layers.

        Parameters
        ----------
        history : (n, n_nodes, n_past), or (n, n_nodes, 2 n_past) with the mask
            Zero where missing.
        context : (n, d_context)
        parameters : (sum of sizes,) or (n, sum of sizes)
            Parameters of all windows, or of each window.
        edges : Edges
        embedding : (n_nodes, channels)
            Learnt features of the nodes.
        modulation : dict, default=None
            Place → gain and bias.

        Returns
        -------
        output : (n, n_nodes, n_future)
        features : (n, n_nodes, n_past · channels)
        """
        matrices = self._matrices(parameters)

        def modulate(place: str, activations: Tensor) -> Tensor:
            if modulation is None:
                return activations
            gain, bias = modulation[place]
            return torch.addcmul(bias, gain, activations)

        tokens = modulate("in", self._tokens(history, context, matrices, edges, embedding)).relu()
        tokens = self._attend(tokens, matrices, "attention_in")
        half = modulate("down_1", _convolve(tokens, matrices["down_1"], 2)).relu()
        quarter = modulate("down_2", _convolve(half, matrices["down_2"], 2)).relu()
        back = modulate("up_1", _convolve(_repeat(quarter, half.shape[2]), matrices["up_1"]))
        half = (half + back).relu()
        back = modulate("up_2", _convolve(_repeat(half, tokens.shape[2]), matrices["up_2"]))
        tokens = self._attend((tokens + back).relu(), matrices, "attention_out")
        features = tokens.flatten(2)
        neighbours = graph_attention(features, matrices["gat_out"], matrices["gat_out.scores"], edges)
        lags = modulate("last", history.unsqueeze(3)).squeeze(3)
        own = linear(features, matrices["self_out"]) + linear(lags, matrices["last"])
        return neighbours.mean(dim=2) + own, features

    def _matrices(self, parameters: Tensor) -> dict[str, Tensor]:
        """Layer → matrix (d_in + 1, d_out) of all windows, or (n, d_in + 1, d_out) of each window."""
        flat = parameters.split(self.sizes, dim=-1)
        return {
            layer.name: part.unflatten(-1, (layer.d_in + 1, layer.d_out))
            for layer, part in zip(self.layers, flat, strict=True)
        }

    def _tokens(
        self, history: Tensor, context: Tensor, matrices: dict[str, Tensor], edges: Edges, embedding: Tensor
    ) -> Tensor:
        """Features of each node and time, (n, n_nodes, n_past, channels)."""
        # PAPER: a graph attention layer, attention over time, convolutions.
        # DEVIATION: graph attention reads all times of a node at once, because per time it costs several
        # times as much.
        neighbours = graph_attention(history, matrices["gat_in"], matrices["gat_in.scores"], edges)
        own = linear(history, matrices["self_in"]).unflatten(2, (self.channels, self.n_past))
        tokens = (neighbours.flatten(2).unflatten(2, (self.channels, self.n_past)) + own).transpose(2, 3)
        # DEVIATION: calendar and trained embeddings of the nodes, because the course of a day differs between
        # nodes; the paper's network reads the history alone.
        if self.d_context:
            tokens = tokens + linear(context[:, None, :], matrices["context"])[:, None]
        return tokens + embedding[:, None, :]

    def _attend(self, tokens: Tensor, matrices: dict[str, Tensor], name: str) -> Tensor:
        """Multi-head self-attention over the times of each node, added to the tokens."""
        normalised = layer_norm(tokens, tokens.shape[-1:])
        projected = linear(normalised, matrices[name]).flatten(0, 1).unflatten(2, (3, self.heads, -1))
        query, key, value = projected.permute(2, 0, 3, 1, 4).unbind(0)
        attended = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return tokens + linear(attended.unflatten(0, tokens.shape[:2]), matrices[f"{name}.out"])


def _convolve(tokens: Tensor, matrix: Tensor, stride: int = 1) -> Tensor:
    """Convolution of width 3 over the times of tokens (n, nodes, times, channels)."""
    padded = pad(tokens, (0, 0, 1, 1))
    n_times = tokens.shape[2]
    shifted = [padded[:, :, shift : shift + n_times : stride] for shift in range(3)]
    return linear(torch.cat(shifted, dim=3), matrix)


def _repeat(tokens: Tensor, n_times: int) -> Tensor:
    """Every time twice, cut to `n_times`."""
    return tokens.repeat_interleave(2, dim=2)[:, :, :n_times]
