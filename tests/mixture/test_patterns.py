import numpy as np
import pytest

from stablemiss.mixture.patterns import MAX_BLOCK_CELLS, Patterns


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (300, 9), (2000, 20)])
def test_every_row_is_in_exactly_one_block_with_the_columns_of_its_mask(seed, shape):
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < rng.random((shape[0], 1))
    rows_in_blocks = []
    patterns = Patterns(mask)
    for block in patterns.blocks(n_components=3):
        for row, pattern in zip(patterns.order[block.rows], block.pattern.tolist(), strict=True):
            expected = mask[row] if block.columns_are_observed else ~mask[row]
            assert block.columns[pattern].tolist() == np.flatnonzero(expected).tolist()
            rows_in_blocks.append(row)
    assert sorted(rows_in_blocks) == list(range(shape[0]))


def test_the_smaller_matrix_is_used_and_blocks_are_bounded():
    mask = np.random.default_rng(0).random((5000, 30)) < 0.5
    for block in Patterns(mask).blocks(n_components=4):
        n_patterns, b = block.columns.shape
        assert b <= 15
        assert 4 * n_patterns * b * b <= MAX_BLOCK_CELLS


def test_equal_masks_share_one_pattern():
    mask = np.repeat(np.eye(6, dtype=bool), 50, axis=0)
    blocks = Patterns(mask).blocks(n_components=1)
    assert sum(len(block.columns) for block in blocks) == 6
