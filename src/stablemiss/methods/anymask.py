"""AnyMask: different models that have all met masks the data do not have, and a stack that weighs them.

Members: a Gaussian mixture on observed cells (the same whatever law hid the rest), boosted trees and networks
on thinned rows. Each is good somewhere: the mixture where columns are smooth and linear, trees where they
jump, networks in between. The stack learns on thinned validation rows how far to believe each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from stablemiss.data import Floats, MaskedData
from stablemiss.methods.base import Method, Predictor
from stablemiss.methods.boosting import Boosting, n_threads_for, with_nan
from stablemiss.methods.em_mixture import EMMixture
from stablemiss.methods.thinned_net import ThinnedNet
from stablemiss.missingness import Thinning
from stablemiss.progress import Silence
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Classification, Task

Budget = Literal["fast", "default", "best"]
MEMBERS = ("mixture", "boosting", "net")
# Thinned copies of the validation rows from which the stack learns.
STACK_COPIES = 8
# Random parts of the validation rows whose stacks are averaged, and the share of the rows in each: a few rows
# far off decide the best weights of one part, but not of all.
STACK_PARTS, STACK_SHARE = 20, 0.3
# A member with less weight than this at both ends is left out: it would only cost time.
LEAST_WEIGHT = 0.03
# Most rows in the thinned copies that boosting sees.
MOST_COPIED = 600_000
# Most rows from which the mixture learns; its time grows with them.
MIXTURE_ROWS = 20_000


@dataclass(frozen=True)
class _Plan:
    """What a budget buys."""

    members: dict[str, Method]
    copies: int


def _plan(budget: str) -> _Plan:
    if budget == "fast":
        return _Plan(
            {
                "boosting": Boosting(learning_rate=0.1, patience=30),
                "net": ThinnedNet(width=128, depth=2, n_pieces=32, epochs=20, batch_size=512),
            },
            copies=3,
        )
    mixture = EMMixture(max_components=5, tolerance=1e-3, max_steps=100, learn_from_valid=False)
    if budget == "default":
        return _Plan(
            {
                "mixture": mixture,
                "boosting": Boosting(learning_rate=0.08, patience=40),
                "net": ThinnedNet(),
            },
            copies=5,
        )
    if budget == "best":
        nets = {f"net {number}": ThinnedNet(epochs=60) for number in (1, 2, 3)}
        mixture = EMMixture(learn_from_valid=False)
        return _Plan({"mixture": mixture, "boosting": Boosting(), **nets}, copies=8)
    raise ValueError(f'budget={budget!r} is unknown; choose "fast", "default" or "best".')


class AnyMaskPredictor(Predictor):
    """Members and how far each is believed.

    Attributes
    ----------
    members : dict
        Name → fitted predictor.
    believed : (2, n_members, k)
        Weight of each member where nothing and where everything is observed, for each of k outputs (one for
        all classes); in between it is interpolated.
    """

    def __init__(self, members: dict[str, Predictor], believed: Floats):
        self.members = members
        self.believed = believed

    def outputs(self, values: Floats, mask: NDArray) -> Floats:
        outputs = np.stack([member.outputs(values, mask) for member in self.members.values()])
        return stacked(outputs, mask, self.believed)

    def state(self) -> dict[str, Any]:
        return {
            "names": list(self.members),
            "methods": [_METHOD_OF[type(member)].name for member in self.members.values()],
            "members": [member.state() for member in self.members.values()],
            "believed": self.believed,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        kinds = {method.name: method.predictor for method in _METHOD_OF.values()}
        members = {
            name: kinds[method].from_state(member)
            for name, method, member in zip(state["names"], state["methods"], state["members"], strict=True)
        }
        return cls(members, state["believed"])


_METHOD_OF: dict[type[Predictor], type[Method]] = {
    method.predictor: method for method in (EMMixture, Boosting, ThinnedNet)
}


class AnyMask(Method):
    """Learn once, under whatever masks there are, and predict well under any others.

    Parameters
    ----------
    budget : "fast", "default" or "best"
        How much time to spend. On 17,000 rows of 18 columns "fast" and "default" took about 4 and 21 times as
        long as a plain LightGBM; "best" fits three longer nets and takes several times as long again.
    members : sequence of "mixture", "boosting", "net"
        Models to combine. Leaving one out saves its time.
    may_vanish : sequence of int, optional
        Positions of the columns, in the user's table, that may go missing. Only these are hidden in thinned
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
        self, train: MaskedData, valid: MaskedData, task: Task, rng: Rng, progress: Silence
    ) -> AnyMaskPredictor:
        plan = _plan(self.budget)
        chosen = self._chosen(plan.members)
        thinning = Thinning.of(train.groups, _telling(train, task, rng), self._may_go(train.groups))
        fitted: dict[str, Predictor] = {}
        judges = valid if len(valid) else train
        seed = draw_seed(rng)
        for name, method in chosen.items():
            # Of its own, so that leaving out one member does not change the others.
            own = np.random.default_rng([seed, list(plan.members).index(name)])
            if isinstance(method, EMMixture):
                few = np.sort(own.permutation(len(train))[:MIXTURE_ROWS])
                fitted[name] = method.fit(train.rows(few), valid, task, own, progress)
            elif isinstance(method, ThinnedNet):
                fitted[name] = method.fit_thinned(train, valid, task, thinning, own, progress)
            else:
                thin, judge = (_thinned(part, thinning, plan.copies, own) for part in (train, judges))
                fitted[name] = method.fit(thin, judge, task, own, progress)
        judged = thinning.copies(judges, STACK_COPIES, rng)
        outputs = np.stack([member.outputs(judged.values, judged.mask) for member in fitted.values()])
        believed = learn_stack(outputs, judged, task, rng, n_copies=STACK_COPIES + 1)
        counts = believed.max(axis=(0, 2)) >= LEAST_WEIGHT
        kept = {
            name: member for (name, member), is_kept in zip(fitted.items(), counts, strict=True) if is_kept
        }
        believed = believed[:, counts]
        return AnyMaskPredictor(kept, believed / believed.sum(axis=1, keepdims=True))

    def _chosen(self, available: dict[str, Method]) -> dict[str, Method]:
        unknown = [name for name in self.members if name not in MEMBERS]
        if unknown or not self.members:
            raise ValueError(
                f"members must be some of {', '.join(map(repr, MEMBERS))}, but {list(self.members)!r} came."
            )
        chosen = {name: method for name, method in available.items() if name.split()[0] in self.members}
        if not chosen:
            raise ValueError(
                f"budget={self.budget!r} has only the members {', '.join(map(repr, available))}, none of "
                f"which is among {list(self.members)!r}. Choose another budget or other members."
            )
        return chosen

    def _may_go(self, groups: NDArray[np.int64]) -> NDArray[np.bool_]:
        if self.may_vanish is not None and self.never_missing is not None:
            raise ValueError("Give may_vanish or never_missing, not both: one follows from the other.")
        columns = np.unique(groups)
        if self.may_vanish is not None:
            return np.isin(columns, list(self.may_vanish))
        return ~np.isin(columns, list(self.never_missing or ()))


def _thinned(data: MaskedData, thinning: Thinning, copies: int, rng: Rng) -> MaskedData:
    """The rows and thinned copies of them; of a very long table one thinned copy alone."""
    copies = min(copies, MOST_COPIED // max(1, len(data)))
    return thinning.copies(data, copies, rng) if copies else data.hidden_where(thinning.keep(len(data), rng))


def _telling(train: MaskedData, task: Task, rng: Rng) -> Floats:
    """How much each column of the user's table tells about the target: what a few trees gain from it."""
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
    gain = np.zeros(train.n_columns)
    for target in targets:
        data = lightgbm.Dataset(with_nan(rows.values, rows.mask), target, weight=rows.weight)
        booster = lightgbm.train(parameters, data, num_boost_round=max(5, 40 // max(1, task.d_output)))
        found = booster.feature_importance("gain")
        gain += found / max(found.sum(), 1e-12)
    return np.array([gain[train.groups == column].sum() for column in np.unique(train.groups)])


def stacked(outputs: Floats, mask: NDArray, believed: Floats) -> Floats:
    """Members' outputs (n_members, n, d_output) combined to (n, d_output).

    Parameters
    ----------
    outputs : (n_members, n, d_output)
    mask : (n, d)
        The share of a row's cells that is observed places it between the two ends.
    believed : (2, n_members, k), k = d_output or 1
        Weights of the members where nothing and where everything is observed.
    """
    weight = np.einsum("en,emk->mnk", _ends(mask), believed)
    return (weight * outputs).sum(axis=0)


def _ends(mask: NDArray) -> Floats:
    """How near each row is to nothing and to everything observed, (2, n)."""
    share = mask.mean(axis=1)
    return np.stack([1 - share, share])


def learn_stack(outputs: Floats, judged: MaskedData, task: Task, rng: Rng, n_copies: int) -> Floats:
    """How far to believe each member, (2, n_members, k), from rows that no member learnt from.

    Weights are not negative and add up to one at each end. Those of many random parts of the rows are
    averaged: where members differ by chance this comes near their plain average, where one is clearly
    better it gets all the weight.

    Parameters
    ----------
    outputs : (n_members, n, d_output)
    judged : MaskedData
        The rows, `n_copies` thinned versions of the same ones after each other.
    task : Task
    rng : numpy Generator
    n_copies : int
    """
    n_members, n, d_output = outputs.shape
    k = 1 if isinstance(task, Classification) else d_output
    if n_members == 1 or n == 0:
        return np.full((2, n_members, k), 1 / n_members)
    n_rows = n // n_copies
    found = []
    for _ in range(STACK_PARTS):
        rows = rng.permutation(n_rows)[: max(2, round(STACK_SHARE * n_rows))]
        part = (np.arange(n_copies)[:, None] * n_rows + rows).ravel()
        found.append(_best_weights(outputs[:, part], judged.rows(part), task, k))
    return np.mean(found, axis=0)


def _best_weights(outputs: Floats, rows: MaskedData, task: Task, k: int) -> Floats:
    """Weights (2, n_members, k) of least loss; softmax keeps them positive and adding up to one."""
    n_members, ends = len(outputs), _ends(rows.mask)

    def weights(logits: Floats) -> Floats:
        shaped = logits.reshape(2, n_members, k)
        raised = np.exp(shaped - shaped.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    def loss(logits: Floats) -> tuple[float, Floats]:
        weight = weights(logits)
        value, slope = _loss_and_slope(stacked(outputs, rows.mask, weight), rows, task)
        by_weight = np.einsum("en,mnk->emk", ends, slope * outputs)
        if by_weight.shape[2] != k:
            by_weight = by_weight.sum(axis=2, keepdims=True)
        by_logit = weight * (by_weight - (weight * by_weight).sum(axis=1, keepdims=True))
        # Where rows say nothing, the plain average stays.
        return value + 1e-4 * float(logits @ logits), by_logit.ravel() + 2e-4 * logits

    start = np.zeros(2 * n_members * k)
    return weights(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x)


def _loss_and_slope(output: Floats, rows: MaskedData, task: Task) -> tuple[float, Floats]:
    """Weighted mean loss and its slope by each output."""
    share = (rows.weight / rows.weight.sum())[:, None]
    if isinstance(task, Classification):
        probability = task.probabilities(output)
        picked = np.maximum(probability[np.arange(len(output)), rows.target], 1e-300)
        slope = probability.copy()
        slope[np.arange(len(output)), rows.target] -= 1
        return float(-(share[:, 0] * np.log(picked)).sum()), share * slope
    error = output - rows.target
    return float((share * error**2).sum()), 2 * share * error
