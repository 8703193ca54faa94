"""Boosted trees on rows that need not fit into memory.

LightGBM needs all rows at once, but only their histogram bins, one byte per feature. The bins are determined
from a sample, and batches of rows are binned as they are read. So memory is about one byte per feature, and
forty bytes per row and target or class; beyond MAX_BINNED_BYTES, a uniform subset of the rows is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stablemiss.base.boosted_trees import TreeData, TreesMethod, train_booster
from stablemiss.base.row_stream import RowStream
from stablemiss.data import MaskedData
from stablemiss.progress import Progress

if TYPE_CHECKING:
    import lightgbm

# Maximum size of the binned rows, with 40 bytes per row and target or class for targets, initial predictions,
# scores and gradients.
MAX_BINNED_BYTES, BYTES_PER_SCORE = 1_600_000_000, 40
# Each tree is grown on at most this many rows, drawn anew for each tree: a tree with few leaves hardly
# improves with more, and all rows are used by some trees (stochastic gradient boosting, Friedman 2002).
MAX_ROWS_PER_TREE = 1_000_000
# Maximum number of trees times the learning rate. The last trees improve little, and with more rows early
# stopping would allow more and more of them, so that time would grow faster than the number of rows.
MAX_TREES_TIMES_RATE = 60.0


@dataclass(frozen=True, eq=False)
class TreeStream:
    """Rows for LightGBM, made of the rows of a stream batch by batch.

    Attributes
    ----------
    stream : RowStream
        Training rows.
    to_trees : callable
        From a batch of rows and its number to rows for trees, which include masked copies.
    n_rows : int
        Number of rows for trees in all batches.
    sample : TreeData
        Some of these rows, from which bins are determined.
    valid : TreeData
        Rows for early stopping.
    """

    stream: RowStream
    to_trees: Callable[[MaskedData, int], TreeData]
    n_rows: int
    sample: TreeData
    valid: TreeData

    def batches(self) -> Iterator[TreeData]:
        """The rows for trees, in the order of the stream."""
        return self.stream.map(self.to_trees)


def limit_trees(method: TreesMethod) -> int:
    """Maximum number of trees for rows from a stream."""
    return max(1, min(int(method.n_trees), round(MAX_TREES_TIMES_RATE / method.learning_rate)))


def boost_streamed(
    method: TreesMethod,
    params: dict[str, Any],
    rows: TreeStream,
    progress: Progress,
    min_delta: float = 0.0,
    description: str = "boosted trees",
) -> list[str]:
    """Fit boosted trees to all rows of a stream with early stopping; one model for each column of the target.

    Parameters
    ----------
    method, params, progress, min_delta, description
        As in `boost`.
    rows : TreeStream
    """
    import lightgbm

    # Otherwise columns that cannot be split with the few rows of the sample would be left out.
    params = params | {"feature_pre_filter": False}
    progress.start(f"{description}: binning", total=rows.n_rows)
    reference = lightgbm.Dataset(rows.sample.table, _column(rows.sample.target, 0), params=params).construct()
    binned = _BinnedRows(rows, progress, n_classes=int(params.get("num_class", 1)))
    train_set = lightgbm.Dataset(
        binned.sequence(), np.zeros(binned.n_rows, np.float32), reference=reference, params=params
    ).construct()
    progress.finish()
    if binned.n_rows > MAX_ROWS_PER_TREE:
        params |= {"bagging_fraction": MAX_ROWS_PER_TREE / binned.n_rows, "bagging_freq": 1}
    models = []
    for k in range(binned.target.shape[1]):
        train_set.set_label(_column(binned.target, k))
        init_score = None if binned.init_score is None else _column(binned.init_score, k)
        train_set.set_init_score(init_score)
        valid = rows.valid
        valid_set = train_set.create_valid(
            valid.table,
            _column(valid.target, k),
            weight=valid.weight,
            init_score=None if valid.init_score is None else _column(valid.init_score, k),
            params=params,
        )
        models.append(train_booster(method, params, train_set, valid_set, progress, min_delta, description))
    return models


class _BinnedRows:
    """Passes the rows of a stream to LightGBM, and collects their targets.

    Parameters
    ----------
    rows : TreeStream
    progress : Progress
    n_classes : int, default=1
        Number of scores that LightGBM stores for each row.
    """

    def __init__(self, rows: TreeStream, progress: Progress, n_classes: int = 1):
        self._batches, self._progress = rows.batches(), progress
        n_targets = 1 if rows.sample.target.ndim == 1 else rows.sample.target.shape[1]
        bytes_per_row = rows.sample.table.shape[1] + BYTES_PER_SCORE * max(n_targets, n_classes)
        self._n_all, self._n_seen = rows.n_rows, 0
        self.n_rows = min(rows.n_rows, MAX_BINNED_BYTES // bytes_per_row)
        self.target = np.zeros((self.n_rows, n_targets), dtype=np.float32)
        has_init = rows.sample.init_score is not None
        self.init_score = np.zeros((self.n_rows, n_targets)) if has_init else None
        self._waiting: list[Any] = []
        self._n_given = 0
        # The rows of a batch are a random sample of it if not all are used.
        self._rng = np.random.default_rng(0)

    def sequence(self) -> lightgbm.Sequence:
        """The rows as LightGBM's `Sequence`; they can be read once, in order."""
        import lightgbm

        binned = self

        class Rows(lightgbm.Sequence):
            batch_size = 65_536

            def __len__(self) -> int:
                return binned.n_rows

            def __getitem__(self, index: Any) -> Any:
                # With a reference, LightGBM asks for consecutive slices only.
                assert isinstance(index, slice)
                assert index.start == binned._n_given
                return binned._take(index.stop - index.start)

        return Rows()

    def _take(self, n: int) -> Any:
        """The next n rows."""
        while sum(map(len, self._waiting)) < n:
            self._waiting.append(self._next_table())
        table = np.concatenate(self._waiting)
        self._waiting = [table[n:]]
        self._n_given += n
        return np.ascontiguousarray(table[:n])

    def _next_table(self) -> Any:
        batch = next(self._batches)
        start = self._n_seen
        self._n_seen += len(batch.table)
        # Of each batch the same share, so that the total is exact.
        first, stop = (count * self.n_rows // self._n_all for count in (start, self._n_seen))
        kept: Any = slice(None)
        if stop - first < len(batch.table):
            kept = np.sort(self._rng.permutation(len(batch.table))[: stop - first])
        self.target[first:stop] = batch.target.reshape(len(batch.table), -1)[kept]
        if self.init_score is not None and batch.init_score is not None:
            self.init_score[first:stop] = batch.init_score[kept]
        self._progress.update(self._n_seen)
        return batch.table[kept]


def _column(target: Any, k: int) -> Any:
    """The k-th of several targets, contiguous as LightGBM expects it."""
    return target if target.ndim == 1 else np.ascontiguousarray(target[:, k])
