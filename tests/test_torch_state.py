"""Torch's global state is changed inside the block and restored afterwards."""

import numpy as np
import pytest
import torch

from stablemiss.torch_state import AllocationLimit, torch_randomness, torch_threads


def fail_with(n_threads):
    with torch_threads(n_threads):
        assert torch.get_num_threads() == n_threads
        raise KeyError


def test_the_number_of_threads_is_restored_even_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(KeyError):
        fail_with(before + 1)
    assert torch.get_num_threads() == before


def test_none_leaves_the_number_of_threads_unchanged():
    before = torch.get_num_threads()
    with torch_threads(None):
        assert torch.get_num_threads() == before


def test_torch_is_seeded_inside_the_block_and_its_state_is_restored_afterwards():
    torch.manual_seed(5)
    undisturbed = torch.rand(2)
    torch.manual_seed(5)
    first = torch.rand(1)
    draws = []
    for _ in range(2):
        with torch_randomness(np.random.default_rng(1)):
            draws.append(torch.rand(3))
    torch.testing.assert_close(torch.cat([first, torch.rand(1)]), undisturbed)
    torch.testing.assert_close(draws[0], draws[1])


@pytest.mark.parametrize(
    "build",
    [
        lambda: torch.nn.Linear(10, 10**12),
        lambda: torch.randn(10**12),
        lambda: torch.zeros((10**6, 10**6)),
        lambda: torch.nn.LayerNorm(10**12),
        # Loops over many small or empty layers end as well.
        lambda: [torch.nn.Linear(1, 1) for _ in range(10**9)],
        lambda: [torch.empty(0, 5) for _ in range(10**9)],
    ],
)
def test_modules_above_the_limit_raise_before_they_are_allocated(build):
    with AllocationLimit(1000), pytest.raises(ValueError, match="larger than its stored parameters"):
        build()


def test_modules_below_the_limit_are_built_as_usual():
    torch.manual_seed(0)
    expected = torch.nn.Linear(9, 10).weight
    torch.manual_seed(0)
    with AllocationLimit(100):
        layer = torch.nn.Linear(9, 10)
    torch.testing.assert_close(layer.weight, expected, rtol=0, atol=0)
    assert torch.empty(1000).numel() == 1000
