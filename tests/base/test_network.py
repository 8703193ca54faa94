"""What methods with a network share."""

import multiprocessing

import numpy as np
import pytest
import torch

from stablemiss.base.network import NetworkPredictor
from stablemiss.networks import NeuMissNet
from stablemiss.torch_state import torch_threads
from stablemiss.training import CHUNK


class Predictor(NetworkPredictor):
    kind = NeuMissNet


@pytest.fixture
def predictor():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Predictor(NeuMissNet(3, 1, depth=2))


def rows(n):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), rng.uniform(size=(n, 3)) < 0.7


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_long_tables_are_answered_in_order_by_any_number_of_threads(predictor, n_threads):
    values, mask = rows(3 * CHUNK + 7)
    parts = [slice(first, first + 500) for first in range(0, len(values), 500)]
    alone = np.concatenate([predictor.predict(values[part], mask[part]) for part in parts])
    with torch_threads(n_threads):
        together = predictor.predict(values, mask)
        assert torch.get_num_threads() == n_threads
    np.testing.assert_allclose(together, alone, atol=1e-12)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_answers_too(predictor):
    """Web servers fork after loading; torch's own threads would wait for ever there."""
    values, mask = rows(2 * CHUNK)
    with torch_threads(2):
        torch.randn(600, 600) @ torch.randn(600, 600)  # the parent has used its threads
        process = multiprocessing.get_context("fork").Process(target=predictor.predict, args=(values, mask))
        process.start()
        process.join(60)
        is_done = process.exitcode == 0
        process.kill()
    assert is_done
