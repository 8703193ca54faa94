import numpy as np
import torch

from stablemiss.networks import ColumnNetwork


def make(d=3, n_pieces=4, **settings):
    torch.manual_seed(0)
    edges = torch.linspace(-2, 2, n_pieces + 1).expand(d, -1)
    return ColumnNetwork(edges, 10 * edges, **({"d_output": 2, "width": 16, "depth": 2} | settings)).double()


def test_scores_are_interpolated_between_cuts_and_flat_beyond_them():
    values = torch.tensor([[-9.0, -2.0, 0.5], [9.0, 2.0, 1.0]], dtype=torch.float64)
    _, _, scores = make().all(values, torch.ones_like(values))
    np.testing.assert_allclose(scores, [[-20, -20, 5], [20, 20, 10]])


def test_a_hidden_cells_value_has_no_influence_and_its_absence_has():
    net = make()
    values = torch.randn(5, 3, dtype=torch.float64)
    mask = torch.ones(5, 3, dtype=torch.float64)
    mask[:, 1] = 0
    other = values.clone()
    other[:, 1] = 77.0
    for one, two in zip(net.all(values, mask)[:2], net.all(other, mask)[:2], strict=True):
        assert torch.equal(one, two)
    assert torch.equal(net(values, mask), net.all(values, mask)[0])
    assert not torch.equal(net(values, mask), net(values, torch.ones_like(mask)))


def test_a_column_without_width_does_no_harm():
    edges = torch.zeros(1, 5)
    net = ColumnNetwork(edges, edges, d_output=1, width=4, depth=1)
    assert torch.isfinite(net(torch.tensor([[0.0], [3.0]]), torch.ones(2, 1))).all()


def test_look_ups_are_the_product_with_all_pieces():
    """A cell's code is the sum over pieces of how far it has come through each, times the piece's code."""
    net = make(d=2, n_pieces=5)
    values = 2 * torch.randn(50, 2, dtype=torch.float64)
    piece, share = net._place(values)
    through = ((values[:, :, None] - net.start) * net.per_length).clamp(0, 1)
    codes = torch.einsum("ndp,dpc->ndc", through, net.code) + net.shift
    codes = (codes + net._scores(piece, share)[..., None] * net.score_code).relu()
    ones = torch.ones_like(values)
    expected = net.layers(torch.cat([codes.flatten(1), ones], dim=1))
    torch.testing.assert_close(net._hidden(piece, share, ones), expected)
