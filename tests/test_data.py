from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from stablemiss.data import (
    MaskedData,
    centre_and_common_scale,
    centre_and_scale,
    is_missing,
    scale_to_one,
    to_numbers,
    to_table,
    zero_where_missing,
)


def make_data(n=6, d=3, seed=0):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((n, d)) < 0.5, np.nan, rng.normal(size=(n, d)))
    return MaskedData.of(values, ~np.isnan(values), rng.normal(size=(n, 1)), rng.random(n) + 0.1)


def test_hide_sets_hidden_values_to_zero_even_if_they_are_nan_or_infinite():
    values = np.array([[np.nan, np.inf, 3.0]])
    assert zero_where_missing(values, np.array([[False, False, True]])).tolist() == [[0.0, 0.0, 3.0]]


def test_weights_have_mean_one_and_are_not_rescaled_in_subsets():
    data = make_data()
    assert data.weight.mean() == pytest.approx(1.0)
    subsets = [data.rows(np.array(index)) for index in ([0, 3], [1, 2, 4, 5])]
    assert sum(subset.weight.sum() for subset in subsets) == pytest.approx(data.weight.sum())


def test_keep_where_never_reveals_missing_values():
    data = make_data()
    masked = data.keep_where(np.random.default_rng(1).random(data.mask.shape) < 0.5)
    assert not (masked.mask & ~data.mask).any()
    assert (masked.values[~masked.mask] == 0).all()
    np.testing.assert_array_equal(masked.values[masked.mask], data.values[masked.mask])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mask": np.ones((6, 2))}, "must agree"),
        ({"target": np.zeros(5)}, "must agree"),
        ({"groups": np.zeros(2)}, "must agree"),
        ({"weight": np.zeros(6)}, "not all be zero"),
        ({"weight": [-1, 1, 1, 1, 1, 1]}, "finite and not negative"),
        ({"weight": [np.nan, 1, 1, 1, 1, 1]}, "finite and not negative"),
        ({"values": np.full((6, 3), np.inf)}, "must be finite"),
    ],
)
def test_inconsistent_or_invalid_arrays_raise(change, message):
    arrays = {"values": np.zeros((6, 3)), "mask": np.ones((6, 3)), "target": np.zeros(6), **change}
    with pytest.raises(ValueError, match=message):
        MaskedData.of(**arrays)


@pytest.mark.parametrize("unit", [1e-300, 1e-15, 1.0, 1e300])
def test_centre_and_scale_are_proportional_to_the_unit_and_ignore_missing_values(unit):
    column = unit * np.array([1.0, np.nan, 3.0, 5.0])
    centre, scale = centre_and_scale(column[:, None])
    assert (centre[0] / unit, scale[0] / unit) == pytest.approx((3.0, np.sqrt(8 / 3)))


@pytest.mark.parametrize("values", [[0.1] * 1000, [1e300] * 9, [0.1 + 0.2, 0.3], [np.nan], [0.0], []])
def test_values_equal_up_to_rounding_have_an_infinite_scale(values):
    assert centre_and_scale(np.array(values, dtype=float)[:, None])[1].tolist() == [np.inf]


def test_an_integer_weight_is_equivalent_to_repeating_the_row():
    column, weight = np.array([1.0, 2.0, 50.0]), np.array([3.0, 1.0, 0.0])
    weighted = centre_and_scale(column[:, None], weight)
    np.testing.assert_allclose(weighted, centre_and_scale(np.array([1.0, 1.0, 1.0, 2.0])[:, None]))
    assert centre_and_scale(column[:, None], np.array([0.0, 1.0, 0.0]))[1] == [np.inf]


@pytest.mark.parametrize(
    "entry", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("sNaN")]
)
def test_every_marker_of_missing_values_is_recognised(entry):
    assert is_missing(entry)
    assert np.isnan(to_table([[1.0, entry]])[0, 1])


@pytest.mark.parametrize("entry", ["", "nan", "NA", 0, False, np.inf, Decimal(0), np.datetime64(0, "s"), []])
def test_other_entries_are_not_missing(entry):
    assert not is_missing(entry)


def test_masked_data_is_compared_by_identity():
    data = make_data()
    assert data == data
    assert data != make_data()


@pytest.mark.parametrize("power", [-1000, 0, 3, 900])
def test_weights_are_scaled_by_a_power_of_two(power):
    """Exactly, so that the scale of the weights never changes a result."""
    weight = np.array([0.3, 0.7, 1.9])
    np.testing.assert_array_equal(scale_to_one(np.ldexp(weight, power)), weight / 2)
    data, scaled = (
        MaskedData.of(np.ones((3, 1)), np.ones((3, 1)), None, w) for w in (weight, np.ldexp(weight, power))
    )
    np.testing.assert_array_equal(data.weight, scaled.weight)
    assert data.weight.mean() == pytest.approx(1.0)


def test_complete_columns_are_standardised_under_the_weights():
    columns = np.array([[1.0, 5.0], [3.0, 5.0], [9.0, 5.0]])
    data = MaskedData.of_complete(columns, weight=np.array([1e308, 1e308, 0.0]), groups=[4, 7])
    np.testing.assert_allclose(data.values, [[-1.0, 0.0], [1.0, 0.0], [7.0, 0.0]])
    assert data.mask.all()
    assert data.groups.tolist() == [4, 7]


def test_a_table_without_rows_can_be_refused():
    empty = MaskedData.of(np.ones((0, 2)), np.ones((0, 2)))
    with pytest.raises(ValueError, match="at least one row"):
        empty.check_has_rows()


@pytest.mark.parametrize("array", ["a", ["a"], [[1.0], [1.0, 2.0]], object(), [10**400]])
def test_what_is_no_array_of_numbers_raises(array):
    with pytest.raises(ValueError, match="weight must be an array of numbers; got"):
        to_numbers("weight", array)


def test_targets_that_are_not_observed_are_zero_and_follow_their_rows():
    target, seen = np.array([[1.0, np.nan], [np.nan, 4.0]]), np.array([[True, False], [False, True]])
    data = MaskedData.of(np.zeros((2, 4)), np.ones((2, 4)), target, target_mask=seen, row_shape=(2, 2))
    assert data.target.tolist() == [[1.0, 0.0], [0.0, 4.0]]
    swapped = data.rows(np.array([1, 0]))
    assert swapped.target_mask.tolist() == [[False, True], [True, False]]
    assert swapped.row_shape == (2, 2)


@pytest.mark.parametrize("wrong", [{"target_mask": np.ones((2, 3))}, {"row_shape": (2, 3)}], ids=str)
def test_a_target_mask_or_row_shape_of_another_size_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MaskedData.of(np.zeros((2, 4)), np.ones((2, 4)), np.zeros((2, 2)), **wrong)


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_the_common_scale_is_that_of_all_values_around_the_means_of_their_columns(unit):
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(50, 3)) * [1.0, 2.0, 0.0] + [0.0, 5.0, 7.0]
    columns[rng.uniform(size=(50, 3)) < 0.3] = np.nan
    centre, scale = centre_and_common_scale(unit * columns)
    np.testing.assert_allclose(centre, unit * np.nanmean(columns, axis=0))
    deviations = columns - np.nanmean(columns, axis=0)
    assert scale == pytest.approx(unit * np.sqrt(np.nanmean(deviations**2)))
