"""Parts of latent-variable networks."""

import pytest
import torch

from stablemiss.networks import draw_target_mask, mean_over_draws, predict_in_chunks, target_columns
from stablemiss.networks.latent import MAX_ELEMENTS


@pytest.fixture(autouse=True)
def isolated_random_state():
    with torch.random.fork_rng():
        yield


def test_about_half_of_the_rows_show_their_targets():
    torch.manual_seed(0)
    shown = draw_target_mask(torch.zeros(4000, 3))
    assert shown.shape == (4000, 3)
    assert (shown == shown[:, :1]).all()
    assert set(shown.unique().tolist()) == {0.0, 1.0}
    assert 0.46 < float(shown.mean()) < 0.54


def test_numeric_targets_are_unchanged_and_classes_are_one_hot_encoded():
    numbers = torch.tensor([[1.5, 2.0]])
    assert target_columns(numbers, 2) is numbers
    assert target_columns(torch.tensor([2]), 3).tolist() == [[0.0, 0.0, 1.0]]


def test_probabilities_of_classes_and_numbers_are_averaged_over_draws():
    targets = torch.tensor([[[0.0, 0.0], [0.0, 100.0]]])
    weight = torch.tensor([[0.5, 0.5]])
    log_probabilities = mean_over_draws(targets, weight, is_classes=True)
    assert torch.allclose(log_probabilities.exp(), torch.tensor([[0.25, 0.75]]))
    assert torch.allclose(mean_over_draws(targets, weight, is_classes=False), torch.tensor([[0.0, 50.0]]))


def test_chunks_are_small_and_keep_the_order_of_the_rows():
    sizes = []

    def predict(values, mask):
        sizes.append(len(values))
        return values * mask

    values, mask = torch.rand(10, 2), torch.ones(10, 2)
    torch.testing.assert_close(predict_in_chunks(predict, values, mask, MAX_ELEMENTS // 4), values)
    assert sizes == [4, 4, 2]
