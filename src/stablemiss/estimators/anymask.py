"""AnyMask by its own name: learn once, predict under any missingness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from stablemiss.data import Bools, Floats
from stablemiss.estimators.base import MissingEstimator, OnUnseenMissing
from stablemiss.methods import AnyMask, Method
from stablemiss.methods.anymask import MEMBERS, AnyMaskPredictor, Budget
from stablemiss.tasks import Classification, Regression

# How a column may be called.
Name = str | int | np.integer


class _AnyMaskEstimator(MissingEstimator):
    """What regressor and classifier share."""

    predictor_: AnyMaskPredictor

    def __init__(
        self,
        *,
        budget: Budget = "default",
        members: Sequence[str] = MEMBERS,
        may_vanish: Sequence[str | int] | None = None,
        never_missing: Sequence[str | int] | None = None,
        validation_fraction: float = 0.15,
        random_state: Any = None,
        on_unseen_missing: OnUnseenMissing = "ignore",
        allow_missing_columns: bool = False,
        max_one_hot: int = 12,
        verbose: bool = False,
    ):
        self.budget = budget
        self.members = members
        self.may_vanish = may_vanish
        self.never_missing = never_missing
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.on_unseen_missing = on_unseen_missing
        self.allow_missing_columns = allow_missing_columns
        self.max_one_hot = max_one_hot
        self.verbose = verbose

    def _chosen_method(self, columns: Sequence[str] | None) -> Method:
        return AnyMask(
            self.budget,
            self.members,
            _positions("may_vanish", self.may_vanish, columns),
            _positions("never_missing", self.never_missing, columns),
        )

    def _declared_never_missing(self) -> set[str]:
        assert isinstance(self.method_, AnyMask)
        names = self.encoder_.names
        return {
            f"column {place}" if names is None else names[place] for place in self.method_.never_missing or ()
        }

    def _answer(self, X: Any) -> tuple[Floats, Bools, Floats]:
        """Values, mask and outputs for a user's table."""
        values, mask = self._encoded(X)
        return values, mask, self.predictor_.outputs(values, mask)

    def _costs(self, X: Any, weight: Floats) -> dict[str, NDArray]:
        """What `explain_missing` says, in squared errors; outputs count by their weights."""
        values, mask = self._encoded(X)
        expected = self.predictor_.expected_error(values, mask, self.encoder_.groups, weight)
        error, complete = expected.error[:, 0], expected.complete[:, 0]
        columns = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        most_informative_missing = np.array(columns, dtype=object)[
            np.unique(self.encoder_.groups)[expected.most_informative_missing]
        ]
        most_informative_missing[expected.most_informative_missing < 0] = None
        return {
            "error": error,
            "error_if_complete": complete,
            "most_informative_missing": most_informative_missing,
            "error_if_it_were_observed": np.maximum(error - expected.gain.max(axis=1), complete),
        }


class AnyMaskRegressor(RegressorMixin, _AnyMaskEstimator):
    """Predict one or several numbers from a table with holes, and do not mind when other holes come.

    Parameters
    ----------
    budget : "fast", "default" or "best"
        How much time to spend. On 17,000 rows of 18 columns "fast" took 7 to 9, "default" 21 to 37 times as
        long as a plain LightGBM; "best" fits three longer nets and takes several times as long again.
    members : sequence of "mixture", "boosting", "net"
        Models to combine. Leaving one out saves its time; `explain_missing` needs the mixture.
    may_vanish, never_missing : sequence of str or int, optional
        Columns, by name or by position, that may go missing, or those that never do. Give one of the two, if
        you know: the model then wastes nothing on absences that cannot happen. All may vanish by default.
        A column in never_missing must be complete in `fit`; should it be missing later, there is a warning.
    validation_fraction, random_state, allow_missing_columns, max_one_hot, verbose
        As in `MissingRegressor`.
    on_unseen_missing : "warn", "raise" or "ignore"
        What to do about columns that were never missing in training. Ignored by default, except for those in
        never_missing: this is what the model was made for.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only where the table had column names.
    n_outputs_ : int
        Numbers predicted per row.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X.sum(axis=1)
    >>> model = AnyMaskRegressor(budget="fast", random_state=0).fit(X, y)
    >>> model.predict([[1.0, None, 1.0]]).shape
    (1,)
    """

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Intervals that hold the truth with probability `coverage` whatever is missing.

        They widen where importance columns are missing: calibrated on held-out rows under many masks, by the
        number of missing columns and by how large errors are where these cells are observed.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.
        coverage : float between 0 and 1
            Raising it widens the intervals.

        Returns
        -------
        (n, 2), lower and upper bounds; (n, n_outputs, 2) if the target had several columns

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = AnyMaskRegressor(budget="fast", random_state=0).fit(X, X[:, 0])
        >>> bounds = model.predict_interval([[1.0, 0.0], [None, 0.0]])
        >>> narrow, wide = bounds[:, 1] - bounds[:, 0]
        >>> bool(3 * narrow < wide)
        True
        """
        values, mask, outputs = self._answer(X)
        bounds = self.predictor_.spread.interval(values, mask, outputs, coverage)
        decoded = [self.task_.decode(bounds[:, :, side]) for side in (0, 1)]
        return np.stack(decoded, axis=-1)

    def explain_missing(self, X: Any) -> dict[str, NDArray]:
        """For each row, what its holes cost: the error to expect, and which missing column costs most.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.

        Returns
        -------
        dict of (n,) arrays, ready to become a data frame
            "error": RMSE to expect of the prediction (over all outputs, in the target's units).
            "error_if_complete": the same if nothing were missing.
            "most_informative_missing": the missing column whose value would lower the error most, by name (by position in
            tables without names); None where none is missing, or none would help.
            "error_if_it_were_observed": RMSE to expect if that column alone were seen.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> model = AnyMaskRegressor(budget="fast", random_state=0).fit(X, 2 * X[:, 0] + X[:, 1])
        >>> model.explain_missing([[None, None, 0.0], [1.0, None, 0.0]])["most_informative_missing"].tolist()
        [0, 1]
        """
        check_is_fitted(self)
        assert isinstance(self.task_, Regression)
        found = self._costs(X, self.task_.scale**2 / self.n_outputs_)
        return {
            name: cells if name == "most_informative_missing" else np.sqrt(cells)
            for name, cells in found.items()
        }


class AnyMaskClassifier(ClassifierMixin, _AnyMaskEstimator):
    """Predict one of several classes from a table with holes, and do not mind when other holes come.

    Parameters
    ----------
    budget : "fast", "default" or "best"
        How much time to spend. On 17,000 rows of 18 columns "fast" took 7 to 9, "default" 21 to 37 times as
        long as a plain LightGBM; "best" fits three longer nets and takes several times as long again.
    members : sequence of "mixture", "boosting", "net"
        Models to combine. Leaving one out saves its time; `explain_missing` needs the mixture.
    may_vanish, never_missing : sequence of str or int, optional
        Columns, by name or by position, that may go missing, or those that never do. Give one of the two, if
        you know: the model then wastes nothing on absences that cannot happen. All may vanish by default.
        A column in never_missing must be complete in `fit`; should it be missing later, there is a warning.
    validation_fraction, random_state, allow_missing_columns, max_one_hot, verbose
        As in `MissingClassifier`.
    on_unseen_missing : "warn", "raise" or "ignore"
        What to do about columns that were never missing in training. Ignored by default, except for those in
        never_missing: this is what the model was made for.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The labels, sorted; the order of the columns of `predict_proba`.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only where the table had column names.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = np.where(X.sum(axis=1) > 0, "up", "down")
    >>> model = AnyMaskClassifier(budget="fast", random_state=0).fit(X, y)
    >>> model.predict_proba([[1.0, None, 1.0]]).shape
    (1, 2)
    """

    def predict_set(self, X: Any, coverage: float = 0.9) -> Bools:
        """Sets of classes that hold the true one with probability `coverage`, whatever is missing.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.
        coverage : float between 0 and 1
            Raising it makes the sets larger. They are never empty, so where the model is right more often
            than that, they cover more.

        Returns
        -------
        (n, n_classes) bool, in the order of `classes_`

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = AnyMaskClassifier(budget="fast", random_state=0).fit(X, X[:, 0] > 0)
        >>> model.predict_set([[2.0, 0.0], [None, 0.0]]).sum(axis=1).tolist()
        [1, 2]
        """
        _, _, outputs = self._answer(X)
        assert isinstance(self.task_, Classification)
        return self.predictor_.spread.sets(self.task_.probabilities(outputs), coverage)

    def explain_missing(self, X: Any) -> dict[str, NDArray]:
        """For each row, what its holes cost: the error to expect, and which missing column costs most.

        Errors are Brier scores, summed over the classes: 0 is sure and right, 2 sure and wrong.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.

        Returns
        -------
        dict of (n,) arrays, ready to become a data frame
            "error": Brier score to expect of the probabilities.
            "error_if_complete": the same if nothing were missing.
            "most_informative_missing": the missing column whose value would lower the error most, by name (by position in
            tables without names); None where none is missing, or none would help.
            "error_if_it_were_observed": Brier score to expect if that column alone were seen.
        """
        check_is_fitted(self)
        return self._costs(X, np.ones(len(self.classes_)))


def _positions(
    parameter: str, chosen: Sequence[str | int] | None, columns: Sequence[str] | None
) -> list[int] | None:
    """Columns by name or position as positions."""
    if chosen is None:
        return None
    if isinstance(chosen, str):
        raise ValueError(f"{parameter} must be a list of columns, such as [{chosen!r}], but is {chosen!r}.")
    strange = [name for name in chosen if isinstance(name, bool | np.bool_) or not isinstance(name, Name)]
    if strange:
        raise ValueError(f"{parameter} must hold names or positions of columns, but holds {strange[0]!r}.")
    absent = [name for name in chosen if isinstance(name, str) and name not in (columns or ())]
    if absent:
        raise ValueError(
            f"{parameter} names {', '.join(map(repr, absent))}, but the table has "
            + (
                f"the columns {', '.join(map(repr, columns))}."
                if columns
                else "no column names; give positions."
            )
        )
    return [list(columns or ()).index(name) if isinstance(name, str) else int(name) for name in chosen]
