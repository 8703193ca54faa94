"""Predictions for batches of rows of a file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import add
from typing import TYPE_CHECKING

from stablemiss.cli.errors import Warnings, rows_of_file
from stablemiss.estimators.prediction_table import CLASS_SEPARATOR, Predictions
from stablemiss.estimators.prediction_table import Wanted as _Wanted
from stablemiss.progress import terminal_progress

if TYPE_CHECKING:
    from stablemiss.cli.new_rows import Batch, NewRows
    from stablemiss.estimators.base import MissingEstimator

__all__ = ["CLASS_SEPARATOR", "Predictions", "Wanted", "has_intervals", "predict_batches"]


class Wanted(_Wanted):
    """What is computed beside the prediction itself, as the options of the command line say."""

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
