"""New rows of a fitted estimator: encode them, and warn if they differ from those in training."""

from __future__ import annotations

import warnings
from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from stablemiss.base.method import Method
from stablemiss.encoding import ArrayEncoder, Encoded, Encoder, OnOutOfRange
from stablemiss.encoding.encoded import listed
from stablemiss.estimators.unusual_input import (
    OutOfRangeWarning,
    UnknownCategoryWarning,
    UnseenMissingWarning,
)
from stablemiss.text import count

OnUnseenMissing = Literal["auto", "warn", "raise", "ignore"]


class NewRows:
    """What estimators do with rows that a user passes after the fit."""

    on_unseen_missing: OnUnseenMissing
    on_out_of_range: OnOutOfRange
    allow_missing_columns: bool
    method_: Method
    encoder_: Encoder

    def _check_parameters(self) -> None:
        """Raise ValueError if a parameter is invalid."""

    def _encode(self, X: Any, are_masks_new: bool = False) -> Encoded:
        """Check a user's table and encode it.

        Public methods must call it directly, because the warnings refer to their caller.

        Parameters
        ----------
        X : table
        are_masks_new : bool, default=False
            Whether missing values that did not occur in training are expected, so that there is no warning.
        """
        check_is_fitted(self)
        self._check_parameters()
        encoded = self.encoder_.encode(
            X,
            allow_missing_columns=self.allow_missing_columns,
            on_out_of_range=self.on_out_of_range,
            estimator_name=type(self).__name__,
        )
        if encoded.exceeded:
            self._warn_out_of_range(encoded)
        if encoded.unknown or not (encoded.mask.all() or are_masks_new):
            self._warn_unseen_missing(encoded, are_masks_new)
        return encoded

    def _warn_out_of_range(self, encoded: Encoded) -> None:
        treatment = (
            'They were clipped near the range. Correct them, or set on_out_of_range="missing" to treat them '
            "as missing."
            if self.on_out_of_range == "clip"
            else "They count as missing. Correct them if the true values are known."
        )
        # Level 4 is the user's call: 1 is this method, 2 `_encode`, 3 `predict` or another public method.
        warnings.warn(
            f"Values are far outside the range that {type(self).__name__} was fitted with: "
            f"{listed(encoded.exceeded)}. Predictions for such rows may be inaccurate. {treatment}",
            OutOfRangeWarning,
            stacklevel=4,
        )

    def _warn_unseen_missing(self, encoded: Encoded, are_masks_new: bool) -> None:
        missing = {} if are_masks_new else self.encoder_.unseen_missing(encoded)
        unknown = encoded.unknown
        never_missing = self._declared_never_missing()
        is_ignored = self.on_unseen_missing == "ignore"
        if is_ignored or (self.on_unseen_missing == "auto" and self.method_.hides_values):
            missing = {column: n for column, n in missing.items() if column in never_missing}
        # A method may be trained for missing values, but an unknown category is probably a mistake.
        if is_ignored:
            unknown = tuple(u for u in unknown if self.encoder_.column_name(u.column) in never_missing)
        advice = 'or set on_unseen_missing="ignore" to accept this.'
        if missing:
            unit = self.encoder_.unit
            columns = [f"{column!r} ({count(n, 'row')})" for column, n in missing.items()]
            # Cells of arrays have positions instead of names, and there are many of them.
            limit = 3 if unit == ArrayEncoder.unit else 20
            self._report_unseen(
                f"Values are missing in {unit}s that were never missing when {type(self).__name__} was "
                f"fitted: {listed(columns, limit=limit, unit=unit)}. Predictions for such rows may be "
                f"inaccurate. Fit with rows in which they are missing, {advice}",
                UnseenMissingWarning,
            )
        if unknown:
            self._report_unseen(
                f"Unknown categories, which do not occur in the training rows of {type(self).__name__}: "
                f"{listed(unknown)}. They count as missing. Correct them, fit with rows in which they occur, "
                f"{advice}",
                UnknownCategoryWarning,
            )

    def _report_unseen(self, message: str, category: type[Warning]) -> None:
        if self.on_unseen_missing == "raise":
            raise ValueError(message)
        # Level 5 is the user's call: 1 is this method, 2 `_warn_unseen_missing`, 3 `_encode`, 4 `predict`.
        warnings.warn(message, category, stacklevel=5)

    def _declared_never_missing(self) -> set[str]:
        """Columns that the user declared never missing; they cause a warning even with "ignore"."""
        return set()
