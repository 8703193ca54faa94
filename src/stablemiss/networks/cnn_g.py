"""g for images: six convolutions, which reduce an image and enlarge it again."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, conv_transpose2d, interpolate, pad

# Initial kernels of the last layer of g, relative to He initialisation. Initial outputs are then near zero,
# the mean image, but gradients reach all layers in the first step.
INITIAL_OUTPUT_SCALE = 0.01


class _Layer(NamedTuple):
    """One convolution of g: channels, stride, and the level of its output (0 = size of the image)."""

    d_in: int
    d_out: int
    stride: int
    level: int
    enlarges: bool = False  # its inputs are enlarged to twice their height and width first


class ConvolutionalG:
    """g: six convolutions, which halve an image twice and enlarge it again, with additive skips.

    The first and the fifth layer work at the size of the image, the second and the fourth at half of it, the
    third at a quarter. Sizes that are odd are rounded up. The outputs of the first and the second layer are
    added to those of the fifth and the fourth. There is no batch normalisation: statistics over a batch have
    no meaning if each image has its own parameters. It holds no parameters; they are arguments of `forward`.

    Parameters
    ----------
    d_in, d_out : int
        Channels of the image and of the output.
    channels : (int, int, int)
        Channels at the three sizes.
    kernel : int
        Width of the kernels, odd.
    """

    def __init__(self, d_in: int, d_out: int, channels: tuple[int, int, int], kernel: int):
        fine, middle, coarse = channels
        self.kernel = kernel
        self.layers = [
            _Layer(d_in, fine, 1, 0),
            _Layer(fine, middle, 2, 1),
            _Layer(middle, coarse, 2, 2),
            _Layer(coarse, middle, 1, 1, enlarges=True),
            _Layer(middle, fine, 1, 0, enlarges=True),
            _Layer(fine, d_out, 1, 0),
        ]
        self.sizes = [layer.d_out * (layer.d_in * kernel**2 + 1) for layer in self.layers]

    def init_parameters(self) -> Tensor:
        """Initial parameters (sum of sizes,): He initialisation, smaller in the last layer; no biases."""
        parts = []
        for number, layer in enumerate(self.layers):
            scale = self.he_scale(layer) * (INITIAL_OUTPUT_SCALE if number == len(self.layers) - 1 else 1.0)
            kernels = torch.randn(layer.d_out, layer.d_in * self.kernel**2 + 1) * scale
            kernels[:, -1] = 0.0
            parts.append(kernels.flatten())
        return torch.cat(parts)

    def he_scale(self, layer: _Layer) -> float:
        """Standard deviation of kernels that keeps the size of activations."""
        return math.sqrt(2 / (layer.d_in * self.kernel**2))

    def convolve(self, number: int, inputs: Tensor, parameters: Tensor) -> Tensor:
        """Layer `number` with the parameters of all images, (size,), or of each image, (n, size)."""
        layer = self.layers[number]
        kernels = parameters.unflatten(-1, (layer.d_out, -1))
        weight = kernels[..., :-1].unflatten(-1, (layer.d_in, self.kernel, self.kernel))
        bias = kernels[..., -1]
        padding = self.kernel // 2
        if parameters.ndim == 1 and layer.enlarges:
            return _enlarge_and_convolve(inputs, weight, bias)
        if parameters.ndim == 1:
            return conv2d(inputs, weight, bias, layer.stride, padding)
        inputs = interpolate(inputs, scale_factor=2) if layer.enlarges else inputs
        # One convolution whose groups are the images costs about as much as one with shared kernels.
        n = len(inputs)
        output = conv2d(
            inputs.flatten(0, 1)[None],
            weight.flatten(0, 1),
            bias.flatten(),
            layer.stride,
            padding,
            groups=n,
        )
        return output[0].unflatten(0, (n, layer.d_out))

    def forward(
        self, image: Tensor, parameters: Tensor, modulation: list[tuple[Tensor, Tensor]] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Apply g; also return the inputs of its last layer.

        Parameters
        ----------
        image : (n, d_in, h, w)
        parameters : (sum of sizes,) or (n, sum of sizes)
            Kernels and biases of all images, or of each image.
        modulation : list of pairs of (n, d_out, height, width), default=None
            Gain and bias of the output of each layer, for each image and place.

        Returns
        -------
        output : (n, d_out, h, w)
        features : (n, channels[0], h, w)
        """
        flat = parameters.split(self.sizes, dim=-1)

        def apply(number: int, inputs: Tensor, skip: Tensor | None = None) -> Tensor:
            output = self.convolve(number, inputs, flat[number])
            if skip is not None:
                output = crop(output, skip)
            if modulation is None:
                return output
            gain, bias = modulation[number]
            return torch.addcmul(bias, gain, output)

        fine = apply(0, image).relu()
        middle = apply(1, fine).relu()
        coarse = apply(2, middle).relu()
        middle = (apply(3, coarse, middle) + middle).relu()
        fine = (apply(4, middle, fine) + fine).relu()
        return apply(5, fine), fine


def crop(enlarged: Tensor, image: Tensor) -> Tensor:
    """Without the last row or column if the height or width of the image is odd."""
    return enlarged[..., : image.shape[2], : image.shape[3]]


def _enlarge_and_convolve(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolution of images that are enlarged to twice their size by repeating each pixel.

    Pixels that repeat need no multiplication of their own: this is a transposed convolution, whose kernels
    are the sums of neighbouring weights. It takes 4/9 of the multiplications of kernels of width 3.
    """
    sums = avg_pool2d(pad(weight.flip(2, 3), (1, 1, 1, 1)), 2, stride=1, divisor_override=1)
    return conv_transpose2d(inputs, sums.transpose(0, 1), bias, stride=2, padding=weight.shape[-1] // 2)
