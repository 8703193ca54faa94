"""Tests of masks: rates, pairs, all columns jointly, masks that are new."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency, fisher_exact

from stablemiss.diagnostics.shift.masks import joint_test, pair_changes, rate_p_values, unseen_masks
from stablemiss.seeding import to_rng


def draw_masks(seed, n=500, d=4, missing=0.3):
    return to_rng(seed).random((n, d)) >= missing


@pytest.mark.parametrize("seed", range(3))
def test_rates_are_compared_by_chi_square_or_exactly_if_counts_are_small(seed):
    reference, current = draw_masks(seed), draw_masks(seed + 10, n=300, missing=0.4)
    reference[:, 0], current[:, 0] = True, True
    reference[:, 1], current[:2, 1] = True, False
    p_values = rate_p_values(reference, current)
    assert p_values[0] == 1.0
    counts = np.array([[(~mask[:, 2]).sum(), mask[:, 2].sum()] for mask in (reference, current)])
    assert p_values[2] == pytest.approx(chi2_contingency(counts, correction=False).pvalue)
    few = [[0, 500], [(~current[:, 1]).sum(), current[:, 1].sum()]]
    if min(few[1]) < 50:
        assert p_values[1] == pytest.approx(fisher_exact(few).pvalue)


def test_p_values_of_equal_rates_are_uniform():
    p_values = np.concatenate([rate_p_values(draw_masks(2 * s), draw_masks(2 * s + 1)) for s in range(100)])
    assert np.mean(p_values < 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(p_values < 0.5) == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize(("n", "m", "rate"), [(10_000, 500, 0.012), (3000, 100, 0.03)])
def test_rare_missing_values_and_unequal_tables_give_few_false_alarms(n, m, rate):
    """Of twenty columns each, corrected for their number at a level of 5%."""
    alarms = [
        rate_p_values(draw_masks(s, n, 20, rate), draw_masks(s + 500, m, 20, rate)).min() <= 0.05 / 20
        for s in range(60)
    ]
    assert np.mean(alarms) <= 0.1


def test_columns_that_always_vanish_together_do_not_change_when_they_do_so_more_often():
    reference, current = (
        np.repeat(draw_masks(s, d=1, missing=m), 2, axis=1) for s, m in ((0, 0.1), (1, 0.4))
    )
    assert pair_changes(reference, current).p_value[0, 1] == 1.0


def test_a_smaller_threshold_takes_more_permutations():
    is_current = np.arange(200) < 100
    masks = np.repeat(is_current[:, None], 2, axis=1)
    assert joint_test(masks, is_current, 1e-4, to_rng(0)).p_value <= 1e-4


def test_pairs_see_columns_that_vanish_together_and_not_a_change_of_rates():
    reference, current = draw_masks(0), draw_masks(1)
    current[:, 2] = current[:, 1]
    heavier = draw_masks(2, missing=0.6)
    assert pair_changes(reference, current).p_value[1, 2] < 1e-10
    others = np.triu_indices(4, 1)
    assert np.nanmin(pair_changes(reference, heavier).p_value[others]) > 0.001


def test_correlations_of_pairs_are_those_of_the_indicators():
    reference, current = draw_masks(0), draw_masks(1)
    changes = pair_changes(reference, current)
    np.testing.assert_allclose(changes.current, np.corrcoef(~current, rowvar=False), atol=1e-12)
    np.testing.assert_allclose(changes.p_value, changes.p_value.T, equal_nan=True)


@pytest.mark.parametrize("seed", range(2))
def test_the_joint_test_sees_what_neither_rates_nor_pairs_show(seed):
    """Of three columns, the third is missing if exactly one of the others is: no pair is dependent."""
    reference, current = draw_masks(seed, 1500, 3, 0.5), draw_masks(seed + 50, 1500, 3, 0.5)
    current[:, 2] = current[:, 0] ^ current[:, 1]
    observed = np.concatenate([reference, current])
    is_current = np.repeat([False, True], 1500)
    assert np.nanmin(pair_changes(reference, current).p_value) > 1e-4
    test = joint_test(observed, is_current, 0.005, to_rng(0))
    assert test.p_value < 0.005
    assert test.auc > 0.6


def test_the_joint_test_rarely_reports_a_shift_without_one():
    is_current = np.repeat([False, True], 150)
    p_values = [joint_test(draw_masks(s, n=300), is_current, 0.05, to_rng(s)).p_value for s in range(40)]
    assert np.mean(np.array(p_values) <= 0.05) <= 0.15


def test_without_variation_the_joint_test_is_certain_of_nothing():
    assert joint_test(np.ones((20, 2), bool), np.arange(20) < 10, 0.005, to_rng(0)).p_value == 1.0


def test_new_masks_are_counted():
    reference = np.array([[True, True]] * 9 + [[True, False]])
    current = np.array([[False, True], [True, False], [True, True], [False, True]])
    result = unseen_masks(reference, current)
    assert result.share == 0.5
    assert result.expected_share == pytest.approx(0.1)
