"""Base class of the estimators: read and encode the table, split the rows, fit the method, predict, save."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from stablemiss import __version__
from stablemiss.checks import check_bool, check_choice, check_integer, check_number, check_path, shown
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.encoding import TableEncoder, read_table
from stablemiss.estimators.archive import ArchiveError, write_tree
from stablemiss.estimators.rows import (
    MAX_DEVIATION,
    check_size,
    check_validation_split,
    read_labels,
    read_numbers,
    read_weight,
    split_rows,
)
from stablemiss.methods import METHODS, Method, Predictor
from stablemiss.progress import NullProgress, ProgressBar
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression, Task, task_from_state

OnUnseenMissing = Literal["warn", "raise", "ignore"]
OnOutOfRange = Literal["clip", "missing", "raise"]
# A fraction, a splitter of scikit-learn, or None.
ValidationSplit = Any


class UnseenMissingWarning(UserWarning):
    """Values are missing, or categories are unknown, in columns that were never missing in training.

    There were no such rows in training, so predictions may be inaccurate without any other indication.
    Use ``on_unseen_missing="ignore"`` to silence the warning, or ``"raise"`` to turn it into an error.

    Examples
    --------
    >>> import warnings
    >>> from stablemiss import MissingRegressor
    >>> model = MissingRegressor(method="ols").fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     prediction = model.predict([[None]])
    >>> caught[0].category.__name__
    'UnseenMissingWarning'
    """


class MissingEstimator(BaseEstimator, ABC):
    """Base class of the scikit-learn estimators of this package; subclasses choose the method."""

    validation_fraction: float
    random_state: Any
    validation_split: ValidationSplit
    on_unseen_missing: OnUnseenMissing
    on_out_of_range: OnOutOfRange
    allow_missing_columns: bool
    max_one_hot: int
    date_features: bool
    verbose: bool

    @abstractmethod
    def _make_method(self, columns: Sequence[str] | None) -> Method:
        """Create the method to fit from the parameters of the estimator.

        Parameters
        ----------
        columns : sequence of str or None
            Column labels of the table, or None if it has no labels.
        """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table with missing values.

        Parameters
        ----------
        X : table (n, n_features)
            numpy, nested lists, pandas, polars or pyarrow. NaN, None, pd.NA and null all mean missing;
            strings are categories. Rows and columns may be entirely missing.
        y : (n,) or, for regressors, (n, n_outputs)
            Targets, without missing values.
        sample_weight : (n,), default=None
            Non-negative weight of each row; only proportions matter. Rows whose weight is zero, or less than
            1e-12 of the largest, are ignored. None weights all rows equally.

        Returns
        -------
        self
        """
        self._check_parameters()
        rng = to_rng(self.random_state)
        table = read_table(X)
        method = self._make_method(table.labels)
        weight = read_weight(sample_weight, table.n_rows)
        is_classifier = isinstance(self, ClassifierMixin)
        target = read_labels(y, table.n_rows) if is_classifier else read_numbers(y, table.n_rows)

        rows = np.flatnonzero(weight > 0)
        if len(rows) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 rows of positive weight, one for training and one "
                f"for validation, but got {len(rows)} sample. Pass more rows to fit."
            )
        # Rows of weight zero are dropped, so that values missing only in them do not count as seen in
        # training.
        table, target, weight = table.rows(rows), target[rows], weight[rows]
        if not is_classifier:
            check_size(target, y)
        strata = target if is_classifier else np.zeros(len(rows))
        train, valid = split_rows(strata, self.validation_fraction, rng)
        task: Task
        if is_classifier:
            task = Classification.of(target)
            if task.d_output < 2:
                raise ValueError(
                    f"{type(self).__name__} needs at least 2 classes, but the target has 1 class: "
                    f"{task.classes.tolist()[0]!r}. Check which rows were passed to fit."
                )
        else:
            task = Regression.of(target[train], weight[train])
        encoded_target = task.encode(target)
        if not is_classifier:
            np.clip(encoded_target, -MAX_DEVIATION, MAX_DEVIATION, out=encoded_target)
        encoder = TableEncoder(self.max_one_hot)
        values, mask = encoder.fit_transform(table, train, encoded_target, task, rng)
        data = MaskedData.of(values, mask, encoded_target, weight, encoder.groups)
        train_data, valid_data = data.rows(train), data.rows(valid)
        # Free memory: during the fit only the training and validation rows are needed.
        del table, values, mask, data
        progress = ProgressBar() if self.verbose else NullProgress()
        try:
            predictor = method.fit(train_data, valid_data, task, rng, progress)
        finally:
            progress.finish()
        self._set_fitted(method, encoder, task, predictor)
        return self

    def predict(self, X: Any) -> NDArray:
        """Predict the target of each row.

        Parameters
        ----------
        X : table (n, n_features)
            As in `fit`. Columns with names are matched by name, in any order. `on_unseen_missing` decides
            what happens if a column that was never missing in training is missing now.

        Returns
        -------
        (n,) numbers or class labels; (n, n_outputs) if the target had several columns
        """
        values, mask = self._encode(X)
        return self.task_.decode(self.predictor_.predict(values, mask))

    @available_if(lambda self: isinstance(self, ClassifierMixin))
    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities (n, n_classes), in the order of `classes_`.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.
        """
        values, mask = self._encode(X)
        assert isinstance(self.task_, Classification)
        return self.task_.probabilities(self.predictor_.predict(values, mask))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, without pickle; `load_model` reads it back.

        Parameters
        ----------
        path : path
            The file to write. An existing file is replaced only when the new one is complete. A
            `random_state` that is a generator is stored as None.
        """
        check_is_fitted(self)
        check_path("path", path)
        parameters = self.get_params(deep=False)
        if not isinstance(self.random_state, int | np.integer):
            parameters["random_state"] = None
        if not isinstance(self.validation_split, float):
            parameters["validation_split"] = None
        tree = {
            "stablemiss": __version__,
            "estimator": type(self).__name__,
            "parameters": {
                name: {"method": describe(value)} if isinstance(value, Method) else {"value": _plain(value)}
                for name, value in parameters.items()
            },
            "method": describe(self.method_),
            "encoder": self.encoder_.state(),
            "task": self.task_.state(),
            "predictor": self.predictor_.state(),
        }
        write_tree(Path(path), tree)

    @classmethod
    def _from_tree(cls, tree: dict[str, Any]) -> Self:
        """Build the estimator that `save` stored."""
        estimator = cls(
            **{
                name: from_description(stored["method"]) if "method" in stored else stored["value"]
                for name, stored in tree["parameters"].items()
            }
        )
        method = from_description(tree["method"])
        estimator._set_fitted(
            method,
            TableEncoder.from_state(tree["encoder"]),
            task_from_state(tree["task"]),
            method.predictor_class.from_state(tree["predictor"]),
        )
        return estimator

    def _set_fitted(self, method: Method, encoder: TableEncoder, task: Task, predictor: Predictor) -> None:
        """Set the fitted attributes, after a fit or from a file."""
        self.method_, self.encoder_, self.task_, self.predictor_ = method, encoder, task, predictor
        self.n_features_in_ = encoder.n_features
        if encoder.names is not None:
            self.feature_names_in_ = np.array(encoder.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if isinstance(task, Classification):
            self.classes_ = task.classes
        else:
            self.n_outputs_ = task.d_output

    def _encode(self, X: Any) -> tuple[Floats, Bools]:
        """Check a user's table and encode it as values and mask.

        Public methods must call it directly, because the warning refers to their caller.
        """
        check_is_fitted(self)
        self._check_parameters()
        table = read_table(X)
        values, mask = self.encoder_.transform(
            table, allow_missing_columns=self.allow_missing_columns, estimator_name=type(self).__name__
        )
        self._warn_unseen_missing(mask)
        return values, mask

    def _warn_unseen_missing(self, mask: Bools) -> None:
        columns = self.encoder_.unseen_missing(mask)
        if self.on_unseen_missing == "ignore":
            never_missing = self._declared_never_missing()
            columns = [column for column in columns if column in never_missing]
        if not columns:
            return
        listed = ", ".join(repr(column) for column in columns)
        message = (
            "Values are missing, or categories unknown, in columns that were never missing when "
            f"{type(self).__name__} was fitted: {listed}. Predictions for such rows may be inaccurate. Fit "
            'with rows in which they are missing, or set on_unseen_missing="ignore" to accept this.'
        )
        if self.on_unseen_missing == "raise":
            raise ValueError(message)
        # Level 4 is the user's call: 1 is this method, 2 `_encode`, 3 `predict` or another public method.
        warnings.warn(message, UnseenMissingWarning, stacklevel=4)

    def _declared_never_missing(self) -> set[str]:
        """Columns that the user declared never missing; they cause a warning even with "ignore"."""
        return set()

    def _check_parameters(self) -> None:
        check_number(self, validation_fraction="(0, 1)")
        check_validation_split(self.validation_split)
        check_choice(
            self, on_unseen_missing=get_args(OnUnseenMissing), on_out_of_range=get_args(OnOutOfRange)
        )
        check_integer(self, max_one_hot=2)
        check_bool(self, "allow_missing_columns", "date_features", "verbose")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.multi_output = isinstance(self, RegressorMixin)
        return tags


def _plain(value: Any) -> Any:
    """Convert a parameter to a type that a model file can store, for example a pandas index to a list."""
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, np.ndarray) else value


def to_method(method: str | Method) -> Method:
    """Create a method with default hyper-parameters from its name in METHODS, or copy a given method."""
    if isinstance(method, Method):
        return clone(method)
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]()
    raise ValueError(
        f"method must be one of {', '.join(map(repr, METHODS))}, or a Method such as OLS(inputs='mask'); "
        f"got {shown(method)}."
    )


def describe(method: Method) -> dict[str, Any]:
    """Name and hyper-parameters of a method, in the form in which a model file stores them."""
    if METHODS.get(method.name) is not type(method):
        raise ValueError(
            f"{type(method).__name__} cannot be saved, because load_model only builds the methods in METHODS "
            f"({', '.join(METHODS)}). Add it there as {method.name!r}."
        )
    return {"name": method.name, "parameters": method.get_params(deep=False)}


def from_description(description: dict[str, Any]) -> Method:
    """Build a method from the result of `describe`."""
    name = description["name"]
    if name not in METHODS:
        raise ArchiveError(
            f"The model was fitted with the method {name!r}, which this version of stablemiss does not have. "
            f"Its methods are {', '.join(METHODS)}. Install the version that saved the model."
        )
    return METHODS[name](**description["parameters"])
