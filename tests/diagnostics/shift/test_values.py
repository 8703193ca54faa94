"""Tests that look at values: slopes of mask indicators, and values given other columns."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from stablemiss.diagnostics.shift.tables import ColumnFeatures, TwoTables, autocorrelation
from stablemiss.diagnostics.shift.values import _mean_p_values, links, value_changes
from stablemiss.seeding import to_rng


def sample_of(reference, current):
    return TwoTables.of(reference, current).sample(to_rng(0))


def test_means_are_compared_with_the_variance_of_both_tables():
    """Student's test, except that the pooled variance includes the difference of the means."""
    targets = to_rng(0).normal(size=(80, 2))
    is_current = np.arange(80) < 30
    expected = ttest_ind(targets[is_current], targets[~is_current]).pvalue
    np.testing.assert_allclose(_mean_p_values(targets, is_current, np.ones(2)), expected, rtol=0.1)
    assert (_mean_p_values(targets, is_current, np.full(2, 9.0)) > expected).all()


@pytest.mark.parametrize("seed", range(3))
def test_slopes_and_their_errors_equal_those_of_least_squares(seed):
    """Robust (HC1) standard errors, but not below those without dependence."""
    rng = to_rng(seed)
    tables = rng.normal(size=(2, 200, 2))
    hidden = rng.random(tables.shape) < 0.3
    hidden[1, :, 1] |= rng.random(200) < 0.4 * (tables[1, :, 0] > 0)
    sample = sample_of(*np.where(hidden, np.nan, tables))
    result = links(sample)
    for is_table, z in ((~sample.is_current, result.reference_z), (sample.is_current, result.current_z)):
        rows = is_table & sample.observed[:, 0]
        missing = ~sample.observed[rows, 1]
        largest = 0.0
        for feature in sample.features[0].values[rows].T:
            design = np.column_stack([np.ones(rows.sum()), feature])
            coefficients, *_ = np.linalg.lstsq(design, missing.astype(float), rcond=None)
            residuals = missing - design @ coefficients
            inverse = np.linalg.inv(design.T @ design)
            robust = inverse @ (design.T * residuals**2) @ design @ inverse * len(design) / (len(design) - 2)
            without = missing.var() / ((feature - feature.mean()) ** 2).sum()
            largest = max(largest, abs(coefficients[1]) / np.sqrt(max(robust[1, 1], without)))
        assert abs(z[1, 0]) == pytest.approx(largest)


def test_observed_values_that_move_because_missingness_is_driven_do_not_count_as_moved():
    """Column 1 is observed where column 0 is low, so its observed values are lower; its values are not."""
    rng = to_rng(0)
    tables = rng.normal(size=(2, 2000, 1)) + 0.5 * rng.normal(size=(2, 2000, 2))
    current = tables[1].copy()
    current[rng.random(2000) < 1 / (1 + np.exp(-3 * current[:, 0])), 1] = np.nan
    sample = sample_of(tables[0], current)
    changes = value_changes(sample, links(sample))
    assert ttest_ind(tables[0][:, 1], current[:, 1], nan_policy="omit").pvalue < 1e-10
    assert changes.p_value[1] > 0.005


def test_a_rule_without_exceptions_is_found_in_both_tables_and_has_not_changed():
    rng = to_rng(0)
    kind, value = rng.integers(2, size=(2, 400)), rng.normal(size=(2, 400))
    tables = [np.column_stack([k, np.where(k == 1, np.nan, v)]) for k, v in zip(kind, value, strict=True)]
    result = links(sample_of(*tables))
    assert result.driver(1, False, 0.05) == result.driver(1, True, 0.05) == 0
    assert result.p_value[1, 0] == pytest.approx(1.0)


def test_the_difference_over_a_driver_is_in_shares_of_rows():
    """A driver with two values: missing in 10% and 50% of the rows."""
    rng = to_rng(0)
    driver = rng.integers(2, size=6000)
    current = np.column_stack([driver, np.where(rng.random(6000) < 0.1 + 0.4 * driver, np.nan, 1.0)])
    reference = np.column_stack([driver, np.where(rng.random(6000) < 0.3, np.nan, 1.0)])
    result = links(sample_of(reference, current))
    assert abs(result.current[1, 0]) == pytest.approx(0.4, abs=0.05)
    assert result.reference[1, 0] == pytest.approx(0.0, abs=0.05)


def test_dependence_on_any_category_is_seen_at_equal_rates():
    rng = to_rng(0)
    kinds = rng.choice(["a", "b", "c"], size=(2, 1500), p=[0.4, 0.3, 0.3])
    rates = [{"a": 0.2, "b": 0.2, "c": 0.2}, {"a": 0.2, "b": 0.05, "c": 0.35}]
    tables = []
    for kind, rate in zip(kinds, rates, strict=True):
        missing = rng.random(1500) < np.array([rate[one] for one in kind])
        tables.append(np.column_stack([kind.astype(object), np.where(missing, None, "x").astype(object)]))
    assert links(sample_of(*tables)).p_value[1, 0] < 1e-4


def test_rare_categories_and_constant_small_tables_do_not_seem_to_move():
    """Ten columns of 0 and 1, of which a small table often has a single value."""
    alarms = 0
    for seed in range(40):
        rng = to_rng(seed)
        reference, current = rng.random((500, 10)) < 0.93, rng.random((30, 10)) < 0.93
        sample = sample_of(reference.astype(float), current.astype(float))
        alarms += np.nanmin(value_changes(sample, links(sample)).p_value) <= 0.05 / 10
    assert alarms <= 5


def test_text_without_repetitions_has_no_features():
    names = np.array([f"name {i}" for i in range(50)], dtype=object)
    assert ColumnFeatures.of(names, 50).values.shape[1] == 0


def test_autocorrelation_is_zero_unless_rows_are_alike():
    rng = to_rng(0)
    alone, runs = rng.random(1000) < 0.3, np.repeat(rng.random(50) < 0.3, 20)
    columns = np.column_stack([alone, runs]).astype(float)
    found = autocorrelation(columns, np.arange(1000) < 500)
    assert found[0] == 0.0
    assert found[1] > 0.8
