"""AnyMask as scikit-learn estimators: fit once, predict under any missingness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from stablemiss.anymask import MEMBERS, AnyMask, AnyMaskPredictor, Budget
from stablemiss.checks import shown, to_list
from stablemiss.estimators.base import MissingEstimator, OnOutOfRange, OnUnseenMissing
from stablemiss.estimators.uncertainty import PredictionIntervals, PredictionSets
from stablemiss.estimators.validation import ValidationSplit
from stablemiss.methods import Method

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
        on_unseen_missing: OnUnseenMissing = "auto",
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


class AnyMaskRegressor(RegressorMixin, PredictionIntervals, _AnyMaskEstimator):
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
        How validation rows are chosen. None takes `validation_fraction` of the rows: at random, or whole
        groups or the latest rows if `groups` or `time` is passed to `fit`. A float replaces
        `validation_fraction`. Of a splitter, such as ``TimeSeriesSplit(5)``, the last split is used.
    random_state : None, int, RandomState or Generator, default=None
        An int makes the fit reproducible. The global random state is never used or changed.
    on_unseen_missing : "auto", "warn", "raise" or "ignore", default="auto"
        What `predict` does if a column that was never missing in training has missing values. "auto" ignores
        it, because the model is trained for this case; columns in `never_missing` cause a warning
        nevertheless.
    on_out_of_range : "clip", "missing" or "raise", default="clip"
        What `predict` does with numbers far outside the range in training (further from it than half its
        width, or more if there are few training rows): "clip" moves them to that limit and "missing" treats
        them as missing, both with a warning; "raise" raises an error.
    allow_missing_columns : bool, default=False
        True lets `predict` accept tables that lack columns, which then count as missing in every row.
    max_one_hot : int, default=12
        Text columns with at most this many categories are one-hot encoded, others are target encoded.
        Raising it keeps more categories distinct and makes the encoded table wider.
    date_features : bool, default=True
        True turns each date column into year, month, day of the year, weekday and hour, with their cycles;
        text in which every entry is a date is one too. False refuses dates and leaves such text categorical.
    verbose : bool, default=False
        Show a progress bar during `fit`.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of the training table.
    feature_names_in_ : (n_features_in_,) array of str
        Names of these columns. Defined only if all column names are strings.
    column_report_ : list of ColumnSummary
        How each of these columns was read, and what is unusual about it.
    n_outputs_ : int
        Number of targets.
    member_weights_ : dict
        Member name → {"complete rows": weight, "empty rows": weight}: the weight of the member in the
        prediction of rows without missing values, and of rows in which everything is missing. In between,
        weights change linearly with the share of the columns that are observed. The weights of all members
        sum to one. For several targets, each weight is a list with one number per target. Members:
        "mixture", "boosting", "residual boosting" (trees fitted to the residuals of the mixture), "net"
        ("net 1", … if there are several) and "constant"; members with weights below 0.03 are left out.
    validation_loss_ : float
        RMSE of the predictions, over all targets and in their units, on the held-out rows with their own
        missing values, without further masks. Slightly optimistic, because the members' weights were fitted
        on these rows.

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


class AnyMaskClassifier(ClassifierMixin, PredictionSets, _AnyMaskEstimator):
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
        How validation rows are chosen. None takes `validation_fraction` of the rows: at random, or whole
        groups or the latest rows if `groups` or `time` is passed to `fit`. A float replaces
        `validation_fraction`. Of a splitter, such as ``TimeSeriesSplit(5)``, the last split is used.
    random_state : None, int, RandomState or Generator, default=None
        An int makes the fit reproducible. The global random state is never used or changed.
    on_unseen_missing : "auto", "warn", "raise" or "ignore", default="auto"
        What `predict` does if a column that was never missing in training has missing values. "auto" ignores
        it, because the model is trained for this case; columns in `never_missing` cause a warning
        nevertheless.
    on_out_of_range : "clip", "missing" or "raise", default="clip"
        What `predict` does with numbers far outside the range in training (further from it than half its
        width, or more if there are few training rows): "clip" moves them to that limit and "missing" treats
        them as missing, both with a warning; "raise" raises an error.
    allow_missing_columns : bool, default=False
        True lets `predict` accept tables that lack columns, which then count as missing in every row.
    max_one_hot : int, default=12
        Text columns with at most this many categories are one-hot encoded, others are target encoded.
        Raising it keeps more categories distinct and makes the encoded table wider.
    date_features : bool, default=True
        True turns each date column into year, month, day of the year, weekday and hour, with their cycles;
        text in which every entry is a date is one too. False refuses dates and leaves such text categorical.
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
    member_weights_ : dict
        Member name → {"complete rows": weight, "empty rows": weight}: the weight of the member in the
        prediction of rows without missing values, and of rows in which everything is missing. In between,
        weights change linearly with the share of the columns that are observed. The weights of all members
        sum to one. Members: "mixture", "boosting", "net" ("net 1", … if there are several) and "constant";
        members with weights below 0.03 are left out.
    validation_loss_ : float
        Log loss of the class probabilities on the held-out rows with their own missing values, without
        further masks. Slightly optimistic, because the members' weights were fitted on these rows.
    column_report_ : list of ColumnSummary
        How each of these columns was read, and what is unusual about it.

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
