"""Partial VAE: the set encoder, bounded memory in prediction, and the method."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from stablemiss.methods import PartialVAE
from stablemiss.methods.partial_vae import PartialVAENet, PointNet, gaussian_divergence
from stablemiss.networks.latent import MAX_ELEMENTS


@pytest.fixture
def point_net():
    torch.manual_seed(0)
    return PointNet(6, d_column=4, d_code=9).double()


def rows(n=5, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, d))), torch.from_numpy((rng.uniform(size=(n, d)) < 0.6) * 1.0)


@pytest.fixture(autouse=True)
def isolated_random_state():
    with torch.random.fork_rng():
        yield


def test_the_code_of_a_set_is_the_sum_of_a_common_map_of_its_values(point_net):
    """Against the formula, value by value."""
    values, mask = rows()
    codes = point_net(values, mask)
    for row in range(len(values)):
        code = torch.zeros(9, dtype=torch.float64)
        for d in range(6):
            x = values[row, d : d + 1]
            description = torch.cat([x, x * point_net.column[d], point_net.shift[d]])
            code += mask[row, d] * point_net.map(description).relu()
        assert torch.allclose(codes[row], code)


def test_the_order_of_the_columns_has_no_influence(point_net):
    values, mask = rows()
    before = point_net(values, mask)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    with torch.no_grad():
        point_net.column.copy_(point_net.column[order].clone())
        point_net.shift.copy_(point_net.shift[order].clone())
    assert torch.allclose(point_net(values[:, order], mask[:, order]), before)


def test_codes_of_disjoint_sets_add_up(point_net):
    values, mask = rows()
    complement = 1 - mask
    assert torch.allclose(
        point_net(values, mask) + point_net(values, complement), point_net(values, torch.ones_like(mask))
    )


def test_rows_embedded_in_chunks_have_the_same_codes_and_gradients():
    torch.manual_seed(0)
    net = PointNet(400, d_column=4, d_code=9).double()
    values, mask = rows(n=300, d=400)
    assert values.numel() * 9 > MAX_ELEMENTS  # otherwise there would be one chunk
    results = []
    for net.in_chunks in (False, True):
        codes = net(values, mask)
        results.append([codes, *torch.autograd.grad(codes.square().mean(), list(net.parameters()))])
    torch.testing.assert_close(*results)


def test_columns_left_out_at_the_end_count_as_missing(point_net):
    values, mask = rows()
    mask[:, 4:] = 0.0
    assert torch.allclose(point_net(values[:, :4], mask[:, :4]), point_net(values, mask))


def test_the_divergence_equals_a_monte_carlo_estimate():
    """E_q log q − log p."""
    mean, log_variance = torch.tensor([[0.5, -1.0]]), torch.tensor([[0.3, -0.7]])
    posterior = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    torch.manual_seed(1)
    z = posterior.sample((200_000,))
    sampled = (posterior.log_prob(z) - torch.distributions.Normal(0.0, 1.0).log_prob(z)).sum(dim=2).mean()
    assert float(gaussian_divergence(mean, log_variance)) == pytest.approx(float(sampled), abs=0.02)


class LargestTensor(TorchDispatchMode):
    """Number of elements of the largest tensor that any operation creates."""

    n_elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        # A view allocates no memory.
        if isinstance(result, torch.Tensor) and not func.is_view:
            self.n_elements = max(self.n_elements, result.numel())
        return result


def make_net(d, d_code, n_draws, d_output=1, is_classes=False, is_array=False):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = PartialVAENet(d, d_output, is_classes, 3, d_code, 4, (8,), (8,), n_draws, is_array)
        nn.init.normal_(net.decoder.last.weight)  # predictions of an untrained network are zero
        return net


@pytest.mark.parametrize("is_classes", [False, True])
def test_arrays_and_tables_have_the_same_predictions_up_to_rounding(is_classes):
    table, array = (make_net(6, 9, 5, 3, is_classes, is_array).double() for is_array in (False, True))
    values, mask = rows()
    mask[0] = 0.0
    outputs = table(values * mask, mask)
    assert outputs.std() > 0.1
    torch.testing.assert_close(array(values * mask, mask), outputs)


@pytest.mark.parametrize("is_array", [False, True])
@pytest.mark.parametrize(("d_code", "n_draws"), [(50, 2), (2, 50)])
def test_wide_tables_are_predicted_with_bounded_memory(d_code, n_draws, is_array):
    """Long codes in the encoder, or many draws in the decoder: 20 million elements for 1,024 rows at once."""
    wide = make_net(400, d_code, n_draws, is_array=is_array)
    rng = torch.Generator().manual_seed(1)
    values, mask = torch.randn(1024, 400, generator=rng), (torch.rand(1024, 400, generator=rng) < 0.7).float()
    with torch.no_grad():
        with LargestTensor() as largest:
            outputs = wide(values, mask)
        assert largest.n_elements <= MAX_ELEMENTS
        torch.testing.assert_close(outputs[-5:], wide(values[-5:], mask[-5:]), rtol=1e-4, atol=1e-5)
    assert outputs.shape == (1024, 1)


def test_an_empty_table_gives_an_empty_prediction():
    assert make_net(3, 4, 2)(torch.zeros(0, 3), torch.zeros(0, 3)).shape == (0, 1)


@pytest.mark.parametrize("drop", [0.0, 0.3, 0.7, 1.0])
def test_values_are_dropped_at_the_published_rate(drop):
    """The probability of each value is min(U, p) with uniform U: p − p²/2 on average."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        keep = PartialVAE(drop=drop)._keep(torch.ones(2000, 20))
    assert float(1 - keep.mean()) == pytest.approx(drop - drop**2 / 2, abs=0.01)
