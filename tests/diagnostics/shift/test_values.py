"""Tests that look at values: slopes of mask indicators, and values given other columns."""

import numpy as np
import pytest
from scipy.stats import norm, ttest_ind

from stablemiss.diagnostics.shift.tables import TwoTables
from stablemiss.diagnostics.shift.values import _mean_p_values, links, value_changes
from stablemiss.seeding import to_rng


def test_means_are_compared_by_the_test_of_welch():
    rng = to_rng(0)
    first, second = rng.normal(size=(30, 2)), rng.normal(0.3, 2.0, size=(50, 2))
    expected = ttest_ind(first, second, equal_var=False).pvalue
    np.testing.assert_allclose(_mean_p_values(first, second), expected)
    assert _mean_p_values(np.ones((5, 1)), np.ones((5, 1)))[0] == 1.0
    assert _mean_p_values(np.ones((5, 1)), np.zeros((5, 1)))[0] == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_slopes_and_their_errors_equal_those_of_least_squares(seed):
    """With robust (HC1) standard errors, on the rows that observe the other column."""
    rng = to_rng(seed)
    tables = rng.normal(size=(2, 200, 2))
    hidden = rng.random(tables.shape) < 0.3
    hidden[1, :, 1] |= rng.random(200) < 0.4 * (tables[1, :, 0] > 0)
    sample = TwoTables.of(*np.where(hidden, np.nan, tables)).sample(rng)
    result = links(sample)
    for is_table, slopes, z in (
        (~sample.is_current, result.reference, result.reference_z),
        (sample.is_current, result.current, result.current_z),
    ):
        rows = is_table & sample.observed[:, 0]
        u = norm.cdf(sample.features[0][rows, 0])
        design = np.column_stack([np.ones(rows.sum()), u])
        missing = ~sample.observed[rows, 1]
        coefficients, *_ = np.linalg.lstsq(design, missing.astype(float), rcond=None)
        residuals = missing - design @ coefficients
        inverse = np.linalg.inv(design.T @ design)
        robust = inverse @ (design.T * residuals**2) @ design @ inverse * len(u) / (len(u) - 2)
        assert slopes[1, 0] == pytest.approx(coefficients[1])
        assert z[1, 0] == pytest.approx(coefficients[1] / np.sqrt(robust[1, 1]))


def test_observed_values_that_move_because_missingness_is_driven_do_not_count_as_moved():
    """Column 1 is observed where column 0 is low, so its observed values are lower; its values are not."""
    rng = to_rng(0)
    tables = rng.normal(size=(2, 2000, 1)) + 0.5 * rng.normal(size=(2, 2000, 2))
    current = tables[1].copy()
    current[rng.random(2000) < 1 / (1 + np.exp(-3 * current[:, 0])), 1] = np.nan
    sample = TwoTables.of(tables[0], current).sample(rng)
    changes = value_changes(sample, links(sample))
    assert changes.difference[1] < -0.3
    assert changes.p_value[1] > 0.01
