"""Forecast of a model's error under the masks of new rows, without their labels.

Masks of the current table are laid over labelled reference rows, and the model predicts these. A value that
is missing in a reference row cannot be shown, so too much is hidden. By how much that raises the loss is
estimated by hiding as much once more: with L(own, new) the mean loss of reference rows under their own and
new masks,

    F(new) = L(own, new)² / L(own, new, own of another row)

and the forecast is L(own) F(new) / F(masks of the reference).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from stablemiss.data import Bools, Floats, missing_cells
from stablemiss.diagnostics.shift.findings import Comparison
from stablemiss.encoding import take_rows, with_missing
from stablemiss.row_losses import RMSE, Metric, choose_metric, read_target
from stablemiss.seeding import Rng

# Reference rows over which masks are laid; fewer rows are used several times.
N_ROWS, MIN_ROWS = 4000, 2000
# Random masks among which the one is chosen whose row has the nearest value of a driver.
N_CANDIDATES = 16
N_BOOTSTRAP = 400
# Columns whose part in the damage is forecast on its own: those whose rates changed most.
N_CAUSES = 5


@dataclass(frozen=True)
class Cause:
    """Error of the model if only the missing rate of one column, and of those alike, had changed.

    Attributes
    ----------
    column : str
    error : float
        RMSE, log loss or error rate.
    n_alike : int, default=0
        Number of further columns that are missing in the same rows, and are hidden with it.
    """

    column: str
    error: float
    n_alike: int = 0


@dataclass(frozen=True)
class Forecast:
    """Expected error of a model under the masks of the current table.

    Attributes
    ----------
    metric : {"RMSE", "log loss", "error rate"}
    before : float
        On the labelled reference rows as they are.
    after : float
        Under the masks of the current table.
    interval : (float, float)
        95% bootstrap interval of the error on as many rows as the current table has, over reference rows,
        current masks and their labels.
    change_interval : (float, float)
        95% bootstrap interval of `change`. If it contains zero, the masks change nothing that is clear.
    constant : float
        Error of always predicting the mean, or the class frequencies, of the reference.
    own_estimate : float or None
        What the model itself expects for the current rows, if it has `explain_missing` and its errors are in
        the units of `metric`.
    hidden_in_excess : float
        Share of the values that the current masks show and that were missing in the reference rows they were
        laid over. The larger it is, the more the forecast relies on extrapolation.
    causes : tuple of Cause
        Most damaging first.
    """

    metric: str
    before: float
    after: float
    interval: tuple[float, float]
    change_interval: tuple[float, float]
    constant: float
    own_estimate: float | None
    hidden_in_excess: float
    causes: tuple[Cause, ...]

    @property
    def change(self) -> float:
        """Relative change of the error: 0.1 means that it rises by 10%."""
        return _relative(self.after, self.before)

    @property
    def is_clear(self) -> bool:
        """Whether the error clearly changes."""
        low, high = self.change_interval
        return low > 0 or high < 0


def forecast(model: Any, reference: Any, current: Any, y: Any, comparison: Comparison, rng: Rng) -> Forecast:
    """Forecast the error of a fitted model under the masks of the current rows.

    Parameters
    ----------
    model : estimator
        Fitted; not on the reference rows, or else its errors before and after are too low.
    reference, current : table
    y : (n,)
        Targets of the reference rows.
    comparison : Comparison
        Of both tables.
    rng : numpy Generator
        Draws masks and rows.
    """
    tables = comparison.tables
    metric = choose_metric({"model": model})
    target, is_known = _known_targets(y, len(tables.reference), metric)
    with warnings.catch_warnings():
        # Missing values that the model did not see in training are what is being examined.
        warnings.simplefilter("ignore")
        rows = _Rows(reference, tables.reference, _Scorer(model, target, is_known, metric), rng)
        masks = _Masks(comparison, rows.index, rng)
        losses = _Losses(rows, masks)
        causes = _causes(comparison, rows, losses.own)
        own_estimate = _own_estimate(model, current, comparison, metric, target)
    everything = np.ones(len(tables.reference)), np.ones(len(tables.current))
    after = losses.mean_under_new(*everything)
    before = float(losses.own.mean())
    draws = np.array([losses.draw(rng) for _ in range(N_BOOTSTRAP)])

    def to_error(mean: float) -> float:
        return float(np.sqrt(mean)) if metric.name == RMSE else float(mean)

    low, high = (to_error(mean) for mean in np.quantile(draws[:, 2], (0.025, 0.975)))
    changes = [_relative(to_error(new), to_error(old)) for old, new, _ in draws]
    change_low, change_high = (float(one) for one in np.quantile(changes, (0.025, 0.975)))
    return Forecast(
        metric=metric.name,
        before=to_error(before),
        after=to_error(after),
        interval=(low, high),
        change_interval=(change_low, change_high),
        constant=metric.error(metric.constant_losses(target[is_known])),
        own_estimate=own_estimate,
        hidden_in_excess=float((masks.new & ~rows.observed).sum() / max(1, masks.new.sum())),
        causes=causes,
    )


class ForecastError(ValueError):
    """The model cannot predict the reference rows under the new masks."""


def _known_targets(y: Any, n_rows: int, metric: Metric) -> tuple[NDArray, Bools]:
    """Targets (n, …) of the reference rows, and which of them (n,) are known; raises if hardly any is."""
    target = np.asarray(y)
    if target.ndim == 0 or len(target) != n_rows:
        raise ValueError(
            f"y must have the target of each of the {n_rows:,} rows of reference; got shape {target.shape}."
        )
    missing = missing_cells(target if target.dtype.kind in "fiub" else target.astype(object))
    is_known = ~np.asarray(missing.reshape(n_rows, -1).any(axis=1))
    if is_known.sum() < 2:
        raise ValueError("y is known in fewer than two rows of reference, so that no error can be forecast.")
    known = read_target(target[is_known], int(is_known.sum()), metric.is_classification)
    filled = np.empty((n_rows, *known.shape[1:]), dtype=known.dtype)
    filled[is_known], filled[~is_known] = known, known[0]
    return filled, is_known


@dataclass(frozen=True, eq=False)
class _Scorer:
    """A model, the targets (n, …) of the reference rows, which of them (n,) are known, and the metric."""

    model: Any
    target: NDArray
    is_known: Bools
    metric: Metric

    def losses(self, X: Any, rows: NDArray) -> Floats:
        """Losses (m,) of predictions for X, whose targets are those of the reference rows `rows` (m,)."""
        try:
            return self.metric.row_losses(self.model, _features(X, self.model), self.target[rows])
        # Whatever a model of any library raises, the comparison of the tables is kept.
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            advice = " A pipeline with an imputer accepts missing values." if "NaN" in reason else ""
            message = f"The error was not forecast, because the model failed: {reason}{advice}"
            raise ForecastError(message) from error


class _Rows:
    """Labelled rows that are predicted: all of them, several times if they are few, or a sample."""

    def __init__(self, table: Any, observed: Bools, scorer: _Scorer, rng: Rng):
        chosen = np.sort(rng.permutation(np.flatnonzero(scorer.is_known))[:N_ROWS])
        self.index = np.repeat(chosen, -(-MIN_ROWS // len(chosen)))
        self.observed, self.n_reference, self.metric = observed[self.index], len(observed), scorer.metric
        self._scorer = scorer
        self._table = take_rows(table, self.index)

    def losses_under(self, masks: Bools) -> Floats:
        """Losses (n,) of the rows under masks (n, d); what is missing stays missing."""
        return self._scorer.losses(with_missing(self._table, masks | ~self.observed), self.index)


def _features(table: Any, model: Any) -> Any:
    """The columns of a data frame that a model was fitted with, if it knows their names and all are there."""
    names = getattr(model, "feature_names_in_", None)
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if names is None or not isinstance(frame, nw.DataFrame) or not set(names) <= set(frame.columns):
        return table
    return frame.select(*map(str, names)).to_native()


class _Masks:
    """Masks (n, d) for reference rows: usual ones, those of other rows, and new ones.

    Parameters
    ----------
    comparison : Comparison
    rows : (n,) int
        Positions of the reference rows.
    rng : numpy Generator
    """

    def __init__(self, comparison: Comparison, rows: NDArray, rng: Rng):
        tables, driver = comparison.tables, _main_driver(comparison)
        before, after = (None, None) if driver is None else _ranks(comparison, driver)
        at_rows = None if before is None else before[rows]
        n = len(tables.reference)
        # The usual masks depend on values as the reference's own ones do.
        usual = _nearest(at_rows, before, len(rows), n, rng)
        others = _nearest(at_rows, before, len(rows), n, rng)
        self.new_rows = _nearest(at_rows, after, len(rows), len(tables.current), rng)
        self.usual, self.others = tables.reference[usual], tables.reference[others]
        self.new = tables.current[self.new_rows]
        self.n_current = len(tables.current)


def _main_driver(comparison: Comparison) -> int | None:
    """The column on whose values missingness depends most in one of the tables, if clearly."""
    linked = comparison.links
    z = np.maximum(np.abs(linked.reference_z), np.abs(linked.current_z)).max(axis=0)
    return int(z.argmax()) if z.max() > norm.isf(0.001 / len(z) ** 2) else None


def _ranks(comparison: Comparison, k: int) -> tuple[Floats, Floats]:
    """Ranks of a column's values in both tables, between 0 and 1; NaN where missing."""
    numbers, observed, is_current = comparison.tables.numbers(k)
    ranks = np.full(len(numbers), np.nan)
    ranks[observed] = np.searchsorted(np.sort(numbers[observed]), numbers[observed]) / max(1, observed.sum())
    return ranks[~is_current], ranks[is_current]


def _nearest(at_rows: Floats | None, ranks: Floats | None, n_rows: int, n: int, rng: Rng) -> NDArray:
    """Positions (n_rows,) of rows of a table, at random, or near in the ranks of a driver.

    A row that does not show the driver stays as it was drawn, so that the driver is missing as often as in
    the table.
    """
    chosen = rng.integers(n, size=n_rows)
    if at_rows is None or ranks is None or np.isnan(ranks).all():
        return chosen
    shown = np.flatnonzero(~np.isnan(ranks))
    candidates = shown[rng.integers(len(shown), size=(n_rows, N_CANDIDATES))]
    gaps = np.abs(at_rows[:, None] - ranks[candidates])
    nearest = candidates[np.arange(n_rows), np.nan_to_num(gaps, nan=np.inf).argmin(axis=1)]
    return np.where(np.isnan(at_rows) | np.isnan(ranks[chosen]), chosen, nearest)


class _Losses:
    """Losses (n,) of the same rows under several masks, in the notation at the top of this file."""

    def __init__(self, rows: _Rows, masks: _Masks):
        self._rows, self._new_rows = rows.index, masks.new_rows
        self._n = rows.n_reference, masks.n_current
        self.own = rows.losses_under(rows.observed)
        self.usual, self.new = rows.losses_under(masks.usual), rows.losses_under(masks.new)
        is_complete = rows.observed.all() and masks.others.all()
        # Without missing values in the reference nothing is hidden in excess.
        self.usual_others = self.usual if is_complete else rows.losses_under(masks.usual & masks.others)
        self.new_others = self.new if is_complete else rows.losses_under(masks.new & masks.others)

    def mean_under_new(self, reference_weight: Floats, current_weight: Floats) -> float:
        """Expected mean loss under the new masks, with weights of the rows of both tables."""
        weight = reference_weight[self._rows]
        with_masks = weight * current_weight[self._new_rows]
        if with_masks.sum() == 0 or weight.sum() == 0:
            return float(self.new.mean())
        own, usual, usual_others = (
            np.average(loss, weights=weight) for loss in (self.own, self.usual, self.usual_others)
        )
        new, new_others = (np.average(loss, weights=with_masks) for loss in (self.new, self.new_others))
        if min(usual, usual_others, new_others) <= 0:
            return float(new)
        return float(own * (new**2 / new_others) / (usual**2 / usual_others))

    def draw(self, rng: Rng) -> tuple[float, float, float]:
        """Mean loss before, under the new masks, and of as many new rows, from one bootstrap sample."""
        n_reference, n_current = self._n
        weights = [rng.multinomial(n, np.full(n, 1 / n)).astype(np.float64) for n in (n_reference, n_current)]
        before = float(np.average(self.own, weights=weights[0][self._rows] + 1e-12))
        mean = self.mean_under_new(*weights)
        drawn = self.new[rng.integers(len(self.new), size=n_current)].mean()
        overall = self.new.mean()
        return before, mean, mean * float(drawn / overall if overall > 0 else 1.0)


def _causes(comparison: Comparison, rows: _Rows, before: Floats) -> tuple[Cause, ...]:
    """Error if only one column's missing rate had changed, for the columns with the largest changes.

    With c the factor by which the loss rises if the column is hidden, the mean loss is proportional to
    1 − r + r c at a missing rate r.
    """
    tables = comparison.tables
    changed = sorted(
        (one for one in comparison.findings if one.kind == "rate"),
        key=lambda one: -abs(one.after - one.before),
    )
    causes = []
    for finding in changed[:N_CAUSES]:
        group = [tables.names.index(name) for name in (*finding.columns, *finding.alike)]
        shown = rows.observed[:, group].any(axis=1)
        masks = rows.observed.copy()
        masks[:, group] = False
        visible = before[shown].mean() if shown.any() else 0.0
        factor = rows.losses_under(masks)[shown].mean() / visible if visible > 0 else 1.0
        then, now = (1 - rate + rate * factor for rate in (finding.before, finding.after))
        error = float(before.mean() * now / then)
        error = float(np.sqrt(error)) if rows.metric.name == RMSE else error
        causes.append(Cause(finding.columns[0], error, len(finding.alike)))
    return tuple(sorted(causes, key=lambda cause: -cause.error))


def _own_estimate(
    model: Any, current: Any, comparison: Comparison, metric: Metric, target: NDArray
) -> float | None:
    """What the model expects of its errors on the current rows."""
    tables = comparison.tables
    is_comparable = metric.name == RMSE and target.ndim == 1 and not tables.absent and not tables.retyped
    if not hasattr(model, "explain_missing") or not is_comparable:
        return None
    frame = model.explain_missing(_features(current, model))
    return float(np.sqrt(np.mean(np.square(np.asarray(frame["error"], dtype=np.float64)))))


def _relative(after: float, before: float) -> float:
    """Relative change; 0 if both are zero, infinite if only the first one is."""
    return after / before - 1 if before > 0 else (float("inf") if after > 0 else 0.0)
