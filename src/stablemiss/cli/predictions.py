"""Predictions for a batch of rows, with intervals, probabilities and explanations on request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from stablemiss.cli.errors import Warnings, rows_of_file
from stablemiss.progress import terminal_progress

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

    from stablemiss.cli.new_rows import Batch, NewRows
    from stablemiss.data import Bools, Floats
    from stablemiss.estimators.base import MissingEstimator

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

    def check(self, estimator: MissingEstimator, model: str) -> None:
        """Raise ValueError if a model cannot give what is wanted.

        Parameters
        ----------
        estimator : MissingEstimator
            The fitted model.
        model : str
            Its file, for error messages.
        """
        if self.probabilities and not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"{model} is a regression model, which has no class probabilities; omit --probabilities."
            )
        if self.coverage is not None and not 0 < self.coverage < 1:
            raise ValueError(
                f"The coverage of intervals must be between 0 and 1, such as 0.9; got {self.coverage:g}."
            )
        unavailable = [
            option
            for option, is_wanted in (("--interval", self.coverage is not None), ("--explain", self.explain))
            if is_wanted and not has_intervals(estimator)
        ]
        if unavailable:
            raise ValueError(
                f"{unavailable[0]} needs a model fitted with the method 'anymask', but {model} was fitted "
                f"with {estimator.method_.name!r}."
            )


def has_intervals(estimator: MissingEstimator) -> bool:
    """Whether a model has prediction intervals or sets, and explanations."""
    return hasattr(estimator, "explain_missing")


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for a batch of rows.

    Attributes
    ----------
    output : (n,) or (n, n_classes)
        Predicted numbers, or probabilities.
    classes : (n_classes,) or None
        Labels of the classes; None for regression.
    bounds : (n, 2), (n, n_classes) bool or None
        Prediction intervals, or which classes are in the prediction set.
    explanation : pyarrow.Table or None
        From `explain_missing`.
    """

    output: Floats
    classes: NDArray[Any] | None
    bounds: Floats | Bools | None
    explanation: pyarrow.Table | None

    @classmethod
    def of(cls, estimator: MissingEstimator, features: pyarrow.Table, wanted: Wanted) -> Predictions:
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
        if self.bounds is not None and self.classes is None:
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


def predict_batches(
    rows: NewRows, estimator: MissingEstimator, wanted: Wanted, warnings: Warnings
) -> Iterator[tuple[Batch, Predictions]]:
    """Predict all rows, batch by batch, with a progress bar if standard error is a terminal.

    Parameters
    ----------
    rows : NewRows
        The rows.
    estimator : MissingEstimator
        The fitted model.
    wanted : Wanted
        What to predict.
    warnings : Warnings
        Shows warnings.
    """
    n_rows = 0
    progress = terminal_progress()
    progress.start("predicting", rows.source.n_rows)
    try:
        for batch in rows.batches():
            with warnings.of_batch(), rows_of_file(partial(add, n_rows + 1)):
                predictions = Predictions.of(estimator, batch.features, wanted)
            yield batch, predictions
            n_rows += batch.table.num_rows
            progress.update(n_rows, f"{n_rows:,} rows")
    finally:
        progress.finish()
    warnings.finish_batches()
