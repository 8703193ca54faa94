"""AnyMask as scikit-learn estimators: fit once, predict under any missingness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from stablemiss.anymask import MEMBERS, AnyMask, AnyMaskPredictor, Budget
from stablemiss.checks import check_number, shown, to_list
from stablemiss.data import Bools, Floats
from stablemiss.estimators.base import MissingEstimator, OnOutOfRange, OnUnseenMissing, ValidationSplit
from stablemiss.methods import Method
from stablemiss.tasks import Classification, Regression

# A column is given by its name or by its position.
Column = str | int | np.integer


class _AnyMaskEstimator(MissingEstimator):
    """Parameters and helpers shared by `AnyMaskRegressor` and `AnyMaskClassifier`."""

    predictor_: AnyMaskPredictor

    def __init__(
        self,
        *,
        budget: Budget = "default",
        members: Sequence[str] = MEMBERS,
        may_vanish: Sequence[str | int] | None = None,
        never_missing: Sequence[str | int] | None = None,
        validation_fraction: float = 0.15,
        validation_split: ValidationSplit = None,
        random_state: Any = None,
        on_unseen_missing: OnUnseenMissing = "ignore",
        on_out_of_range: OnOutOfRange = "clip",
        allow_missing_columns: bool = False,
        max_one_hot: int = 12,
        date_features: bool = True,
        verbose: bool = False,
    ):
        self.budget = budget
        self.members = members
        self.may_vanish = may_vanish
        self.never_missing = never_missing
        self.validation_fraction = validation_fraction
        self.validation_split = validation_split
        self.random_state = random_state
        self.on_unseen_missing = on_unseen_missing
        self.on_out_of_range = on_out_of_range
        self.allow_missing_columns = allow_missing_columns
        self.max_one_hot = max_one_hot
        self.date_features = date_features
        self.verbose = verbose

    def _make_method(self, columns: Sequence[str] | None) -> Method:
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
            f"column {position}" if names is None else names[position]
            for position in self.method_.never_missing or ()
        }

    def _explain_missing(self, values: Floats, mask: Bools, weight: Floats) -> dict[str, NDArray]:
        """The result of `explain_missing`, with weighted sums of the squared errors of the outputs."""
        groups = self.encoder_.groups
        expected = self.predictor_.expected_error(values, mask, groups, weight)
        error, complete = expected.error[:, 0], expected.error_if_complete[:, 0]
        columns = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        index = expected.most_informative_missing
        most_informative = np.array(columns, dtype=object)[np.unique(groups)[index]]
        most_informative[index < 0] = None
        return {
            "error": error,
            "error_if_complete": complete,
            "most_informative_missing": most_informative,
            "error_if_it_were_observed": np.maximum(error - expected.gain.max(axis=1), complete),
        }


class AnyMaskRegressor(RegressorMixin, _AnyMaskEstimator):
    """Regression on tables with missing values that stays accurate when the missingness changes.

    An ensemble of a Gaussian mixture, boosted trees and a network, combined by stacking. It is fitted once
    and predicts under missingness patterns that did not occur in training. Several numeric targets can be
    predicted at once.

    Parameters
    ----------
    budget : "fast", "default" or "best", default="default"
        How much time to spend on the fit. With 17,000 rows and 18 columns, "fast" took 7 to 9 times as long
        as LightGBM alone, and "default" 21 to 37 times. "best" trains three networks for
        longer and takes several times as long as "default".
    members : sequence of "mixture", "boosting", "net", default=("mixture", "boosting", "net")
        Models to combine. Leaving one out makes the fit faster; `explain_missing` needs the mixture.
    may_vanish : sequence of str or int, default=None
        Columns, by name or position, that may go missing. If they are known, the model does not spend
        capacity on masks that cannot occur. None means all columns. Give `may_vanish` or `never_missing`, not
        both.
    never_missing : sequence of str or int, default=None
        Columns, by name or position, that never go missing; all others may. They must be complete in `fit`,
        and a warning is issued if one of them is missing later.
    validation_fraction : float, default=0.15
        Share of the rows held out for early stopping, stacking and calibration. Raising it makes the
        stacking weights and the intervals more accurate and leaves fewer rows to train on.
    validation_split : float, scikit-learn splitter or None, default=None
        How validation rows are chosen. None takes `validation_fraction` of the rows: at random, or whole groups
        or the latest rows if `groups` or `time` are passed to `fit`. A float replaces `validation_fraction`. The
        last split of a splitter, such as ``GroupKFold(5)`` or ``TimeSeriesSplit(5)``, is used.
    random_state : None, int, RandomState or Generator, default=None
        An int makes the fit reproducible. The global random state is never used or changed.
    on_unseen_missing : "warn", "raise" or "ignore", default="ignore"
        What `predict` does if a column that was never missing in training has missing values. The default
        is "ignore", because the model is trained for this case; columns in `never_missing` cause a warning
        nevertheless.
    on_out_of_range : "clip", "missing" or "raise", default="clip"
        What `predict` does with numbers far outside the range in training (further from it than half its
        width): "clip" moves them to that limit and "missing" treats them as missing, both with a warning;
        "raise" raises an error.
    allow_missing_columns : bool, default=False
        True lets `predict` accept tables that lack columns, which then count as missing in every row.
    max_one_hot : int, default=12
        Text columns with at most this many categories are one-hot encoded, others are target encoded.
        Raising it keeps more categories distinct and makes the encoded table wider.
    date_features : bool, default=True
        True turns each date column into year, month, day of the year, weekday and hour, with their cycles.
        False refuses dates.
    verbose : bool, default=False
        Show a progress bar during `fit`.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of the training table.
    feature_names_in_ : (n_features_in_,) array of str
        Names of these columns. Defined only if all column names are strings.
    n_outputs_ : int
        Number of targets.

    See Also
    --------
    AnyMaskClassifier : The same for classes.
    MissingRegressor : Any other method of the library.
    StableMissRegressor : The method of the paper.

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
        """Prediction intervals that contain the target with probability `coverage`.

        Intervals are wider if informative columns are missing. They are calibrated on held-out rows under
        many augmented masks (conformal calibration): the expected size of the error given the observed values
        is multiplied by a factor that depends on the number of missing columns. The coverage is exact on
        average over such masks, and approximate for a single mask.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.
        coverage : float between 0 and 1, default=0.9
            Raising it widens the intervals.

        Returns
        -------
        (n, 2) lower and upper bounds, or (n, n_outputs, 2) if the target had several columns

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
        check_number({"coverage": coverage}, coverage="(0, 1)")
        values, mask = self._encode(X)
        bounds = self.predictor_.predict_interval(values, mask, coverage)
        decoded = [self.task_.decode(bounds[:, :, side]) for side in (0, 1)]
        return np.stack(decoded, axis=-1)

    def explain_missing(self, X: Any) -> dict[str, NDArray]:
        """For each row, the expected error and the missing column that would reduce it most.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.

        Returns
        -------
        dict of (n,) arrays, which can be passed to ``pandas.DataFrame``
            "error": expected RMSE of the prediction (over all outputs, in the target's units).
            "error_if_complete": the same if nothing were missing.
            "most_informative_missing": the missing column whose value would reduce the error most, by name
            (by position for tables without names); None if nothing is missing, or no value would help.
            "error_if_it_were_observed": expected RMSE if only that column were observed in addition.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> model = AnyMaskRegressor(budget="fast", random_state=0).fit(X, 2 * X[:, 0] + X[:, 1])
        >>> model.explain_missing([[None, None, 0.0], [1.0, None, 0.0]])["most_informative_missing"].tolist()
        [0, 1]
        """
        values, mask = self._encode(X)
        assert isinstance(self.task_, Regression)
        # In units of a power of two near the largest scale, whose square neither overflows nor underflows.
        exponent = np.frexp(self.task_.scale.max())[1]
        weight = np.ldexp(self.task_.scale, -exponent) ** 2 / self.n_outputs_
        explanation = self._explain_missing(values, mask, weight)
        return {
            name: column if name == "most_informative_missing" else np.ldexp(np.sqrt(column), exponent)
            for name, column in explanation.items()
        }


class AnyMaskClassifier(ClassifierMixin, _AnyMaskEstimator):
    """Classification on tables with missing values that stays accurate when the missingness changes.

    An ensemble of Gaussian mixtures, boosted trees and a network, combined by stacking. It is fitted once and
    predicts under missingness patterns that did not occur in training.

    Parameters
    ----------
    budget : "fast", "default" or "best", default="default"
        How much time to spend on the fit. With 17,000 rows and 18 columns, "fast" took 7 to 9 times as long
        as LightGBM alone, and "default" 21 to 37 times. "best" trains three networks for
        longer and takes several times as long as "default".
    members : sequence of "mixture", "boosting", "net", default=("mixture", "boosting", "net")
        Models to combine. Leaving one out makes the fit faster; `explain_missing` needs the mixture.
    may_vanish : sequence of str or int, default=None
        Columns, by name or position, that may go missing. If they are known, the model does not spend
        capacity on masks that cannot occur. None means all columns. Give `may_vanish` or `never_missing`, not
        both.
    never_missing : sequence of str or int, default=None
        Columns, by name or position, that never go missing; all others may. They must be complete in `fit`,
        and a warning is issued if one of them is missing later.
    validation_fraction : float, default=0.15
        Share of the rows held out, stratified by class, for early stopping, stacking and calibration. Raising
        it makes the stacking weights and the prediction sets more accurate and leaves fewer rows to train on.
    validation_split : float, scikit-learn splitter or None, default=None
        How validation rows are chosen. None takes `validation_fraction` of the rows: at random, or whole groups
        or the latest rows if `groups` or `time` are passed to `fit`. A float replaces `validation_fraction`. The
        last split of a splitter, such as ``GroupKFold(5)`` or ``TimeSeriesSplit(5)``, is used.
    random_state : None, int, RandomState or Generator, default=None
        An int makes the fit reproducible. The global random state is never used or changed.
    on_unseen_missing : "warn", "raise" or "ignore", default="ignore"
        What `predict` does if a column that was never missing in training has missing values. The default
        is "ignore", because the model is trained for this case; columns in `never_missing` cause a warning
        nevertheless.
    on_out_of_range : "clip", "missing" or "raise", default="clip"
        What `predict` does with numbers far outside the range in training (further from it than half its
        width): "clip" moves them to that limit and "missing" treats them as missing, both with a warning;
        "raise" raises an error.
    allow_missing_columns : bool, default=False
        True lets `predict` accept tables that lack columns, which then count as missing in every row.
    max_one_hot : int, default=12
        Text columns with at most this many categories are one-hot encoded, others are target encoded.
        Raising it keeps more categories distinct and makes the encoded table wider.
    date_features : bool, default=True
        True turns each date column into year, month, day of the year, weekday and hour, with their cycles.
        False refuses dates.
    verbose : bool, default=False
        Show a progress bar during `fit`.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The sorted labels, in the order of the columns of `predict_proba`.
    n_features_in_ : int
        Number of columns of the training table.
    feature_names_in_ : (n_features_in_,) array of str
        Names of these columns. Defined only if all column names are strings.

    See Also
    --------
    AnyMaskRegressor : The same for numeric targets.
    MissingClassifier : Any other method of the library.
    StableMissClassifier : The method of the paper.

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
        """Sets of classes that contain the true class with probability `coverage`.

        They are calibrated on held-out rows under many augmented masks (conformal calibration). The coverage
        is exact on average over such masks, and approximate for a single mask.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.
        coverage : float between 0 and 1, default=0.9
            Raising it makes the sets larger. Sets are never empty, so their actual coverage is higher if the
            most probable class is correct more often than `coverage`.

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
        check_number({"coverage": coverage}, coverage="(0, 1)")
        values, mask = self._encode(X)
        assert isinstance(self.task_, Classification)
        return self.predictor_.predict_set(values, mask, self.task_, coverage)

    def explain_missing(self, X: Any) -> dict[str, NDArray]:
        """For each row, the expected error and the missing column that would reduce it most.

        Errors are Brier scores, summed over the classes: 0 for a certain and correct prediction, 2 for a
        certain and wrong one.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.

        Returns
        -------
        dict of (n,) arrays, which can be passed to ``pandas.DataFrame``
            "error": expected Brier score of the probabilities.
            "error_if_complete": the same if nothing were missing.
            "most_informative_missing": the missing column whose value would reduce the error most, by name
            (by position for tables without names); None if nothing is missing, or no value would help.
            "error_if_it_were_observed": expected Brier score if only that column were observed in addition.
        """
        values, mask = self._encode(X)
        return self._explain_missing(values, mask, np.ones(len(self.classes_)))


def _positions(
    parameter: str, columns: Sequence[str | int] | None, names: Sequence[str] | None
) -> list[int] | None:
    """Positions of columns given by name or position.

    Parameters
    ----------
    parameter : str
        Name of the parameter, for error messages.
    columns : sequence of str or int, or None
        Value of the parameter.
    names : sequence of str or None
        Column names of the table; None if it has none.
    """
    if columns is None:
        return None
    given, columns = columns, to_list(columns)
    if columns is None:
        raise ValueError(
            f"{parameter} must be a list of names or positions of columns, such as ['age'] or [0, 3], or "
            f"None; got {shown(given)}."
        )
    invalid = [c for c in columns if isinstance(c, bool | np.bool_) or not isinstance(c, Column)]
    if invalid:
        raise ValueError(
            f"{parameter} must contain names or positions of columns; got {shown(invalid[0])} in "
            f"{shown(given)}."
        )
    absent = [column for column in columns if isinstance(column, str) and column not in (names or ())]
    if absent:
        available = (
            f"the columns {', '.join(map(repr, names))}" if names else "no column names; pass positions"
        )
        raise ValueError(f"{parameter} names {', '.join(map(repr, absent))}, but the table has {available}.")
    return [list(names or ()).index(c) if isinstance(c, str) else int(c) for c in columns]
