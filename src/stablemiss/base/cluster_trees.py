"""Boosted trees on the rows of a Dask cluster, by `lightgbm.dask`.

Each worker would choose histogram bins from its own rows, so that the trees would depend on the number of
workers. Therefore columns are replaced by the numbers of bins that were determined from a sample, and the
thresholds in the fitted trees by the edges of these bins. With equal bins, the histograms of all workers
together are those of a single one, up to the order of summation.

`lightgbm.dask` has no early stopping, because workers see different validation rows. All trees are grown, and
those after the lowest validation loss are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from time import monotonic, sleep
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logsumexp

from stablemiss.base.boosted_trees import TreeData, TreesMethod
from stablemiss.base.lightgbm_text import model_text
from stablemiss.base.streamed_trees import TreeStream
from stablemiss.data import Floats, MaskedData
from stablemiss.progress import Progress

# Maximum number of bins of a column, besides that of missing values; LightGBM stores 255 in one byte.
MAX_BINS = 250
# Above all bins: LightGBM's threshold for "is not missing".
INFINITE = 1.7976931348623157e308
# Minutes that LightGBM waits for a worker that does not answer. One that is killed in training is noticed at
# once, one that is killed while the workers connect only after this time.
TIME_OUT = 2
# Seconds in which the scheduler notices that a worker is lost.
NOTICED_WITHIN = 10.0
# Seconds by which the pause before a further attempt grows.
PAUSE = 2.0
# Attempts to grow the trees, each with the workers that are left.
MAX_ATTEMPTS = 5
# Names in scikit-learn's interface of LightGBM.
NAMES = {
    "min_data_in_leaf": "min_child_samples",
    "seed": "random_state",
    "bin_construct_sample_cnt": "subsample_for_bin",
}


def boost_on_cluster(
    method: TreesMethod,
    params: dict[str, Any],
    rows: TreeStream,
    progress: Progress,
    min_delta: float = 0.0,
    description: str = "boosted trees",
) -> list[str]:
    """Like `boost_streamed`, on the workers of the cluster that hold the rows.

    Parameters
    ----------
    method, params, rows, progress, min_delta, description
        As in `boost_streamed`. The stream must have a client.
    """
    edges = bin_edges(rows.sample.table)
    n_targets = 1 if rows.sample.target.ndim == 1 else rows.sample.target.shape[1]
    progress.start(f"{description} on the cluster", total=n_targets)
    # The futures keep the rows on the workers. If one is lost, Dask computes its rows again.
    parts = rows.stream.submit(partial(_coded, rows.to_trees, edges))
    models = []
    for k in range(n_targets):
        booster = _train(method, params, rows.stream.client, parts, len(edges), k)
        text = with_edges(model_text(booster), edges)
        n_trees = _best_number(booster, rows.valid, edges, k, str(params["objective"]), min_delta)
        models.append(_truncated(text, n_trees * max(1, int(params.get("num_class", 1)))))
        progress.update(k + 1)
    progress.finish()
    return models


def bin_edges(table: Floats) -> list[Floats]:
    """Upper edges of the bins of each column, at its quantiles, except for the last bin.

    Parameters
    ----------
    table : (n, p)
        NaN where missing.

    Examples
    --------
    >>> [edges.tolist() for edges in bin_edges(np.array([[1.0, 5.0], [2.0, np.nan], [4.0, 5.0]]))]
    [[1.5, 3.0], []]
    """
    edges = []
    for column in table.T:
        values = np.unique(column[~np.isnan(column)])
        if len(values) > MAX_BINS:
            levels = np.linspace(0, 1, MAX_BINS + 1)[1:-1]
            edges.append(np.unique(np.quantile(column[~np.isnan(column)], levels)))
        else:
            edges.append((values[1:] + values[:-1]) / 2)
    return edges


def to_bins(table: Floats, edges: Sequence[Floats]) -> NDArray[Any]:
    """The number of the bin of each value, (n, p) float32; NaN where missing. Bin k ends with edge k.

    Examples
    --------
    >>> to_bins(np.array([[1.0], [1.5], [1.6], [np.nan]]), [np.array([1.5, 3.0])]).ravel().tolist()
    [0.0, 0.0, 1.0, nan]
    """
    bins = np.empty(table.shape, dtype=np.float32)
    for j, column in enumerate(table.T):
        bins[:, j] = np.searchsorted(edges[j], column, side="left")
    bins[np.isnan(table)] = np.nan
    return bins


def with_edges(text: str, edges: Sequence[Floats]) -> str:
    """The text of a model of bins as that of a model of values.

    Parameters
    ----------
    text : str
        From `model_text`, fitted to the result of `to_bins`.
    edges : sequence of arrays
        From `bin_edges`.
    """

    def with_values(match: re.Match[str]) -> str:
        features = [int(feature) for feature in match["features"].split()]
        bins = [float(threshold) for threshold in match["thresholds"].split()]
        values = [
            repr(float(edges[feature][int(number)])) if number < len(edges[feature]) else repr(INFINITE)
            for feature, number in zip(features, bins, strict=True)
        ]
        return f"split_feature={match['features']}\nthreshold={' '.join(values)}\n"

    pattern = r"split_feature=(?P<features>[0-9 ]*)\nthreshold=(?P<thresholds>[^\n]*)\n"
    return re.sub(pattern, with_values, text)


def _coded(to_trees: Any, edges: Sequence[Floats], data: MaskedData, number: int) -> TreeData:
    """The rows of a batch for trees, with numbers of bins instead of values."""
    rows = to_trees(data, number)
    coded = replace(rows, table=to_bins(rows.table, edges))
    return _with_all_bins(coded, [len(column) + 1 for column in edges])


def _with_all_bins(rows: TreeData, n_bins: Sequence[int]) -> TreeData:
    """The rows, followed by rows of weight zero in which every bin occurs.

    LightGBM merges bins that do not occur among the rows of a worker.
    """
    every = np.arange(max(n_bins) + 1, dtype=np.float32)[:, None]
    table = np.where(every < np.array(n_bins), every, np.nan).astype(np.float32)
    n = len(table)
    init_score = rows.init_score
    return TreeData(
        np.concatenate([rows.table, table]),
        np.concatenate([rows.target, np.zeros((n, *rows.target.shape[1:]), rows.target.dtype)]),
        np.concatenate([rows.weight, np.zeros(n)]),
        None if init_score is None else np.concatenate([init_score, np.zeros((n, init_score.shape[1]))]),
    )


def _field(batches: list[TreeData], name: str, k: int) -> Any:
    """The table, or the k-th target or initial prediction, of a part."""
    array = np.concatenate([getattr(batch, name) for batch in batches])
    return array if name == "table" or array.ndim == 1 else np.ascontiguousarray(array[:, k])


def _has_rows(batches: list[TreeData]) -> tuple[bool, bool]:
    """Whether a part has rows, and whether they have initial predictions."""
    return bool(batches), bool(batches) and batches[0].init_score is not None


def _train(
    method: TreesMethod, params: dict[str, Any], client: Any, parts: list[Any], n_features: int, k: int
) -> Any:
    """Grow the trees; again if a worker is lost, which LightGBM does not survive."""
    from stablemiss.sources import lost_worker_message, wait_for_worker

    has_lost_one = False
    last_error: Exception | None = None
    for attempt in range(MAX_ATTEMPTS):
        workers = _workers(client)
        try:
            return _train_once(method, params, client, parts, n_features, k)
        except ChildProcessError:
            # All workers were lost while they computed the parts.
            raise
        except Exception as error:
            # What is raised depends on the moment at which a worker is lost. The next attempt may fail too,
            # while the workers that are left have not ended theirs.
            has_lost_one = has_lost_one or _has_lost_one(client, workers)
            if not has_lost_one:
                raise
            last_error = error
            sleep(attempt * PAUSE)
            wait_for_worker(client)
    what = f"LightGBM did not recover from the loss of Dask workers in {MAX_ATTEMPTS} attempts"
    raise ChildProcessError(lost_worker_message(what)) from last_error


def _train_once(
    method: TreesMethod, params: dict[str, Any], client: Any, parts: list[Any], n_features: int, k: int
) -> Any:
    import dask
    from dask import array as dask_array
    from lightgbm import DaskLGBMRegressor

    from stablemiss.sources import result_of

    # Computes the parts. While LightGBM trains, it notices a lost worker itself.
    futures = [client.submit(_has_rows, part, pure=False) for part in parts]
    facts = [result_of(future, client) for future in futures]
    used = [part for part, (has_rows, _) in zip(parts, facts, strict=True) if has_rows]
    field = dask.delayed(_field, pure=False)

    def chunks(name: str, dtype: Any, width: int | None = None) -> Any:
        shape = (np.nan,) if width is None else (np.nan, width)
        blocks = [dask_array.from_delayed(field(part, name, k), shape, dtype) for part in used]
        return dask_array.concatenate(blocks, allow_unknown_chunksizes=True)

    has_init = any(is_given for _, is_given in facts)
    settings = {NAMES.get(name, name): value for name, value in params.items() if name != "num_threads"}
    # From zero, the mean of encoded targets: LightGBM would average the means of the workers, whatever their
    # numbers of rows.
    settings["boost_from_average"] = False
    # Every bin is one of LightGBM's.
    settings |= {"max_bin": MAX_BINS + 1, "min_data_in_bin": 1, "feature_pre_filter": False}
    # Its regressor fits any objective, whereas its classifier fails if a worker lacks a class.
    model = DaskLGBMRegressor(
        client=client, n_estimators=int(method.n_trees), time_out=TIME_OUT, tree_learner="data", **settings
    )
    arrays = {"sample_weight": chunks("weight", np.float64)}
    if has_init:
        arrays["init_score"] = chunks("init_score", np.float64)
    # It says that it looks for ports, and that each worker determines its number of threads.
    with redirect_stdout(StringIO()), catch_warnings():
        simplefilter("ignore", UserWarning)
        model.fit(chunks("table", np.float32, n_features), chunks("target", np.float64), **arrays)
    return model.booster_


def _best_number(
    booster: Any, valid: TreeData, edges: Sequence[Floats], k: int, objective: str, min_delta: float
) -> int:
    """The number of iterations with the lowest validation loss; fewer if the rest gains below `min_delta`."""
    table = to_bins(valid.table, edges)
    target = valid.target if valid.target.ndim == 1 else valid.target[:, k]
    scores = 0.0 if valid.init_score is None else valid.init_score[:, k]
    losses = []
    for iteration in range(booster.current_iteration()):
        added = booster.predict(table, start_iteration=iteration, num_iteration=1, raw_score=True)
        scores = scores + np.asarray(added)
        losses.append(float(np.average(_losses(scores, target, objective), weights=valid.weight)))
    best = losses[0]
    number = 1
    for iteration, loss in enumerate(losses):
        if loss < best - min_delta:
            best, number = loss, iteration + 1
    return number


def _losses(scores: Floats, target: NDArray, objective: str) -> Floats:
    """Loss of each row, given raw scores."""
    if objective == "binary":
        return -log_expit(np.where(target > 0, scores, -scores))
    if objective == "multiclass":
        return logsumexp(scores, axis=1) - scores[np.arange(len(scores)), target.astype(int)]
    return (scores - target) ** 2


def _truncated(text: str, n_trees: int) -> str:
    """The text of a model with its first trees only."""
    start, end = text.find(f"Tree={n_trees}\n"), text.find("end of trees")
    return text if start < 0 else text[:start] + text[end:]


def _workers(client: Any) -> set[str]:
    return set(client.scheduler_info(n_workers=-1)["workers"])


def _has_lost_one(client: Any, workers: set[str]) -> bool:
    """Whether one of these workers is lost; another worker may notice it before the scheduler does."""
    end = monotonic() + NOTICED_WITHIN
    while workers <= _workers(client):
        if monotonic() > end:
            return False
        sleep(0.2)
    return True
