"""Graph attention: weighted means over the sources of each node's edges, features first or means first."""

import pytest
import torch

from stablemiss.networks.graph_attention import Edges, graph_attention, linear

# Edges 0 → 1, 1 → 0 and 2 → 1, and from each of four nodes to itself; node 3 is isolated.
EDGES = Edges(torch.tensor([0, 1, 2, 0, 1, 2, 3]), torch.tensor([1, 0, 1, 0, 1, 2, 3]))
# Inputs and features of each head. With fewer inputs than features, means of the inputs are computed first.
SIZES = [pytest.param(3, 5, id="means first"), pytest.param(5, 3, id="features first")]


@pytest.fixture(autouse=True)
def _isolated_random_state():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def draw(d_in, d, heads=2, rows=()):
    """Two rows of inputs, the matrix of features and the vectors of scores, in double precision."""
    sizes = ((2, 4, d_in), (*rows, d_in + 1, heads * d), (*rows, 2 * d, heads))
    return [torch.randn(*size).double().requires_grad_() for size in sizes]


@pytest.mark.parametrize(("d_in", "d"), SIZES)
def test_it_agrees_with_a_loop(d_in, d):
    inputs, matrix, scores = draw(d_in, d)
    result = graph_attention(inputs, matrix, scores, EDGES)
    features = linear(inputs, matrix).unflatten(2, (2, d))
    for row in range(2):
        for node in range(4):
            sources = EDGES.source[EDGES.target == node].tolist()
            for head in range(2):
                a_target, a_source = scores[:, head].unflatten(0, (2, d))
                score = torch.stack(
                    [
                        features[row, node, head] @ a_target + features[row, source, head] @ a_source
                        for source in sources
                    ]
                )
                weight = torch.nn.functional.leaky_relu(score, 0.2).softmax(dim=0)
                expected = (weight[:, None] * features[row, sources, head]).sum(dim=0)
                torch.testing.assert_close(result[row, node, head], expected)


@pytest.mark.parametrize("rows", [(), (2,)], ids=["shared", "own"])
@pytest.mark.parametrize(("d_in", "d"), SIZES)
def test_its_gradient_is_exact(d_in, d, rows):
    arguments = draw(d_in, d, rows=rows)
    assert torch.autograd.gradcheck(lambda *parts: graph_attention(*parts, EDGES), arguments)


@pytest.mark.parametrize(("d_in", "d"), SIZES)
def test_rows_with_their_own_parameters_equal_rows_with_shared_ones(d_in, d):
    inputs, matrix, scores = draw(d_in, d)
    own = graph_attention(inputs, matrix.expand(2, -1, -1), scores.expand(2, -1, -1), EDGES)
    torch.testing.assert_close(own, graph_attention(inputs, matrix, scores, EDGES))


@pytest.mark.parametrize("n_features", [1, 2])
def test_large_scores_do_not_overflow(n_features):
    matrix, scores = torch.ones(2, 2 * n_features), torch.ones(2 * n_features, 2)
    result = graph_attention(torch.full((1, 4, 1), 1e4), matrix, scores, EDGES)
    assert torch.isfinite(result).all()
