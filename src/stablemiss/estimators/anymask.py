"""AnyMask as scikit-learn estimators: fit once, predict under any missingness."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from stablemiss.anymask import MEMBERS, AnyMask, AnyMaskPredictor, Budget
from stablemiss.checks import check_bool, shown, to_list
from stablemiss.data import MaskedData
from stablemiss.encoding import OnOutOfRange, SuspiciousDataWarning, TableEncoder, read_table
from stablemiss.estimators.base import MissingEstimator, encode_rows
from stablemiss.estimators.new_rows import OnUnseenMissing
from stablemiss.estimators.rows import read_labels, read_numbers, read_weight
from stablemiss.estimators.training_rows import TrainingRows, digest_of
from stablemiss.estimators.uncertainty import PredictionIntervals, PredictionSets
from stablemiss.estimators.validation import ValidationSplit, validation_scores
from stablemiss.methods import Method
from stablemiss.missingness import GivenMasks
from stablemiss.progress import NullProgress, ProgressBar
from stablemiss.seeding import Rng, draw_seed, to_rng
from stablemiss.stored import check_stored

# A column is given by its name or by its position.
Column = str | int | np.integer


class _AnyMaskEstimator(MissingEstimator):
    """Parameters and helpers shared by `AnyMaskRegressor` and `AnyMaskClassifier`."""

    predictor_: AnyMaskPredictor
    encoder_: TableEncoder
    training_rows_: TrainingRows | None
    is_adapted_: bool

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
        max_one_hot: int | Literal["auto"] = "auto",
        date_features: bool = True,
        keep_training_rows: bool = False,
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
        self.keep_training_rows = keep_training_rows
        self.verbose = verbose

    def adapt(self, X_new: Any, X_train: Any = None, y_train: Any = None, sample_weight: Any = None) -> Self:
        """A model for the missingness of new rows, without their targets; this one is not changed.

        The masks of the new rows are laid over the labelled training rows. Trees are fitted once more under
        these masks, the network is trained further, and all members are combined and calibrated again on
        validation rows under these masks. Use it when `stablemiss.diagnose` reports that the missingness has
        changed and will stay so; under other masks the adapted model may be less accurate than the original.

        Values that are missing in the training rows stay missing there. If more is missing in the training
        rows than in the new ones, errors and intervals are therefore those of rows with more missing values.
        Masks are assigned to training rows at random, so that nothing is learnt about how missingness depends
        on values.

        Parameters
        ----------
        X_new : table (n_new, n_features)
            New rows, as in `predict`. Only their missing values matter. A few hundred rows describe how often
            each combination of columns is missing; a single row describes one combination.
        X_train, y_train : default=None
            The rows and targets that were passed to `fit`, in the same order. Not needed if the model was
            fitted with ``keep_training_rows=True``.
        sample_weight : (n,), default=None
            The weights that were passed to `fit`, if any.

        Returns
        -------
        An estimator of the same class. Its `validation_scores_`, `validation_loss_`, intervals or sets, and
        `explain_missing` refer to the new masks. To adapt to yet other masks, adapt the original again.

        Examples
        --------
        >>> import numpy as np
        >>> from stablemiss import AnyMaskRegressor
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> y = X.sum(axis=1)
        >>> model = AnyMaskRegressor(budget="fast", random_state=0).fit(X, y)
        >>> adapted = model.adapt([[0.5, None, 1.0]], X, y)  # the second column has died
        >>> adapted.predict([[0.5, None, 1.0]]).shape
        (1,)
        """
        check_is_fitted(self)
        if self.is_adapted_:
            raise ValueError(
                "This model was adapted already, and has lost what it did not need. Adapt the model that was "
                "fitted instead."
            )
        new = self._encode(X_new, are_masks_new=True)
        rng = to_rng(self.random_state)
        # A separate generator, so that the members do not depend on whether the rows are encoded again.
        encoding_rng = np.random.default_rng(draw_seed(rng))
        train, valid = self._labelled_rows(X_train, y_train, sample_weight, encoding_rng)
        progress = ProgressBar() if self.verbose else NullProgress()
        assert isinstance(self.method_, AnyMask)
        try:
            predictor = self.method_.adapt(self.predictor_, new.mask, train, valid, self.task_, rng, progress)
        finally:
            progress.finish()
        adapted = clone(self)
        encoder = self.encoder_.with_missing_seen(new.mask)
        adapted._set_fitted(self.method_, encoder, self.task_, predictor)
        adapted.training_rows_, adapted.is_adapted_ = None, True
        adapted.target_name_, adapted.read_options_ = self.target_name_, self.read_options_
        if self.validation_scores_ is None:
            adapted.validation_scores_ = None
        else:
            masks = GivenMasks(new.mask)
            masked = [rows.keep_where(masks.draw(len(rows), rng)) for rows in (train, valid)]
            adapted.validation_scores_ = validation_scores(predictor, masked[0], masked[1], self.task_)
        return adapted

    def _labelled_rows(self, X: Any, y: Any, sample_weight: Any, rng: Rng) -> tuple[MaskedData, MaskedData]:
        """The encoded training and validation rows: those that were kept, or from the user's table."""
        fitted = self.training_rows_
        if X is None and y is None and sample_weight is None:
            if fitted is not None and fitted.data is not None:
                return fitted.data
            raise ValueError(
                "adapt needs the rows that the model was fitted to. Pass them as X_train and y_train, or fit "
                "with keep_training_rows=True."
            )
        if X is None or y is None:
            raise ValueError("X_train and y_train must be given together, as they were passed to fit.")
        if fitted is None:
            raise ValueError(
                "The model was saved by an earlier version, which did not store which rows were held out. "
                "Fit it again."
            )
        table = read_table(X)
        expected = len(fitted.is_train)
        if table.n_rows != expected or table.names != self.encoder_.names:
            raise ValueError(
                f"X_train must be the table that was passed to fit, with {expected} rows and the columns "
                f"{shown(self.encoder_.names)}; got {table.n_rows} rows and the columns {shown(table.names)}."
            )
        is_classifier = isinstance(self, ClassifierMixin)
        target = read_labels(y, expected) if is_classifier else read_numbers(y, expected)
        weight = read_weight(sample_weight, expected)
        used = np.flatnonzero(fitted.is_train | fitted.is_valid)
        train, valid = (np.flatnonzero(is_kind[used]) for is_kind in (fitted.is_train, fitted.is_valid))
        encoder = TableEncoder(self.encoder_.max_one_hot, self.encoder_.date_features)
        with warnings.catch_warnings():
            # `fit` has warned of these already.
            warnings.simplefilter("ignore", SuspiciousDataWarning)
            rows = encode_rows(
                encoder, table.rows(used), target[used], weight[used], train, valid, self.task_, rng
            )
        if digest_of(*rows) != fitted.digest:
            raise ValueError(
                "y_train or sample_weight differs from the targets and weights that were passed to fit. Pass "
                "the same rows in the same order, or fit a new model to other rows."
            )
        if not self.encoder_.encodes_like(encoder):
            raise ValueError(
                "X_train differs from the table that was passed to fit. Pass the same values, or fit a new "
                "model to other rows."
            )
        return rows

    def _remember_rows(
        self,
        n_rows: int,
        train: NDArray[np.int64],
        valid: NDArray[np.int64],
        data: tuple[MaskedData, MaskedData],
    ) -> None:
        self.training_rows_ = TrainingRows.of(n_rows, train, valid, data, self.keep_training_rows)
        self.is_adapted_ = False

    def _further_state(self) -> dict[str, Any]:
        rows = self.training_rows_
        if rows is not None and not self.keep_training_rows:
            # The user may have changed the parameter after the fit.
            rows = replace(rows, data=None)
        return {"training_rows": None if rows is None else rows.state(), "is_adapted": self.is_adapted_}

    def _set_further_state(self, tree: dict[str, Any]) -> None:
        # Files of earlier versions have neither.
        state, self.is_adapted_ = tree.get("training_rows"), tree.get("is_adapted", False)
        check_stored(isinstance(self.is_adapted_, bool), "is_adapted must be true or false")
        groups = self.encoder_.groups
        self.training_rows_ = None if state is None else TrainingRows.from_state(state, groups, self.task_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bool(self, "keep_training_rows")

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
        How much time to spend on the fit. With 8,000 rows and 18 columns, "fast" took 8 times as long as
        LightGBM alone, and "default" 25 times; on other tables it was 6 to 37 and 13 to 66. "best" trains
        three networks for longer and takes several times as long as "default".
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
    max_one_hot : int or "auto", default="auto"
        Text columns with at most this many categories are one-hot encoded, others are target encoded.
        Raising it keeps more categories distinct and makes the encoded table wider. "auto" is 12, or fewer if
        the encoded table would have more than 160 columns.
    date_features : bool, default=True
        True turns each date column into year, month, day of the year, weekday and hour, with their cycles;
        text in which every entry is a date is one too. False refuses dates and leaves such text categorical.
    keep_training_rows : bool, default=False
        True keeps the training rows and their targets in the model, also in the file that `save` writes, so
        that `adapt` needs new rows only. The file grows by about nine bytes per encoded cell, and whoever has
        it has the data.
    verbose : bool, default=False
        Show a progress bar during `fit` and `adapt`.

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
        ("net 1", … if there are several) and "constant", and of an adapted model "adapted boosting" and so
        on; members with weights below 0.03 are left out.
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
        How much time to spend on the fit. With 8,000 rows and 18 columns, "fast" took 8 times as long as
        LightGBM alone, and "default" 25 times; on other tables it was 6 to 37 and 13 to 66. "best" trains
        three networks for longer and takes several times as long as "default".
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
    max_one_hot : int or "auto", default="auto"
        Text columns with at most this many categories are one-hot encoded, others are target encoded.
        Raising it keeps more categories distinct and makes the encoded table wider. "auto" is 12, or fewer if
        the encoded table would have more than 160 columns.
    date_features : bool, default=True
        True turns each date column into year, month, day of the year, weekday and hour, with their cycles;
        text in which every entry is a date is one too. False refuses dates and leaves such text categorical.
    keep_training_rows : bool, default=False
        True keeps the training rows and their targets in the model, also in the file that `save` writes, so
        that `adapt` needs new rows only. The file grows by about nine bytes per encoded cell, and whoever has
        it has the data.
    verbose : bool, default=False
        Show a progress bar during `fit` and `adapt`.

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
        sum to one. Members: "mixture", "boosting", "net" ("net 1", … if there are several) and "constant",
        and of an adapted model "adapted boosting" and so on; members with weights below 0.03 are left out.
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
