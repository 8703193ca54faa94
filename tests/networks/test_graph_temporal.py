"""Networks for sensors: graph attention, attention and convolutions over time, parameters from the mask."""

import pytest
import torch

from stablemiss.networks import GeneratedGraphTemporal, ModulatedGraphTemporal, SharedGraphTemporal

# Node 3 is isolated.
EDGES = [0, 1, 1, 0, 2, 1]
SMALL = {"edges": EDGES, "n_nodes": 4, "channels": 4, "heads": 2}
NETWORKS = [
    pytest.param(lambda shape: GeneratedGraphTemporal(shape, **SMALL, rank=2), id="global"),
    pytest.param(lambda shape: GeneratedGraphTemporal(shape, **SMALL, rank=None), id="full"),
    pytest.param(lambda shape: ModulatedGraphTemporal(shape, **SMALL), id="local"),
    pytest.param(lambda shape: SharedGraphTemporal(shape, **SMALL, mask_input=True), id="input"),
    pytest.param(lambda shape: SharedGraphTemporal(shape, **SMALL), id="none"),
]


@pytest.fixture(autouse=True)
def _isolated_random_state():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(params=NETWORKS)
def make(request):
    return request.param


def randomise(network):
    """Parameters for which masks, neighbours and layers matter, in double precision."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network.double().eval()


def draw(shape, n=6):
    d = shape[0] * shape[1]
    mask = (torch.rand(n, d) < 0.6).double()
    mask[0], mask[1] = 0.0, 1.0  # nothing and everything observed
    return torch.randn(n, d).double(), mask


@pytest.mark.parametrize("shape", [(4, 8, 8), (6, 5, 3), (4, 1, 1), (5, 2, 9)], ids=str)
def test_a_window_alone_equals_its_row_in_a_batch(make, shape):
    network = randomise(make(shape))
    values, mask = draw(shape)
    together = network(values, mask)
    assert together.shape == (6, 4 * shape[2])
    assert torch.isfinite(together).all()
    for row in range(6):
        alone = network(values[row : row + 1], mask[row : row + 1])[0]
        torch.testing.assert_close(alone, together[row], rtol=1e-12, atol=1e-12)
    assert network(values[:0], mask[:0]).shape == (0, 4 * shape[2])


def test_missing_readings_have_no_influence(make):
    network = randomise(make((4, 8, 8)))
    values, mask = draw((4, 8, 8))
    torch.testing.assert_close(network(values, mask), network(values + 1e3 * (1 - mask), mask))


def influence(network, shape, node):
    """Which nodes' predictions change if the readings of a node change."""
    values = torch.randn(1, shape[0] * shape[1]).double()
    mask = torch.ones_like(values)
    changed = values.clone()
    changed[:, node * shape[1] : (node + 1) * shape[1]] += 1.0
    difference = (network(changed, mask) - network(values, mask)).unflatten(1, (4, shape[2]))
    return [number for number in range(4) if difference[0, number].abs().max() > 1e-9]


def test_information_flows_along_the_edges_twice(make):
    """Edges 0 → 1, 1 → 0 and 2 → 1: one graph attention layer at the beginning, one at the end."""
    network = randomise(make((4, 8, 8)))
    assert [influence(network, (4, 8, 8), node) for node in range(4)] == [[0, 1], [0, 1], [0, 1, 2], [3]]


def test_rows_after_the_nodes_are_read_by_all_nodes(make):
    network = randomise(make((5, 8, 8)))
    values, mask = draw((5, 8, 8), n=2)
    changed = values.clone()
    changed[:, 32:36] += 1.0
    difference = (network(changed, mask) - network(values, mask))[1].unflatten(0, (4, 8))
    assert (difference.abs().amax(dim=1) > 1e-9).all()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_mask_alone_changes_the_prediction_of_networks_with_phi(number):
    network = randomise(NETWORKS[number].values[0]((4, 8, 8)))
    values = torch.zeros(2, 32).double()
    mask = torch.ones(2, 32).double()
    mask[1, :8] = 0.0
    one, other = network(values, mask)
    assert (one - other).abs().max() > 1e-9


def test_windows_with_their_own_parameters_equal_windows_with_shared_ones():
    network = randomise(SharedGraphTemporal((4, 8, 8), **SMALL))
    history, context = torch.randn(3, 4, 8).double(), torch.zeros(3, 0).double()
    shared = network._apply_g(history, context, network.parameters_of_g)[0]
    own = network._apply_g(history, context, network.parameters_of_g.expand(3, -1))[0]
    torch.testing.assert_close(own, shared)


@pytest.mark.parametrize("edges", [[0, 4], [-1, 0]])
def test_edges_to_unknown_nodes_are_refused(edges):
    with pytest.raises(ValueError, match="Edges must refer to nodes"):
        SharedGraphTemporal((4, 8, 8), edges, n_nodes=4, channels=4, heads=2)
