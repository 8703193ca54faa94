"""Networks with generated parameters: each row has its own network."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from stablemiss.networks import GeneratedMLP, ParameterGenerator

SEEDS = range(3)


@pytest.fixture(autouse=True)
def _isolated_random_state():
    with torch.random.fork_rng(devices=[]):
        yield


def draw(seed, n=9, d=4):
    torch.manual_seed(seed)
    return torch.randn(n, d), (torch.rand(n, d) < 0.6).float()


def randomise(network):
    """Set large random parameters, so that masks and layers matter."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return network


def by_hand(network, values, mask):
    """Build the network of each row from `nn.Linear` layers."""
    outputs = []
    for x, m in zip(values, mask, strict=True):
        parameters = network.phi(m[None])[0]
        hidden = x * m
        first = 0
        for number, (d_in, d_out) in enumerate(pairwise(network.config["widths"])):
            matrix = parameters[first : first + (d_in + 1) * d_out].reshape(d_in + 1, d_out)
            first += matrix.numel()
            layer = nn.Linear(d_in, d_out)
            layer.weight, layer.bias = nn.Parameter(matrix[1:].T), nn.Parameter(matrix[0])
            hidden = layer(hidden.relu() if number else hidden)
        assert first == len(parameters)
        outputs.append(hidden)
    return torch.stack(outputs)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("widths", [[4, 1], [4, 3], [4, 5, 2], [4, 6, 3, 1]])
@pytest.mark.parametrize(("hidden", "rank"), [([], None), ([7], None), ([7, 6], 2)])
def test_a_batch_equals_a_loop_that_builds_each_rows_network(seed, widths, hidden, rank):
    values, mask = draw(seed)
    network = randomise(GeneratedMLP(widths, hidden, rank))
    torch.testing.assert_close(network(values, mask), by_hand(network, values, mask), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_linear_g_is_the_product_of_generated_coefficients_with_one_and_x(seed):
    values, mask = draw(seed)
    network = randomise(GeneratedMLP([4, 1], hidden=[8]))
    coefficients = network.phi(mask)
    expected = coefficients[:, 0] + (coefficients[:, 1:] * values * mask).sum(dim=1)
    torch.testing.assert_close(network(values, mask)[:, 0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_low_rank_equals_the_full_generator_with_the_product_of_its_last_two_maps(seed):
    _, mask = draw(seed)
    low = randomise(ParameterGenerator(4, torch.zeros(30), hidden=[8], rank=3))
    full = ParameterGenerator(4, torch.zeros(30), hidden=[8])
    with torch.no_grad():
        full.code.layers.load_state_dict(low.code.layers.state_dict())
        full.code.last.weight.copy_(low.expand.weight @ low.code.last.weight)
        full.code.last.bias.copy_(low.expand.weight @ low.code.last.bias + low.expand.bias)
    torch.testing.assert_close(full(mask), low(mask), rtol=1e-4, atol=1e-4)


def test_low_rank_has_few_parameters_and_varies_in_few_directions():
    low = ParameterGenerator(20, torch.zeros(5000), hidden=[64], rank=4)
    assert sum(part.numel() for part in low.parameters()) < 5000 * 6
    mask = (torch.rand(50, 20) < 0.5).float()
    parameters = low(mask)
    assert torch.linalg.matrix_rank(parameters - parameters.mean(dim=0), rtol=1e-4) == 4


@pytest.mark.parametrize("seed", SEEDS)
def test_missing_values_have_no_influence(seed):
    values, mask = draw(seed)
    network = randomise(GeneratedMLP([4, 5, 2], hidden=[8]))
    garbage = torch.where(mask == 1, values, 1e6 * torch.randn_like(values))
    torch.testing.assert_close(network(garbage, mask), network(values, mask), rtol=0, atol=0)


def test_the_mask_has_influence():
    values, mask = draw(0)
    network = randomise(GeneratedMLP([4, 1], hidden=[8]))
    zero = torch.zeros_like(values)
    assert network(zero, mask).std() > 0.1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("widths", [[50, 1], [50, 32, 1], [50, 64, 64, 3]])
@pytest.mark.parametrize("rank", [None, 8])
def test_initial_outputs_are_small_and_hidden_layers_keep_their_scale(seed, widths, rank):
    values, mask = draw(seed, n=500, d=50)
    network = GeneratedMLP(widths, hidden=[128], rank=rank)
    assert network(values, mask).std() < 0.5
    # The same network without its last layer, which starts at zero.
    flat = network.phi(mask)
    layer = values * mask
    first = 0
    for d_in, d_out in network.shapes[:-1]:
        matrix = flat[:, first : first + d_in * d_out].reshape(-1, d_in, d_out)
        first += d_in * d_out
        layer = (torch.einsum("ni,nio->no", layer, matrix[:, 1:]) + matrix[:, 0]).relu()
        assert 0.2 < layer.std() < 2.0


def test_gradients_reach_every_parameter_of_the_generator():
    values, mask = draw(0)
    network = randomise(GeneratedMLP([4, 5, 2], hidden=[8, 8], rank=3))
    network(values, mask).square().sum().backward()
    assert all(part.grad is not None and part.grad.abs().sum() > 0 for part in network.parameters())


def test_an_empty_batch_gives_an_empty_output():
    assert GeneratedMLP([4, 5, 2], hidden=[8])(torch.zeros(0, 4), torch.zeros(0, 4)).shape == (0, 2)
