"""The number of threads is borrowed and given back."""

import pytest
import torch

from stablemiss.training import torch_threads


def fail_with(n_threads):
    with torch_threads(n_threads):
        assert torch.get_num_threads() == n_threads
        raise KeyError


def test_threads_are_as_before_after_the_block_also_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(KeyError):
        fail_with(before + 1)
    assert torch.get_num_threads() == before


def test_none_leaves_them_alone():
    before = torch.get_num_threads()
    with torch_threads(None):
        assert torch.get_num_threads() == before
