"""Predictors with a network."""

import multiprocessing

import numpy as np
import pytest
import torch

from stablemiss.base.network import NetworkPredictor
from stablemiss.networks import GeneratedMLP
from stablemiss.torch_state import torch_threads
from stablemiss.training import CHUNK_SIZE


class Predictor(NetworkPredictor):
    network_class = GeneratedMLP


@pytest.fixture
def predictor():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Predictor(GeneratedMLP([3, 1], hidden=[4]))


def rows(n):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), rng.uniform(size=(n, 3)) < 0.7


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_predictions_do_not_depend_on_the_number_of_threads(predictor, n_threads):
    values, mask = rows(3 * CHUNK_SIZE + 7)
    slices = [slice(first, first + 500) for first in range(0, len(values), 500)]
    expected = np.concatenate([predictor.predict(values[rows], mask[rows]) for rows in slices])
    with torch_threads(n_threads):
        predictions = predictor.predict(values, mask)
        assert torch.get_num_threads() == n_threads
    np.testing.assert_allclose(predictions, expected, atol=1e-12)


@pytest.mark.parametrize("limit", [1, 7, 10**9])
def test_a_network_gets_no_more_rows_at_a_time_than_it_says(predictor, limit):
    values, mask = rows(CHUNK_SIZE + 20)
    expected = predictor.predict(values, mask)
    network, sizes = predictor.network, []
    network.rows_at_once = limit
    network.register_forward_pre_hook(lambda module, inputs: sizes.append(len(inputs[0])))
    np.testing.assert_allclose(predictor.predict(values, mask), expected, atol=1e-12)
    assert max(sizes) == min(limit, CHUNK_SIZE)
    assert sum(sizes) == len(values)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_can_predict(predictor):
    """Web servers fork after loading a model; torch's own threads would deadlock there."""
    values, mask = rows(2 * CHUNK_SIZE)
    with torch_threads(2):
        torch.randn(600, 600) @ torch.randn(600, 600)  # the parent process starts torch's threads
        process = multiprocessing.get_context("fork").Process(target=predictor.predict, args=(values, mask))
        process.start()
        process.join(60)
        is_done = process.exitcode == 0
        process.kill()
    assert is_done
