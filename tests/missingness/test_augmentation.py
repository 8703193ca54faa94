"""Mask augmentation hides further values in rows, by column of the user's table."""

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.missingness import GivenMasks, MaskAugmentation
from stablemiss.seeding import to_rng


@pytest.mark.parametrize("seed", range(3))
def test_columns_of_one_group_are_hidden_together_in_four_of_five_rows(seed):
    rng = to_rng(seed)
    keep = MaskAugmentation.of([0, 1, 1, 1, 4, 4]).draw(5000, rng)
    assert (keep[:, 1] == keep[:, 2]).all()
    assert (keep[:, 4] == keep[:, 5]).all()
    assert (keep[:, 0] != keep[:, 1]).any()
    # With rate u ~ U(0, 1) a value stays observed with probability 1 - 0.8 / 2, and three groups all do with
    # probability 0.2 + 0.8 E[(1 - u)^3] = 0.4.
    assert keep.mean() == pytest.approx(0.6, abs=0.02)
    assert keep.all(axis=1).mean() == pytest.approx(0.4, abs=0.03)


def test_copies_start_with_the_unchanged_rows_and_repeat_targets_and_weights():
    mask = to_rng(1).uniform(size=(50, 4)) < 0.8
    data = MaskedData.of(np.ones((50, 4)), mask, np.arange(50.0)[:, None], np.arange(1.0, 51.0))
    copies = MaskAugmentation.of(data.groups).copies(data, 3, to_rng(0))
    assert len(copies) == 200
    np.testing.assert_array_equal(copies.mask[:50], mask)
    assert (copies.mask <= np.tile(mask, (4, 1))).all()
    np.testing.assert_array_equal(copies.target, np.tile(data.target, (4, 1)))
    np.testing.assert_allclose(copies.weight, np.tile(data.weight, 4))
    assert (copies.mask[50:100] != copies.mask[100:150]).any()


@pytest.mark.parametrize("seed", range(3))
def test_informative_columns_are_hidden_alone_more_often_than_others(seed):
    augmentation = MaskAugmentation.of(np.arange(10), importance=[100.0, *[1.0] * 9])
    hidden = ~augmentation.draw(20000, to_rng(seed))
    alone = hidden.sum(axis=1) == 1
    assert hidden[alone, 0].mean() > 3 * hidden[alone, 1:].mean()
    assert 0.3 < hidden[:, 5].mean() < hidden[:, 0].mean() < 0.6


def test_columns_that_are_never_missing_are_never_hidden():
    may_vanish = np.array([True, False, True])
    for importance in (None, [1.0, 5.0, 1.0]):
        keep = MaskAugmentation.of([0, 1, 2], importance, may_vanish).draw(500, to_rng(0))
        assert keep[:, 1].all()
        assert not keep[:, [0, 2]].all()


def test_informative_columns_that_are_never_missing_are_replaced_by_others():
    augmentation = MaskAugmentation.of(
        range(6), importance=[9, 9, 9, 1, 1, 1], may_vanish=[False] * 3 + [True] * 3
    )
    keep = augmentation.draw(20000, to_rng(0))
    assert keep[:, :3].all()
    # A rate u ~ U(0, 1) for most, ⌈2.4 u⌉ of the three where informative ones are hidden preferentially.
    assert 0.36 < 1 - keep[:, 3:].mean() < 0.48


@pytest.mark.parametrize("n", [0, 3, 10])
def test_given_masks_are_drawn_equally_often(n):
    mask = np.array([[True, False, True], [False, False, False]])
    drawn = GivenMasks(mask).draw(n, to_rng(0))
    counts = [(drawn == one).all(axis=1).sum() for one in mask]
    assert sum(counts) == n
    assert counts[0] - counts[1] in (0, 1)
    repeated = GivenMasks(np.repeat(mask, 5, axis=0))
    assert [repeated.useful_copies(k) for k in (8, 0)] == [1, 0]
    assert GivenMasks(mask[:1]).useful_copies(8) == 0


def test_every_given_mask_is_drawn_even_in_small_batches():
    rng = to_rng(0)
    masks = GivenMasks(np.eye(5, dtype=bool))
    drawn = np.concatenate([masks.draw(2, rng) for _ in range(500)])
    np.testing.assert_allclose(drawn.mean(axis=0), 0.2, atol=0.05)


def test_copies_under_given_masks_contain_no_unchanged_row():
    data = MaskedData.of(np.ones((20, 3)), np.ones((20, 3)), np.zeros((20, 1)))
    copies = GivenMasks(np.array([[True, False, True]])).copies(data, 1, to_rng(0))
    assert len(copies) == 40
    assert not copies.mask[:, 1].any()
    assert copies.mask[:, [0, 2]].all()
