"""g(values; φ(mask)) for sensor networks: graph attention, attention over time and convolutions over time.

`GeneratedGraphTemporal` is the form of the paper, in which φ generates all parameters of g for each window.
`ModulatedGraphTemporal` is ours: all windows share the parameters of g, and φ adapts their effect at each
node and time. For comparison, `SharedGraphTemporal` has no φ and may read the mask as a further input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from stablemiss.networks.graph_attention import Edges
from stablemiss.networks.graph_temporal_g import GraphTemporalG, Modulation
from stablemiss.networks.hyper import INITIAL_MASK_SCALE, ParameterGenerator

# Numbers that a chunk of rows may need at a time, 0.3 GB in double precision.
MAX_CHUNK_ELEMENTS = 2**25
# Channels and heads of φ, and units of its hidden layer.
MASK_CHANNELS, MASK_HEADS, MASK_HIDDEN = 8, 2, 64


class _SensorNetwork(nn.Module):
    """What both networks share: shapes, graph, configuration, and the flat interface of all networks.

    Parameters
    ----------
    shape : (int, int, int)
        Rows and times of a window, and times to predict. Rows of a window after those of the nodes are
        context.
    edges : sequence of int
        Source and target of each edge in turn, without edges from a node to itself.
    n_nodes : int
    channels, heads : int
        As in `GraphTemporalG`.
    """

    def __init__(
        self, shape: tuple[int, int, int], edges: Sequence[int], n_nodes: int, channels: int, heads: int
    ):
        super().__init__()
        n_rows, self.n_past, self.n_future = shape
        self.n_nodes, self.n_rows = n_nodes, n_rows
        self.config: dict[str, Any] = {
            "shape": tuple(shape),
            "edges": tuple(edges),
            "n_nodes": n_nodes,
            "channels": channels,
            "heads": heads,
        }
        if not 1 <= n_nodes <= n_rows or not all(0 <= node < n_nodes for node in edges):
            raise ValueError("Edges must refer to nodes, which are rows of a window.")
        pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)
        loops = torch.arange(n_nodes)
        # Part of the configuration, therefore not stored again.
        self.register_buffer("source", torch.cat([pairs[:, 0], loops]), persistent=False)
        self.register_buffer("target", torch.cat([pairs[:, 1], loops]), persistent=False)
        self.d_context = (n_rows - n_nodes) * self.n_past
        self.g = GraphTemporalG(self.n_past, self.n_future, self.d_context, channels, heads)
        # A vector, as generated parameters are, so that weight decay does not act on it.
        self.embedding = nn.Parameter(0.1 * torch.randn(n_nodes * channels))

    @property
    def edges(self) -> Edges:
        return Edges(self.get_buffer("source"), self.get_buffer("target"))

    @property
    def operations_per_row(self) -> int:
        """Multiplications of the largest layer of g for one window."""
        return 24 * self.g.channels**2 * self.n_nodes * self.n_past

    @property
    def rows_at_once(self) -> int:
        """Number of windows whose activations fit into memory at a time."""
        per_time = 2 * len(self.edges.source) + 12 * self.n_nodes
        return max(1, MAX_CHUNK_ELEMENTS // (per_time * self.n_past * self.g.channels))

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        if not len(values):
            return values.new_zeros(0, self.n_nodes * self.n_future)
        return self._predict(*self._parts(values, mask)).flatten(1)

    def _parts(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """History and context, zero where missing, and their masks."""
        mask = mask.unflatten(1, (self.n_rows, self.n_past))
        # PAPER: g reads x ⊙ m, so that the entries of missing values have no influence.
        values = values.unflatten(1, (self.n_rows, self.n_past)) * mask
        history, context = self._split(values)
        # Inputs of any unit: the calendar shares a scale with the readings.
        context = layer_norm(context, context.shape[1:]) if self.d_context else context
        return (history, context, *self._split(mask))

    def _split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of nodes (n, n_nodes, n_past), and context (n, d_context)."""
        return rows[:, : self.n_nodes], rows[:, self.n_nodes :].flatten(1)

    def _apply_g(
        self, history: Tensor, context: Tensor, parameters: Tensor, modulation: Modulation | None = None
    ) -> tuple[Tensor, Tensor]:
        embedding = self.embedding.unflatten(0, (self.n_nodes, self.g.channels))
        return self.g.forward(history, context, parameters, self.edges, embedding, modulation)

    def _predict(self, history: Tensor, context: Tensor, mask: Tensor, context_mask: Tensor) -> Tensor:
        raise NotImplementedError


class MaskEncoder(nn.Module):
    """The body of φ: the layers of g up to the convolutions, on the mask.

    Parameters
    ----------
    n_past, d_context, n_nodes : int
        As in `GraphTemporalG`.

    Shape
    -----
    mask (n, n_nodes, n_past), mask of the context (n, d_context)
    → features of each node with all times, half and a quarter of them
    """

    def __init__(self, n_past: int, d_context: int, n_nodes: int):
        super().__init__()
        self.n_nodes = n_nodes
        self.layers = GraphTemporalG(n_past, 1, d_context, MASK_CHANNELS, MASK_HEADS).encoder_only()
        self.parameters_of_layers = nn.Parameter(self.layers.init_parameters())
        self.embedding = nn.Parameter(0.1 * torch.randn(n_nodes * MASK_CHANNELS))

    def forward(self, mask: Tensor, context_mask: Tensor, edges: Edges) -> tuple[Tensor, Tensor, Tensor]:
        embedding = self.embedding.unflatten(0, (self.n_nodes, MASK_CHANNELS))
        return self.layers.encode(mask, context_mask, self.parameters_of_layers, edges, embedding)


class GeneratedGraphTemporal(_SensorNetwork):
    """g(values; φ(mask)) for sensor networks, where φ generates all parameters of g for each window.

    φ consists of the layers of g up to the convolutions, applied to the mask, averaged over nodes, and an
    MLP. Initial outputs are near zero, the mean of a standardised target.

    Parameters
    ----------
    shape : (int, int, int)
        Rows and times of a window, and times to predict. Rows after those of the nodes are inputs that all
        nodes read, such as the calendar.
    edges : sequence of int
        Source and target of each edge in turn, without edges from a node to itself.
    n_nodes : int
        Number of sensors.
    channels : int, default=16
        Channels of g for each time. More channels are more flexible; time and number of parameters grow with
        the square.
    heads : int, default=4
        Heads of attention, a divisor of `channels`.
    rank : int, default=8
        The parameters of g vary with the mask in a subspace of this dimension. A higher rank distinguishes
        masks in more ways; memory grows in proportion. None is the most flexible.

    Shape
    -----
    values (n, rows · n_past), zero where missing; mask (n, rows · n_past), 1 = observed
    → outputs (n, n_nodes · n_future)

    See Also
    --------
    ModulatedGraphTemporal : Shared parameters, whose effect depends on the mask nearby.

    Examples
    --------
    >>> network = GeneratedGraphTemporal((3, 8, 4), edges=[0, 1], n_nodes=3, channels=4, heads=2)
    >>> network(torch.zeros(5, 24), torch.ones(5, 24)).shape
    torch.Size([5, 12])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        edges: Sequence[int],
        n_nodes: int,
        channels: int = 16,
        heads: int = 4,
        rank: int | None = 8,
    ):
        super().__init__(shape, edges, n_nodes, channels, heads)
        self.config["rank"] = rank
        self.mask_encoder = MaskEncoder(self.n_past, self.d_context, n_nodes)
        # DEVIATION: a low rank, because the last layer of φ would have by far the most weights. `rank=None`
        # is the paper's form.
        n_quarter = math.ceil(math.ceil(self.n_past / 2) / 2)
        d_features = 4 * MASK_CHANNELS * n_quarter
        self.phi = ParameterGenerator(d_features, self.g.init_parameters(), [MASK_HIDDEN], rank)
        last = self.phi.expand or self.phi.code.last
        # Differences between masks in proportion to the parameters: matrices with many inputs are small.
        with torch.no_grad():
            for rows, layer in zip(last.weight.split(self.g.sizes), self.g.layers, strict=True):
                rows.mul_(self.g.initial_scale(layer))

    def _predict(self, history: Tensor, context: Tensor, mask: Tensor, context_mask: Tensor) -> Tensor:
        features = self.mask_encoder(mask, context_mask, self.edges)[-1].mean(dim=1).flatten(1)
        return self._apply_g(history, context, self.phi(features))[0]


class ModulatedGraphTemporal(_SensorNetwork):
    """A network for sensors whose activations are scaled and shifted according to the mask nearby.

    All windows share the parameters of g. φ, the layers of g up to the convolutions applied to the mask,
    emits a gain and a bias for each node, time and channel of the layers of g. This is our form. Which
    readings to rely on depends on those missing at a node and its neighbours, not in the whole network.
    Initial outputs are near zero, the mean of a standardised target.

    Parameters
    ----------
    shape, edges, n_nodes, channels, heads
        As in `GeneratedGraphTemporal`.

    Shape
    -----
    values (n, rows · n_past), zero where missing; mask (n, rows · n_past), 1 = observed
    → outputs (n, n_nodes · n_future)

    See Also
    --------
    GeneratedGraphTemporal : The form of the paper.

    Examples
    --------
    >>> network = ModulatedGraphTemporal((3, 8, 4), edges=[0, 1], n_nodes=3, channels=4, heads=2)
    >>> network(torch.zeros(5, 24), torch.ones(5, 24)).shape
    torch.Size([5, 12])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        edges: Sequence[int],
        n_nodes: int,
        channels: int = 16,
        heads: int = 4,
    ):
        super().__init__(shape, edges, n_nodes, channels, heads)
        self.mask_encoder = MaskEncoder(self.n_past, self.d_context, n_nodes)
        self.parameters_of_g = nn.Parameter(self.g.init_parameters())
        # DEVIATION: φ emits gains and biases of each node and time instead of all parameters, because
        # parameters that are the same for a whole window cannot differ between sensors that work and fail.
        emitters = []
        for place in self.g.places:
            emitter = nn.Linear(MASK_CHANNELS * 2**place.level, 2 * place.channels)
            with torch.no_grad():
                emitter.weight.mul_(INITIAL_MASK_SCALE)
                emitter.bias.zero_()
            emitters.append(emitter)
        self.emitters = nn.ModuleList(emitters)

    def _predict(self, history: Tensor, context: Tensor, mask: Tensor, context_mask: Tensor) -> Tensor:
        levels = self.mask_encoder(mask, context_mask, self.edges)
        modulation = {}
        for place, emitter in zip(self.g.places, self.emitters, strict=True):
            gain, bias = emitter(levels[place.level]).chunk(2, dim=3)
            modulation[place.name] = (1 + gain, bias)
        return self._apply_g(history, context, self.parameters_of_g, modulation)[0]


class SharedGraphTemporal(_SensorNetwork):
    """The network g for sensors without φ: all windows share its parameters, whatever their mask.

    Parameters
    ----------
    shape, edges, n_nodes, channels, heads
        As in `GeneratedGraphTemporal`.
    mask_input : bool, default=False
        Whether each node also reads the mask of its history.

    Shape
    -----
    values (n, rows · n_past), zero where missing; mask (n, rows · n_past), 1 = observed
    → outputs (n, n_nodes · n_future)

    Examples
    --------
    >>> network = SharedGraphTemporal((3, 8, 4), [0, 1], n_nodes=3, channels=4, heads=2, mask_input=True)
    >>> network(torch.zeros(5, 24), torch.ones(5, 24)).shape
    torch.Size([5, 12])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        edges: Sequence[int],
        n_nodes: int,
        channels: int = 16,
        heads: int = 4,
        mask_input: bool = False,
    ):
        super().__init__(shape, edges, n_nodes, channels, heads)
        self.config["mask_input"] = mask_input
        if mask_input:
            self.g = GraphTemporalG(self.n_past, self.n_future, self.d_context, channels, heads, mask_input)
        self.parameters_of_g = nn.Parameter(self.g.init_parameters())

    @property
    def d_features(self) -> int:
        """Number of features of `output_and_features`."""
        return self.n_past * self.g.channels

    def output_and_features(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (n, n_nodes · n_future), and the inputs of the last layers, averaged over nodes."""
        history, context, mask, _ = self._parts(values, mask)
        output, features = self._apply_shared(history, context, mask)
        return output.flatten(1), features.mean(dim=1)

    def _apply_shared(self, history: Tensor, context: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        inputs = torch.cat([history, mask], dim=2) if self.config["mask_input"] else history
        return self._apply_g(inputs, context, self.parameters_of_g)

    def _predict(self, history: Tensor, context: Tensor, mask: Tensor, context_mask: Tensor) -> Tensor:
        return self._apply_shared(history, context, mask)[0]
