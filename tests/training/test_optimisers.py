"""Optimisers."""

import pytest
import torch

from stablemiss.training import adamw


def test_weight_decay_shrinks_matrices_but_not_vectors():
    matrix, vector = torch.ones(2, 2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimiser = adamw(learning_rate=0.1, weight_decay=2.0)([matrix, vector])
    matrix.grad, vector.grad = torch.zeros(2, 2), torch.zeros(2)
    optimiser.step()
    torch.testing.assert_close(matrix.detach(), torch.full((2, 2), 0.8))
    torch.testing.assert_close(vector.detach(), torch.ones(2))


def test_the_first_step_has_the_size_of_the_learning_rate():
    vector = torch.zeros(3, requires_grad=True)
    optimiser = adamw(learning_rate=0.01)([vector])
    vector.grad = torch.tensor([5.0, -0.3, 100.0])
    optimiser.step()
    torch.testing.assert_close(vector.detach(), torch.tensor([-0.01, 0.01, -0.01]))


def test_a_weight_decay_that_would_change_the_sign_of_matrices_raises():
    adamw(learning_rate=0.1, weight_decay=10.0)
    with pytest.raises(ValueError, match=r"weight_decay must be at most 1 / learning_rate = 10.* got 11"):
        adamw(learning_rate=0.1, weight_decay=11.0)
