"""Base class of the estimators: read and encode the table, split the rows, fit the method, predict, save."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from stablemiss import __version__
from stablemiss.checks import check_bool, check_choice, check_integer, check_number, check_path
from stablemiss.data import Floats, MaskedData
from stablemiss.encoding import (
    ArrayRows,
    Encoder,
    OnOutOfRange,
    Table,
    TableEncoder,
    encoder_from_state,
    is_array,
    make_encoder,
    read_rows,
    row_shape,
)
from stablemiss.estimators.archive import write_tree
from stablemiss.estimators.arrays import read_array_target, warn_if_copied
from stablemiss.estimators.new_rows import NewRows, OnUnseenMissing
from stablemiss.estimators.rows import (
    MAX_DEVIATION,
    check_size,
    read_labels,
    read_numbers,
    read_weight,
    target_name,
    warn_if_constant,
)
from stablemiss.estimators.source_predictions import SourcePredictions, predict_source
from stablemiss.estimators.stored_methods import describe, from_description
from stablemiss.estimators.validation import (
    ValidationSplit,
    check_validation_split,
    choose_validation_rows,
    read_row_labels,
    validation_scores,
    warn_if_few,
)
from stablemiss.methods import Method, Predictor
from stablemiss.progress import NullProgress, ProgressBar
from stablemiss.seeding import Rng, to_rng
from stablemiss.sources import is_source
from stablemiss.stored import check_stored, stored_list
from stablemiss.tasks import Classification, Regression, Task, task_from_state

if TYPE_CHECKING:
    from stablemiss.estimators.model_card import ModelCard


class MissingEstimator(NewRows, SourcePredictions, BaseEstimator, ABC):
    """Base class of the scikit-learn estimators of this package; subclasses choose the method."""

    validation_fraction: float
    random_state: Any
    validation_split: ValidationSplit
    on_unseen_missing: OnUnseenMissing
    on_out_of_range: OnOutOfRange
    allow_missing_columns: bool
    max_one_hot: int | Literal["auto"]
    date_features: bool
    verbose: bool
    target_name_: str | None
    # How the command line read the training table, so that it reads new rows in the same way: "decimal" and
    # "missing_values". None for a model that was fitted in Python.
    read_options_: dict[str, Any] | None
    validation_scores_: dict[str, float] | None

    @abstractmethod
    def _make_method(self, columns: Sequence[str] | None) -> Method:
        """Create the method to fit from the parameters of the estimator.

        Parameters
        ----------
        columns : sequence of str or None
            Column labels of the table, or None if it has no labels.
        """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, time: Any = None) -> Self:
        """Fit to a table with missing values, or to arrays such as images.

        Parameters
        ----------
        X : table (n, n_features) or array (n, *shape)
            numpy, nested lists, pandas, polars or pyarrow. NaN, None, pd.NA and null all mean missing;
            strings are categories. Rows and columns may be entirely missing. With three dimensions or more,
            rows are arrays of numbers, such as images, which some methods accept. Rows that need not fit
            into memory are the path of a Parquet file or of a folder of such files, a pyarrow Dataset, a
            polars LazyFrame or a Dask data frame; see docs/large_data.md.
        y : (n,) or, for regressors, (n, n_outputs) or array (n, *shape)
            Targets, without missing values, except that arrays may contain NaN: such cells are left out. The
            name of a column if X need not fit into memory, or a Dask series.
        sample_weight : (n,), default=None
            Non-negative weight of each row; only proportions matter. Rows whose weight is zero, or less than
            1e-12 of the largest, are ignored. None weights all rows equally.
        groups : (n,), default=None
            Group of each row, such as a patient or a station. Validation rows are then whole groups, so that
            stopping, stacking and intervals depend on groups that the model does not know.
        time : (n,), default=None
            Time of each row: numbers or dates, which may be text. Validation rows are then the latest rows.
            With validation rows from among the training times, intervals of a time series are too narrow.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from stablemiss import MissingRegressor
        >>> day = np.arange(100)
        >>> X, y = np.sin(day / 10)[:, None], np.sin(day / 10)
        >>> model = MissingRegressor("boosting", random_state=0).fit(X, y, time=day)
        >>> model.validation_scores_["n_rows"]  # the last 15 days
        15
        """
        if is_source(X):
            # Imported late, because it imports AnyMask.
            from stablemiss.estimators.source_fit import fit_source

            fit_source(self, X, y, sample_weight, groups, time)
            return self
        self._check_parameters()
        rng = to_rng(self.random_state)
        table = read_rows(X)
        method = self._make_method(table.labels)
        n_rows = table.n_rows
        weight = read_weight(sample_weight, n_rows)
        group = read_row_labels(groups, table.n_rows, "groups")
        times = read_row_labels(time, table.n_rows, "time")
        is_classifier = isinstance(self, ClassifierMixin)
        target_shape = None
        if is_classifier:
            target = read_labels(y, table.n_rows)
        elif isinstance(table, ArrayRows) and is_array(y):
            arrays = read_array_target(y, table.n_rows)
            target, target_shape = arrays.cells, arrays.shape
            warn_if_copied(table.cells, target)
            # Rows without a single observed target cannot be used.
            weight = np.where(np.isnan(target).all(axis=1), 0.0, weight)
        else:
            target = read_numbers(y, table.n_rows)

        rows = np.flatnonzero(weight > 0)
        if len(rows) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 rows of positive weight, one for training and one "
                f"for validation, but got {len(rows)} sample. Pass more rows to fit."
            )
        split = self.validation_fraction if self.validation_split is None else self.validation_split
        train, valid = choose_validation_rows(
            target[rows],
            split,
            rng,
            None if group is None else group[rows],
            None if times is None else times[rows],
            stratify=is_classifier,
        )
        # Rows of weight zero, and rows that a splitter uses neither for training nor for validation, are
        # dropped, so that values missing only in them do not count as seen in training.
        # In the order of the table, whatever the splitter returns, so that `adapt` can restore them.
        train, valid = np.sort(train), np.sort(valid)
        used = np.union1d(train, valid)
        table, target, weight = table.rows(rows[used]), target[rows[used]], weight[rows[used]]
        train, valid = np.searchsorted(used, train), np.searchsorted(used, valid)
        task: Task
        if is_classifier:
            task = Classification.of(target)
            if task.d_output < 2:
                raise ValueError(
                    f"{type(self).__name__} needs at least 2 classes, but the target has 1 class: "
                    f"{task.classes.tolist()[0]!r}. Check which rows were passed to fit."
                )
        elif target_shape is not None:
            task = Regression.of(target[train], weight[train], common_scale=True, shape=target_shape)
        else:
            check_size(target, y)
            warn_if_constant(target, y)
            task = Regression.of(target[train], weight[train])
        method.check_shapes(row_shape(table), task.output_shape)
        if not method.trains_on_validation:
            warn_if_few(len(valid), len(used))
        encoder = make_encoder(table, self.max_one_hot, self.date_features)
        train_data, valid_data = encode_rows(encoder, table, target, weight, train, valid, task, rng)
        # Free memory: during the fit only the encoded rows are needed.
        del table
        progress = ProgressBar() if self.verbose else NullProgress()
        try:
            predictor = method.fit(train_data, valid_data, task, rng, progress)
        finally:
            progress.finish()
        self._set_fitted(method, encoder, task, predictor)
        positions = rows[used]
        self._remember_rows(n_rows, positions[train], positions[valid], (train_data, valid_data))
        self.target_name_, self.read_options_ = target_name(y), None
        # If every row is the only one of its class, all rows are both training and validation rows.
        is_held_out = not method.trains_on_validation and not np.array_equal(train, valid)
        self.validation_scores_ = (
            validation_scores(predictor, train_data, valid_data, task) if is_held_out else None
        )
        return self

    def _remember_rows(
        self,
        n_rows: int,
        train: NDArray[np.int64],
        valid: NDArray[np.int64],
        data: tuple[MaskedData, MaskedData],
    ) -> None:
        """Called by `fit` with the positions of the training and validation rows, and their encoding."""

    def predict(self, X: Any) -> NDArray:
        """Predict the target of each row.

        Parameters
        ----------
        X : table (n, n_features) or array (n, *shape)
            As in `fit`. Columns with names are matched by name, in any order. `on_unseen_missing` decides
            what happens if a column that was never missing in training is missing now. A path of Parquet
            files, a pyarrow Dataset or a polars LazyFrame is read in batches; the predictions of a Dask data
            frame are a lazy series with the same partitions.

        Returns
        -------
        (n,) numbers or class labels; (n, n_outputs) if the target had several columns, and (n, *shape) if it
        consisted of arrays
        """
        if is_source(X):
            return predict_source(self, "predict", X)
        values, mask, *_ = self._encode(X)
        return self.task_.decode(self.predictor_.predict(values, mask))

    @available_if(lambda self: isinstance(self, ClassifierMixin))
    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities (n, n_classes), in the order of `classes_`.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.
        """
        if is_source(X):
            return predict_source(self, "predict_proba", X)
        values, mask, *_ = self._encode(X)
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
            "target_name": self.target_name_,
            "read_options": self.read_options_,
            "validation_scores": self.validation_scores_,
            **self._further_state(),
        }
        write_tree(Path(path), tree)

    def to_onnx(self, path: str | os.PathLike[str], *, coverage: float | None = None) -> float:
        """Write the fitted model as one ONNX file that needs neither this package nor Python.

        The predictions of the file, computed by onnxruntime, are compared with those of the model on 1,000
        random masks, from nothing missing to everything missing. If they differ by more than a relative 1e-5,
        nothing is written.

        Parameters
        ----------
        path : path
            The file to write, such as "model.onnx". An existing file is replaced only if all went well.
        coverage : float between 0 and 1, default=None
            Also export the prediction intervals of this coverage; only for regressors whose method is
            AnyMask. None exports none.

        Returns
        -------
        float
            The largest relative difference that the comparison found.

        Raises
        ------
        ValueError
            If a part of the model has no equivalent in ONNX, or if the predictions differ.

        Notes
        -----
        Inputs, as far as the table has such columns: "numbers" (n, k) float64 with NaN = missing;
        "categories" (n, k) text with "" = missing; "dates" (n, k) int64 microseconds since 1970 with the
        integer of numpy's NaT = missing. Outputs: "prediction", or "label" and "probabilities", and
        "interval" if a coverage is given. The metadata "stablemiss" of the file lists the columns of each
        input in order. See the page on export in the documentation.

        Examples
        --------
        >>> import numpy as np
        >>> from stablemiss import MissingRegressor
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> model = MissingRegressor("ols", random_state=0).fit(X, X[:, 0])
        >>> model.to_onnx("model.onnx") < 1e-10
        True
        """
        check_is_fitted(self)
        check_path("path", path)
        if coverage is not None:
            check_number({"coverage": coverage}, coverage="(0, 1)")
            if not hasattr(self, "predict_interval"):
                raise ValueError(
                    "coverage is for regressors whose method is AnyMask, but this is a "
                    f"{type(self).__name__} with "
                    f"the method {self.method_.name!r}, which has no intervals; leave coverage out."
                )
        if not isinstance(self.encoder_, TableEncoder):
            raise ValueError(
                "Models of arrays, such as images, cannot be exported to ONNX; those of tables can."
            )
        # Imported late, because export needs all methods.
        from stablemiss.export import FittedModel, write_onnx

        model = FittedModel(self.encoder_, self.task_, self.predictor_, self.on_out_of_range, coverage)
        return write_onnx(Path(path), model)

    def model_card(self, stress: Any = None) -> ModelCard:
        """What the model is, what it was fitted to, what errors to expect, and where its limits are.

        Parameters
        ----------
        stress : StressResult, default=None
            Result of `stablemiss.stress_test` for this model alone, which adds the mechanisms that were tried
            and the errors under them.

        Returns
        -------
        ModelCard
            Prints as Markdown; `to_markdown`, `to_html`, `save_html` and `to_dict` write it in other forms.
            With AnyMask it has the expected error by share of missing columns, which needs no data. It also
            works for a model loaded from a file.

        Examples
        --------
        >>> import numpy as np
        >>> from stablemiss import MissingRegressor
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> model = MissingRegressor("ols", random_state=0).fit(X, X[:, 0])
        >>> print(model.model_card().to_markdown().splitlines()[0])
        # MissingRegressor for the target
        """
        check_is_fitted(self)
        from stablemiss.estimators.model_card import make_card

        return make_card(self, stress)

    def _further_state(self) -> dict[str, Any]:
        """What a subclass stores in addition; see `_set_further_state`."""
        return {}

    def _set_further_state(self, tree: dict[str, Any]) -> None:
        """Read what `_further_state` returned from a file, which may be of an earlier version."""

    @classmethod
    def _from_tree(cls, tree: dict[str, Any]) -> Self:
        """Build the estimator that `save` stored."""
        estimator = cls(
            **{
                name: from_description(stored["method"]) if "method" in stored else stored["value"]
                for name, stored in tree["parameters"].items()
            }
        )
        estimator._check_parameters()
        method = from_description(tree["method"])
        encoder, task = encoder_from_state(tree["encoder"]), task_from_state(tree["task"])
        check_stored(
            isinstance(task, Classification) == isinstance(estimator, ClassifierMixin),
            f"a {cls.__name__} has another kind of target",
        )
        predictor = method.predictor_class.from_state(tree["predictor"], len(encoder.groups), task)
        check_outputs(predictor, len(encoder.groups), task)
        estimator._set_fitted(method, encoder, task, predictor)
        # Raises an error if the method is not one of the estimator.
        estimator._declared_never_missing()
        name, scores = tree["target_name"], tree["validation_scores"]
        check_stored(name is None or isinstance(name, str), "target_name must be text or None")
        check_stored(
            scores is None or all(isinstance(score, int | float) for score in scores.values()),
            "validation_scores must be numbers",
        )
        estimator.target_name_, estimator.validation_scores_ = name, scores
        # Files of earlier versions do not have it.
        estimator.read_options_ = tree.get("read_options")
        _check_read_options(estimator.read_options_)
        estimator._set_further_state(tree)
        return estimator

    def _set_fitted(self, method: Method, encoder: Encoder, task: Task, predictor: Predictor) -> None:
        """Set the fitted attributes, after a fit or from a file."""
        self.method_, self.encoder_, self.task_, self.predictor_ = method, encoder, task, predictor
        self.n_features_in_ = encoder.n_features
        self.column_report_ = encoder.column_report
        if encoder.names is not None:
            self.feature_names_in_ = np.array(encoder.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if isinstance(task, Classification):
            self.classes_ = task.classes
        else:
            self.n_outputs_ = task.d_output

    def _check_parameters(self) -> None:
        check_number(self, validation_fraction="(0, 1)")
        check_validation_split(self.validation_split)
        check_choice(
            self, on_unseen_missing=get_args(OnUnseenMissing), on_out_of_range=get_args(OnOutOfRange)
        )
        check_integer(self, max_one_hot=2, unless="auto")
        check_bool(self, "allow_missing_columns", "date_features", "verbose")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.multi_output = isinstance(self, RegressorMixin)
        return tags


def encode_rows(
    encoder: Encoder,
    table: Table | ArrayRows,
    target: NDArray,
    weight: Floats,
    train: NDArray[np.int64],
    valid: NDArray[np.int64],
    task: Task,
    rng: Rng,
) -> tuple[MaskedData, MaskedData]:
    """Fit an encoder, and encode training and validation rows.

    Parameters
    ----------
    encoder : Encoder
        Not fitted yet.
    table : Table or ArrayRows
        All rows.
    target : (n, …)
        Their targets, in the user's units.
    weight : (n,)
    train, valid : (n_train,) and (n_valid,) int
        Positions of the training and validation rows.
    task : Task
        Encodes the targets.
    rng : numpy Generator
        Draws the folds in which targets encode categories.
    """
    encoded_target = task.encode(target)
    if not isinstance(task, Classification):
        np.clip(encoded_target, -MAX_DEVIATION, MAX_DEVIATION, out=encoded_target)
    values, mask = encoder.fit_transform(table, train, encoded_target, task, rng)
    data = MaskedData.of(
        values,
        mask,
        encoded_target,
        weight,
        encoder.groups,
        ~np.isnan(encoded_target) if np.isnan(encoded_target).any() else None,
        table.shape if isinstance(table, ArrayRows) else None,
    )
    return data.rows(train), data.rows(valid)


def _plain(value: Any) -> Any:
    """Convert a parameter to a type that a model file can store, for example a pandas index to a list."""
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, np.ndarray) else value


def check_outputs(predictor: Predictor, n_columns: int, task: Task) -> None:
    """Raise ValueError unless a loaded predictor maps rows of `n_columns` to finite outputs of the task.

    It predicts a complete row of average values.
    """
    with np.errstate(all="ignore"):
        outputs = predictor.predict(np.zeros((1, n_columns)), np.ones((1, n_columns), dtype=bool))
    check_stored(outputs.shape == (1, task.d_output), "the predictor does not fit the target")
    check_stored(np.isfinite(outputs).all(), "its predictions are not finite")


def _check_read_options(options: Any) -> None:
    """Raise ValueError unless the options from a model file are None, or what the command line stores."""
    if options is None:
        return
    check_stored(
        isinstance(options, dict) and options.keys() == {"decimal", "missing_values"},
        "read_options must have a decimal mark and missing values",
    )
    check_stored(options["decimal"] in (None, ".", ","), "decimal must be . or , or None")
    stored_list(options, "missing_values", str)
