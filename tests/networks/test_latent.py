"""Parts of latent-variable networks."""

import numpy as np
import pytest
import torch

from stablemiss.networks import PointNet, averaged, gaussian_divergence, label_columns, show_half


@pytest.fixture
def net():
    torch.manual_seed(0)
    return PointNet(6, d_column=4, d_code=9).double()


def rows(n=5, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, d))), torch.from_numpy((rng.uniform(size=(n, d)) < 0.6) * 1.0)


@pytest.fixture(autouse=True)
def own_randomness():
    with torch.random.fork_rng():
        yield


def test_the_code_of_a_set_is_the_sum_over_its_cells_of_one_map(net):
    """Against the formula, cell by cell."""
    values, mask = rows()
    found = net(values, mask)
    for row in range(len(values)):
        code = torch.zeros(9, dtype=torch.float64)
        for d in range(6):
            x = values[row, d : d + 1]
            cell = torch.cat([x, x * net.column[d], net.shift[d]])
            code += mask[row, d] * net.map(cell).relu()
        assert torch.allclose(found[row], code)


def test_the_order_of_the_columns_has_no_influence(net):
    values, mask = rows()
    before = net(values, mask)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    with torch.no_grad():
        net.column.copy_(net.column[order].clone())
        net.shift.copy_(net.shift[order].clone())
    assert torch.allclose(net(values[:, order], mask[:, order]), before)


def test_codes_of_disjoint_sets_add_up(net):
    values, mask = rows()
    rest = 1 - mask
    assert torch.allclose(net(values, mask) + net(values, rest), net(values, torch.ones_like(mask)))


def test_the_divergence_is_that_of_gaussians():
    """Against Monte Carlo: E_q log q − log p."""
    mean, log_variance = torch.tensor([[0.5, -1.0]]), torch.tensor([[0.3, -0.7]])
    mechanism = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    torch.manual_seed(1)
    z = mechanism.sample((200_000,))
    sampled = (mechanism.log_prob(z) - torch.distributions.Normal(0.0, 1.0).log_prob(z)).sum(dim=2).mean()
    assert float(gaussian_divergence(mean, log_variance)) == pytest.approx(float(sampled), abs=0.02)


def test_about_half_of_the_labels_are_hidden_row_by_row():
    torch.manual_seed(0)
    seen = show_half(torch.zeros(4000, 3))
    assert seen.shape == (4000, 1)
    assert set(seen.unique().tolist()) == {0.0, 1.0}
    assert 0.46 < float(seen.mean()) < 0.54


def test_numbers_stay_as_they_are_and_classes_become_indicators():
    numbers = torch.tensor([[1.5, 2.0]])
    assert label_columns(numbers, 2) is numbers
    assert label_columns(torch.tensor([2]), 3).tolist() == [[0.0, 0.0, 1.0]]


def test_of_classes_probabilities_are_averaged():
    labels = torch.tensor([[[0.0, 0.0], [0.0, 100.0]]])
    found = averaged(labels, torch.tensor([[0.5, 0.5]]), is_classes=True)
    assert torch.allclose(found.exp(), torch.tensor([[0.25, 0.75]]))
    assert torch.allclose(averaged(labels, torch.tensor([[0.5, 0.5]]), False), torch.tensor([[0.0, 50.0]]))
