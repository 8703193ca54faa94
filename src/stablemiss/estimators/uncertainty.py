"""What estimators that use AnyMask add: prediction intervals or sets, and the cost of missing values."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from stablemiss.anymask import AnyMask, AnyMaskPredictor
from stablemiss.anymask.plan import MIXTURE
from stablemiss.checks import check_number
from stablemiss.data import Bools, Floats
from stablemiss.encoding import TableEncoder
from stablemiss.estimators.base import MissingEstimator
from stablemiss.estimators.frames import make_frame
from stablemiss.estimators.imputation import complete_table, expected_values
from stablemiss.estimators.source_predictions import predict_source
from stablemiss.methods.em_mixture import EMMixturePredictor
from stablemiss.sources import is_source
from stablemiss.tasks import Classification, Regression


def uses_anymask(estimator: Any) -> bool:
    """Whether the method of the estimator is AnyMask; raises AttributeError if it is another one."""
    method = getattr(estimator, "method_", getattr(estimator, "method", AnyMask.name))
    if method == AnyMask.name or isinstance(method, AnyMask):
        return True
    raise AttributeError(
        f"Only AnyMask estimates uncertainty, but the method of this {type(estimator).__name__} is "
        f"{method!r}. Use method='anymask', AnyMaskRegressor or AnyMaskClassifier."
    )


class _Uncertainty(MissingEstimator):
    """Base class of `PredictionIntervals` and `PredictionSets`."""

    predictor_: AnyMaskPredictor

    @property
    def member_weights_(self) -> dict[str, dict[str, Any]]:
        """Weight of each member for complete rows and for rows without any observed value."""
        uses_anymask(self)
        check_is_fitted(self)
        empty, complete = self.predictor_.member_weights

        def plain(weight: Floats) -> float | list[float]:
            return weight.tolist() if len(weight) > 1 else float(weight[0])

        return {
            name: {"complete rows": plain(complete[i]), "empty rows": plain(empty[i])}
            for i, name in enumerate(self.predictor_.members)
        }

    @property
    def validation_loss_(self) -> float:
        """Loss of the combined predictions on the validation rows."""
        uses_anymask(self)
        check_is_fitted(self)
        loss = self.predictor_.validation_loss
        if isinstance(self.task_, Regression):
            # Relative to the largest scale, so that squares do not overflow.
            largest = self.task_.scale.max()
            return float(largest * np.sqrt(np.mean(loss * (self.task_.scale / largest) ** 2)))
        return float(loss[0])

    def _declared_never_missing(self) -> set[str]:
        names = self.encoder_.names
        declared = self.method_.never_missing if isinstance(self.method_, AnyMask) else None
        return {
            f"column {position}" if names is None else names[position]
            for position in (() if declared is None else declared)
        }

    @available_if(uses_anymask)
    def explain_missing(self, X: Any) -> Any:
        """For each row, the expected error and the missing column that would reduce it most.

        Errors of a regressor are RMSEs over all outputs, in the target's units. For many rows, the expected
        RMSE is the root of the mean of the squares of "error". Errors of a classifier are Brier scores,
        summed over the classes: 0 for a certain and correct prediction, 2 for a certain and wrong one.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.

        Returns
        -------
        data frame of n rows, in the library of X (pandas, with the index of X; polars; pyarrow), for arrays
        and lists in the first of these libraries that is installed
            "error": expected error of the prediction. If values are far outside the range in training, at
            least that of the row without them.
            "error_low", "error_high": 90% interval of the RMSE, or the mean Brier score, of many rows (not of
            the error of one row, see `predict_interval`). It is wide if there were few validation rows or if
            the errors have a heavy tail, and too narrow with fewer than about 100 validation rows of a
            heavy-tailed target.
            "error_if_complete": the same if nothing were missing.
            "most_informative_missing": the missing column whose value would reduce the error most, by name
            (by position for tables without names); None if nothing is missing, or no value would help.
            "error_if_it_were_observed": expected error if only that column were observed in addition.

        Examples
        --------
        >>> import numpy as np
        >>> from stablemiss import AnyMaskRegressor
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> model = AnyMaskRegressor(budget="fast", random_state=0).fit(X, 2 * X[:, 0] + X[:, 1])
        >>> model.explain_missing([[None, None, 0.0], [1.0, None, 0.0]])["most_informative_missing"].tolist()
        [0, 1]
        """
        encoded = self._encode(X)
        task, groups = self.task_, self.encoder_.groups
        # Squared errors are averaged over numeric targets in their units, and summed over classes.
        exponent, weight = 0, np.ones(task.d_output)
        if isinstance(task, Regression):
            # In units of a power of two near the largest scale, so that squares do not overflow.
            exponent = int(np.frexp(task.scale.max())[1])
            weight = np.ldexp(task.scale, -exponent) ** 2 / task.d_output
        expected = self.predictor_.expected_error(encoded.values, encoded.mask, groups, weight)
        rows, values, mask = encoded.without_out_of_range()
        if len(rows):
            others = self.predictor_.expected_error(values, mask, groups, weight)
            expected.error[rows] = np.maximum(expected.error[rows], others.error)
        assert self.predictor_.error_model is not None  # otherwise, `expected_error` raises
        low, high = self.predictor_.error_model.interval(expected.error)
        error, low, high, complete = (
            squares.sum(axis=1) for squares in (expected.error, low, high, expected.error_if_complete)
        )
        names = getattr(self, "feature_names_in_", None)
        index = expected.most_informative_missing
        most_informative = np.array(range(self.n_features_in_) if names is None else names, dtype=object)
        most_informative = most_informative[np.unique(groups)[index]]
        most_informative[index < 0] = None

        def to_error(squared: Floats) -> Floats:
            return np.ldexp(np.sqrt(squared), exponent) if isinstance(task, Regression) else squared

        return make_frame(
            {
                "error": to_error(error),
                "error_low": to_error(low),
                "error_high": to_error(high),
                "error_if_complete": to_error(complete),
                "most_informative_missing": most_informative,
                "error_if_it_were_observed": to_error(
                    np.maximum(error - expected.gain.max(axis=1), complete)
                ),
            },
            {"most_informative_missing": nw.Int64 if names is None else nw.String},
            like=X,
        )

    @available_if(uses_anymask)
    def impute(self, X: Any) -> Any:
        """The table with its missing values replaced by those that the mixture expects.

        For people and programs that need complete rows, such as a report or a form. It is not for fitting
        another model: imputed values lie too close to the others and look as certain as observed ones, so
        that errors are underestimated, and what is learnt from them depends on how values went missing.
        `predict` does not impute; pass it the rows as they are.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`. Rows may be entirely missing.

        Returns
        -------
        table like X, of the same library and with the same types of columns
            Observed values are unchanged. A missing number is its expected value given the observed values of
            the row, within the range of the training rows, and rounded if the column holds integers. A
            missing category is the most probable one; if the column has more categories than `max_one_hot`,
            the one whose mean target is closest to the expected one. Missing dates are expected values too.
            The target is not used. Columns that were constant, never observed, or identifiers in training
            stay as they are, with a warning.

        Examples
        --------
        >>> import numpy as np
        >>> from stablemiss import AnyMaskRegressor
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=300)
        >>> X = np.column_stack([x, x + 0.1 * rng.normal(size=300)])
        >>> model = AnyMaskRegressor(budget="fast", members=["mixture"], random_state=0).fit(X, x)
        >>> model.impute([[1.0, np.nan]]).round(1).tolist()
        [[1.0, 1.0]]
        """
        encoded = self._encode(X, are_masks_new=True)
        mixture = self.predictor_.members.get(MIXTURE)
        if not isinstance(mixture, EMMixturePredictor):
            raise ValueError(
                "impute needs the mixture, but this model was fitted without it: either members does not "
                'contain "mixture", or the encoded table is too wide. Add "mixture" to members, or '
                "lower max_one_hot."
            )
        assert isinstance(self.encoder_, TableEncoder)
        expected = expected_values(mixture.joint(), encoded.values, encoded.mask)
        return complete_table(X, self.encoder_, expected, self.allow_missing_columns)


class PredictionIntervals(_Uncertainty):
    """Methods of regressors whose method is AnyMask."""

    @available_if(uses_anymask)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Prediction intervals that contain the target with probability `coverage`.

        Intervals are wider if informative columns are missing. They are calibrated on held-out rows under
        many augmented masks (conformal calibration): the expected size of the error given the observed values
        is multiplied by a factor that depends on the number of missing columns. The coverage is exact on
        average over such masks, and approximate for a single mask. If values are far outside the range in
        training, the interval also includes that of the row without them.

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
        >>> from stablemiss import AnyMaskRegressor
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = AnyMaskRegressor(budget="fast", random_state=0).fit(X, X[:, 0])
        >>> bounds = model.predict_interval([[1.0, 0.0], [None, 0.0]])
        >>> narrow, wide = bounds[:, 1] - bounds[:, 0]
        >>> bool(3 * narrow < wide)
        True
        """
        check_number({"coverage": coverage}, coverage="(0, 1)")
        if is_source(X):
            return predict_source(self, "predict_interval", X, coverage)
        encoded = self._encode(X)
        bounds = self.predictor_.predict_interval(encoded.values, encoded.mask, coverage)
        rows, values, mask = encoded.without_out_of_range()
        if len(rows):
            others = self.predictor_.predict_interval(values, mask, coverage)
            bounds[rows, :, 0] = np.minimum(bounds[rows, :, 0], others[:, :, 0])
            bounds[rows, :, 1] = np.maximum(bounds[rows, :, 1], others[:, :, 1])
        decoded = [self.task_.decode(bounds[:, :, side]) for side in (0, 1)]
        return np.stack(decoded, axis=-1)

    @available_if(uses_anymask)
    def predict_quantile(self, X: Any, quantile: float = 0.5) -> Floats:
        """Bounds below which the target lies with probability `quantile`.

        One-sided: for a requirement such as "at most one in twenty exceeds it", ask for the quantile 0.95.
        They are calibrated as intervals are (see `predict_interval`), but errors above and below the
        prediction separately. If values are far outside the range in training, the bound is that of the row
        with or without them, whichever is further away from the middle.

        Parameters
        ----------
        X : table (n, n_features)
            As in `predict`.
        quantile : float between 0 and 1, default=0.5
            Raising it raises the bounds. 0.5 is the median, which differs from `predict`, the mean, if errors
            are skewed.

        Returns
        -------
        (n,), or (n, n_outputs) if the target had several columns

        See Also
        --------
        predict_interval : Bounds on both sides.

        Examples
        --------
        >>> import numpy as np
        >>> from stablemiss import AnyMaskRegressor
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = AnyMaskRegressor(budget="fast", random_state=0).fit(X, X[:, 0])
        >>> low, high = (model.predict_quantile([[None, 0.0]], quantile)[0] for quantile in (0.1, 0.9))
        >>> bool(-2 < low < -0.5 and 0.5 < high < 2)
        True
        """
        check_number({"quantile": quantile}, quantile="(0, 1)")
        if is_source(X):
            return predict_source(self, "predict_quantile", X, quantile)
        encoded = self._encode(X)
        bounds = self.predictor_.predict_quantile(encoded.values, encoded.mask, quantile)
        rows, values, mask = encoded.without_out_of_range()
        if len(rows):
            others = self.predictor_.predict_quantile(values, mask, quantile)
            further = np.maximum if quantile >= 0.5 else np.minimum
            bounds[rows] = further(bounds[rows], others)
        return self.task_.decode(bounds)


class PredictionSets(_Uncertainty):
    """Methods of classifiers whose method is AnyMask."""

    @available_if(uses_anymask)
    def predict_set(self, X: Any, coverage: float = 0.9) -> Bools:
        """Sets of classes that contain the true class with probability `coverage`.

        They are calibrated on held-out rows under many augmented masks (conformal calibration). The coverage
        is exact on average over such masks, and approximate for a single mask. If values are far outside the
        range in training, the set also includes the classes in that of the row without them.

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
        >>> from stablemiss import AnyMaskClassifier
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = AnyMaskClassifier(budget="fast", random_state=0).fit(X, X[:, 0] > 0)
        >>> model.predict_set([[2.0, 0.0], [None, 0.0]]).sum(axis=1).tolist()
        [1, 2]
        """
        check_number({"coverage": coverage}, coverage="(0, 1)")
        if is_source(X):
            return predict_source(self, "predict_set", X, coverage)
        encoded = self._encode(X)
        assert isinstance(self.task_, Classification)
        sets = self.predictor_.predict_set(encoded.values, encoded.mask, self.task_, coverage)
        rows, values, mask = encoded.without_out_of_range()
        if len(rows):
            sets[rows] |= self.predictor_.predict_set(values, mask, self.task_, coverage)
        return sets
