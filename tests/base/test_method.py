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
    def from_state(cls, state, n_columns, task):
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
        (0, "depth must be at least 1.*got 0"),
        (2.0, "depth must be an integer of at least 1; got 2.0"),
        ("2", "depth must be an integer.*got '2'"),
        (None, "depth must be an integer.*got None"),
        (True, "depth must be an integer.*got True"),
        (np.nan, "depth must be an integer.*got nan"),
    ],
)
def test_other_values_for_an_integer_raise(value, reason):
    with pytest.raises(ValueError, match=reason):
        check_at_least(SimpleNamespace(width=5, depth=value), width=1, depth=1)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-0.1, "ridge must be at least 0.0.*got -0.1"),
        (np.inf, "ridge must be a finite number of at least 0.0; got inf"),
        (np.nan, "ridge must be a finite number.*got nan"),
        ("0.1", "ridge must be a finite number.*got '0.1'"),
        (None, "ridge must be a finite number.*got None"),
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
        (8, r"hidden must be a sequence of layer widths; got 8. For a single layer use \(8,\)"),
        (2.5, r"hidden must be a sequence of layer widths, such as \(128, 64\); got 2.5"),
        (-3, r"hidden must be a sequence of layer widths, such as \(128, 64\); got -3"),
        (None, "hidden must be a sequence.*got None"),
        ("88", "hidden must be a sequence.*got '88'"),
        ([-3], r"hidden must contain only integers of at least 1; got \[-3\]"),
        ((8, 0), r"hidden must contain only integers of at least 1; got \(8, 0\)"),
        ((8, 2.5), r"hidden must contain only integers of at least 1; got \(8, 2.5\)"),
        ((True,), r"hidden must contain only integers of at least 1; got \(True,\)"),
    ],
)
def test_other_values_for_widths_raise(widths, reason):
    with pytest.raises(ValueError, match=reason):
        check_widths(SimpleNamespace(hidden=widths), "hidden")
