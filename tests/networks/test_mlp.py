"""Multi-layer perceptron."""

import pytest
import torch

from stablemiss.networks import MLP


@pytest.mark.parametrize("widths", [[3, 2], [3, 5, 2], [3, 5, 4, 2]])
def test_an_mlp_is_linear_maps_with_relu_in_between(widths):
    torch.manual_seed(0)
    network, inputs = MLP(widths), torch.randn(7, 3)
    matrices, biases = list(network.parameters())[::2], list(network.parameters())[1::2]
    expected = inputs
    for number, (matrix, bias) in enumerate(zip(matrices, biases, strict=True)):
        expected = (expected.relu() if number else expected) @ matrix.T + bias
    assert len(matrices) == len(widths) - 1
    torch.testing.assert_close(network(inputs), expected)
