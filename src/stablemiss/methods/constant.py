"""The constant predictor: the baseline that every other method must beat."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from stablemiss.base.linear import join
from stablemiss.base.method import Method, Predictor
from stablemiss.data import Bools, Floats, MaskedData, zero_where_missing
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.stored import stored_array
from stablemiss.tasks import Classification, Task


class ConstantPredictor(Predictor):
    """The same outputs for every row."""

    def __init__(self, output: Floats):
        self.output = output

    def _predict(self, values: Floats, mask: Bools) -> Floats:
        return np.tile(self.output, (len(values), 1))

    def state(self) -> dict[str, Any]:
        return {"output": self.output}

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        return cls(stored_array(state, "output", (task.d_output,)))


class Constant(Method):
    """Predict the weighted mean of the training targets, or the weighted class frequencies.

    See Also
    --------
    OLS : The simplest method that reads the columns.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> MissingRegressor(method="constant").fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0]).predict([[9.0]])
    array([2.])
    """

    name: ClassVar[str] = "constant"
    predictor_class: ClassVar[type[Predictor]] = ConstantPredictor
    reads_arrays: ClassVar[bool] = True

    @property
    def trains_on_validation(self) -> bool:
        return True

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> ConstantPredictor:
        # No parameter is chosen on validation rows, so they are training rows too.
        data = join(train, valid)
        if isinstance(task, Classification):
            shares = np.bincount(data.target, weights=data.weight, minlength=task.d_output)
            shares = shares / data.weight.sum()
            # A class whose rows all have weight zero keeps finite log-odds.
            return ConstantPredictor(np.log(np.maximum(shares, 1e-12)))
        if data.target_mask is None or data.target_mask.all():
            return ConstantPredictor(np.average(data.target, axis=0, weights=data.weight))
        total = data.weight @ data.target_mask
        sums = data.weight @ zero_where_missing(data.target, data.target_mask)
        # The encoded targets have mean zero, which is predicted for an output that is never observed.
        return ConstantPredictor(sums / np.where(total > 0, total, 1.0))
