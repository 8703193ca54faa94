"""Time, memory and accuracy on rows that do not fit into memory, and on a Dask cluster.

Rows are drawn from Gaussian-Mix with 50 columns, of which 30% of the values are missing completely at random,
and written to a folder of Parquet files. Each run is a process of its own with a limit on its memory
(RLIMIT_DATA: what it may allocate, without the code of libraries), so that a run that needed more would fail.

- "streamed": AnyMask with budget "fast" fitted to the folder (limit 4 GiB), then predictions for the whole
  folder written to another folder (limit 1.5 GiB)
- "small sample": the same with a sample of an eighth of the rows, which streams folders that would otherwise
  be fitted in memory
- "in memory": AnyMask with budget "fast" fitted to the same rows as a table
- "LightGBM": the same rows as a matrix of float32, with early stopping and the learning rate of "fast"
- "1 worker", "2 workers": the seconds of EM on all rows, of the trees and of predicting on a local Dask
  cluster, with one thread per worker

The error is that on new rows with other shares of missing values, and its gap is relative to the
Bayes-optimal prediction. Records are stored as soon as they are complete; a stopped benchmark continues.

    python benchmarks/scale.py [--rows 10000 100000 …] [--dask-rows 1000000] [--labels …] [--only-print]
"""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from common import ROOT, make_parser, open_store, run_pending, write_docs

from stablemiss.datasets import make_gaussian_mix
from stablemiss.missingness import MCARIndependent
from stablemiss.progress import Progress
from stablemiss.report.markdown import markdown_table
from stablemiss.results import Record
from stablemiss.results.provenance import describe, peak_memory, provenance, reset_peak_memory
from stablemiss.results.record import Score

STORE = open_store("scale")
N_COLUMNS, N_TEST_ROWS, LEVEL, LEVELS = 50, 20_000, 0.3, (0.1, 0.5, 0.8)
ROWS_PER_FILE, ROWS_PER_GROUP = 1_000_000, 100_000
FIT_LIMIT, PREDICT_LIMIT = 4 * 2**30, 3 * 2**29
STREAMED, SMALL_SAMPLE, IN_MEMORY, LIGHTGBM = "streamed", "small sample", "in memory", "LightGBM"
WORKERS = {"1 worker": 1, "2 workers": 2}
# Rows up to which a table is fitted in memory, and up to which a small sample streams what would fit.
MAX_IN_MEMORY, MAX_SMALL_SAMPLE = 1_000_000, 200_000
# Names of the steps of a fit whose time is measured → what their descriptions contain.
STEPS = {"EM": "mixture, all rows", "trees": "boosted trees"}


class Job(NamedTuple):
    """One fit of one model to one number of rows."""

    n_rows: int
    label: str

    def record(self, **fields: Any) -> Record:
        return Record(
            experiment="scale",
            dataset=f"gaussian_mix {self.n_rows} x {N_COLUMNS}",
            mechanism="mcar_independent",
            level=LEVEL,
            instance=0,
            label=self.label,
            seed=0,
            n_rows=self.n_rows,
            n_features=N_COLUMNS,
            n_test_rows=N_TEST_ROWS,
            **fields,
        )


class StepTimes(Progress):
    """Measures the seconds of each step of a fit."""

    seconds: dict[str, float]

    def __init__(self) -> None:
        self.seconds, self._running = {}, ("", 0.0)

    def start(self, description: str, total: int | None = None) -> None:
        self.finish()
        self._running = (description.split(": ", 1)[-1], perf_counter())

    def update(self, done: int, note: str = "") -> None:
        pass

    def finish(self) -> None:
        name, start = self._running
        if name:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start
        self._running = ("", 0.0)


def write_rows(n_rows: int, folder: str) -> None:
    """Write the rows to Parquet files; they are drawn in chunks, the same for each number of rows."""
    import pyarrow
    from pyarrow import parquet

    population = make_gaussian_mix(n_features=N_COLUMNS, random_state=0)
    mechanism = MCARIndependent(LEVEL, spread=0)
    writer, n_written = None, 0
    while n_written < n_rows:
        rng = np.random.default_rng([1, n_written])
        X, y = population.draw(ROWS_PER_GROUP, rng)
        X = mechanism.hide(X, rng)
        n = min(ROWS_PER_GROUP, n_rows - n_written)
        columns = {name: pyarrow.array(X[:n, j], from_pandas=True) for j, name in enumerate(names())}
        table = pyarrow.table(columns | {"y": y[:n]})
        if n_written % ROWS_PER_FILE == 0:
            if writer is not None:
                writer.close()
            path = f"{folder}/rows-{n_written // ROWS_PER_FILE:04d}.parquet"
            writer = parquet.ParquetWriter(path, table.schema, compression="lz4")
        writer.write_table(table, row_group_size=max(1000, min(ROWS_PER_GROUP, n_rows // 10)))
        n_written += n
    writer.close()


def names() -> list[str]:
    return [f"x{j}" for j in range(N_COLUMNS)]


def limited(limit: int | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new process that may allocate `limit` bytes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(_call, limit, function, arguments).result()
        except BrokenProcessPool as error:
            raise MemoryError(f"{function.__name__} was killed at its limit of {limit} bytes") from error


def _call(limit: int | None, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    reset_peak_memory()
    return function(*arguments)


def fit(job: Job, folder: str, model_path: str) -> dict[str, Any]:
    """Fit a model, save it, and return its times and memory."""
    from stablemiss import AnyMaskRegressor
    from stablemiss.estimators import source_fit

    steps: list[StepTimes] = []

    def new_progress() -> StepTimes:
        steps.append(StepTimes())
        return steps[-1]

    source_fit.NullProgress = new_progress
    if job.label == SMALL_SAMPLE:
        source_fit.MAX_SAMPLE_ROWS = job.n_rows // 8
    is_lightgbm = job.label == LIGHTGBM
    model: Any = LightGBMModel() if is_lightgbm else AnyMaskRegressor(budget="fast", random_state=0)
    start, start_cpu = perf_counter(), process_time()
    if is_lightgbm:
        model.fit(folder)
    elif job.label == IN_MEMORY:
        from pyarrow import parquet

        table = parquet.read_table(folder)
        model.fit(table.drop(["y"]), table["y"])
    else:
        model.fit(folder, "y")
    facts = {
        "fit_seconds": perf_counter() - start,
        "cpu_seconds": process_time() - start_cpu,
        "peak_memory": peak_memory(),
        "steps": steps[-1].seconds if steps else {},
        "config": {} if is_lightgbm else describe(model),
    }
    model.save(model_path)
    return facts


class LightGBMModel:
    """Plain LightGBM with the learning rate and the maximum number of trees of the trees of "fast"."""

    def __init__(self, booster: Any = None):
        self.booster = booster

    def fit(self, folder: str) -> None:
        import lightgbm
        from pyarrow import dataset

        source = dataset.dataset(folder)
        X = np.empty((source.count_rows(), N_COLUMNS), dtype=np.float32)
        y, n = np.empty(len(X), dtype=np.float32), 0
        for batch in source.to_batches(batch_readahead=1, fragment_readahead=1):
            rows = slice(n, n + len(batch))
            X[rows], y[rows] = to_matrix(batch), batch["y"]
            n += len(batch)
        is_valid = np.zeros(len(X), dtype=bool)
        n_valid = min(20_000, round(0.15 * len(X)))
        is_valid[np.random.default_rng(0).choice(len(X), n_valid, replace=False)] = True
        params = {"learning_rate": 0.15, "verbosity": -1, "seed": 0}
        train = lightgbm.Dataset(X[~is_valid], y[~is_valid], params=params)
        valid = train.create_valid(X[is_valid], y[is_valid])
        stopping = lightgbm.early_stopping(20, verbose=False)
        self.booster = lightgbm.train(params, train, 400, valid_sets=[valid], callbacks=[stopping])

    def predict(self, table: Any) -> Any:
        return self.booster.predict(to_matrix(table))

    def write_predictions(self, folder: str, output: str) -> None:
        import pyarrow
        from pyarrow import dataset, parquet

        Path(output).mkdir()
        for number, batch in enumerate(dataset.dataset(folder).to_batches(batch_readahead=1)):
            if len(batch):
                table = pyarrow.table({"prediction": self.predict(batch)})
                parquet.write_table(table, f"{output}/{number}.parquet")

    def save(self, path: str) -> None:
        self.booster.save_model(path)


def to_matrix(table: Any) -> Any:
    """Columns as a matrix of float32, NaN where missing."""
    columns = [table.column(name).to_numpy(zero_copy_only=False) for name in names()]
    return np.stack(columns, axis=1).astype(np.float32)


def load(path: str, label: str) -> Any:
    """A model that `fit` has saved."""
    if label == LIGHTGBM:
        import lightgbm

        return LightGBMModel(lightgbm.Booster(model_file=path))
    from stablemiss import load_model

    return load_model(path)


def predict(label: str, model_path: str, folder: str, output: str) -> tuple[float, int]:
    """Write predictions for the whole folder; return seconds and peak memory."""
    model = load(model_path, label)
    start = perf_counter()
    model.write_predictions(folder, output)
    return perf_counter() - start, peak_memory()


def score(label: str, model_path: str) -> list[Score]:
    """Errors on new rows under other shares of missing values, and their gaps to the optimum."""
    import pyarrow

    model = load(model_path, label)
    population = make_gaussian_mix(n_features=N_COLUMNS, random_state=0)
    rng = np.random.default_rng(2)
    X, y = population.draw(N_TEST_ROWS, rng)
    scores = []
    for level in LEVELS:
        masked = MCARIndependent(level, spread=0).hide(X, rng)
        columns = {name: pyarrow.array(masked[:, j], from_pandas=True) for j, name in enumerate(names())}
        optimal = population.bayes(masked)
        error, optimum = (
            float(np.sqrt(np.mean((one - y) ** 2)))
            for one in (model.predict(pyarrow.table(columns)), optimal)
        )
        extra = {"optimum": optimum, "gap": error / optimum - 1}
        scores.append(Score("mcar_independent", level, error, extra=extra))
    return scores


def run(job: Job) -> Record:
    """Generate the rows, and measure one fit and the predictions."""
    with tempfile.TemporaryDirectory() as folder:
        rows, model, output = (str(Path(folder) / name) for name in ("rows", "model", "predictions"))
        Path(rows).mkdir()
        limited(None, write_rows, job.n_rows, rows)
        if job.label in WORKERS:
            return job.record(
                metric="seconds", **limited(None, measure_cluster, job, rows, output), **provenance()
            )
        is_limited = job.label in (STREAMED, SMALL_SAMPLE)
        facts = limited(FIT_LIMIT if is_limited else None, fit, job, rows, model)
        seconds, memory = limited(
            PREDICT_LIMIT if is_limited else None, predict, job.label, model, rows, output
        )
        return job.record(
            scores=tuple(limited(None, score, job.label, model)),
            fit_seconds=facts["fit_seconds"],
            predict_seconds=seconds,
            peak_memory=facts["peak_memory"],
            config=facts["config"],
            extra={
                "cpu_seconds": facts["cpu_seconds"],
                "steps": facts["steps"],
                "predict_memory": memory,
                "fit_limit": FIT_LIMIT if is_limited else None,
                "predict_limit": PREDICT_LIMIT if is_limited else None,
            },
            **provenance(),
        )


def measure_cluster(job: Job, folder: str, output: str) -> dict[str, Any]:
    """Times of the steps on a local Dask cluster."""
    from distributed import Client, LocalCluster

    from stablemiss import AnyMaskRegressor
    from stablemiss.estimators import source_fit

    steps = StepTimes()
    source_fit.NullProgress = lambda: steps
    source_fit.MAX_SAMPLE_ROWS = min(source_fit.MAX_SAMPLE_ROWS, job.n_rows // 8)
    n_workers = WORKERS[job.label]
    model = AnyMaskRegressor(budget="fast", members=["mixture", "boosting"], random_state=0)
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        # Workers import the package before anything is measured.
        client.run(_import)
        start = perf_counter()
        source_fit.fit_source(model, folder, "y", client=client)
        fit_seconds = perf_counter() - start
        start = perf_counter()
        model.write_predictions(folder, output, client=client)
        predict_seconds = perf_counter() - start
    shutil.rmtree(output)
    times = {
        step: sum(seconds for name, seconds in steps.seconds.items() if part in name)
        for step, part in STEPS.items()
    }
    times["predict"] = predict_seconds
    rng = np.random.default_rng(2)
    X, _ = make_gaussian_mix(n_features=N_COLUMNS, random_state=0).draw(1000, rng)
    import pyarrow

    prediction = model.predict(pyarrow.table({name: X[:, j] for j, name in enumerate(names())}))
    return {
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "extra": {"steps": times, "all_steps": steps.seconds, "prediction": prediction[:100].tolist()},
    }


def _import() -> None:
    import stablemiss.estimators.source_fit  # noqa: F401


def jobs(rows: list[int], dask_rows: list[int], labels: list[str]) -> list[Job]:
    """All runs that make sense."""
    found = [
        Job(n, label)
        for n in rows
        for label in (STREAMED, SMALL_SAMPLE, IN_MEMORY, LIGHTGBM)
        if (label != IN_MEMORY or n <= MAX_IN_MEMORY) and (label != SMALL_SAMPLE or n <= MAX_SMALL_SAMPLE)
    ]
    found += [Job(n, label) for n in dask_rows for label in WORKERS]
    return [job for job in found if job.label in labels]


def by_rows(records: list[Record]) -> str:
    """Time, memory and gap to the optimum for each number of rows."""
    table = []
    for record in sorted(records, key=lambda one: (one.n_rows or 0, one.label)):
        if record.label in WORKERS:
            continue
        extra = record.extra
        gaps = ", ".join(f"{100 * score.extra['gap']:.2f}%" for score in record.scores)
        table.append(
            [
                f"{record.n_rows:,}",
                record.label,
                f"{record.fit_seconds:,.0f} s",
                f"{extra['cpu_seconds']:,.0f} s",
                _memory(record.peak_memory, extra["fit_limit"]),
                f"{record.predict_seconds:,.1f} s",
                _memory(extra["predict_memory"], extra["predict_limit"]),
                gaps,
            ]
        )
    header = ["rows", "model", "fit", "CPU time of fit", "memory (limit)", "predict all rows"]
    levels = ", ".join(f"{level:.0%}" for level in LEVELS)
    return markdown_table([*header, "memory (limit)", f"gap at {levels} missing"], table)


def growth(records: list[Record]) -> str:
    """Exponents of the growth of time with the number of rows: the slope in a log–log plot."""
    lines = []
    for label in (STREAMED, IN_MEMORY, LIGHTGBM):
        own = sorted((one for one in records if one.label == label), key=lambda one: one.n_rows or 0)
        if len(own) < 2:
            continue
        n = np.log([one.n_rows for one in own])
        times = {
            "fit": [one.fit_seconds for one in own],
            "CPU time of fit": [one.extra["cpu_seconds"] for one in own],
            "predict": [one.predict_seconds for one in own],
        }
        cells = []
        for seconds in times.values():
            log = np.log(np.maximum(np.array(seconds, dtype=float), 1e-9))
            cells.append(f"{np.polyfit(n, log, 1)[0]:.2f} ({(log[-1] - log[-2]) / (n[-1] - n[-2]):.2f})")
        lines.append([label, f"{own[0].n_rows:,} to {own[-1].n_rows:,}", *cells])
    header = ["model", "rows", "fit", "CPU time of fit", "predict"]
    return markdown_table(["exponent (last two sizes)", *header[1:]], lines)


def workers(records: list[Record]) -> str:
    """Two workers against one."""
    lines = []
    for n in sorted({one.n_rows for one in records if one.label in WORKERS}):
        one, two = (
            next((r for r in records if r.label == label and r.n_rows == n), None) for label in WORKERS
        )
        if one is None or two is None:
            continue
        difference = np.subtract(one.extra["prediction"], two.extra["prediction"])
        spread = np.std(one.extra["prediction"])
        cells = [
            f"{one.extra['steps'][step]:.1f} s → {two.extra['steps'][step]:.1f} s "
            f"({one.extra['steps'][step] / max(two.extra['steps'][step], 1e-9):.2f}×)"
            for step in (*STEPS, "predict")
        ]
        lines.append([f"{n:,}", *cells, f"{np.sqrt(np.mean(difference**2)) / spread:.1e}"])
    header = ["rows", *STEPS, "predict", "RMS difference of predictions, in standard deviations"]
    return markdown_table(header, lines)


def draw(records: list[Record], path: Path) -> None:
    """Log–log plot of time and memory by the number of rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    getters: dict[str, Callable[[Record], float | None]] = {
        "fit, seconds": lambda one: one.fit_seconds,
        "predict, seconds": lambda one: one.predict_seconds,
        "peak memory of fit, GiB": lambda one: (one.peak_memory or 0) / 2**30,
    }
    for axis, (title, value) in zip(axes, getters.items(), strict=True):
        for label in (STREAMED, IN_MEMORY, LIGHTGBM):
            own = sorted((one for one in records if one.label == label), key=lambda one: one.n_rows or 0)
            axis.plot([one.n_rows for one in own], [value(one) for one in own], marker="o", label=label)
        axis.set(xscale="log", yscale="log", title=title, xlabel="rows")
    axes[0].legend()
    figure.savefig(path, metadata={"Date": None})


def _memory(used: int | None, limit: int | None) -> str:
    allowed = "" if limit is None else f" ({limit / 2**30:.1f})"
    return f"{(used or 0) / 2**30:.2f}{allowed} GiB"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--dask-rows", type=int, nargs="*", default=[1_000_000])
    every = [STREAMED, SMALL_SAMPLE, IN_MEMORY, LIGHTGBM, *WORKERS]
    parser.add_argument("--labels", nargs="+", choices=every, default=every)
    options = parser.parse_args()
    if not options.only_print:
        pending = jobs(options.rows, options.dask_rows, options.labels)
        run_pending(STORE, pending, lambda job: job.record().key, run)
    records = STORE.records()
    plot = "![Time and memory by the number of rows](large_data.svg)"
    text = f"{by_rows(records)}\n\n{plot}\n\n{growth(records)}\n\n{workers(records)}"
    print(f"\n{text}")
    draw(records, ROOT / "docs" / "large_data.svg")
    write_docs("docs/large_data.md", "scale", text)


if __name__ == "__main__":
    main()
