"""AnyMask: different models that have all met masks the data do not have, and a stack that weighs them.

Members: a Gaussian mixture on observed cells (the same whatever mechanism hid the rest), boosted trees and networks
on augmented rows. Each is good somewhere: the mixture where columns are smooth and linear, trees where they
jump, networks in between. The stack learns on augmented validation rows how far to believe each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import softmax

from stablemiss.background import BackgroundTask
from stablemiss.base.method import Method, Predictor
from stablemiss.data import Floats, MaskedData
from stablemiss.intervals import ConformalCalibrator
from stablemiss.methods.boosting import Boosting, BoostingPredictor, n_threads_for, with_nan
from stablemiss.methods.column_net import ColumnNet
from stablemiss.methods.constant import Constant
from stablemiss.methods.em_mixture import EMMixture, EMMixturePredictor
from stablemiss.methods.stack import combine, learn_stack, share_observed
from stablemiss.missingness import MaskAugmentation, univariate_importance
from stablemiss.mixture import Uncertainty
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Classification, Task
from stablemiss.torch_state import torch_threads

Budget = Literal["fast", "default", "best"]
MIXTURE = "mixture"
MEMBERS = (MIXTURE, "boosting", "net")
# Trees that add to what the mixture says.
GOES_ON = "boosting on the mixture"
# Augmented copies of the validation rows from which stack and intervals learn, and the most rows in them.
STACK_COPIES, MOST_JUDGED = 8, 60_000
# A member with less weight than this at both ends is left out: it would only cost time.
LEAST_WEIGHT = 0.03
# Judged rows from which is learnt how far off the mixture's own expectations are.
FACTOR_ROWS = 4000
# Most rows in the masked copies that boosting sees, and most cells in them and the rows themselves (320 MB).
MOST_COPIED, MOST_CELLS = 600_000, 40_000_000
# Most rows from which the mixture learns, and the columns from which on they are fewer. Its time grows with
# rows and with the cube of columns; tables above the most columns do without it.
MIXTURE_ROWS, MANY_COLUMNS, MOST_COLUMNS = 20_000, 64, 160


@dataclass(frozen=True)
class _Plan:
    """What a budget buys."""

    members: dict[str, Method]
    copies: int


def _plan(budget: str) -> _Plan:
    if budget == "fast":
        return _Plan(
            {
                "mixture": EMMixture(
                    max_components=3, tolerance=3e-3, max_steps=40, refit_on_validation=False
                ),
                "boosting": Boosting(learning_rate=0.15, patience=20),
                "net": ColumnNet(width=128, steps=800),
            },
            copies=3,
        )
    if budget == "default":
        return _Plan(
            {
                "mixture": EMMixture(
                    max_components=5, tolerance=1e-3, max_steps=100, refit_on_validation=False
                ),
                "boosting": Boosting(learning_rate=0.08, patience=40),
                "net": ColumnNet(),
            },
            copies=5,
        )
    if budget == "best":
        nets = {f"net {number}": ColumnNet(steps=12_000) for number in (1, 2, 3)}
        mixture = EMMixture(refit_on_validation=False)
        return _Plan({"mixture": mixture, "boosting": Boosting(), **nets}, copies=8)
    raise ValueError(f'budget={budget!r} is unknown; choose "fast", "default" or "best".')


class AnyMaskPredictor(Predictor):
    """Members, the weight of each, and how far all of them together are off.

    Attributes
    ----------
    members : dict
        Name → fitted predictor.
    member_weights : (2, n_members, k)
        Weight of each member where nothing and where everything is observed, for each of k outputs (one for
        all classes); in between it is interpolated.
    spread : ConformalCalibrator
        How far outputs are off under the mask at hand.
    factors : (2,)
        Squared error of the outputs per squared error that the mixture expects with nothing missing, and per
        what it expects in addition because of what is missing. Zeros without a mixture.
    """

    def __init__(
        self,
        members: dict[str, Predictor],
        member_weights: Floats,
        is_classes: bool,
        spread: ConformalCalibrator,
        factors: Floats,
    ):
        self.members = members
        self.member_weights = member_weights
        self.is_classes = is_classes
        self.spread = spread
        self.factors = factors

    def outputs(self, values: Floats, mask: NDArray) -> Floats:
        member_predictions = predict_members(self.members, values, mask, self.is_classes)
        return combine(
            member_predictions, share_observed(mask, self.spread.groups), self.member_weights, self.is_classes
        )

    def expected_error(self, values: Floats, mask: NDArray, groups: NDArray, weight: Floats) -> Uncertainty:
        """Squared errors to expect of the stack, summed over the outputs.

        Parameters
        ----------
        values, mask : (n, d)
        groups : (d,)
            Columns of the user's table, which are seen or hidden as one.
        weight : (k,)
            How much the squared error of each output counts in the sum.
        """
        mixture = self.members.get(MIXTURE)
        if not isinstance(mixture, EMMixturePredictor):
            raise ValueError(
                "What a missing column costs is read from the mixture, but this model was fitted without it: "
                f'"mixture" was not among the members, or there are more than {MOST_COLUMNS} columns, '
                "categories counted one by one (a lower max_one_hot makes fewer)."
            )
        expected = _expected(mixture, values, mask, groups, weight)
        complete = expected.complete.sum(axis=1, keepdims=True)
        extra = expected.error.sum(axis=1, keepdims=True) - complete
        always, because = self.factors
        return Uncertainty(always * complete + because * extra, always * complete, because * expected.gain)

    def state(self) -> dict[str, Any]:
        return {
            "names": list(self.members),
            "methods": [_METHOD_OF[type(member)].name for member in self.members.values()],
            "members": [member.state() for member in self.members.values()],
            "member_weights": self.member_weights,
            "is_classes": self.is_classes,
            "spread": self.spread.state(),
            "factors": self.factors,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        kinds = {method.name: method.predictor for method in _METHOD_OF.values()}
        members = {
            name: kinds[method].from_state(member)
            for name, method, member in zip(state["names"], state["methods"], state["members"], strict=True)
        }
        spread = ConformalCalibrator.from_state(state["spread"])
        return cls(members, state["member_weights"], state["is_classes"], spread, state["factors"])


_METHOD_OF: dict[type[Predictor], type[Method]] = {
    method.predictor: method for method in (Constant, EMMixture, Boosting, ColumnNet)
}


class AnyMask(Method):
    """Learn once, under whatever masks there are, and predict well under any others.

    Parameters
    ----------
    budget : "fast", "default" or "best"
        How much time to spend. On 17,000 rows of 18 columns "fast" took 7 to 9, "default" 21 to 37 times as
        long as a plain LightGBM; "best" fits three longer nets and takes several times as long again.
    members : sequence of "mixture", "boosting", "net"
        Models to combine. Leaving one out saves its time.
    may_vanish : sequence of int, optional
        Positions of the columns, in the user's table, that may go missing. Only these are hidden in augmented
        rows, so the model wastes nothing on absences that cannot happen. All by default.
    never_missing : sequence of int, optional
        Columns that are always there; the rest may vanish.

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
    predictor: ClassVar[type[Predictor]] = AnyMaskPredictor
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

    def fit(
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Progress
    ) -> AnyMaskPredictor:
        plan = _plan(self.budget)
        is_classes = isinstance(task, Classification)
        chosen = self._chosen(plan.members)
        if train.n_columns > MOST_COLUMNS and len(chosen) > 1:
            chosen.pop(MIXTURE, None)
        augmentation = MaskAugmentation.of(
            train.groups, _feature_importance(train, task, rng), self._may_go(train)
        )
        # On very long tables some of the validation rows say enough.
        few = np.sort(rng.permutation(len(valid))[: MOST_JUDGED // (1 + STACK_COPIES)])
        valid = valid.rows(few)
        judges = valid if len(valid) else train
        # A constant among the members keeps the others from being too sure where they know little.
        fitted: dict[str, Predictor] = {"constant": Constant().fit(train, valid, task, rng, progress)}
        fitted |= self._fit_members(chosen, plan, augmentation, train, valid, task, rng, progress)
        progress.start("stack and intervals")
        judged = augmentation.copies(judges, STACK_COPIES, rng)
        found = predict_members(fitted, judged.values, judged.mask, is_classes)
        member_weights = learn_stack(found, judged, rng, n_copies=STACK_COPIES + 1)
        # The mixture stays in any case: trees go on from it, and it knows what a missing column costs.
        is_kept = np.array([name == MIXTURE for name in fitted]) | (
            member_weights.max(axis=(0, 2)) >= LEAST_WEIGHT
        )
        kept = {name: member for (name, member), stays in zip(fitted.items(), is_kept, strict=True) if stays}
        member_weights = member_weights[:, is_kept] / member_weights[:, is_kept].sum(axis=1, keepdims=True)
        share = share_observed(judged.mask, judged.groups)
        combined = combine(found[is_kept], share, member_weights, is_classes)
        spread = ConformalCalibrator.of(combined, judged, task, STACK_COPIES + 1, rng)
        factors = _factors(kept.get(MIXTURE), combined, judged, task)
        progress.finish()
        return AnyMaskPredictor(kept, member_weights, is_classes, spread, factors)

    def _fit_members(
        self,
        chosen: dict[str, Method],
        plan: _Plan,
        augmentation: MaskAugmentation,
        train: MaskedData,
        valid: MaskedData,
        task: Task,
        rng: Rng,
        progress: Progress,
    ) -> dict[str, Predictor]:
        """Name → fitted member; nets of small steps on a thread of their own beside mixture and trees."""
        seed = draw_seed(rng)
        # Of its own, so that leaving out one member does not change what another draws.
        rngs = {name: np.random.default_rng([seed, number]) for number, name in enumerate(plan.members)}
        judges = valid if len(valid) else train
        nets = {name: method for name, method in chosen.items() if isinstance(method, ColumnNet)}

        def fit_nets(progress: Progress) -> dict[str, Predictor]:
            return {
                name: net.fit_augmented(train, valid, task, augmentation, rngs[name], progress)
                for name, net in nets.items()
            }

        fitted: dict[str, Predictor] = {}
        is_small = bool(nets) and all(net.has_small_steps(train) for net in nets.values())
        with BackgroundTask(fit_nets, wanted=is_small and len(chosen) > len(nets)) as background:
            if isinstance(mixture := chosen.get(MIXTURE), EMMixture):
                most = int(MIXTURE_ROWS * min(1.0, MANY_COLUMNS / train.n_columns) ** 2)
                few = np.sort(rngs[MIXTURE].permutation(len(train))[:most])
                with torch_threads(background.n_threads_left):
                    fitted[MIXTURE] = mixture.fit(train.rows(few), valid, task, rngs[MIXTURE], progress)
            if isinstance(boosting := chosen.get("boosting"), Boosting):
                own = rngs["boosting"]
                thin, judge = (_augmented(part, augmentation, plan.copies, own) for part in (train, judges))
                starts: dict[str, Predictor | None] = {"boosting": None}
                if MIXTURE in fitted and not isinstance(task, Classification):
                    # Better where the mixture is good, worse where it is not; the stack decides.
                    starts[GOES_ON] = fitted[MIXTURE]
                for name, start in starts.items():
                    left = background.n_threads_left
                    fitted[name] = boosting.fit_from(start, thin, judge, task, own, progress, left)
                del thin, judge  # far larger than the rows themselves
            return fitted | background.result(progress)

    def _chosen(self, available: dict[str, Method]) -> dict[str, Method]:
        unknown = [name for name in self.members if name not in MEMBERS]
        if unknown or not self.members:
            raise ValueError(
                f"members must be some of {', '.join(map(repr, MEMBERS))}, but {list(self.members)!r} came."
            )
        return {name: method for name, method in available.items() if name.split()[0] in self.members}

    def _may_go(self, data: MaskedData) -> NDArray[np.bool_]:
        """Which of the user's columns augmentation may hide."""
        if self.may_vanish is not None and self.never_missing is not None:
            raise ValueError("Give may_vanish or never_missing, not both: one follows from the other.")
        columns = np.unique(data.groups)
        for name in ("may_vanish", "never_missing"):
            strange = [place for place in getattr(self, name) or () if place not in columns]
            if strange:
                listed = ", ".join(map(repr, strange))
                raise ValueError(f"{name} holds {listed}, but the columns are 0 to {columns[-1]}.")
        if self.may_vanish is not None:
            return np.isin(columns, list(self.may_vanish))
        never = np.isin(columns, list(self.never_missing or ()))
        holed = np.unique(data.groups[~data.mask.all(axis=0)])
        broken = sorted(set(columns[never].tolist()) & set(holed.tolist()))
        if broken:
            raise ValueError(
                f"never_missing holds the column {broken[0]!r}, but some rows miss it already. Take it out, "
                "or list what else may go missing in may_vanish."
            )
        return ~never


def _augmented(data: MaskedData, augmentation: MaskAugmentation, copies: int, rng: Rng) -> MaskedData:
    """The rows and masked copies of them; of a very long table one augmented copy alone."""
    copies = min(copies, MOST_COPIED // max(1, len(data)), MOST_CELLS // max(1, data.values.size) - 1)
    return (
        augmentation.copies(data, copies, rng)
        if copies > 0
        else data.hidden_where(augmentation.keep(len(data), rng))
    )


def _feature_importance(train: MaskedData, task: Task, rng: Rng) -> Floats:
    """How much each column of the user's table tells about the target, beside the others and on its own.

    Half of it is what a few trees gain from the column, half its univariate_importance alone: of sensors that stand in
    for each other trees need only one, but all may fail at once.
    """
    n_rows = min(len(train), 20_000)
    rows = train.rows(np.sort(rng.permutation(len(train))[:n_rows]))
    is_classes = isinstance(task, Classification)
    targets = [rows.target] if is_classes else list(rows.target.T)
    parameters = {
        "objective": "multiclass" if is_classes else "regression",
        "num_class": task.d_output if is_classes else 1,
        "num_leaves": 15,
        "min_data_in_leaf": max(1, min(20, n_rows // 10)),
        "seed": draw_seed(rng),
        "num_threads": n_threads_for(rows.values),
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }
    holes = with_nan(rows.values, rows.mask)
    importance = np.zeros(train.n_columns)
    for target in targets:
        data = lightgbm.Dataset(holes, target, weight=rows.weight)
        booster = lightgbm.train(parameters, data, num_boost_round=max(5, 40 // max(1, task.d_output)))
        for found in (booster.feature_importance("gain"), univariate_importance(holes, target, is_classes)):
            importance += found / max(found.sum(), 1e-12)
    return np.array([importance[train.groups == column].sum() for column in np.unique(train.groups)])


def predict_members(members: dict[str, Predictor], values: Floats, mask: NDArray, is_classes: bool) -> Floats:
    """What each member says, (n_members, n, d_output): its outputs, for classes its probabilities.

    Probabilities rather than their logarithms: one member that is sure and wrong spoils the mean of these.
    """
    found: dict[str, Floats] = {}
    for name, member in members.items():
        if isinstance(member, BoostingPredictor) and member.goes_on:
            found[name] = member.outputs(values, mask, found[MIXTURE])
        else:
            found[name] = member.outputs(values, mask)
    outputs = np.stack(list(found.values()))
    return softmax(outputs, axis=2) if is_classes else outputs


def _expected(
    mixture: EMMixturePredictor, values: Floats, mask: NDArray, groups: NDArray, weight: Floats
) -> Uncertainty:
    """Squared errors that the mixture expects of itself, each output's multiplied by its weight."""
    joint = mixture.joint()
    n_targets = joint.means.shape[1] - values.shape[1]
    # Classes: the first one's indicator is one less all others'.
    identity = np.eye(n_targets)
    targets = identity if len(weight) == n_targets else np.hstack([-np.ones((n_targets, 1)), identity])
    return Uncertainty.of(joint, values, mask, groups, targets * np.sqrt(weight))


def _factors(mixture: Predictor | None, outputs: Floats, judged: MaskedData, task: Task) -> Floats:
    """How large squared errors are beside what the mixture expects: without holes, and because of them."""
    if not isinstance(mixture, EMMixturePredictor):
        return np.zeros(2)
    rows = np.arange(0, len(judged), max(1, len(judged) // FACTOR_ROWS))
    some, found = judged.rows(rows), outputs[rows]
    target = some.target
    if isinstance(task, Classification):
        found, target = task.probabilities(found), np.eye(task.d_output)[target]
    expected = _expected(mixture, some.values, some.mask, some.groups, np.ones(found.shape[1]))
    complete = expected.complete.sum(axis=1)
    parts = np.column_stack([complete, expected.error.sum(axis=1) - complete])
    root = np.sqrt(some.weight)
    return nnls(root[:, None] * parts, root * ((found - target) ** 2).sum(axis=1))[0]
