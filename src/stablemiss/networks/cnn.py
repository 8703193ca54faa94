"""g(values; φ(mask)) for images: convolutional networks whose parameters depend on the mask of each image.

`GeneratedCNN` is the form of the paper, in which φ generates all parameters of g for each image.
`ModulatedCNN` is ours: all images share the kernels of g, and φ adapts their effect at each place.
For comparison, `SharedCNN` has no φ and may read the mask as a further image, and `PartialCNN` scales each
convolution by the share of observed pixels.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, interpolate

from stablemiss.networks.cnn_g import ConvolutionalG, crop
from stablemiss.networks.hyper import INITIAL_MASK_SCALE, ParameterGenerator

# Numbers that a chunk of rows may need at a time, 0.3 GB in double precision.
MAX_CHUNK_ELEMENTS = 2**25
# Widths of φ: of its six convolutions, of the grid to which they are averaged, and of its hidden layer.
MASK_CHANNELS = (16, 16, 32, 32, 32, 32)
MASK_GRID = 4
MASK_HIDDEN = 64
# Width of the convolutions of φ in `ModulatedCNN`.
PLACE_CHANNELS = 16


class _ImageNetwork(nn.Module):
    """What both networks share: shapes, configuration, and the flat interface of all networks."""

    def __init__(self, shape: tuple[int, int, int], d_out: int, channels: tuple[int, int, int], kernel: int):
        super().__init__()
        self.shape = tuple(shape)
        self.config: dict[str, Any] = {
            "shape": self.shape,
            "d_out": d_out,
            "channels": tuple(channels),
            "kernel": kernel,
        }
        self.g = ConvolutionalG(self.shape[0], d_out, channels, kernel)

    @property
    def operations_per_row(self) -> int:
        """Multiplications of the largest convolution of g for one image."""
        place = self.shape[1] * self.shape[2]
        return max(
            size * place // 4**layer.level for size, layer in zip(self.g.sizes, self.g.layers, strict=True)
        )

    def _rows_at_once(self, elements_per_place: int, elements_per_row: int = 0) -> int:
        elements = self.shape[1] * self.shape[2] * elements_per_place + elements_per_row
        return max(1, MAX_CHUNK_ELEMENTS // elements)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        if not len(values):
            return values.new_zeros(0, self.config["d_out"] * self.shape[1] * self.shape[2])
        mask = mask.unflatten(1, self.shape)
        # PAPER: g reads x ⊙ m, so that the entries of missing values have no influence.
        return self._predict(values.unflatten(1, self.shape) * mask, mask).flatten(1)

    def _predict(self, image: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError


class GeneratedCNN(_ImageNetwork):
    """g(values; φ(mask)) for images, where φ generates all kernels of the convolutional network g.

    φ is a network of six convolutions on the mask, averaged to a grid of 4 × 4, and an MLP. Initial outputs
    are near zero, the mean of a standardised target.

    Parameters
    ----------
    shape : (int, int, int)
        Channels, height and width of an image.
    d_out : int
        Channels of the output, which has the same height and width.
    channels : (int, int, int), default=(16, 32, 64)
        Channels of g at full, half and quarter size. More channels are more flexible; the number of
        parameters grows with the square.
    kernel : int, default=3
        Width of the kernels of g, odd. Wider kernels bridge larger gaps; cost grows with the square.
    rank : int, default=16
        The parameters of g vary with the mask in a subspace of this dimension. A higher rank distinguishes
        masks in more ways; memory and time grow in proportion. None is the most flexible.

    Shape
    -----
    values (n, c · h · w), zero where missing; mask (n, c · h · w), 1 = observed → outputs (n, d_out · h · w)

    See Also
    --------
    ModulatedCNN : Shared kernels, whose effect depends on the mask nearby.

    Examples
    --------
    >>> network = GeneratedCNN((1, 8, 8), d_out=1, channels=(4, 4, 4))
    >>> network(torch.zeros(5, 64), torch.ones(5, 64)).shape
    torch.Size([5, 64])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        d_out: int,
        channels: tuple[int, int, int] = (16, 32, 64),
        kernel: int = 3,
        rank: int | None = 16,
    ):
        super().__init__(shape, d_out, channels, kernel)
        self.config["rank"] = rank
        # PAPER: six convolutional layers and an MLP, whose last layer emits all parameters of g.
        # DEVIATION: a low rank, because that layer alone would have hundreds of millions of weights with the
        # widths of the authors' code. `rank=None` is the paper's form.
        self.mask_cnn = _mask_convolutions(shape[0], MASK_CHANNELS, strides=(1, 2, 1, 2, 1, 2))
        d_features = MASK_CHANNELS[-1] * MASK_GRID**2
        self.phi = ParameterGenerator(d_features, self.g.init_parameters(), [MASK_HIDDEN], rank)
        last = self.phi.expand or self.phi.code.last
        # Differences between masks in proportion to the parameters: kernels with many inputs are small.
        scales = [self.g.he_scale(layer) for layer in self.g.layers]
        with torch.no_grad():
            for rows, scale in zip(last.weight.split(self.g.sizes), scales, strict=True):
                rows.mul_(scale)

    @property
    def rows_at_once(self) -> int:
        """Number of images whose parameters and activations fit into memory at a time."""
        # Parameters of each image, once as generated and once in the order of convolutions.
        return self._rows_at_once(4 * max(self.config["channels"]), 2 * sum(self.g.sizes))

    def _predict(self, image: Tensor, mask: Tensor) -> Tensor:
        features = nn.functional.adaptive_avg_pool2d(self.mask_cnn(mask), MASK_GRID).flatten(1)
        return self.g.forward(image, self.phi(features))[0]


class ModulatedCNN(_ImageNetwork):
    """A convolutional network whose activations are scaled and shifted according to the mask nearby.

    All images share the kernels of g. φ, six convolutions on the mask, emits a gain and a bias for each
    channel and place of each layer of g. This is our form. Which pixels to rely on depends on those missing
    around a place, not in the whole image. Initial outputs are near zero, the mean of a standardised target.

    Parameters
    ----------
    shape : (int, int, int)
        Channels, height and width of an image.
    d_out : int
        Channels of the output, which has the same height and width.
    channels : (int, int, int), default=(16, 32, 64)
        Channels of g at full, half and quarter size. More channels are more flexible; the number of
        parameters grows with the square.
    kernel : int, default=3
        Width of the kernels of g, odd. Wider kernels bridge larger gaps; cost grows with the square.

    Shape
    -----
    values (n, c · h · w), zero where missing; mask (n, c · h · w), 1 = observed → outputs (n, d_out · h · w)

    See Also
    --------
    GeneratedCNN : The form of the paper.

    Examples
    --------
    >>> network = ModulatedCNN((1, 8, 8), d_out=1, channels=(4, 4, 4))
    >>> network(torch.zeros(5, 64), torch.ones(5, 64)).shape
    torch.Size([5, 64])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        d_out: int,
        channels: tuple[int, int, int] = (16, 32, 64),
        kernel: int = 3,
    ):
        super().__init__(shape, d_out, channels, kernel)
        # One vector, as generated parameters are: weight decay acts on φ alone, which draws all masks
        # together, and not on what they share.
        self.parameters_of_g = nn.Parameter(self.g.init_parameters())
        # DEVIATION: φ emits gains and biases of each place instead of all parameters, because kernels that
        # are the same for a whole image cannot differ between places with and without missing pixels.
        width = PLACE_CHANNELS
        self.levels = nn.ModuleList(
            _mask_convolutions(d_in, (width, width), strides=(stride, 1))
            for d_in, stride in ((shape[0], 1), (width, 2), (width, 2))
        )
        heads = [nn.Conv2d(width, 2 * layer.d_out, 1) for layer in self.g.layers]
        for head in heads:
            _set_initial(head, head.weight.detach() * INITIAL_MASK_SCALE)
        self.heads = nn.ModuleList(heads)

    @property
    def rows_at_once(self) -> int:
        """Number of images whose activations fit into memory at a time."""
        # Gains and biases of all layers, and activations.
        return self._rows_at_once(8 * max(self.config["channels"]))

    def _predict(self, image: Tensor, mask: Tensor) -> Tensor:
        features = [mask]
        for level in self.levels:
            features.append(level(features[-1]))
        modulation = []
        for head, layer in zip(self.heads, self.g.layers, strict=True):
            gain, bias = head(features[1 + layer.level]).chunk(2, dim=1)
            modulation.append((1 + gain, bias))
        return self.g.forward(image, self.parameters_of_g, modulation)[0]


class SharedCNN(_ImageNetwork):
    """The convolutional network g without φ: all images share its kernels, whatever their mask.

    Parameters
    ----------
    shape, d_out, channels, kernel
        As in `ModulatedCNN`.
    mask_input : bool, default=False
        Whether g also reads the mask, as further channels.

    Shape
    -----
    values (n, c · h · w), zero where missing; mask (n, c · h · w), 1 = observed → outputs (n, d_out · h · w)

    Examples
    --------
    >>> network = SharedCNN((1, 8, 8), d_out=1, channels=(4, 4, 4), mask_input=True)
    >>> network(torch.zeros(5, 64), torch.ones(5, 64)).shape
    torch.Size([5, 64])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        d_out: int,
        channels: tuple[int, int, int] = (16, 32, 64),
        kernel: int = 3,
        mask_input: bool = False,
    ):
        super().__init__(shape, d_out, channels, kernel)
        self.config["mask_input"] = mask_input
        if mask_input:
            self.g = ConvolutionalG(2 * self.shape[0], d_out, channels, kernel)
        self.parameters_of_g = nn.Parameter(self.g.init_parameters())

    @property
    def d_features(self) -> int:
        """Number of features of `output_and_features`."""
        return self.config["channels"][0]

    @property
    def rows_at_once(self) -> int:
        """Number of images whose activations fit into memory at a time."""
        return self._rows_at_once(4 * max(self.config["channels"]))

    def output_and_features(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (n, d_out · h · w), and the inputs of the last layer, averaged over the image."""
        mask = mask.unflatten(1, self.shape)
        output, features = self._apply_g(values.unflatten(1, self.shape) * mask, mask)
        return output.flatten(1), features.mean(dim=(2, 3))

    def _apply_g(self, image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        inputs = torch.cat([image, mask], dim=1) if self.config["mask_input"] else image
        return self.g.forward(inputs, self.parameters_of_g)

    def _predict(self, image: Tensor, mask: Tensor) -> Tensor:
        return self._apply_g(image, mask)[0]


class PartialCNN(SharedCNN):
    """The convolutional network g with partial convolutions (Liu et al., ECCV 2018).

    Each convolution sees observed pixels only and is divided by their share of its window. A place is
    observed in the next layer if its window contains an observed one; elsewhere the output is zero.

    Parameters
    ----------
    shape, d_out, channels, kernel
        As in `ModulatedCNN`.

    Shape
    -----
    values (n, c · h · w), zero where missing; mask (n, c · h · w), 1 = observed → outputs (n, d_out · h · w)

    Examples
    --------
    >>> network = PartialCNN((1, 8, 8), d_out=1, channels=(4, 4, 4))
    >>> network(torch.zeros(5, 64), torch.ones(5, 64)).shape
    torch.Size([5, 64])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        d_out: int,
        channels: tuple[int, int, int] = (16, 32, 64),
        kernel: int = 3,
    ):
        super().__init__(shape, d_out, channels, kernel)
        del self.config["mask_input"]

    def _apply_g(self, image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.g.forward(image, self.parameters_of_g, self._coverage(mask))

    def _coverage(self, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Gain and bias of each layer, which make its convolution a partial one."""
        biases = [
            part.unflatten(0, (layer.d_out, -1))[:, -1, None, None]
            for part, layer in zip(self.parameters_of_g.split(self.g.sizes), self.g.layers, strict=True)
        ]
        modulation: list[tuple[Tensor, Tensor]] = []

        def cover(observed: Tensor, skip: Tensor | None = None) -> Tensor:
            """Append the modulation of the next layer, whose inputs are observed there; return its mask."""
            number = len(modulation)
            window = observed.new_ones(1, 1, self.g.kernel, self.g.kernel)
            layer, padding = self.g.layers[number], self.g.kernel // 2
            observed = interpolate(observed, scale_factor=2) if layer.enlarges else observed
            n_seen = conv2d(observed, window, None, layer.stride, padding)
            if skip is not None:
                n_seen = crop(n_seen, skip)
            is_seen = (n_seen > 0).to(observed)
            # AUTHORS' CODE: pixels beyond the border count as missing.
            gain = self.g.kernel**2 / n_seen.clamp_min(1e-6) * is_seen
            # g scales the bias of a convolution together with it; this takes the scale back.
            modulation.append((gain, (is_seen - gain) * biases[number]))
            return is_seen if skip is None else torch.maximum(is_seen, skip)

        fine = cover(mask.mean(dim=1, keepdim=True))
        middle = cover(fine)
        coarse = cover(middle)
        cover(cover(cover(coarse, middle), fine))
        return modulation


def _mask_convolutions(d_in: int, widths: tuple[int, ...], strides: tuple[int, ...]) -> nn.Sequential:
    """Convolutions of width 3 with ReLU and He initialisation, which keeps the differences between masks.

    No normalisation: it would remove how much of an image is observed.
    """
    layers = nn.Sequential()
    for (d_before, d_after), stride in zip(pairwise((d_in, *widths)), strides, strict=True):
        convolution = nn.Conv2d(d_before, d_after, 3, stride, padding=1)
        _set_initial(convolution, nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu"))
        layers.extend([convolution, nn.ReLU()])
    return layers


def _set_initial(convolution: nn.Conv2d, weight: Tensor) -> None:
    """Set the initial weights, and the biases to zero."""
    assert convolution.bias is not None
    with torch.no_grad():
        convolution.weight.copy_(weight)
        convolution.bias.zero_()
