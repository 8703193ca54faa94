"""Forecast of a model's error under the masks of new rows, without their labels.

Masks of the current table are laid over labelled reference rows, and the model predicts these. A value that
is missing in a reference row cannot be shown, so each mask is laid over a row that observes as much of it as
possible; what is still hidden in excess is accounted for by a log-linear model of the loss given the mask.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import is_classifier
from sklearn.linear_model import PoissonRegressor

from stablemiss.data import Bools, Floats
from stablemiss.diagnostics.shift.findings import Comparison
from stablemiss.encoding import take_rows, with_missing
from stablemiss.seeding import Rng

# Masks that are laid over reference rows.
N_ROWS = 4000
# Reference rows among which the one that observes most of a mask is chosen, at random.
N_CANDIDATES = 64
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
        laid over. The larger it is, the more the forecast relies on the model of the loss.
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
    shared = _Reference(reference, tables.reference, losses, rng)
    before = shared.losses_of_sample(tables.reference)
    rows, masks = _lay_masks(comparison, rng)
    # The same rows under masks of the reference: only the ratio of the two losses is used, so that it does
    # not matter which rows were chosen.
    usual = tables.reference[rng.integers(len(tables.reference), size=len(rows))]
    under = [shared.losses_under(rows, some) for some in (usual, masks)]
    shown = [tables.reference[rows] & some for some in (usual, masks)]
    effects = _effects(
        np.concatenate([before, *under]), np.concatenate([tables.reference[shared.sample], *shown])
    )
    adjusted = [
        loss * np.exp(-((some & ~observed) @ effects))
        for loss, some, observed in zip(under, (usual, masks), shown, strict=True)
    ]
    means = [
        before[rng.integers(len(before), size=len(before))].mean()
        * _ratio(adjusted, rng.integers(len(rows), size=len(rows)))
        for _ in range(N_BOOTSTRAP)
    ]
    low, high = (losses.error(mean) for mean in np.quantile(means, (0.025, 0.975)))
    return Forecast(
        metric=losses.metric,
        before=losses.error(before.mean()),
        after=losses.error(before.mean() * _ratio(adjusted, np.arange(len(rows)))),
        interval=(low, high),
        constant=losses.constant(),
        own_estimate=_own_estimate(model, current, tables.absent, losses),
        hidden_in_excess=float((masks & ~shown[1]).sum() / max(1, masks.sum())),
        causes=_causes(comparison, shared, effects, rng),
    )


def _ratio(losses: Sequence[Floats], rows: NDArray) -> float:
    """Mean loss of rows under new masks divided by that under usual ones."""
    usual, new = (loss[rows].mean() for loss in losses)
    return float(new / usual) if usual > 0 else 1.0


class _Reference:
    """Labelled rows, of which a sample is predicted."""

    def __init__(self, table: Any, observed: Bools, losses: Losses, rng: Rng):
        self.table, self.observed, self.losses = table, observed, losses
        self.sample = np.sort(rng.permutation(len(observed))[:N_ROWS])

    def losses_under(self, rows: NDArray, masks: Bools) -> Floats:
        """Losses (m,) of rows (m,) under masks (m, d); what is missing stays missing."""
        hidden = with_missing(take_rows(self.table, rows), masks & self.observed[rows])
        return self.losses.of(hidden, rows)

    def losses_of_sample(self, masks: Bools) -> Floats:
        """Losses of the sample under masks (n, d) of all rows."""
        return self.losses_under(self.sample, masks[self.sample])


def _lay_masks(comparison: Comparison, rng: Rng) -> tuple[NDArray, Bools]:
    """Choose a reference row for each of several current masks.

    Of some random candidates, those that observe most of the mask are kept; if missingness depends on values
    in the current table, of these the row whose drivers are nearest to those of the row with the mask.
    """
    tables = comparison.tables
    n_reference, n_current = len(tables.reference), len(tables.current)
    chosen = rng.permutation(n_current)[:N_ROWS]
    chosen = np.concatenate([chosen, rng.integers(n_current, size=max(0, min(N_ROWS, 2000) - len(chosen)))])
    masks = tables.current[chosen]
    candidates = rng.integers(n_reference, size=(len(chosen), N_CANDIDATES))
    distance = np.zeros(candidates.shape)
    for j in range(masks.shape[1]):
        # Counted column by column, which needs little memory.
        distance += (masks[:, [j]] & ~tables.reference[candidates, j]).astype(float)
    distance -= distance.min(axis=1, keepdims=True)
    distance *= 1e6
    for driver in _drivers(comparison):
        before, after = _driver_ranks(comparison, driver)
        distance += np.nan_to_num(np.abs(before[candidates] - after[chosen][:, None]), nan=1.0)
    distance += 1e-9 * rng.random(distance.shape)
    return candidates[np.arange(len(chosen)), distance.argmin(axis=1)], masks


def _drivers(comparison: Comparison) -> list[int]:
    """Columns on whose values missingness depends in the current table, by a clear margin."""
    z = np.abs(comparison.links.current_z)
    d = len(z)
    strongest = z.max(axis=0)
    clear = np.flatnonzero(strongest > norm.isf(0.001 / d**2)).tolist()
    return sorted(clear, key=lambda k: -strongest[k])[:2]


def _driver_ranks(comparison: Comparison, k: int) -> tuple[Floats, Floats]:
    """Ranks of a column's values in both tables, between 0 and 1; NaN where missing."""
    numbers, observed, is_current = comparison.tables.numbers(k)
    ranks = np.full(len(numbers), np.nan)
    ranks[observed] = np.searchsorted(np.sort(numbers[observed]), numbers[observed]) / max(1, observed.sum())
    return ranks[~is_current], ranks[is_current]


def _effects(target: Floats, observed: Bools) -> Floats:
    """Log-linear effect (d,) of each missing column on the loss, not below zero."""
    missing = ~observed
    scale = target.mean()
    if scale <= 0 or not (varies := missing.any(axis=0) & ~missing.all(axis=0)).any():
        return np.zeros(missing.shape[1])
    # A few rows with extreme losses would decide the effects; those of most rows are meant.
    capped = np.minimum(target / scale, 20.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        regression = PoissonRegressor(alpha=1e-3, max_iter=200).fit(missing[:, varies], capped)
    effects = np.zeros(missing.shape[1])
    effects[varies] = np.clip(regression.coef_, 0.0, 2.0)
    return effects


def _causes(comparison: Comparison, shared: _Reference, effects: Floats, rng: Rng) -> tuple[Cause, ...]:
    """Error if only one column's missing rate had changed, for the columns with the clearest changes."""
    tables = comparison.tables
    before, after = 1 - tables.reference.mean(axis=0), 1 - tables.current.mean(axis=0)
    clear = [tables.names.index(one.columns[0]) for one in comparison.findings if one.kind == "rate"]
    order = sorted(clear, key=lambda j: -abs(after[j] - before[j]) * (effects[j] + 1e-3))[:N_CAUSES]
    causes = []
    for j in order:
        if after[j] > before[j]:
            masks = tables.reference.copy()
            # Of the rows that observe the column, so many lose it that its missing rate is that of now.
            share = (after[j] - before[j]) / (1 - before[j])
            masks[:, j] &= rng.random(len(masks)) >= share
            mean = float(shared.losses_of_sample(masks).mean())
        else:
            loss = shared.losses_of_sample(tables.reference)
            is_missing = ~tables.reference[shared.sample, j]
            shown = (before[j] - after[j]) / before[j]
            mean = float((loss * np.where(is_missing, 1 - shown * (1 - np.exp(-effects[j])), 1.0)).mean())
        causes.append(Cause(tables.names[j], shared.losses.error(mean)))
    return tuple(sorted(causes, key=lambda cause: -cause.error))


def _own_estimate(model: Any, current: Any, absent: list[str], losses: Losses) -> float | None:
    """What the model expects of its errors on the current rows."""
    if not hasattr(model, "explain_missing") or losses.metric != "RMSE" or losses.y.ndim > 1 or absent:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = model.explain_missing(current)
    return float(np.sqrt(np.mean(np.square(np.asarray(frame["error"], dtype=np.float64)))))
