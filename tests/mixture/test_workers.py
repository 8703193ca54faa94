import pytest
import torch

from stablemiss.mixture.workers import ThreadWorkers
from stablemiss.torch_state import torch_threads


def test_torch_has_one_thread_inside_the_block_and_the_previous_number_afterwards():
    before = torch.get_num_threads()
    with ThreadWorkers():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_the_number_of_threads_is_restored_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="inside"), ThreadWorkers():
        raise RuntimeError("inside")
    assert torch.get_num_threads() == before


def test_every_block_is_processed_once_in_a_fixed_order():
    with ThreadWorkers() as workers:
        first, second = (workers.map(list(range(11)), list) for _ in range(2))
    assert first == second
    assert sorted(block for chunk in first for block in chunk) == list(range(11))


def test_the_chunks_do_not_depend_on_the_number_of_threads():
    results = []
    for n_threads in (1, 2):
        with torch_threads(n_threads), ThreadWorkers() as workers:
            results.append(workers.map(list(range(30)), list))
    assert results[0] == results[1]
