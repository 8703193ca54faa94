"""AnyMask: an ensemble of models trained with augmented masks, combined by stacking.

The members are a Gaussian mixture fitted to the observed values (independent of the mechanism under MCAR and
MAR), and boosted trees and networks trained with augmented masks. The mixture is the best member where
relations are smooth and close to linear, trees where the target changes abruptly, and networks in between.
The member weights are fitted on validation rows with augmented masks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stablemiss.anymask.adapting import fit_adapted_members, names_of_adapted_members
from stablemiss.anymask.calibration import ConformalCalibrator
from stablemiss.anymask.expected_error import ErrorModel
from stablemiss.anymask.fit_data import FitData
from stablemiss.anymask.importance import feature_importance
from stablemiss.anymask.members import fit_members, names_of_members
from stablemiss.anymask.mixture_trees import MixtureTreesPredictor
from stablemiss.anymask.plan import MAX_MIXTURE_COLUMNS, MEMBERS, MIXTURE, Budget, make_plan
from stablemiss.anymask.stacking import (
    combine,
    keep_constant,
    learn_member_weights,
    observed_fraction,
    output_bounds,
    predict_members,
)
from stablemiss.anymask.steps import Steps
from stablemiss.base.method import Method, Predictor
from stablemiss.base.row_stream import RowStream
from stablemiss.base.search_space import Choice, Space
from stablemiss.checks import is_integer, shown, to_list
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.column_net import ColumnNet
from stablemiss.methods.constant import Constant
from stablemiss.methods.em_mixture import EMMixture, EMMixturePredictor
from stablemiss.missingness import GivenMasks, MaskAugmentation
from stablemiss.mixture import Uncertainty
from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.stored import check_stored, stored_array, stored_list
from stablemiss.tasks import Classification, Task

# Number of masked copies of the validation rows for stacking and calibration, and the maximum number of rows
# including the copies.
CALIBRATION_COPIES, MAX_CALIBRATION_ROWS = 8, 60_000
# Members with smaller weights are dropped, because they cost time and have little effect.
MIN_MEMBER_WEIGHT = 0.03
# Name of the last step of a fit.
STACKING = "stacking"
# Kind of member, as stored in the archive → class of its predictor.
PREDICTORS: dict[str, type[Predictor]] = {
    method.name: method.predictor_class for method in (Constant, EMMixture, Boosting, ColumnNet)
} | {MixtureTreesPredictor.name: MixtureTreesPredictor}


class AnyMaskPredictor(Predictor):
    """The fitted members, their weights, and the calibration of the combined predictions.

    Attributes
    ----------
    members : dict
        Name → fitted predictor.
    member_weights : (2, n_members, k)
        Weight of each member for rows with nothing observed and for complete rows, for each of k outputs
        (k = 1 for classification); interpolated linearly in between.
    is_classes : bool
        Whether this is a classification.
    calibrator : ConformalCalibrator
        Calibrated on the combined outputs under many masks.
    error_model : ErrorModel or None
        Expected errors; None without a mixture.
    bounds : (2, d_output) or None
        Lowest and highest prediction of a member; None for classification.
    validation_loss : (k,)
        Mean squared error of each encoded output, or the log loss of classes, on the validation rows as
        given. Slightly optimistic, because stacking used these rows.
    """

    def __init__(
        self,
        members: dict[str, Predictor],
        member_weights: Floats,
        is_classes: bool,
        calibrator: ConformalCalibrator,
        error_model: ErrorModel | None,
        bounds: Floats | None,
        validation_loss: Floats,
    ):
        self.members = members
        self.member_weights = member_weights
        self.is_classes = is_classes
        self.calibrator = calibrator
        self.error_model = error_model
        self.bounds = bounds
        self.validation_loss = validation_loss

    def _predict(self, values: Floats, mask: Bools) -> Floats:
        member_predictions = predict_members(self.members, values, mask, self.bounds)
        fraction = observed_fraction(mask, self.calibrator.groups)
        return combine(member_predictions, fraction, self.member_weights, self.is_classes)

    def predict_interval(self, values: Floats, mask: Bools, coverage: float) -> Floats:
        """Bounds (n, d_output, 2) of encoded numeric targets.

        Parameters
        ----------
        values, mask : (n, d)
            As in `predict`.
        coverage : float between 0 and 1
            Raising it widens the intervals.

        See Also
        --------
        predict_set : The same for classification.
        """
        expected = _expected_errors(self.members, values, mask)
        return self.calibrator.interval(values, mask, self.predict(values, mask), coverage, expected)

    def predict_quantile(self, values: Floats, mask: Bools, quantile: float) -> Floats:
        """Bounds (n, d_output) below which encoded numeric targets lie with probability `quantile`.

        Parameters
        ----------
        values, mask : (n, d)
            As in `predict`.
        quantile : float between 0 and 1
            Raising it raises the bounds.

        See Also
        --------
        predict_interval : Bounds on both sides.
        """
        expected = _expected_errors(self.members, values, mask)
        return self.calibrator.quantile(values, mask, self.predict(values, mask), quantile, expected)

    def predict_set(self, values: Floats, mask: Bools, task: Classification, coverage: float) -> Bools:
        """Prediction sets (n, n_classes), True = the class is in the set of the row.

        Parameters
        ----------
        values, mask : (n, d)
            As in `predict`.
        task : Classification
            Turns outputs into probabilities.
        coverage : float between 0 and 1
            Raising it makes the sets larger.

        See Also
        --------
        predict_interval : The same for numeric targets.
        """
        return self.calibrator.sets(task.probabilities(self.predict(values, mask)), coverage)

    def expected_error(
        self, values: Floats, mask: Bools, groups: NDArray[np.int64], weight: Floats
    ) -> Uncertainty:
        """Expected squared errors of the predictions, (n, d_output), or Brier scores (n, 1).

        Parameters
        ----------
        values, mask : (n, d)
            As in `predict`.
        groups : (d,)
            The column of the user's table that each encoded column belongs to.
        weight : (d_output,)
            Factor of each output's squared error; ones for classification.
        """
        mixture = self.members.get(MIXTURE)
        if self.error_model is None or not isinstance(mixture, EMMixturePredictor):
            raise ValueError(
                "explain_missing needs the mixture, but this model was fitted without it: either members "
                f'does not contain "mixture", or the table has more than {MAX_MIXTURE_COLUMNS} encoded '
                'columns. Add "mixture" to members, or lower max_one_hot, which gives fewer columns.'
            )
        return self.error_model.expected_error(mixture, values, mask, groups, weight)

    def state(self) -> dict[str, Any]:
        kinds = {predictor: kind for kind, predictor in PREDICTORS.items()}
        return {
            "names": list(self.members),
            "kinds": [kinds[type(member)] for member in self.members.values()],
            "members": [
                # The mixture that completes rows for trees is also a member, so it is stored only once.
                member.state_of_trees() if isinstance(member, MixtureTreesPredictor) else member.state()
                for member in self.members.values()
            ],
            "member_weights": self.member_weights,
            "calibrator": self.calibrator.state(),
            "error_model": None if self.error_model is None else self.error_model.state(),
            "bounds": self.bounds,
            "validation_loss": self.validation_loss,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int, task: Task) -> Self:
        names = stored_list(state, "names", str)
        check_stored(len(set(names)) == len(names) > 0, "the names of the members must be distinct")
        kinds, states = stored_list(state, "kinds", str), stored_list(state, "members", dict)
        members: dict[str, Predictor] = {}
        for name, kind, member in zip(names, kinds, states, strict=True):
            if kind == MixtureTreesPredictor.name:
                # The mixture is a member as well, before this one.
                mixture = members.get(MIXTURE)
                if not isinstance(mixture, EMMixturePredictor):
                    raise ValueError("trees that read completed rows need the mixture as an earlier member.")
                members[name] = MixtureTreesPredictor.from_mixture(mixture, member, n_columns, task)
            else:
                members[name] = PREDICTORS[kind].from_state(member, n_columns, task)
        is_classes = isinstance(task, Classification)
        n_outputs = 1 if is_classes else task.d_output
        return cls(
            members,
            stored_array(state, "member_weights", (2, len(names), n_outputs), lowest=0.0),
            is_classes,
            ConformalCalibrator.from_state(state["calibrator"], n_columns, task),
            None if state["error_model"] is None else ErrorModel.from_state(state["error_model"], n_outputs),
            None if is_classes else stored_array(state, "bounds", (2, task.d_output)),
            stored_array(state, "validation_loss", (n_outputs,), lowest=0.0),
        )


def _member_subsets() -> list[tuple[str, ...]]:
    """All non-empty subsets of the members, the largest first."""
    sizes = range(len(MEMBERS), 0, -1)
    return [subset for size in sizes for subset in combinations(MEMBERS, size)]


class AnyMask(Method):
    """Ensemble that is fitted once and predicts accurately under masks that differ from those in training.

    Parameters
    ----------
    budget : "fast", "default" or "best", default="default"
        How much time to spend. On 8,000 rows of 18 columns, "fast" took 8 times and "default" 25 times as
        long as plain LightGBM. "best" trains three networks with more steps each and takes several times as
        long as "default".
    members : sequence of "mixture", "boosting", "net", default=("mixture", "boosting", "net")
        Models to combine. Omitting one saves the time to fit it.
    may_vanish : sequence of int, default=None
        Positions, in the user's table, of the columns that may go missing. Mask augmentation hides only these
        columns, so that the model does not spend capacity on masks that cannot occur. None means all columns.
    never_missing : sequence of int, default=None
        Positions of the columns that are always observed; all others may go missing.

    See Also
    --------
    stablemiss.AnyMaskRegressor, stablemiss.AnyMaskClassifier : The scikit-learn estimators.

    Examples
    --------
    >>> from stablemiss import MissingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0].copy()
    >>> X[::3, 0] = np.nan
    >>> model = MissingRegressor(method=AnyMask("fast"), random_state=0).fit(X, y)
    >>> model.predict([[1.0, 0.0], [None, 0.0]]).shape
    (2,)
    """

    name: ClassVar[str] = "anymask"
    predictor_class: ClassVar[type[Predictor]] = AnyMaskPredictor
    # Which members to combine. The budget is a choice of the user, because better budgets take longer.
    space: ClassVar[Space] = {"members": Choice(*_member_subsets())}
    brief: ClassVar[Mapping[str, Any]] = {"budget": "fast"}

    def __init__(
        self,
        budget: Budget = "default",
        members: Sequence[str] = MEMBERS,
        may_vanish: Sequence[int] | None = None,
        never_missing: Sequence[int] | None = None,
    ):
        self.budget = budget
        self.members = members
        self.may_vanish = may_vanish
        self.never_missing = never_missing

    @property
    def hides_values(self) -> bool:
        return True

    def fit(
        self,
        train: MaskedData,
        valid: MaskedData,
        task: Task,
        rng: Rng,
        progress: Progress,
        stream: RowStream | None = None,
    ) -> AnyMaskPredictor:
        """Fit to `train`; see `Method.fit`.

        Parameters
        ----------
        train, valid, task, rng, progress
            As in `Method.fit`.
        stream : RowStream, default=None
            All training rows, if `train` is a uniform sample of them. The mixture and the trees are fitted to
            all rows. Everything else uses the sample: the number of components, histogram bins, feature
            importance, the network, stacking and calibration. The network makes a fixed number of steps on
            small batches under new masks, so that it sees each row of the sample a few times at most; more
            rows would replace other masks of the same rows.
        """
        plan = make_plan(self.budget)
        methods = plan.select(self.members, train.n_columns)
        augmentation = MaskAugmentation.of(
            train.groups, feature_importance(train, task, rng), self.may_vanish_in(train)
        )
        valid = calibration_subset(valid, rng)
        data = FitData(train, valid, task, augmentation)
        # A constant member allows stacking to shrink overconfident predictions towards the mean.
        members: dict[str, Predictor] = {"constant": Constant().fit(train, valid, task, rng, progress)}
        steps = Steps([*names_of_members(methods, task), STACKING], progress)
        members |= fit_members(methods, plan, data, rng, steps, stream)
        return stack_and_calibrate(members, data, rng, steps.report(STACKING))

    def adapt(
        self,
        predictor: AnyMaskPredictor,
        new_masks: Bools,
        train: MaskedData,
        valid: MaskedData,
        task: Task,
        rng: Rng,
        progress: Progress,
    ) -> AnyMaskPredictor:
        """A predictor for rows with the masks of new rows; the given one, which was fitted, is not changed.

        Parameters
        ----------
        predictor : AnyMaskPredictor
            Fitted by this method to `train` and `valid`.
        new_masks : (n_new, d) bool
            Masks of the new rows, True = observed; at least one row.
        train, valid, task, rng, progress
            As in `fit`, with the same rows.
        """
        data = FitData(train, calibration_subset(valid, rng), task, GivenMasks(new_masks))
        members = predictor.members
        methods = make_plan(self.budget).select(self.members, train.n_columns)
        steps = Steps([*names_of_adapted_members(members, methods, task), STACKING], progress)
        adapted = fit_adapted_members(members, methods, data, rng, steps)
        # Stacking needs the constant, and as the first member.
        constant: dict[str, Predictor] = {"constant": Constant().fit(train, valid, task, rng, progress)}
        return stack_and_calibrate(constant | members | adapted, data, rng, steps.report(STACKING))

    def may_vanish_in(self, data: MaskedData) -> Bools:
        """Which columns of the user's table mask augmentation may hide, (n_groups,)."""
        if self.may_vanish is not None and self.never_missing is not None:
            raise ValueError(
                "may_vanish and never_missing must not both be given, because each follows from the other; "
                f"got may_vanish={self.may_vanish!r} and never_missing={self.never_missing!r}. Give only one."
            )
        columns = np.unique(data.groups)
        positions: dict[str, list[Any]] = {}
        for name in ("may_vanish", "never_missing"):
            given = getattr(self, name)
            listed = [] if given is None else to_list(given)
            if listed is None or any(not is_integer(column) or column not in columns for column in listed):
                raise ValueError(
                    f"{name} must be a list of positions of columns from 0 to {columns[-1]}, or None; got "
                    f"{shown(given)}."
                )
            positions[name] = listed
        if self.may_vanish is not None:
            return np.isin(columns, positions["may_vanish"])
        is_never_missing = np.isin(columns, positions["never_missing"])
        incomplete = np.unique(data.groups[~data.mask.all(axis=0)])
        contradicted = np.intersect1d(columns[is_never_missing], incomplete).tolist()
        if contradicted:
            raise ValueError(
                f"never_missing contains column {contradicted[0]!r}, but it is missing in some training "
                "rows. Remove it from never_missing, or list the columns that may go missing in may_vanish."
            )
        return ~is_never_missing


def calibration_subset(valid: MaskedData, rng: Rng) -> MaskedData:
    """The validation rows; in very long tables a random subset, which is enough."""
    max_rows = MAX_CALIBRATION_ROWS // (1 + CALIBRATION_COPIES)
    return valid.rows(np.sort(rng.permutation(len(valid))[:max_rows]))


def stack_and_calibrate(
    members: dict[str, Predictor], data: FitData, rng: Rng, progress: Progress
) -> AnyMaskPredictor:
    """Learn the member weights and calibrate the combined predictions, on held-out rows under many masks."""
    progress.start("combining and calibrating", total=4)
    bounds = output_bounds(data.train)
    is_classes = bounds is None
    n_masked = data.augmentation.useful_copies(CALIBRATION_COPIES)
    calibration, n_copies = data.augmentation.copies(data.held_out, n_masked, rng), 1 + n_masked
    predictions = predict_members(members, calibration.values, calibration.mask, bounds)
    progress.update(1)
    member_weights = learn_member_weights(predictions, calibration, rng, n_copies)
    if is_classes:
        member_weights = keep_constant(member_weights, len(data.held_out))
    # The mixture is always kept: trees read the rows it completes, and explain_missing needs it.
    is_kept = np.array([name == MIXTURE for name in members]) | (
        member_weights.max(axis=(0, 2)) >= MIN_MEMBER_WEIGHT
    )
    kept = {name: member for (name, member), keep in zip(members.items(), is_kept, strict=True) if keep}
    member_weights = member_weights[:, is_kept] / member_weights[:, is_kept].sum(axis=1, keepdims=True)
    fraction = observed_fraction(calibration.mask, calibration.groups)
    outputs = combine(predictions[is_kept], fraction, member_weights, is_classes)
    progress.update(2)
    expected = None if is_classes else _expected_errors(kept, calibration.values, calibration.mask)
    calibrator = ConformalCalibrator.of(outputs, calibration, data.task, n_copies, rng, expected)
    progress.update(3)
    mixture = kept.get(MIXTURE)
    error_model = (
        ErrorModel.fit(mixture, outputs, calibration, data, rng)
        if isinstance(mixture, EMMixturePredictor)
        else None
    )
    loss = _validation_loss(outputs[: len(data.held_out)], data.held_out, data.task)
    progress.finish()
    return AnyMaskPredictor(kept, member_weights, is_classes, calibrator, error_model, bounds, loss)


def _expected_errors(members: dict[str, Predictor], values: Floats, mask: Bools) -> Floats | None:
    """Standard deviation (n, d_output) of numeric targets under the mixture; None without a mixture."""
    mixture = members.get(MIXTURE)
    return mixture.standard_deviation(values, mask) if isinstance(mixture, EMMixturePredictor) else None


def _validation_loss(outputs: Floats, rows: MaskedData, task: Task) -> Floats:
    """Mean squared error of each output, or the log loss, (1,)."""
    if isinstance(task, Classification):
        return np.array([task.loss(outputs, rows.target, rows.weight)])
    return np.average((outputs - rows.target) ** 2, axis=0, weights=rows.weight)
