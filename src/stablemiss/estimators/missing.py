"""Any method of the library behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from sklearn.base import ClassifierMixin, RegressorMixin

from stablemiss.estimators.base import MissingEstimator, OnUnseenMissing, to_method
from stablemiss.methods import Method


class AnyMethodEstimator(MissingEstimator):
    """An estimator whose method is a parameter, given by name or with its hyper-parameters."""

    method: str | Method
    params: dict[str, Any] | None

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of the method where it is a `Method` and not only named.

        Examples
        --------
        >>> from stablemiss.methods import Boosting
        >>> MissingRegressor(Boosting()).set_params(method__masked_copies=6).method
        Boosting(masked_copies=6)
        >>> MissingRegressor("boosting").set_params(method__masked_copies=6)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: method__masked_copies sets a hyper-parameter of the method, but ... named: 'boosting'. ...
        """
        nested = [name for name in params if name.startswith("method__")]
        method = params.get("method", self.method)
        if nested and not isinstance(method, Method):
            raise ValueError(
                f"{nested[0]} sets a hyper-parameter of the method, but the method is only named: {method!r}."
                f" Pass params={{{nested[0].removeprefix('method__')!r}: ...}} instead, or a Method such as"
                " Boosting() from stablemiss.methods."
            )
        return super().set_params(**params)

    def _chosen_method(self, columns: Sequence[str] | None) -> Method:
        return to_method_with(self.method, self.params)


def to_method_with(method: str | Method, params: dict[str, Any] | None) -> Method:
    """A method from its name and some of its hyper-parameters, or a copy of one that has them already.

    Examples
    --------
    >>> to_method_with("boosting", {"masked_copies": 6})
    Boosting(masked_copies=6)
    """
    chosen = to_method(method)
    if params is None:
        return chosen
    if isinstance(method, Method):
        raise ValueError(
            f"params are for a method given by name, but method is {method!r}, which has its own. Set them "
            f"there, or pass method={chosen.name!r} and params."
        )
    if not isinstance(params, dict):
        raise ValueError(
            "params must be a dictionary of hyper-parameters, such as {'ridge': 0.1}, or None, but is "
            f"{params!r}."
        )
    known = chosen.get_params(deep=False)
    unknown = [name for name in params if name not in known]
    if unknown:
        has = ", ".join(map(repr, known)) or "none"
        raise ValueError(
            f"The method {method!r} has no hyper-parameter {unknown[0]!r}; those it has are: {has}."
        )
    return chosen.set_params(**params)


class MissingRegressor(RegressorMixin, AnyMethodEstimator):
    """Predict one or several numbers from a table with holes, by a method of your choice.

    Parameters
    ----------
    method : str or Method
        A name in ``stablemiss.methods.METHODS``, or a method with its hyper-parameters, for instance
        ``EMMixture(n_components=3)``. The default, "em_mixture", models columns and target jointly and so
        stays right when the missingness changes.
    params : dict, optional
        Hyper-parameters of a method given by name, such as ``{"ridge": 0.1}``; those not in it keep their
        defaults.
    validation_fraction : float
        Share of the rows held out to decide when to stop and how large to be. Raising it makes that
        choice steadier and leaves fewer rows to learn from.
    random_state : None, int, RandomState or Generator
        An int makes the fit repeatable. The process's own random state is never touched.
    on_unseen_missing : "warn", "raise" or "ignore"
        What `predict` does about missing values in a column that was never missing in training.
    allow_missing_columns : bool
        True lets `predict` take tables that lack columns, which then count as missing in every row.
    max_one_hot : int
        Columns of text with at most this many categories become one column per category, others a single
        number learnt from the target. Raising it keeps categories apart exactly, at the price of width.
    verbose : bool
        Show a progress bar while fitting.

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
    >>> X = np.array([[1.0, np.nan], [2.0, 1.0], [np.nan, 2.0], [4.0, 2.0], [5.0, np.nan], [6.0, 3.0]])
    >>> y = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    >>> model = MissingRegressor(method="ols", random_state=0).fit(X, y)
    >>> model.predict([[3.0, None], [None, None]]).shape
    (2,)
    """

    def __init__(
        self,
        method: str | Method = "em_mixture",
        *,
        params: dict[str, Any] | None = None,
        validation_fraction: float = 0.15,
        random_state: Any = None,
        on_unseen_missing: OnUnseenMissing = "warn",
        allow_missing_columns: bool = False,
        max_one_hot: int = 12,
        verbose: bool = False,
    ):
        self.method = method
        self.params = params
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.on_unseen_missing = on_unseen_missing
        self.allow_missing_columns = allow_missing_columns
        self.max_one_hot = max_one_hot
        self.verbose = verbose


class MissingClassifier(ClassifierMixin, AnyMethodEstimator):
    """Predict one of several classes from a table with holes, by a method of your choice.

    Parameters
    ----------
    method : str or Method
        A name in ``stablemiss.methods.METHODS``, or a method with its hyper-parameters, for instance
        ``Boosting(masked_copies=6)``. The default, "em_mixture", models the columns and the class jointly and so
        stays right when the missingness changes.
    params : dict, optional
        Hyper-parameters of a method given by name, such as ``{"ridge": 0.1}``; those not in it keep their
        defaults.
    validation_fraction : float
        Share of the rows held out, alike in every class, to decide when to stop and how large to be.
        Raising it makes that choice steadier and leaves fewer rows to learn from.
    random_state : None, int, RandomState or Generator
        An int makes the fit repeatable. The process's own random state is never touched.
    on_unseen_missing : "warn", "raise" or "ignore"
        What `predict` does about missing values in a column that was never missing in training.
    allow_missing_columns : bool
        True lets `predict` take tables that lack columns, which then count as missing in every row.
    max_one_hot : int
        Columns of text with at most this many categories become one column per category, others one
        number per class learnt from the target. Raising it keeps categories apart exactly, at the price
        of width.
    verbose : bool
        Show a progress bar while fitting.

    Attributes
    ----------
    classes_ : (n_classes,) array
        The labels, sorted; the order of the columns of `predict_proba`.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only where the table had column names.

    Examples
    --------
    >>> X = [[0.0, "wet"], [0.2, None], [None, "wet"], [1.9, "dry"], [None, "dry"], [2.0, "dry"]]
    >>> y = ["rain", "rain", "rain", "sun", "sun", "sun"]
    >>> model = MissingClassifier(method="ols", random_state=0).fit(X, y)
    >>> model.predict([[1.8, None], [None, "wet"]]).tolist()
    ['sun', 'rain']
    """

    def __init__(
        self,
        method: str | Method = "em_mixture",
        *,
        params: dict[str, Any] | None = None,
        validation_fraction: float = 0.15,
        random_state: Any = None,
        on_unseen_missing: OnUnseenMissing = "warn",
        allow_missing_columns: bool = False,
        max_one_hot: int = 12,
        verbose: bool = False,
    ):
        self.method = method
        self.params = params
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.on_unseen_missing = on_unseen_missing
        self.allow_missing_columns = allow_missing_columns
        self.max_one_hot = max_one_hot
        self.verbose = verbose
