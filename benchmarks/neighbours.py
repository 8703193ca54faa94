"""How much do neighbouring road sections in Berlin know about each other?

Readings of 2023 relative to the usual ones at their hour of the week. Linear regressions predict a section
one, four and eight hours ahead, from its own last eight hours, from the mean of its neighbours in the graph,
from the mean of all sections, or from several of them. They are fitted to three of four weeks and tested on
the fourth, on windows in which the section's own history is complete, so that all of them predict the same
readings. Without the own history, they show what a graph could tell about a section that is dark.

    python benchmarks/neighbours.py [--only-print]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from common import make_parser, open_store, run_pending, write_docs

from stablemiss.data import Floats
from stablemiss.datasets import Graph, SensorWindows
from stablemiss.experiments.array_tables import BERLIN
from stablemiss.experiments.sensor_problem import (
    N_FUTURE,
    N_PAST,
    SHRINKAGE,
    TEST_WEEK,
    WEEKS_PER_CYCLE,
    WITHIN_YEAR,
    sensor_network,
)
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import provenance

STORE = open_store("neighbours")
OWN, NEIGHBOURS, ALL = "own history", "neighbours", "all sections"
INPUTS: tuple[tuple[str, ...], ...] = ((), (NEIGHBOURS,), (ALL,), (OWN,), (OWN, NEIGHBOURS), (OWN, ALL))
HOURS_AHEAD = (1, 4, 8)
STRIDE, RIDGE = 5, 10.0


class Readings(NamedTuple):
    """Histories (n, n_nodes, n_past) from each source, futures (n, n_nodes, n_future), and the test rows."""

    histories: dict[str, Floats]
    future: Floats
    is_complete: np.ndarray  # (n, n_nodes)
    is_test: np.ndarray  # (n,)


def read() -> Readings:
    network = sensor_network(BERLIN)
    windows = SensorWindows.of(network.data.values, network.data.times, N_PAST, N_FUTURE)
    year = windows.between(*network.periods[WITHIN_YEAR]).with_target()
    is_test = year.blocks % WEEKS_PER_CYCLE == TEST_WEEK
    usual = year[~is_test].hour_of_week_mean(shrinkage=SHRINKAGE)
    chosen = year.deseasonalised(usual)[::STRIDE]
    history = chosen.history().astype(np.float64)
    is_observed = ~np.isnan(history)
    filled = np.where(is_observed, history, 0.0)
    assert network.graph is not None
    links = _links(network.graph)
    near = np.einsum("ij,njt->nit", links, filled)
    n_near = np.einsum("ij,njt->nit", links, is_observed.astype(np.float64))
    n_all = is_observed.sum(axis=1, keepdims=True)
    overall = filled.sum(axis=1, keepdims=True) / np.maximum(n_all, 1)
    return Readings(
        {
            OWN: filled,
            NEIGHBOURS: near / np.maximum(n_near, 1),
            ALL: np.broadcast_to(overall, filled.shape),
        },
        chosen.future().astype(np.float64),
        is_observed.all(axis=2),
        is_test[::STRIDE],
    )


def _links(graph: Graph) -> Floats:
    """1 where the column is a neighbour of the row."""
    links = np.zeros((graph.n_nodes, graph.n_nodes))
    links[graph.edges[:, 1], graph.edges[:, 0]] = 1
    np.fill_diagonal(links, 0)
    return links


def make_record(inputs: tuple[str, ...], **fields: Any) -> Record:
    label = " and ".join(inputs) or "nothing"
    return Record("neighbours", BERLIN, WITHIN_YEAR, None, 0, label, seed=0, **fields)


def measure(inputs: tuple[str, ...], readings: Readings) -> Record:
    """Fit and test a regression for each number of hours ahead."""
    n_nodes = readings.future.shape[1]
    is_test = np.repeat(readings.is_test, n_nodes)
    parts = [readings.histories[name].reshape(-1, N_PAST) for name in inputs]
    design = np.concatenate([*parts, np.ones((len(is_test), 1))], axis=1)
    scores = []
    for hours in HOURS_AHEAD:
        target = readings.future[:, :, hours - 1]
        is_used = (readings.is_complete & ~np.isnan(target)).ravel()
        rows, test = is_used & ~is_test, is_used & is_test
        X, y = design[rows], target.ravel()[rows]
        slopes = np.linalg.solve(X.T @ X + RIDGE * np.eye(X.shape[1]), X.T @ y)
        errors = target.ravel()[test] - design[test] @ slopes
        scores.append(Score(f"{hours} h ahead", None, float(np.sqrt(np.mean(errors**2)))))
    return make_record(inputs, scores=tuple(scores), **provenance())


def main() -> None:
    options = make_parser(__doc__).parse_args()
    if not options.only_print:
        readings = read()
        run_pending(STORE, INPUTS, lambda job: make_record(job).key, lambda job: measure(job, readings))
    records = {record.key: record for record in STORE.records()}
    rows = [
        [record.label, *(f"{score.error:.2f}" for score in record.scores)]
        for record in (records[make_record(inputs).key] for inputs in INPUTS)
    ]
    text = markdown_table(["predicted from", *(f"{hours} h ahead" for hours in HOURS_AHEAD)], rows, "--:")
    print(text)
    write_docs("docs/sensors.md", "neighbours", text)


if __name__ == "__main__":
    main()
