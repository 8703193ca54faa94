"""The interface of predictors, and the checks of hyper-parameters that all methods share."""

from types import SimpleNamespace

import numpy as np
import pytest

from stablemiss.base.method import Predictor, check_at_least, check_widths


class Sums(Predictor):
    """Sum of all values of a row, hidden ones included."""

    def _predict(self, values, mask):
        assert mask.dtype == bool
        return values.sum(axis=1, keepdims=True)

    def state(self):
        return {}

    @classmethod
    def from_state(cls, state):
        return cls()


@pytest.mark.parametrize("dtype", [bool, int, float])
def test_predict_sets_hidden_values_to_zero(dtype):
    values, mask = np.array([[1.0, np.nan], [np.inf, 2.0]]), np.eye(2, dtype=dtype)
    assert Sums().predict(values, mask).tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("value", [1, 7, np.int64(3)])
def test_integers_at_or_above_the_bound_pass(value):
    check_at_least(SimpleNamespace(depth=value), depth=1)


@pytest.mark.parametrize("value", [0.0, 1, 2.5, np.float32(0.1)])
def test_finite_numbers_at_or_above_the_bound_pass(value):
    check_at_least(SimpleNamespace(ridge=value), ridge=0.0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (0, "depth=0 is too small; give at least 1"),
        (2.0, "depth=2.0 must be a whole number; give at least 1"),
        ("2", "depth='2' must be a whole number"),
        (None, "depth=None must be a whole number"),
        (True, "depth=True must be a whole number"),
        (np.nan, "depth=nan must be a whole number"),
    ],
)
def test_other_values_for_an_integer_raise(value, reason):
    with pytest.raises(ValueError, match=reason):
        check_at_least(SimpleNamespace(width=5, depth=value), width=1, depth=1)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-0.1, "ridge=-0.1 is too small; give at least 0.0"),
        (np.inf, "ridge=inf must be a finite number; give at least 0.0"),
        (np.nan, "ridge=nan must be a finite number"),
        ("0.1", "ridge='0.1' must be a finite number"),
        (None, "ridge=None must be a finite number"),
    ],
)
def test_other_values_for_a_number_raise(value, reason):
    with pytest.raises(ValueError, match=reason):
        check_at_least(SimpleNamespace(ridge=value), ridge=0.0)


@pytest.mark.parametrize("widths", [(), [], (8,), [8, 4], (np.int64(8),)])
def test_widths_may_be_any_sequence_of_positive_integers(widths):
    check_widths(SimpleNamespace(hidden=widths), "hidden")


@pytest.mark.parametrize(
    ("widths", "reason"),
    [
        (8, r"hidden=8 must be a sequence with the width of each layer; for a single one give \(8,\)"),
        (2.5, r"hidden=2.5 must be a sequence with the width of each layer, such as \(128, 64\)"),
        (-3, r"hidden=-3 must be a sequence with the width of each layer, such as \(128, 64\)"),
        (None, "hidden=None must be a sequence"),
        ("88", "hidden='88' must be a sequence"),
        ([-3], r"hidden=\[-3\] must hold whole numbers of at least 1"),
        ((8, 0), r"hidden=\(8, 0\) must hold whole numbers"),
        ((8, 2.5), r"hidden=\(8, 2.5\) must hold whole numbers"),
        ((True,), r"hidden=\(True,\) must hold whole numbers"),
    ],
)
def test_other_values_for_widths_raise(widths, reason):
    with pytest.raises(ValueError, match=reason):
        check_widths(SimpleNamespace(hidden=widths), "hidden")
