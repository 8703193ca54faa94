"""Networks for images: each image has its own network, which depends on its mask alone."""

import pytest
import torch
from torch.nn.functional import conv2d, interpolate

from stablemiss.networks import GeneratedCNN, ModulatedCNN, PartialCNN, SharedCNN
from stablemiss.networks.cnn_g import ConvolutionalG

SMALL = {"channels": (3, 4, 5)}
NETWORKS = [
    pytest.param(
        lambda shape, d_out=1, **args: GeneratedCNN(shape, d_out, **SMALL, rank=2, **args), id="global"
    ),
    pytest.param(
        lambda shape, d_out=1, **args: GeneratedCNN(shape, d_out, **SMALL, rank=None, **args), id="full"
    ),
    pytest.param(lambda shape, d_out=1, **args: ModulatedCNN(shape, d_out, **SMALL, **args), id="local"),
]
SHAPES = [(1, 8, 8), (2, 7, 5), (1, 1, 1), (3, 2, 9)]


@pytest.fixture(autouse=True)
def _isolated_random_state():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(params=NETWORKS)
def make(request):
    return request.param


def draw(shape, n=6):
    d = shape[0] * shape[1] * shape[2]
    mask = (torch.rand(n, d) < 0.6).double()
    mask[0], mask[1] = 0.0, 1.0  # nothing and everything observed
    return torch.randn(n, d).double(), mask


def randomise(network):
    """Parameters for which masks and layers matter, in double precision."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return network.double().eval()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", [3, 7])
def test_an_image_alone_equals_its_row_in_a_batch(make, shape, kernel):
    network = randomise(make(shape, kernel=kernel))
    values, mask = draw(shape)
    together = network(values, mask)
    assert together.shape == (6, shape[1] * shape[2])
    assert torch.isfinite(together).all()
    for row in range(6):
        alone = network(values[row : row + 1], mask[row : row + 1])[0]
        torch.testing.assert_close(alone, together[row], rtol=1e-12, atol=1e-12)
    assert network(values[:0], mask[:0]).shape == (0, shape[1] * shape[2])


def test_hidden_values_have_no_influence_and_masks_have(make):
    network = randomise(make((1, 8, 8)))
    values, mask = draw((1, 8, 8))
    expected = network(values, mask)
    torch.testing.assert_close(network(values + 1e6 * (1 - mask), mask), expected, rtol=0, atol=0)
    assert (network(values * mask, torch.ones_like(mask))[2:] - expected[2:]).abs().max() > 1e-3


@pytest.mark.parametrize("d_out", [1, 2])
def test_initial_outputs_are_near_zero_and_every_parameter_gets_a_gradient(make, d_out):
    network = make((1, 8, 8), d_out).double()
    values, mask = draw((1, 8, 8), n=20)
    outputs = network(values, mask)
    assert outputs.abs().max() < 0.5
    assert outputs.std() < 0.1
    (outputs - torch.randn_like(outputs)).square().mean().backward()
    without = [name for name, parameter in network.named_parameters() if not parameter.grad.abs().sum() > 0]
    assert without == []


def test_generated_kernels_equal_a_loop_that_builds_the_network_of_each_image():
    """g written out with ordinary convolutions."""
    network = randomise(GeneratedCNN((2, 6, 7), d_out=2, channels=(3, 4, 5), kernel=5, rank=3))
    values, mask = draw((2, 6, 7))
    image_mask = mask.unflatten(1, (2, 6, 7))
    features = torch.nn.functional.adaptive_avg_pool2d(network.mask_cnn(image_mask), 4).flatten(1)
    widths = [(2, 3), (3, 4), (4, 5), (5, 4), (4, 3), (3, 2)]
    for row, parameters in enumerate(network.phi(features)):
        layers, first = [], 0
        for d_in, d_out in widths:
            kernels = parameters[first : first + d_out * (d_in * 25 + 1)].reshape(d_out, -1)
            first += kernels.numel()
            layers.append((kernels[:, :-1].reshape(d_out, d_in, 5, 5), kernels[:, -1]))
        assert first == len(parameters)

        def layer(number, inputs, stride=1, layers=layers):
            return conv2d(inputs, *layers[number], stride=stride, padding=2)

        full = layer(0, (values * mask)[row].reshape(1, 2, 6, 7)).relu()
        half = layer(1, full, 2).relu()
        quarter = layer(2, half, 2).relu()
        assert (half.shape[2:], quarter.shape[2:]) == ((3, 4), (2, 2))
        half = (layer(3, interpolate(quarter, scale_factor=2))[..., :3, :4] + half).relu()
        full = (layer(4, interpolate(half, scale_factor=2))[..., :6, :7] + full).relu()
        expected = layer(5, full).flatten()
        torch.testing.assert_close(network(values, mask)[row], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("size", "kernel"), [((8, 8), 3), ((7, 10), 5), ((5, 3), 3)])
def test_shared_parameters_give_the_same_as_equal_parameters_of_each_image(size, kernel):
    """Shared kernels are applied to enlarged images as transposed convolutions, those of an image are not."""
    g = ConvolutionalG(2, 1, (3, 4, 5), kernel)
    parameters = torch.randn(sum(g.sizes)).double()
    images = torch.randn(4, 2, *size).double()
    shared, _ = g.forward(images, parameters)
    own, _ = g.forward(images, parameters.expand(4, -1))
    torch.testing.assert_close(shared, own, rtol=1e-9, atol=1e-9)


def test_local_modulation_reacts_to_the_mask_nearby_only_through_places_nearby():
    """Without values, a hole in one corner changes nothing at the opposite corner."""
    network = randomise(ModulatedCNN((1, 64, 64), d_out=1, channels=(2, 2, 2)))
    values, mask = torch.zeros(1, 64 * 64).double(), torch.ones(1, 64 * 64).double()
    hole = mask.clone().unflatten(1, (64, 64))
    hole[:, :3, :3] = 0.0
    change = (network(values, mask) - network(values, hole.flatten(1))).unflatten(1, (64, 64))[0].abs()
    assert change[0, 0] > 1e-6
    assert change[-8:, -8:].max() == 0


def test_the_default_g_has_46529_parameters_for_any_size():
    assert sum(ConvolutionalG(1, 1, (16, 32, 64), 3).sizes) == 46_529
    for shape in ((1, 8, 8), (1, 28, 28)):
        n_parameters = sum(p.numel() for p in ModulatedCNN(shape, 1).parameters())
        assert n_parameters < 70_000


def test_shared_parameters_are_a_vector_which_weight_decay_does_not_shrink():
    """Weight decay draws the predictors of all masks together, and not towards zero."""
    assert ModulatedCNN((1, 8, 8), 1, **SMALL).parameters_of_g.ndim == 1
    assert GeneratedCNN((1, 8, 8), 1, **SMALL).phi.expand.bias.ndim == 1


def test_larger_images_are_predicted_in_smaller_chunks(make):
    sizes = [make((1, side, side)).rows_at_once for side in (8, 64, 4096)]
    assert sizes[0] > sizes[1] > sizes[2] == 1


# Pixels near the border, whose windows or those of the pixels that they depend on reach beyond the image.
BORDER = 14


def partial_convolution(image, observed, weight, bias, stride=1):
    """Output and mask of a partial convolution, pixel by pixel, of an image (c, h, w) and a mask (h, w).

    Windows are cut off at the border, where the result is not compared.
    """
    height, width = (-(-size // stride) for size in observed.shape)
    output, is_seen = torch.zeros(len(bias), height, width).double(), torch.zeros(height, width).double()
    reach = weight.shape[-1] // 2
    for i in range(height):
        for j in range(width):
            top, left = max(0, stride * i - reach), max(0, stride * j - reach)
            window = slice(top, stride * i + reach + 1), slice(left, stride * j + reach + 1)
            seen = observed[window]
            if seen.sum() > 0:
                part = weight[:, :, : seen.shape[0], : seen.shape[1]] * (image[:, *window] * (seen > 0))
                output[:, i, j] = part.sum(dim=(1, 2, 3)) * seen.numel() / seen.sum() + bias
                is_seen[i, j] = 1.0
    return output, is_seen


@pytest.mark.parametrize("channels", [1, 2])
def test_partial_convolutions_equal_loops_over_pixels_away_from_the_border(channels):
    """Each window is divided by its observed share, and a window without an observed pixel gives zero."""
    size = 40
    network = randomise(PartialCNN((channels, size, size), d_out=1, channels=(2, 3, 2)))
    values = torch.randn(1, channels * size**2).double()
    mask = (torch.rand(1, channels, size, size) < 0.6).double()
    mask[..., 13:27, 13:27] = 0.0  # so large that it is a hole at a quarter of the size too
    parts = network.parameters_of_g.detach().split(network.g.sizes)
    kernels = []
    for part, layer in zip(parts, network.g.layers, strict=True):
        rows = part.unflatten(0, (layer.d_out, -1))
        kernels.append((rows[:, :-1].unflatten(1, (layer.d_in, 3, 3)), rows[:, -1]))

    image = values.reshape(channels, size, size) * mask[0]
    # The share of several channels is the mean of theirs.
    fine, seen_fine = partial_convolution(image, mask[0].mean(dim=0), *kernels[0])
    fine = fine.relu()
    middle, seen_middle = partial_convolution(fine, seen_fine, *kernels[1], stride=2)
    middle = middle.relu()
    coarse, seen_coarse = partial_convolution(middle, seen_middle, *kernels[2], stride=2)
    assert 0 < (seen_coarse == 0).sum() < 9

    def enlarged(array):
        return array.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)

    output, seen = partial_convolution(enlarged(coarse.relu()), enlarged(seen_coarse), *kernels[3])
    middle, seen_middle = (output + middle).relu(), torch.maximum(seen, seen_middle)
    output, seen = partial_convolution(enlarged(middle), enlarged(seen_middle), *kernels[4])
    fine, seen_fine = (output + fine).relu(), torch.maximum(seen, seen_fine)
    output, _ = partial_convolution(fine, seen_fine, *kernels[5])
    inside = slice(BORDER, -BORDER)
    found = network(values, mask.flatten(1)).reshape(size, size)
    torch.testing.assert_close(found[inside, inside], output[0, inside, inside], rtol=1e-9, atol=1e-9)


def test_partial_convolutions_of_complete_images_are_plain_ones_away_from_the_border():
    shape = (2, 40, 40)
    partial = randomise(PartialCNN(shape, d_out=1, channels=(2, 3, 2)))
    plain = SharedCNN(shape, d_out=1, channels=(2, 3, 2)).double()
    plain.load_state_dict(partial.state_dict())
    values, mask = draw(shape, n=3)
    found, expected = (network(values, torch.ones_like(mask)) for network in (partial, plain))
    inside = (slice(None), slice(BORDER, -BORDER), slice(BORDER, -BORDER))
    torch.testing.assert_close(found.reshape(3, 40, 40)[inside], expected.reshape(3, 40, 40)[inside])
    assert (partial(values, mask) - plain(values, mask)).abs().max() > 1e-3
