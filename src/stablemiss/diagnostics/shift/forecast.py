"""Forecast of a model's error under the masks of new rows, without their labels.

Masks of the current table are laid over labelled reference rows, and the model predicts these. A value that
is missing in a reference row cannot be shown, so too much is hidden. By how much that raises the loss is
estimated by hiding as much once more: with L(own, new) the mean loss of reference rows under their own and
new masks,

    F(new) = L(own, new)² / L(own, new, own of another row)

and the forecast is L(own) F(new) / F(masks of the reference), which is exact without a shift, and if
the reference is complete.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import is_classifier

from stablemiss.data import Bools, Floats
from stablemiss.diagnostics.shift.findings import Comparison
from stablemiss.encoding import take_rows, with_missing
from stablemiss.seeding import Rng

# Reference rows over which masks are laid; fewer rows are used several times.
N_ROWS, MIN_ROWS = 4000, 2000
# Random masks among which the one is chosen whose row has the nearest value of a driver.
N_CANDIDATES = 16
N_BOOTSTRAP = 400
# Columns whose part in the damage is forecast on its own: those with the most certain findings.
N_CAUSES = 5
MIN_PROBABILITY = 1e-15


@dataclass(frozen=True)
class Cause:
    """Error of the model if only one column's missing rate had changed.

    Attributes
    ----------
    column : str
    error : float
        RMSE or log loss.
    """

    column: str
    error: float


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
        95% bootstrap interval of `after`, over rows and masks.
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
    constant: float
    own_estimate: float | None
    hidden_in_excess: float
    causes: tuple[Cause, ...]

    @property
    def change(self) -> float:
        """Relative change of the error: 0.1 means that it rises by 10%."""
        return self.after / self.before - 1 if self.before > 0 else float("inf" if self.after > 0 else 0)


class Losses:
    """Losses of a model's predictions, row by row.

    Parameters
    ----------
    model : estimator
        A fitted regressor or classifier.
    y : (n,) or (n, k)
        Targets of the labelled rows.
    """

    def __init__(self, model: Any, y: Any):
        self.model = model
        self.y = np.asarray(y)
        self.is_classifier = is_classifier(model)
        if not self.is_classifier:
            self.y = self.y.astype(np.float64)
            self.metric = "RMSE"
        elif hasattr(model, "predict_proba"):
            self.metric = "log loss"
        else:
            self.metric = "error rate"

    def of(self, X: Any, rows: NDArray) -> Floats:
        """Loss (n,) of each row of X, whose labels are those of `rows`."""
        y = self.y[rows]
        with warnings.catch_warnings():
            # Missing values that the model did not see in training are what is being examined.
            warnings.simplefilter("ignore")
            if self.metric == "log loss":
                probabilities = np.asarray(self.model.predict_proba(X))
                position = {label: i for i, label in enumerate(self.model.classes_)}
                chosen = probabilities[np.arange(len(y)), [position[label] for label in y]]
                return -np.log(np.clip(chosen, MIN_PROBABILITY, 1))
            predicted = np.asarray(self.model.predict(X))
        if self.is_classifier:
            return (predicted != y).astype(np.float64)
        return np.square(predicted.reshape(y.shape) - y).reshape(len(y), -1).mean(axis=1)

    def error(self, mean_loss: float) -> float:
        """The error in the units of the metric."""
        return float(np.sqrt(mean_loss)) if self.metric == "RMSE" else float(mean_loss)

    def constant(self) -> float:
        """Error of the best constant prediction."""
        if not self.is_classifier:
            return self.error(float(np.square(self.y - self.y.mean(axis=0)).mean()))
        shares = np.unique(self.y, return_counts=True)[1] / len(self.y)
        return float(-(shares * np.log(shares)).sum() if self.metric == "log loss" else 1 - shares.max())


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
    tables, losses = comparison.tables, Losses(model, y)
    if len(losses.y) != len(tables.reference):
        raise ValueError(
            f"y has {len(losses.y)} targets, but reference has {len(tables.reference)} rows. Pass the target "
            "of each row of reference."
        )
    rows = _Rows(reference, tables.reference, losses, rng)
    own = tables.reference[rows.index]
    others = own[rng.permutation(len(own))]
    before = rows.losses_under(own)
    usual, new = own[rng.permutation(len(own))], _masks_for(comparison, rows.index, rng)
    means = _Means(before, *(rows.losses_under(mask) for mask in (usual, usual & others, new, new & others)))
    bootstrap = [means.forecast(rows.resample(rng)) for _ in range(N_BOOTSTRAP)]
    low, high = (losses.error(mean) for mean in np.quantile(bootstrap, (0.025, 0.975)))
    return Forecast(
        metric=losses.metric,
        before=losses.error(before.mean()),
        after=losses.error(means.forecast(np.arange(len(own)))),
        interval=(low, high),
        constant=losses.constant(),
        own_estimate=_own_estimate(model, current, tables.absent, losses),
        hidden_in_excess=float((new & ~own).sum() / max(1, new.sum())),
        causes=_causes(comparison, rows, before),
    )


@dataclass(frozen=True, eq=False)
class _Means:
    """Losses (n,) of the same rows under several masks, in the notation at the top of this file."""

    own: Floats
    usual: Floats
    usual_and_others: Floats
    new: Floats
    new_and_others: Floats

    def forecast(self, rows: NDArray) -> float:
        """Expected mean loss under the new masks, from some of the rows."""
        own, usual, usual_others, new, new_others = (loss[rows].mean() for loss in vars(self).values())
        if min(usual, usual_others, new_others) <= 0:
            return float(new)
        return float(own * (new**2 / new_others) / (usual**2 / usual_others))


class _Rows:
    """Labelled rows that are predicted: all of them, several times if they are few, or a sample."""

    def __init__(self, table: Any, observed: Bools, losses: Losses, rng: Rng):
        n = len(observed)
        self._n_repeats = -(-MIN_ROWS // n)
        self.index = np.repeat(np.sort(rng.permutation(n)[:N_ROWS]), self._n_repeats)
        self.observed, self.losses = observed[self.index], losses
        self._table = take_rows(table, self.index)

    def resample(self, rng: Rng) -> NDArray:
        """Positions of as many rows, drawn with replacement; all repetitions of a row together."""
        n = len(self.index) // self._n_repeats
        drawn = rng.integers(n, size=n)
        return (self._n_repeats * drawn[:, None] + np.arange(self._n_repeats)).ravel()

    def losses_under(self, masks: Bools) -> Floats:
        """Losses (n,) of the rows under masks (n, d); what is missing stays missing."""
        return self.losses.of(with_missing(self._table, masks & self.observed), self.index)


def _masks_for(comparison: Comparison, rows: NDArray, rng: Rng) -> Bools:
    """A mask of the current table for each reference row, at random.

    If missingness depends on a column in the current table, a mask that shows this column is replaced by that
    of some other row that shows it, the one whose value is nearest to that of the reference row.
    """
    tables = comparison.tables
    chosen = rng.integers(len(tables.current), size=len(rows))
    driver = _driver(comparison)
    if driver is not None:
        before, after = _driver_ranks(comparison, driver)
        shown = np.flatnonzero(~np.isnan(after))
        candidates = shown[rng.integers(len(shown), size=(len(rows), N_CANDIDATES))]
        nearest = np.abs(before[rows][:, None] - after[candidates]).argmin(axis=1)
        is_known = tables.current[chosen, driver] & tables.reference[rows, driver]
        chosen = np.where(is_known, candidates[np.arange(len(rows)), nearest], chosen)
    return tables.current[chosen]


def _driver(comparison: Comparison) -> int | None:
    """The column on whose values missingness depends most in the current table, if clearly."""
    z = np.abs(comparison.links.current_z).max(axis=0)
    return int(z.argmax()) if z.max() > norm.isf(0.001 / len(z) ** 2) else None


def _driver_ranks(comparison: Comparison, k: int) -> tuple[Floats, Floats]:
    """Ranks of a column's values in both tables, between 0 and 1; NaN where missing."""
    numbers, observed, is_current = comparison.tables.numbers(k)
    ranks = np.full(len(numbers), np.nan)
    ranks[observed] = np.searchsorted(np.sort(numbers[observed]), numbers[observed]) / max(1, observed.sum())
    return ranks[~is_current], ranks[is_current]


def _causes(comparison: Comparison, rows: _Rows, before: Floats) -> tuple[Cause, ...]:
    """Error if only one column's missing rate had changed, for the columns with the largest changes.

    With c the factor by which the loss rises if the column is hidden, the mean loss is proportional to
    1 − r + r c at a missing rate r.
    """
    tables = comparison.tables
    rates = np.stack([1 - tables.reference.mean(axis=0), 1 - tables.current.mean(axis=0)])
    changed = [tables.names.index(one.columns[0]) for one in comparison.findings if one.kind == "rate"]
    causes = []
    for j in sorted(changed, key=lambda j: -abs(rates[1, j] - rates[0, j]))[:N_CAUSES]:
        shown = rows.observed[:, j]
        masks = rows.observed.copy()
        masks[:, j] = False
        visible = before[shown].mean() if shown.any() else 0.0
        factor = rows.losses_under(masks)[shown].mean() / visible if visible > 0 else 1.0
        then, now = 1 - rates[:, j] + rates[:, j] * factor
        causes.append(Cause(tables.names[j], rows.losses.error(before.mean() * now / then)))
    return tuple(sorted(causes, key=lambda cause: -cause.error))


def _own_estimate(model: Any, current: Any, absent: list[str], losses: Losses) -> float | None:
    """What the model expects of its errors on the current rows."""
    if not hasattr(model, "explain_missing") or losses.metric != "RMSE" or losses.y.ndim > 1 or absent:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = model.explain_missing(current)
    return float(np.sqrt(np.mean(np.square(np.asarray(frame["error"], dtype=np.float64)))))
