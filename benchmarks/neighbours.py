"""How much do road sections in Berlin know about each other?

Readings of 2023 relative to the usual ones at their hour of the week. Regressions predict a section one, four
and eight hours ahead, from its own last eight hours, from the mean of its neighbours in the graph, from the
mean of all sections, or from the last reading of each other section. They are fitted to three of four weeks
of 2023, and tested on the fourth and on 2024, on windows in which the section's own history is complete, so
that all of them predict the same readings. Without the own history, they show what other sections could tell
about one that is dark.

Regressions on means are the same for all sections. Those on each other section are fitted to every section
separately, to what the other inputs leave unexplained, with a ridge that is chosen on a third of the training
weeks.

    python benchmarks/neighbours.py [--only-print]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from common import make_parser, open_store, run_pending, write_docs

from stablemiss.data import Bools, Floats
from stablemiss.datasets import SensorWindows
from stablemiss.experiments.array_tables import BERLIN
from stablemiss.experiments.references.sensors import means_of_neighbours, neighbour_weights
from stablemiss.experiments.sensor_problem import (
    N_FUTURE,
    N_PAST,
    SHRINKAGE,
    WEEKS_PER_CYCLE,
    WITHIN_YEAR,
    sensor_network,
    split_weeks,
)
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import provenance

STORE = open_store("neighbours")
OWN, NEIGHBOURS, ALL, EACH = "own history", "neighbours", "all sections", "each other section"
INPUTS: tuple[tuple[str, ...], ...] = (
    (),
    (NEIGHBOURS,),
    (ALL,),
    (EACH,),
    (OWN,),
    (OWN, NEIGHBOURS),
    (OWN, ALL),
    (OWN, EACH),
)
NEXT_YEAR = "2024"
HOURS_AHEAD = (1, 4, 8)
# Training weeks on which the ridge of regressions on each other section is chosen.
CHOICE_WEEK = 2
STRIDE, RIDGE, RIDGES = 5, 10.0, (100.0, 300.0, 1000.0, 3000.0, 10_000.0, 30_000.0, 100_000.0)


class Readings(NamedTuple):
    """Histories (n, n_nodes, n_past) from each source, and futures (n, n_nodes, n_future)."""

    histories: dict[str, Floats]
    future: Floats
    is_complete: Bools  # (n, n_nodes): whether the own history is
    blocks: np.ndarray  # (n,)

    def design(self, inputs: tuple[str, ...]) -> Floats:
        """Inputs that have the same coefficients for all sections, (n, n_nodes, n_inputs)."""
        parts = [self.histories[name] for name in inputs if name != EACH]
        return np.concatenate([*parts, np.ones((*self.future.shape[:2], 1))], axis=2)


def read() -> tuple[Readings, dict[str, Readings]]:
    """Readings of the training weeks, and test name → readings of a test."""
    network = sensor_network(BERLIN)
    assert network.graph is not None
    windows = SensorWindows.of(network.data.values, network.data.times, N_PAST, N_FUTURE)
    train, test = split_weeks(windows.between(*network.periods[WITHIN_YEAR]))
    usual = train.hour_of_week_mean(shrinkage=SHRINKAGE)
    weights = neighbour_weights(network.graph)

    def to_readings(chosen: SensorWindows) -> Readings:
        chosen = chosen.with_target()[::STRIDE].deseasonalised(usual)
        history = chosen.history().astype(np.float64)
        filled = np.nan_to_num(history)
        n_observed = np.isfinite(history).sum(axis=1, keepdims=True)
        overall = np.broadcast_to(filled.sum(axis=1, keepdims=True) / np.maximum(n_observed, 1), filled.shape)
        near = np.nan_to_num(means_of_neighbours(history, weights))
        return Readings(
            {OWN: filled, NEIGHBOURS: near, ALL: overall},
            chosen.future().astype(np.float64),
            np.isfinite(history).all(axis=2),
            chosen.blocks,
        )

    next_year = windows.between(*network.periods[NEXT_YEAR])
    return to_readings(train), {WITHIN_YEAR: to_readings(test), NEXT_YEAR: to_readings(next_year)}


class Sums(NamedTuple):
    """Products of the inputs of one section with each other and with its target."""

    gram: Floats
    moments: Floats

    @classmethod
    def of(cls, X: Floats, y: Floats) -> Sums:
        return cls(X.T @ X, X.T @ y)

    def slopes(self, ridge: float) -> Floats:
        return np.linalg.solve(self.gram + ridge * np.eye(len(self.gram)), self.moments)


def others_of(readings: Readings, node: int) -> Floats:
    """The last reading of each other section, (n, n_nodes − 1)."""
    return np.delete(readings.histories[OWN][:, :, -1], node, axis=1)


def errors_from_each(
    train: Readings, left: Floats, tests: list[tuple[Readings, Floats]], node: int
) -> tuple[Floats, list[list[Floats]]]:
    """Errors for each ridge on the weeks of choice, and errors of each test for each ridge.

    `left` and the second items of `tests`, (n, n_nodes), are what is left to predict, NaN where unused.
    """
    y, X = left[:, node], others_of(train, node)
    is_used = ~np.isnan(y)
    is_choice = is_used & (train.blocks % WEEKS_PER_CYCLE == CHOICE_WEEK)
    first, second = (Sums.of(X[rows], y[rows]) for rows in (is_used & ~is_choice, is_choice))
    total = Sums(first.gram + second.gram, first.moments + second.moments)
    chosen = np.array(
        [np.square(y[is_choice] - X[is_choice] @ first.slopes(ridge)).sum() for ridge in RIDGES]
    )
    remaining = []
    for readings, rest in tests:
        rows = ~np.isnan(rest[:, node])
        inputs, target = others_of(readings, node)[rows], rest[rows, node]
        remaining.append([target - inputs @ total.slopes(ridge) for ridge in RIDGES])
    return chosen, remaining


def make_record(inputs: tuple[str, ...], **fields: Any) -> Record:
    label = " and ".join(inputs) or "nothing"
    return Record("neighbours", BERLIN, WITHIN_YEAR, None, 0, label, seed=0, **fields)


def measure(inputs: tuple[str, ...], train: Readings, tests: dict[str, Readings]) -> Record:
    """Fit a regression for each number of hours ahead, and test it."""
    scores = []
    designs = {name: readings.design(inputs) for name, readings in tests.items()}
    design = train.design(inputs)
    for hours in HOURS_AHEAD:
        target = np.where(train.is_complete, train.future[:, :, hours - 1], np.nan)
        is_used = ~np.isnan(target)
        slopes = Sums.of(design[is_used], target[is_used]).slopes(RIDGE)
        rest = {
            name: np.where(one.is_complete, one.future[:, :, hours - 1], np.nan) - designs[name] @ slopes
            for name, one in tests.items()
        }
        errors = {name: one[~np.isnan(one)] for name, one in rest.items()}
        if EACH in inputs:
            pairs = [(tests[name], rest[name]) for name in tests]
            left = target - design @ slopes
            by_node = [errors_from_each(train, left, pairs, node) for node in range(target.shape[1])]
            best = int(np.argmin(sum(chosen for chosen, _ in by_node)))
            errors = {
                name: np.concatenate([remaining[number][best] for _, remaining in by_node])
                for number, name in enumerate(tests)
            }
        scores += [
            Score(column_name(name, hours), None, float(np.sqrt(np.mean(errors[name] ** 2))))
            for name in tests
        ]
    return make_record(inputs, scores=tuple(scores), **provenance())


def column_name(test: str, hours: int) -> str:
    return f"{test}, {hours} h"


def main() -> None:
    options = make_parser(__doc__).parse_args()
    if not options.only_print:
        train, tests = read()
        # Always all of them: they take a minute, and a record does not say by which constants it was made.
        run_pending(
            STORE,
            INPUTS,
            lambda job: make_record(job).key,
            lambda job: measure(job, train, tests),
            again=True,
        )
    records = {record.key: record for record in STORE.records()}
    columns = [column_name(test, hours) for test in (WITHIN_YEAR, NEXT_YEAR) for hours in HOURS_AHEAD]
    rows = []
    for inputs in INPUTS:
        record = records[make_record(inputs).key]
        errors = {score.mechanism: score.error for score in record.scores}
        rows.append([record.label, *(f"{errors[column]:.2f}" for column in columns)])
    text = markdown_table(["predicted from", *columns], rows, "--:")
    print(text)
    write_docs("docs/sensors.md", "neighbours", text)


if __name__ == "__main__":
    main()
