"""A table, and a method that is fitted instantly."""

import numpy as np
import pytest

from stablemiss.methods import Method
from stablemiss.methods.constant import ConstantPredictor
from stablemiss.tuning import Choice, Range


class ConstantHeight(Method):
    """Predicts the constant `height`, in standard deviations; 0 is optimal. Fails from `breaks_at` on."""

    name = "constant_height"
    predictor = ConstantPredictor
    space = {"height": Range(-2.0, 2.0), "paint": Choice("white", (1, 2))}  # noqa: RUF012
    heights: list[float] = []  # noqa: RUF012

    def __init__(self, height=1.0, paint="white", breaks_at=np.inf):
        self.height = height
        self.paint = paint
        self.breaks_at = breaks_at

    def fit(self, train, valid, task, rng, progress):
        self.heights.append(self.height)
        if self.height >= self.breaks_at:
            raise ArithmeticError(f"failure at height {self.height}")
        return ConstantPredictor(np.full(task.d_output, self.height))


@pytest.fixture
def constant_height():
    ConstantHeight.heights.clear()
    return ConstantHeight


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=60)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y
