"""Architectures for arrays with missing values, such as images: ``StableMissRegressor(architecture=CNN())``.

An architecture is a small object with the hyper-parameters of a network. It can be compared, copied, stored
in a model file and searched like any other parameter. To add one, write a frozen dataclass with `check` and
`build`, and add it to `ARCHITECTURES`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

from stablemiss.checks import MAX_WIDTH, check_choice, check_integer, check_widths, shown
from stablemiss.datasets import Graph
from stablemiss.missingness import MaskAugmentation

if TYPE_CHECKING:
    from torch import nn

Shape = tuple[int, ...]
# How the mask determines the predictor: φ generates all parameters of a row, or gains and biases of each
# place; without φ, the mask is a further input, or is not read at all.
Generate = Literal["global", "local", "input", "none"]
# Partial convolutions, for images only.
GenerateCNN = Literal["global", "local", "input", "none", "partial"]
# Widest kernel of a convolution.
MAX_KERNEL = 13
# Most channels of a photograph: red, green, blue and opacity.
MAX_COLOURS = 4


class Architecture(ABC):
    """Hyper-parameters of a network for rows that are arrays; subclasses are frozen dataclasses.

    See Also
    --------
    CNN : Images.
    GraphTemporal : Sensor networks.
    """

    @abstractmethod
    def check(self, shape: Shape, output_shape: Shape) -> None:
        """Raise ValueError, which says what to do, unless networks for these shapes can be built.

        Parameters
        ----------
        shape : tuple of int
            Shape of one row; (d,) for a table.
        output_shape : tuple of int
            Shape of the outputs of one row; (d_output,) for a number, several numbers or classes.
        """

    @abstractmethod
    def build(self, shape: Shape, output_shape: Shape) -> nn.Module:
        """Create the network g(values; φ(mask)), which maps flat rows to flat outputs.

        Its `config` holds its constructor arguments, integers and tuples of them. It may have the attributes
        `rows_at_once`, the number of rows that it can predict at a time, and `operations_per_row`, the
        multiplications of its largest layer.

        Parameters
        ----------
        shape, output_shape : tuple of int
            As in `check`.
        """

    def augmentation(self, shape: Shape, output_shape: Shape) -> MaskAugmentation:
        """Which cells of rows of these shapes are hidden together by `mask_augmentation`: each one alone."""
        return MaskAugmentation.of(np.arange(math.prod(shape)))

    def parameters(self) -> dict[str, Any]:
        """What a model file stores; `from_parameters` creates an equal object from it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """Create from the result of `parameters`; raises an error if they are invalid."""
        return cls(**parameters)


@dataclass(frozen=True)
class CNN(Architecture):
    """Convolutional network for incomplete images: predicts an image of the same height and width.

    Six convolutions reduce the image to half and to a quarter of its size and enlarge it again, with additive
    skips. Images have shape (n, height, width) or (n, channels, height, width), of any height and width.

    Parameters
    ----------
    channels : (int, int, int), default=(16, 32, 64)
        Channels at full, half and quarter size. More channels are more flexible, slower and overfit earlier;
        the number of parameters, 47,000 by default, grows with the square.
    kernel : int, default=3
        Width of the convolutions: an odd number from 3 to 13. Wider kernels bridge larger gaps; time and
        number of parameters grow with the square.
    generate : {"global", "local", "input", "none", "partial"}, default="global"
        How the mask determines the network. "global", the form of the paper: a network φ reads the mask and
        generates all parameters for each image. "local", ours: images share the parameters, and φ emits a
        gain and a bias for each channel and place, so that the network adapts to the missing pixels around a
        place. It has far fewer parameters and was more accurate on handwritten digits at every level of
        missingness (table 4). Without φ, for comparison: "input" reads the mask as further channels, "none"
        does not read it, and "partial" divides each convolution by the share of observed pixels (partial
        convolutions).
    rank : int or None, default=16
        For "global": the parameters vary with the mask in a subspace of this dimension. A higher rank
        distinguishes masks in more ways, needs more memory and overfits earlier. None, as in the paper, is
        the most flexible.

    See Also
    --------
    StableMissRegressor : Its parameter `architecture` accepts this object.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import StableMissRegressor
    >>> images = np.random.default_rng(0).normal(size=(40, 6, 6))
    >>> incomplete = np.where(np.random.default_rng(1).random(images.shape) < 0.3, np.nan, images)
    >>> model = StableMissRegressor(CNN(channels=(4, 4, 4)), max_epochs=2, random_state=0)
    >>> model.fit(incomplete, images).predict(incomplete[:2]).shape
    (2, 6, 6)
    """

    channels: tuple[int, int, int] = (16, 32, 64)
    kernel: int = 3
    generate: GenerateCNN = "global"
    rank: int | None = 16

    def __post_init__(self) -> None:
        if not isinstance(self.channels, Sequence) or len(self.channels) != 3:
            raise ValueError(
                "channels must be three numbers, for full, half and quarter size, such as (16, 32, 64); got "
                f"{shown(self.channels)}."
            )
        check_widths(self, "channels")
        # A tuple of plain integers, so that the object can be hashed and stored.
        object.__setattr__(self, "channels", tuple(int(width) for width in self.channels))
        check_integer(self, kernel=(3, MAX_KERNEL))
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be an odd number from 3 to {MAX_KERNEL}; got {self.kernel}.")
        check_choice(self, generate=get_args(GenerateCNN))
        check_integer(self, rank=(1, MAX_WIDTH), unless=None)

    def check(self, shape: Shape, output_shape: Shape) -> None:
        if len(shape) not in (2, 3):
            raise ValueError(
                "architecture=CNN() reads images: X must have shape (n, height, width) or "
                f"(n, channels, height, width), but one row of X has shape {shape}. Reshape X, or use "
                "architecture='mlp' for a table."
            )
        if len(shape) == 3 and shape[2] <= MAX_COLOURS < min(shape[:2]):
            raise ValueError(
                "architecture=CNN() reads images whose channels come first, (n, channels, height, width), "
                f"but one row of X has shape {shape}, with {shape[2]} channels at the end. Use "
                "np.moveaxis(X, -1, 1), and the same for y."
            )
        if len(output_shape) not in (2, 3) or output_shape[-2:] != shape[-2:]:
            raise ValueError(
                "architecture=CNN() predicts images of the same height and width: one row of X has shape "
                f"{shape}, so y must have shape (n, {shape[-2]}, {shape[-1]}) or (n, channels, {shape[-2]}, "
                f"{shape[-1]}), but one row of y has shape {output_shape}. For numbers or classes, reshape X "
                "to a table and use architecture='mlp'."
            )

    def build(self, shape: Shape, output_shape: Shape) -> nn.Module:
        # Imported late, because torch takes seconds to import.
        from stablemiss.networks import GeneratedCNN, ModulatedCNN, PartialCNN, SharedCNN

        self.check(shape, output_shape)
        height, width = shape[-2:]
        image = (shape[0] if len(shape) == 3 else 1, height, width)
        d_out = output_shape[0] if len(output_shape) == 3 else 1
        if self.generate in ("local", "partial"):
            network = ModulatedCNN if self.generate == "local" else PartialCNN
            return network(image, d_out, self.channels, int(self.kernel))
        if self.generate in ("input", "none"):
            return SharedCNN(image, d_out, self.channels, int(self.kernel), self.generate == "input")
        rank = None if self.rank is None else int(self.rank)
        return GeneratedCNN(image, d_out, self.channels, int(self.kernel), rank)


@dataclass(frozen=True)
class GraphTemporal(Architecture):
    """Network for sensors with missing readings: predicts the next readings of all sensors.

    Graph attention, attention over time and convolutions over time, and back. Windows have shape
    (n, nodes, times); rows after those of the nodes are inputs that all nodes read, such as the calendar:
    ``windows.history(calendar=True)``. The target has shape (n, nodes, times to predict), with NaN where
    nothing was read.

    Parameters
    ----------
    graph : Graph or None, default=None
        Which sensors exchange information, in the order of the rows of a window. None: each sensor is
        predicted from its own readings and the calendar. Weights of its edges are ignored: attention learns
        how much each neighbour counts.
    channels : int, default=16
        Channels for each time: a multiple of `heads`. More channels are more flexible, slower and overfit
        earlier; the number of parameters of g, 26,000 for eight times by default, grows with
        the square.
    heads : int, default=4
        Heads of all attention layers. More heads combine neighbours and times in more ways, each with fewer
        channels.
    generate : {"global", "local", "input", "none"}, default="global"
        How the mask determines the network. "global", the form of the paper: a network φ reads the mask and
        generates all parameters for each window. "local", ours: windows share the parameters, and φ emits a
        gain and a bias for each sensor, time and channel, so that the network adapts to the readings missing
        nearby. Without φ, for comparison: "input" reads the mask of each sensor as a further input, and
        "none" does not read it.
    rank : int or None, default=8
        For "global": the parameters vary with the mask in a subspace of this dimension. A higher rank
        distinguishes masks in more ways, needs more memory and overfits earlier. None, as in the paper, is
        the most flexible.

    See Also
    --------
    SensorWindows : Windows of readings, and the calendar.
    StableMissRegressor : Its parameter `architecture` accepts this object.

    Examples
    --------
    >>> import numpy as np
    >>> from stablemiss import StableMissRegressor
    >>> from stablemiss.datasets import Graph
    >>> readings = np.random.default_rng(0).normal(size=(60, 3, 12))
    >>> readings[:, 1, :4] = np.nan
    >>> graph = Graph.from_edges(["a", "b", "c"], [("a", "b")])
    >>> model = StableMissRegressor(GraphTemporal(graph, channels=4), max_epochs=2, random_state=0)
    >>> model.fit(readings[:, :, :8], readings[:, :, 8:]).predict(readings[:2, :, :8]).shape
    (2, 3, 4)
    """

    graph: Graph | None = None
    channels: int = 16
    heads: int = 4
    generate: Generate = "global"
    rank: int | None = 8

    def __post_init__(self) -> None:
        if self.graph is not None and not isinstance(self.graph, Graph):
            raise ValueError(
                "graph must be a Graph, made by Graph.nearest(coordinates) or Graph.from_edges(names, edges) "
                f"or None; got {shown(self.graph)}."
            )
        check_integer(self, channels=(1, MAX_WIDTH), heads=(1, MAX_WIDTH))
        if self.channels % self.heads:
            raise ValueError(
                f"channels must be a multiple of heads; got channels={self.channels} and heads={self.heads}."
            )
        check_choice(self, generate=get_args(Generate))
        check_integer(self, rank=(1, MAX_WIDTH), unless=None)

    def check(self, shape: Shape, output_shape: Shape) -> None:
        if len(shape) != 2 or len(output_shape) != 2:
            raise ValueError(
                "architecture=GraphTemporal() reads windows of shape (n, nodes, times) and predicts "
                f"(n, nodes, times to predict), but one row of X has shape {shape} and one row of y "
                f"{output_shape}. SensorWindows makes such windows of a table of readings."
            )
        n_nodes = output_shape[0]
        if self.graph is not None and self.graph.n_nodes != n_nodes:
            raise ValueError(
                f"The graph has {self.graph.n_nodes} nodes, but y has {n_nodes}: its shape must be "
                "(n, nodes, times to predict), with the nodes in the order of the graph."
            )
        if shape[0] < n_nodes:
            raise ValueError(
                f"y has {n_nodes} nodes, but X has only {shape[0]} rows per window; its shape must be "
                "(n, nodes, times), and rows after those of the nodes are inputs that all nodes read."
            )

    def build(self, shape: Shape, output_shape: Shape) -> nn.Module:
        # Imported late, because torch takes seconds to import.
        from stablemiss.networks import (
            GeneratedGraphTemporal,
            ModulatedGraphTemporal,
            SharedGraphTemporal,
        )

        self.check(shape, output_shape)
        edges = () if self.graph is None else tuple(self.graph.edges.ravel().tolist())
        n_nodes, n_future = output_shape
        sizes = (shape[0], shape[1], n_future)
        channels, heads = int(self.channels), int(self.heads)
        if self.generate == "local":
            return ModulatedGraphTemporal(sizes, edges, n_nodes, channels, heads)
        if self.generate in ("input", "none"):
            has_mask = self.generate == "input"
            return SharedGraphTemporal(sizes, edges, n_nodes, channels, heads, has_mask)
        rank = None if self.rank is None else int(self.rank)
        return GeneratedGraphTemporal(sizes, edges, n_nodes, channels, heads, rank)

    def augmentation(self, shape: Shape, output_shape: Shape) -> MaskAugmentation:
        # A sensor that fails is missing for hours. The calendar never is.
        rows = np.arange(shape[0])
        return MaskAugmentation.of(np.repeat(rows, shape[1]), may_vanish=rows < output_shape[0])

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "graph": None if self.graph is None else self.graph.state()}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        graph = parameters["graph"]
        return cls(**{**parameters, "graph": None if graph is None else Graph.from_state(graph)})


# Name in model files → class. No other class is built from a file.
ARCHITECTURES: dict[str, type[Architecture]] = {"CNN": CNN, "GraphTemporal": GraphTemporal}


def check_architecture(architecture: object) -> None:
    """Raise ValueError unless the parameter `architecture` is "linear", "mlp" or an `Architecture`.

    See Also
    --------
    CNN : For images.
    GraphTemporal : For windows of sensors.

    Examples
    --------
    >>> check_architecture(CNN(kernel=5))
    >>> check_architecture("cnn")
    Traceback (most recent call last):
    ValueError: architecture must be 'linear', 'mlp' or an object of stablemiss.architectures such as CNN();
    got 'cnn'.
    """
    is_name = isinstance(architecture, str) and architecture in ("linear", "mlp")
    if not is_name and not isinstance(architecture, Architecture):
        raise ValueError(
            "architecture must be 'linear', 'mlp' or an object of stablemiss.architectures such as CNN(); "
            f"got {shown(architecture)}."
        )
