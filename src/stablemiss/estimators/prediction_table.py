"""Predictions for a table of rows, with intervals, probabilities and explanations on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats

if TYPE_CHECKING:
    import pyarrow

# Between the classes of a prediction set.
CLASS_SEPARATOR = "|"


@dataclass(frozen=True)
class Wanted:
    """What is computed beside the prediction itself.

    Attributes
    ----------
    coverage : float, default=None
        Coverage of prediction intervals, or of prediction sets for classes; None for neither.
    probabilities : bool, default=False
        Whether the output has a column with the probability of each class.
    explain : bool, default=False
        Whether the output has the expected error and the missing column that matters most.
    """

    coverage: float | None = None
    probabilities: bool = False
    explain: bool = False


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for a batch of rows.

    Attributes
    ----------
    output : (n,), (n, n_outputs) or (n, n_classes)
        Predicted numbers, or probabilities.
    classes : (n_classes,) or None
        Labels of the classes; None for regression.
    bounds : (n, 2), (n, n_outputs, 2), (n, n_classes) bool or None
        Prediction intervals, or which classes are in the prediction set.
    explanation : pyarrow.Table or None
        From `explain_missing`.
    """

    output: Floats
    classes: NDArray[Any] | None
    bounds: Floats | Bools | None
    explanation: pyarrow.Table | None

    @classmethod
    def of(cls, estimator: Any, features: pyarrow.Table, wanted: Wanted) -> Predictions:
        """Predict a batch of rows.

        Parameters
        ----------
        estimator : MissingEstimator
            The fitted model.
        features : pyarrow.Table
            The columns that it was fitted with.
        wanted : Wanted
            What to compute.
        """
        model: Any = estimator
        classes = getattr(model, "classes_", None)
        output = model.predict(features) if classes is None else model.predict_proba(features)
        bounds = None
        if wanted.coverage is not None:
            interval = model.predict_interval if classes is None else model.predict_set
            bounds = interval(features, wanted.coverage)
        explanation = model.explain_missing(features) if wanted.explain else None
        return cls(output, classes, bounds, explanation)

    def columns(self, probabilities: bool) -> dict[str, Any]:
        """Columns of the output.

        Parameters
        ----------
        probabilities : bool
            Whether to include the probability of each class.
        """
        columns: dict[str, Any] = {"prediction": self.output}
        if self.classes is not None:
            columns["prediction"] = self.classes[self.output.argmax(axis=1)]
        elif self.output.ndim == 2:
            columns = {f"prediction {k}": output for k, output in enumerate(self.output.T)}
        if self.bounds is not None and self.bounds.ndim == 3:
            for k in range(self.bounds.shape[1]):
                columns |= {f"lower {k}": self.bounds[:, k, 0], f"upper {k}": self.bounds[:, k, 1]}
        elif self.bounds is not None and self.classes is None:
            columns |= {"lower": self.bounds[:, 0], "upper": self.bounds[:, 1]}
        elif self.bounds is not None and self.classes is not None:
            labels = self.classes.astype(str)
            columns["prediction_set"] = [CLASS_SEPARATOR.join(labels[row]) for row in self.bounds]
        if probabilities and self.classes is not None:
            columns |= {
                f"probability of {label}": column
                for label, column in zip(self.classes.tolist(), self.output.T, strict=True)
            }
        if self.explanation is not None:
            columns |= dict(zip(self.explanation.column_names, self.explanation.columns, strict=True))
        return columns

    def coverage(self, target: Floats) -> tuple[Floats | None, Floats | None]:
        """Whether each interval or set contains the target, and its size; None if there are none.

        Parameters
        ----------
        target : (n,)
            Numbers, or positions of classes; NaN where it is not known.
        """
        if self.bounds is None:
            return None, None
        if self.classes is None:
            lower, upper = self.bounds.T
            return ((lower <= target) & (target <= upper)).astype(float), upper - lower
        position = np.nan_to_num(target).astype(int)
        return self.bounds[np.arange(len(target)), position].astype(float), self.bounds.sum(axis=1)
