"""The interface of predictors."""

import numpy as np
import pytest

from stablemiss.base.method import Predictor


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
