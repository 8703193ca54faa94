"""Any method of the library as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from sklearn.base import ClassifierMixin

from stablemiss.checks import shown
from stablemiss.encoding import OnOutOfRange
from stablemiss.estimators.arrays import ArrayScoreMixin
from stablemiss.estimators.base import MissingEstimator
from stablemiss.estimators.new_rows import OnUnseenMissing
from stablemiss.estimators.stored_methods import to_method
from stablemiss.estimators.uncertainty import PredictionIntervals, PredictionSets
from stablemiss.estimators.validation import ValidationSplit
from stablemiss.methods import Method

# Prefix of `set_params` for items of the parameter `params`.
PARAMS = "params__"


class MethodByNameEstimator(MissingEstimator):
    """Base class of estimators whose method is a parameter: a name, or a `Method` with hyper-parameters."""

    def __init__(
        self,
        method: str | Method = "anymask",
        *,
        params: dict[str, Any] | None = None,
        validation_fraction: float = 0.15,
        validation_split: ValidationSplit = None,
        random_state: Any = None,
        on_unseen_missing: OnUnseenMissing = "auto",
        on_out_of_range: OnOutOfRange = "clip",
        allow_missing_columns: bool = False,
        max_one_hot: int | Literal["auto"] = "auto",
        date_features: bool = True,
        verbose: bool = False,
    ):
        self.method = method
        self.params = params
        self.validation_fraction = validation_fraction
        self.validation_split = validation_split
        self.random_state = random_state
        self.on_unseen_missing = on_unseen_missing
        self.on_out_of_range = on_out_of_range
        self.allow_missing_columns = allow_missing_columns
        self.max_one_hot = max_one_hot
        self.date_features = date_features
        self.verbose = verbose

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including hyper-parameters of the method.

        Parameters
        ----------
        **params
            Parameters of this estimator. Hyper-parameters of the method start with ``params__`` if the method
            is given by its name, and with ``method__`` if it is a `Method`. ``params__x`` changes only the
            item "x" of `params`.

        Examples
        --------
        >>> from stablemiss.methods import Boosting
        >>> MissingRegressor("boosting", params={"n_leaves": 7}).set_params(params__masked_copies=6).params
        {'n_leaves': 7, 'masked_copies': 6}
        >>> MissingRegressor(Boosting()).set_params(method__masked_copies=6).method
        Boosting(masked_copies=6)
        """
        method = params.get("method", self.method)
        right, wrong = ("method__", PARAMS) if isinstance(method, Method) else (PARAMS, "method__")
        misplaced = next((name for name in params if name.startswith(wrong)), None)
        if misplaced is not None:
            given = (
                f"the object {shown(method)}" if isinstance(method, Method) else f"the name {shown(method)}"
            )
            raise ValueError(
                f"{misplaced} cannot be set, because method is {given}. Use "
                f"{right}{misplaced.removeprefix(wrong)} instead."
            )
        items = {name.removeprefix(PARAMS): params.pop(name) for name in [*params] if name.startswith(PARAMS)}
        super().set_params(**params)
        if items:
            # Unknown names are reported here and not in `fit`, so that a search fails before its first fit.
            method_with_params(self.method, self.params)
            method_with_params(self.method, items)
            self.params = {**(self.params or {}), **items}
        return self

    def _make_method(self, columns: Sequence[str] | None) -> Method:
        return method_with_params(self.method, self.params)


def method_with_params(method: str | Method, params: dict[str, Any] | None) -> Method:
    """Create a method from its name and hyper-parameters, or copy a given method.

    Parameters
    ----------
    method : str or Method
        A name in ``METHODS``, or a method.
    params : dict or None
        Hyper-parameters of a method given by name; all others keep their defaults.

    Examples
    --------
    >>> method_with_params("boosting", {"masked_copies": 6})
    Boosting(masked_copies=6)
    """
    chosen = to_method(method)
    if params is None:
        return chosen
    if isinstance(method, Method):
        raise ValueError(
            f"params are for a method given by name, but method is {method!r}, which has hyper-parameters "
            f"already. Set them there, or pass method={chosen.name!r} and params."
        )
    if not isinstance(params, dict):
        raise ValueError(
            "params must be a dictionary of hyper-parameters, such as {'ridge': 0.1}, or None; got "
            f"{shown(params)}."
        )
    known = chosen.get_params(deep=False)
    unknown = [name for name in params if name not in known]
    if unknown:
        listed = ", ".join(map(repr, known)) or "none"
        raise ValueError(
            f"The method {method!r} has no hyper-parameter {shown(unknown[0])}; its hyper-parameters are: "
            f"{listed}."
        )
    return chosen.set_params(**params)


class MissingRegressor(ArrayScoreMixin, PredictionIntervals, MethodByNameEstimator):
    """Regression on tables with missing values, with any method of the library.

    Several numeric targets can be predicted at once.

    Parameters
    ----------
    method : str or Method, default="anymask"
        A name in ``stablemiss.methods.METHODS``, or a method with its hyper-parameters, for instance
        ``EMMixture(n_components=3)``. The default, "anymask", is the most accurate when the missingness
        changes; ``params={"budget": "fast"}`` makes it faster.
    params : dict, default=None
        Hyper-parameters of a method given by name, such as ``{"ridge": 0.1}``; all others keep their
        defaults. A search over single ones uses names such as ``params__ridge``.
    validation_fraction : float, default=0.15
        Share of the rows held out for early stopping and for choosing the size of the model. Raising it makes
        these choices more reliable and leaves fewer rows to train on.
    validation_split : float, scikit-learn splitter or None, default=None
        How validation rows are chosen. None takes `validation_fraction` of the rows: at random, or whole
        groups or the latest rows if `groups` or `time` is passed to `fit`. A float replaces
        `validation_fraction`. Of a splitter, such as ``TimeSeriesSplit(5)``, the last split is used.
    random_state : None, int, RandomState or Generator, default=None
        An int makes the fit reproducible. The global random state is never used or changed.
    on_unseen_missing : "auto", "warn", "raise" or "ignore", default="auto"
        What `predict` does if a column that was never missing in training has missing values. "auto" warns,
        unless the method hides values at random in training, as AnyMask does.
    on_out_of_range : "clip", "missing" or "raise", default="clip"
        What `predict` does with numbers far outside the range in training (further from it than half its
        width, or more if there are few training rows): "clip" moves them to that limit and "missing" treats
        them as missing, both with a warning; "raise" raises an error.
    allow_missing_columns : bool, default=False
        True lets `predict` accept tables that lack columns, which then count as missing in every row.
    max_one_hot : int or "auto", default="auto"
        Text columns with at most this many categories are one-hot encoded, others are target encoded, with
        one column per target. Raising it keeps more categories distinct and makes the encoded table wider.
        "auto" is 12, or fewer if the encoded table would have more than 160 columns.
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

    See Also
    --------
    MissingClassifier : The same for classes.
    AnyMaskRegressor : The recommended method.
    StableMissRegressor : The method of the paper.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, np.nan], [2.0, 1.0], [np.nan, 2.0], [4.0, 2.0], [5.0, np.nan], [6.0, 3.0]])
    >>> y = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    >>> model = MissingRegressor(method="ols", random_state=0).fit(X, y)
    >>> model.predict([[3.0, None], [None, None]]).shape
    (2,)
    """


class MissingClassifier(ClassifierMixin, PredictionSets, MethodByNameEstimator):
    """Classification on tables with missing values, with any method of the library.

    Parameters
    ----------
    method : str or Method, default="anymask"
        A name in ``stablemiss.methods.METHODS``, or a method with its hyper-parameters, for instance
        ``Boosting(masked_copies=6)``. The default, "anymask", is the most accurate when the missingness
        changes; ``params={"budget": "fast"}`` makes it faster.
    params : dict, default=None
        Hyper-parameters of a method given by name, such as ``{"ridge": 0.1}``; all others keep their
        defaults. A search over single ones uses names such as ``params__ridge``.
    validation_fraction : float, default=0.15
        Share of the rows held out, stratified by class, for early stopping and for choosing the size of the
        model. Raising it makes these choices more reliable and leaves fewer rows to train on.
    validation_split : float, scikit-learn splitter or None, default=None
        How validation rows are chosen. None takes `validation_fraction` of the rows: at random, or whole
        groups or the latest rows if `groups` or `time` is passed to `fit`. A float replaces
        `validation_fraction`. Of a splitter, such as ``TimeSeriesSplit(5)``, the last split is used.
    random_state : None, int, RandomState or Generator, default=None
        An int makes the fit reproducible. The global random state is never used or changed.
    on_unseen_missing : "auto", "warn", "raise" or "ignore", default="auto"
        What `predict` does if a column that was never missing in training has missing values. "auto" warns,
        unless the method hides values at random in training, as AnyMask does.
    on_out_of_range : "clip", "missing" or "raise", default="clip"
        What `predict` does with numbers far outside the range in training (further from it than half its
        width, or more if there are few training rows): "clip" moves them to that limit and "missing" treats
        them as missing, both with a warning; "raise" raises an error.
    allow_missing_columns : bool, default=False
        True lets `predict` accept tables that lack columns, which then count as missing in every row.
    max_one_hot : int or "auto", default="auto"
        Text columns with at most this many categories are one-hot encoded, others are target encoded, with
        one column per class (one column for two classes). Raising it keeps more categories distinct and makes
        the encoded table wider. "auto" is 12, or fewer if the encoded table would have more than 160 columns.
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
    column_report_ : list of ColumnSummary
        How each of these columns was read, and what is unusual about it.

    See Also
    --------
    MissingRegressor : The same for numeric targets.
    AnyMaskClassifier : The recommended method.
    StableMissClassifier : The method of the paper.

    Examples
    --------
    >>> X = [[0.0, "wet"], [0.2, None], [None, "wet"], [1.9, "dry"], [None, "dry"], [2.0, "dry"]]
    >>> y = ["rain", "rain", "rain", "sun", "sun", "sun"]
    >>> model = MissingClassifier(method="ols", random_state=0).fit(X, y)
    >>> model.predict([[1.8, None], [None, "wet"]]).tolist()
    ['sun', 'rain']
    """
