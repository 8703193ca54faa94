"""Cost of losing columns: each one alone, and pairs of the most important ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from stablemiss.data import Floats
from stablemiss.evaluation.stress.result import ColumnCost, PairCost
from stablemiss.evaluation.stress.rows import TestRows
from stablemiss.evaluation.stress.scores import Bench
from stablemiss.evaluation.stress.settings import AS_GIVEN, Setting, column_importance, column_settings
from stablemiss.seeding import Rng

# Rows × columns up to which all test rows are used; wider tables use fewer rows.
MAX_CELLS = 600_000
MIN_ROWS = 500
# Columns of which all pairs are tested.
N_PAIRED = 8
# Rows from which it is estimated how much alike columns are.
N_RANKED_ROWS = 1000


@dataclass(frozen=True, eq=False)
class ColumnCosts:
    """Costs of losing each column.

    Attributes
    ----------
    bench : Bench
        The models and the rows that were used.
    baseline : list of (n,) float64
        For each model, the losses of these rows as given.
    cost, low, high : (n_models, d) float64
        Increases of the error and their 95% intervals.
    notes : list of str
    """

    bench: Bench
    baseline: list[Floats]
    cost: Floats
    low: Floats
    high: Floats
    notes: list[str]

    @property
    def reliance(self) -> Floats:
        """Share (n_models, d) of each column in the sum of the positive costs of a model; 0 if none is."""
        positive = np.maximum(np.nan_to_num(self.cost), 0.0)
        total = positive.sum(axis=1, keepdims=True)
        return positive / np.where(total > 0, total, 1.0)

    def ordered(self, names: Sequence[str]) -> list[ColumnCost]:
        """The costs by model, in this order of models, the most important column first."""
        rows, reliance = self.bench.rows, self.reliance
        positions = {model.name: i for i, model in enumerate(self.bench.models)}
        return [
            ColumnCost(
                name,
                rows.column_name(j),
                *(float(array[i, j]) for array in (self.cost, self.low, self.high, reliance)),
            )
            for name in names
            for i in [positions[name]]
            for j in np.argsort(-np.nan_to_num(self.cost[i], nan=-np.inf), kind="stable")
        ]


def column_costs(bench: Bench, rng: Rng) -> ColumnCosts:
    """Cost of losing each column.

    Parameters
    ----------
    bench : Bench
        Models and test rows. Of wide tables only some of the rows are used.
    rng : numpy Generator
        Draws these rows.
    """
    n, d = len(bench.rows), bench.rows.n_columns
    max_rows = max(MIN_ROWS, MAX_CELLS // d)
    notes = []
    if n > max_rows:
        bench = bench.at_rows(np.sort(rng.choice(n, max_rows, replace=False)))
        notes.append(
            f"Costs of losing columns are measured on {max_rows:,} rows, because there are {d} columns."
        )
    settings = [Setting(AS_GIVEN, None, None), *column_settings([(j,) for j in range(d)])]
    baseline: list[Floats] = []
    differences = np.full((d, len(bench.models), 3), np.nan)
    for j, losses in enumerate(bench.test(settings, "loss of columns"), start=-1):
        if j < 0:
            baseline = [np.asarray(loss, dtype=np.float64) for loss in losses.by_model]
        else:
            differences[j] = _differences(bench, losses.by_model, baseline)
            failed = [
                f"{model.name!r} could not predict without column {bench.rows.column_name(j)!r}: {loss}"
                for model, loss in zip(bench.models, losses.by_model, strict=True)
                if isinstance(loss, str)
            ]
            notes += failed
    cost, low, high = differences.transpose(2, 1, 0)
    return ColumnCosts(bench, baseline, cost, low, high, notes)


def pair_costs(costs: ColumnCosts) -> list[PairCost]:
    """Cost of losing pairs of columns that matter.

    All pairs of the columns on which the models rely most, by their mean reliance; and each of the columns
    that are most informative about the target with the one that is most like it: while one of them is there,
    losing the other costs nothing.
    """
    bench, rows = costs.bench, costs.bench.rows
    important = np.argsort(-costs.reliance.mean(axis=0), kind="stable")[:N_PAIRED]
    pairs = list(
        dict.fromkeys(
            tuple(sorted(pair)) for pair in (*combinations(important.tolist(), 2), *_redundant_pairs(rows))
        )
    )
    found = []
    for (a, b), losses in zip(pairs, bench.test(column_settings(pairs), "loss of pairs"), strict=True):
        differences = _differences(bench, losses.by_model, costs.baseline)
        for i, (model, (cost, low, high)) in enumerate(zip(bench.models, differences, strict=True)):
            if np.isfinite(cost):
                excess = cost - costs.cost[i, a] - costs.cost[i, b]
                names = rows.column_name(a), rows.column_name(b)
                found.append(
                    PairCost(model.name, *names, float(cost), float(low), float(high), float(excess))
                )
    return found


def _redundant_pairs(rows: TestRows) -> list[tuple[int, int]]:
    """Each of the most informative columns with the column whose ranks are most correlated with its own."""
    if rows.n_columns < 2:
        return []
    # Of some rows at equal distances, which saves memory.
    ranks = rankdata(rows.numbers[:: -(-len(rows) // N_RANKED_ROWS)], axis=0)
    ranks = ranks - ranks.mean(axis=0)
    norms = np.linalg.norm(ranks, axis=0)
    informative = np.argsort(-column_importance(rows), kind="stable")[:N_PAIRED]
    with np.errstate(divide="ignore", invalid="ignore"):
        likeness = np.abs(ranks[:, informative].T @ ranks) / np.outer(norms[informative], norms)
    likeness = np.nan_to_num(likeness)
    likeness[np.arange(len(informative)), informative] = -1.0
    return [(int(j), int(k)) for j, k in zip(informative, likeness.argmax(axis=1), strict=True)]


def _differences(bench: Bench, losses: Sequence[Floats | str], baseline: Sequence[Floats]) -> Floats:
    """Increase of the error of each model and its interval, (n_models, 3); NaN where predictions failed."""
    return np.array(
        [
            (np.nan,) * 3 if isinstance(loss, str) else bench.metric.difference(loss, given)
            for loss, given in zip(losses, baseline, strict=True)
        ]
    )
