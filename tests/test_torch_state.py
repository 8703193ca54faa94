"""Torch's global state is changed inside the block and restored afterwards."""

import numpy as np
import pytest
import torch

from stablemiss.torch_state import torch_randomness, torch_threads


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
