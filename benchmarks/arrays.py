"""What do networks for images and sensors cost, with and without a network φ on the mask?

Every case is measured in a process of its own, on one thread, on generated data:

- processor time of a training epoch per image or window, as the difference between fits of three epochs and
  of one (median of three, after a fit to warm up), and its ratio to the same network g that does not read the
  mask (`generate="none"`);
- peak memory of the process, which grows with the number of rows: the last case has 4,300 windows;
- processor time of row weights (the paper's form, all terms, one γ) for tables as wide as an image (784
  columns) and as a window of 232 sensors (1,856 columns). Each step uses 128 of them, drawn at random.

    python benchmarks/arrays.py [--again] [--only-print]
"""

from __future__ import annotations

from functools import partial
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from common import in_new_process, make_parser, open_store, run_pending, write_docs

from stablemiss import StableMissRegressor
from stablemiss.architectures import CNN, Architecture, GraphTemporal
from stablemiss.datasets import Graph
from stablemiss.decorrelation import Decorrelator
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record, Score
from stablemiss.results.provenance import describe, peak_memory, provenance

STORE = open_store("arrays")
SHARE_MISSING = 0.3
N_STEPS, N_CALENDAR = 8, 19
# Of images (height, width) or windows (nodes), how many of them are used, and how many in a step. There are
# enough for 16 steps, because an epoch of fewer rows is repeated.
SIZES: dict[str, tuple[tuple[int, ...], int, int]] = {
    "images": ((28, 28), 1280, 64),
    "images, batches of 8": ((28, 28), 320, 8),
    "232 sensors": ((232,), 160, 8),
    "1,343 sensors": ((1343,), 80, 4),
    "4,300 windows of 1,343 sensors": ((1343,), 4300, 4),
}
# Fitted once, for one epoch: half a year of hours, to measure memory. Its time includes that of the encoding.
MEASURED_ONCE = "4,300 windows of 1,343 sensors"
FORMS = {
    "images": ("none", "input", "partial", "local", "global"),
    "images, batches of 8": ("none", "local", "global"),
    "232 sensors": ("none", "input", "local", "global"),
    "1,343 sensors": ("none", "local", "global"),
    MEASURED_ONCE: ("local",),
}
TABLES = {"weights of 784 columns": (16384, 784), "weights of 1,856 columns": (2048, 1856)}


class Case(NamedTuple):
    data: str
    form: str  # `generate`, or the form of the weights


CASES = [
    *(Case(data, form) for data, forms in FORMS.items() for form in forms),
    *(Case(data, "paper") for data in TABLES),
]


def to_key(case: Case) -> str:
    return _record(case).key


def _record(case: Case, **fields: Any) -> Record:
    return Record("arrays", case.data, "generated", SHARE_MISSING, 0, case.form, seed=0, **fields)


def measure(case: Case) -> Record:
    """The record of a case; to be called in a new process."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    if case.data in TABLES:
        n, d = TABLES[case.data]
        values = rng.normal(size=(n, d))
        start = process_time()
        decorrelator = Decorrelator(form="paper", gamma=1.0)
        decorrelator.learn_weights(values, rng.random((n, d)) >= SHARE_MISSING, rng=rng)
        seconds, config = process_time() - start, describe(decorrelator)
    else:
        X, Y, model = make_model(case, rng)
        n, d, config = len(X), int(np.prod(X.shape[1:])), describe(model)
        fit = partial(fit_seconds, model, X, Y)
        if case.data == MEASURED_ONCE:
            seconds = fit(1) / n
        else:
            fit(1)  # to warm up
            seconds = float(np.median([fit(3) - fit(1) for _ in range(3)])) / 2 / n
    return _record(
        case,
        scores=(Score("generated", SHARE_MISSING, None, None, {"seconds": seconds}),),
        metric="seconds",
        config=config,
        n_rows=n,
        n_features=d,
        peak_memory=peak_memory(),
        **provenance(),
    )


def make_model(case: Case, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, StableMissRegressor]:
    """Incomplete arrays, their targets, and a model without row weights and early stopping."""
    shape, n, batch_size = SIZES[case.data]
    architecture: Architecture
    if len(shape) == 2:
        Y = rng.normal(size=(n, *shape))
        X, architecture = hide(Y, rng), CNN(generate=case.form)
    else:
        (n_nodes,) = shape
        readings = rng.normal(size=(n, n_nodes, N_STEPS))
        calendar = rng.normal(size=(n, N_CALENDAR, 1)) + np.zeros(N_STEPS)
        graph = Graph.nearest(rng.uniform([52, 13], [53, 14], size=(n_nodes, 2)), k=8)
        X, Y = np.concatenate([hide(readings, rng), calendar], axis=1), hide(readings, rng)
        architecture = GraphTemporal(graph, generate=case.form)
    model = StableMissRegressor(
        architecture, decorrelate="none", patience=None, batch_size=batch_size, random_state=0
    )
    return X, Y, model


def hide(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(values.shape) < SHARE_MISSING, np.nan, values)


def fit_seconds(model: StableMissRegressor, X: np.ndarray, Y: np.ndarray, n_epochs: int) -> float:
    """Processor time of a fit of some epochs."""
    start = process_time()
    model.set_params(max_epochs=n_epochs).fit(X, Y)
    return process_time() - start


def epochs_table() -> str:
    """Time of an epoch of each network."""
    records = _records()
    rows = []
    for case in CASES:
        if case in records and case.data not in TABLES:
            one, base = _seconds(records[case]), records.get(Case(case.data, "none"))
            ratio = "–" if base is None else f"{one / _seconds(base):.1f}"
            rows.append([case.data, case.form, f"{1e3 * one:.1f} ms", ratio, _peak(records[case])])
    return markdown_table(["", "`generate`", "time per row", "ratio to none", "peak memory"], rows)


def weights_table() -> str:
    """Time to learn row weights."""
    records = _records()
    rows = [
        [f"{n:,}", f"{d:,}", f"{_seconds(records[case]):.0f} s", _peak(records[case])]
        for case in CASES
        if case in records and case.data in TABLES
        for n, d in [TABLES[case.data]]
    ]
    return markdown_table(["rows", "columns", "time in all", "peak memory"], rows)


def _records() -> dict[Case, Record]:
    return {Case(record.dataset, record.label): record for record in STORE.records()}


def _seconds(record: Record) -> float:
    return record.scores[0].extra["seconds"]


def _peak(record: Record) -> str:
    return f"{(record.peak_memory or 0) / 2**30:.1f} GiB"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--again", action="store_true", help="repeat cases that have a record")
    options = parser.parse_args()
    if not options.only_print:
        run_pending(STORE, CASES, to_key, lambda case: in_new_process(measure, case), options.again)
    for name, table in (("cost", epochs_table()), ("weights", weights_table())):
        print(table)
        write_docs("docs/images.md", name, table)


if __name__ == "__main__":
    main()
