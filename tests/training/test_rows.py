"""Rows on a device and their batches."""

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.training import CHUNK_SIZE, Rows, mean_loss, to_device

CPU = torch.device("cpu")


def make_rows(n, target=None, weight=None):
    values = np.arange(2.0 * n).reshape(n, 2)
    mask = np.arange(2 * n).reshape(n, 2) % 3 > 0
    target = values[:, :1] if target is None else target
    return Rows.of(MaskedData.of(values, mask, target, weight), CPU)


def test_rows_are_single_precision_and_zero_where_missing():
    rows = make_rows(4)
    assert rows.values.dtype == rows.mask.dtype == rows.target.dtype == rows.weight.dtype == torch.float32
    assert (rows.values[rows.mask == 0] == 0).all()
    assert make_rows(4, target=np.array([0, 1, 1, 0])).target.dtype == torch.int64


@pytest.mark.parametrize("n", [1, 2, 3, 16, 17, 31, 33, 100])
@pytest.mark.parametrize("size", [1, 16, 1000])
def test_batches_contain_every_row_once_and_have_even_sizes(n, size):
    for rng in (None, np.random.default_rng(n)):
        batches = list(make_rows(n).batches(size, rng))
        sizes = [len(batch) for batch in batches]
        assert sorted(torch.cat([batch.index for batch in batches]).tolist()) == list(range(n))
        assert len(batches) == make_rows(n).n_batches(size)
        assert 1 <= min(sizes) <= max(sizes) <= size
        assert max(sizes) - min(sizes) <= 1


def test_a_batch_keeps_values_mask_target_and_weight_of_a_row_together():
    rows = make_rows(20, weight=np.arange(1.0, 21.0))
    for batch in rows.batches(7, np.random.default_rng(0)):
        for part in ("values", "mask", "target", "weight"):
            torch.testing.assert_close(getattr(batch, part), getattr(rows, part)[batch.index])


def test_the_order_depends_only_on_the_generator():
    def order(seed):
        return torch.cat([batch.index for batch in make_rows(50).batches(8, np.random.default_rng(seed))])

    assert order(1).tolist() == order(1).tolist()
    assert order(1).tolist() != order(2).tolist()


@pytest.mark.parametrize("n", [1, 5, CHUNK_SIZE, CHUNK_SIZE + 1])
def test_the_mean_loss_is_the_weighted_mean_over_all_chunks(n):
    weight = np.random.default_rng(n).uniform(0.0, 2.0, size=n) * (np.arange(n) % 4 != 1)
    rows = make_rows(n, weight=weight)
    expected = np.average(2.0 * np.arange(n), weights=weight)
    assert mean_loss(lambda batch: batch.target[:, 0], rows) == pytest.approx(expected, rel=1e-5)


def test_the_mean_loss_is_computed_without_gradients():
    rows, factor = make_rows(3), torch.ones(1, requires_grad=True)
    with torch.enable_grad():
        assert mean_loss(lambda batch: _without_gradient(factor * batch.target[:, 0]), rows) == pytest.approx(
            2.0
        )


def _without_gradient(losses):
    assert not losses.requires_grad
    return losses


def test_auto_selects_a_device_and_a_missing_gpu_raises(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert to_device("auto") == CPU
    with pytest.raises(ValueError, match=r'cuda.*GPU.*use device="auto" or "cpu"'):
        to_device("cuda")


@pytest.mark.parametrize("name", ["gpu", "cpu:x", "cuda:99", None, 3.5])
def test_an_unavailable_device_raises(name, monkeypatch):
    # Device 99 does not exist even on machines with GPUs.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match=r"device=.* is not available .*use device=.auto"):
        to_device(name)


def test_a_batch_keeps_the_target_mask_with_its_row():
    target, seen = np.arange(40.0).reshape(20, 2), np.arange(40).reshape(20, 2) % 3 > 0
    data = MaskedData.of(target, target > -1, target, target_mask=seen)
    rows = Rows.of(data.rows(np.arange(20)), CPU)
    assert (rows.target[rows.target_mask == 0] == 0).all()
    for batch in rows.batches(7, np.random.default_rng(0)):
        torch.testing.assert_close(batch.target_mask, rows.target_mask[batch.index])
        torch.testing.assert_close(batch.observed_share(), batch.target_mask.mean(dim=1))


@pytest.mark.parametrize("chunk_size", [3, 1024])
def test_the_mean_loss_pools_the_observed_cells(chunk_size):
    """Equal to d times the weighted mean over observed cells, whichever rows they are in."""
    rng = np.random.default_rng(0)
    target, seen, weight = rng.normal(size=(11, 4)), rng.uniform(size=(11, 4)) < 0.5, rng.uniform(size=11)
    rows = Rows.of(MaskedData.of(target, seen, target, weight, target_mask=seen), CPU)
    score = mean_loss(lambda batch: (batch.target**2 * batch.target_mask).sum(dim=1), rows, chunk_size)
    assert score == pytest.approx(4 * np.average(target**2, weights=weight[:, None] * seen), rel=1e-5)
