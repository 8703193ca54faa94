"""Fitting an estimator to rows that need not fit into memory.

Rows that fit into a sample of bounded size are read, and fitted in memory. Otherwise there are two passes
over the rows before the fit. The first draws the sample and the validation rows, and describes the target; an
encoder is fitted to the sample. The second computes the statistics of its columns from all training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from stablemiss.anymask import AnyMask
from stablemiss.data import Bools, MaskedData
from stablemiss.encoding import TableEncoder, read_table
from stablemiss.encoding.streamed import EncodingStatistics, StreamedEncoder
from stablemiss.estimators.rows import check_size, read_labels, warn_if_constant
from stablemiss.estimators.source_rows import (
    EncodedStream,
    Reader,
    ScanTotals,
    Target,
    contains,
    encode_target,
    is_numeric,
    missing_target,
    read_target,
)
from stablemiss.estimators.validation import validation_scores, warn_if_few
from stablemiss.progress import NullProgress, Progress, ProgressBar
from stablemiss.seeding import Rng, to_rng
from stablemiss.sources import Source, is_dask, open_source
from stablemiss.tasks import Classification, Regression, Task
from stablemiss.text import count, quoted, rows_at

if TYPE_CHECKING:
    import pyarrow

# Maximum number of rows and of cells of the sample, and of validation rows. Tables that are not larger are
# fitted in memory. Quantiles of 200,000 rows are off by at most 0.4 percentage points of their rank, with a
# probability of 99% (Dvoretzky, Kiefer & Wolfowitz), which is finer than histogram bins.
MAX_SAMPLE_ROWS, MAX_SAMPLE_CELLS, MAX_VALIDATION_ROWS = 200_000, 10_000_000, 20_000

Result = TypeVar("Result")


class RowCounts(NamedTuple):
    """Numbers of rows of a fit.

    Attributes
    ----------
    used : int
        Rows with a target.
    without_target : int
        Rows without a target, which were left out.
    """

    used: int
    without_target: int


def fit_source(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
    time: Any = None,
    *,
    client: Any = None,
    drop_missing_target: bool = False,
    ignore: Sequence[str] = (),
) -> RowCounts:
    """Fit an estimator to rows that need not fit into memory.

    Parameters
    ----------
    estimator : estimator
    X, y
        As in `MissingEstimator.fit`.
    sample_weight, groups, time : None
        Not available for such rows.
    client : distributed.Client, default=None
        As in `open_source`.
    drop_missing_target : bool, default=False
        Whether rows without a target are left out; otherwise they raise ValueError.
    ignore : sequence of str, default=()
        Columns that are not used.

    Returns
    -------
    RowCounts
    """
    estimator._check_parameters()
    if is_dask(y) and not is_dask(X):
        raise ValueError(
            "y is a Dask series, but X is not a Dask data frame; pass the name of the column to predict."
        )
    for name, given in {"sample_weight": sample_weight, "groups": groups, "time": time}.items():
        if given is not None:
            raise ValueError(
                f"{name} is not available for rows that are read in batches; read them into a table, or omit "
                f"{name}."
            )
    if hasattr(estimator.validation_split, "split"):
        raise ValueError(
            "validation_split must be a fraction or None for rows that are read in batches; pass a fraction."
        )
    with open_source(X, y if is_dask(y) else None, client) as source:
        target = source.schema.names[-1] if is_dask(y) else _check_target(y, source, estimator)
        source.select([name for name in source.schema.names if name not in ignore])
        names = [target] if isinstance(target, str) else target
        features = [name for name in source.columns if name not in names]
        if not features:
            raise ValueError(f"There are no columns left to predict {quoted(names)} from.")
        limit = min(MAX_SAMPLE_ROWS, MAX_SAMPLE_CELLS // len(source.columns))
        if source.n_rows <= limit:
            n_missing = _fit_in_memory(estimator, source, target, features, drop_missing_target)
            return RowCounts(source.n_rows - n_missing, n_missing)
        method = estimator._make_method(features)
        if not isinstance(method, AnyMask):
            raise ValueError(
                f"The method {method.name!r} needs all rows in memory, at most {limit:,} here; got "
                f"{source.n_rows:,}. Use anymask, or fit a sample of the rows."
            )
        n_missing = _StreamedFit(estimator, method, source, target, features, drop_missing_target).fit()
        return RowCounts(source.n_rows - n_missing, n_missing)


def _check_target(y: Any, source: Source, estimator: Any) -> Target:
    """The name of the target, or the names of several; raises ValueError if they are no columns."""
    names = [y] if isinstance(y, str) else y
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names) and names
    if not is_list:
        raise ValueError(
            "y must be the name of the column to predict if X is read in batches, or a Dask series if X is a "
            f"Dask data frame; got a {type(y).__name__}."
        )
    unknown = [name for name in names if name not in source.schema.names]
    if unknown:
        raise ValueError(
            f"There is no column {unknown[0]!r} to predict; the columns are {quoted(source.schema.names)}."
        )
    # As in scikit-learn, a single column is one target per row.
    if len(names) == 1:
        return names[0]
    if isinstance(estimator, ClassifierMixin):
        raise ValueError(f"A classifier predicts one column; got {quoted(list(names))}.")
    return list(names)


def _fit_in_memory(
    estimator: Any, source: Source, target: Target, features: list[str], drop_missing_target: bool
) -> int:
    """Fit to a source that is small enough to be read as a whole; returns the number of rows dropped."""
    import pyarrow

    table = pyarrow.concat_tables(source.map(_same_table), promote_options="permissive")
    position = np.arange(table.num_rows)
    if drop_missing_target:
        position = np.flatnonzero(~missing_target(table, target))
        if not len(position):
            raise ValueError(_without_target(target, 0, table.num_rows))
        table = table.take(position)
    y = read_target(table, target, is_classifier=isinstance(estimator, ClassifierMixin), first_row=0)
    with rows_at(position):
        estimator.fit(table.select(features), y)
    estimator.target_name_ = target if isinstance(target, str) else target[0]
    return source.n_rows - len(position)


def _without_target(target: Target, n_with: int, n_rows: int) -> str:
    names = quoted([target] if isinstance(target, str) else target)
    return (
        f"Only {n_with:,} of {count(n_rows, 'row')} have a target, {names}, too few to fit a model to. Check "
        "which column holds the target, or write the rows that have one to a folder of their own."
    )


def _same_table(first_row: int, table: pyarrow.Table) -> pyarrow.Table:
    return table


class _StreamedFit:
    """One fit to a source that is not read as a whole; see the top of this module."""

    def __init__(
        self,
        estimator: Any,
        method: AnyMask,
        source: Source,
        target: Target,
        features: list[str],
        drop_missing_target: bool,
    ):
        self.estimator, self.method, self.source = estimator, method, source
        self.rng: Rng = to_rng(estimator.random_state)
        is_classifier = isinstance(estimator, ClassifierMixin)
        sampled, held_out = self._draw_rows()
        self.reader = Reader(target, features, sampled, held_out, is_classifier, drop_missing_target)
        self.progress: Progress = ProgressBar() if estimator.verbose else NullProgress()

    def fit(self) -> int:
        """Fit, set the attributes of the estimator, and return the number of rows without a target."""
        estimator = self.estimator
        try:
            table, position, task, n_missing = self._scan()
            reader = self.reader
            is_valid = contains(reader.held_out, position)
            encoder, n_train = self._fit_encoder(table, position, is_valid, task)
            sample, valid = self._encode_sample(encoder, table, position, is_valid, task)
            warn_if_few(len(valid), n_train + len(valid))
            stream = EncodedStream(self.source, reader, encoder, task, n_train)
            predictor = self.method.fit(sample, valid, task, self.rng, self.progress, stream)
        finally:
            self.progress.finish()
        estimator._set_fitted(self.method, encoder.encoder, task, predictor)
        n_sample = len(sample)
        positions = np.arange(n_sample + len(valid))
        # `adapt` uses the sample.
        estimator._remember_rows(len(positions), positions[:n_sample], positions[n_sample:], (sample, valid))
        target = reader.target
        estimator.target_name_ = target if isinstance(target, str) else target[0]
        estimator.read_options_ = None
        estimator.validation_scores_ = validation_scores(predictor, sample, valid, task)
        return n_missing

    def _draw_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sorted positions of the sample and of the validation rows, a uniform draw without replacement.

        The numbers of rows are known from the files, so that positions can be drawn beforehand instead of
        with a reservoir, which gives the same distribution.
        """
        n, estimator = self.source.n_rows, self.estimator
        split = estimator.validation_split
        fraction = estimator.validation_fraction if split is None else split
        n_valid = max(1, min(MAX_VALIDATION_ROWS, round(fraction * n)))
        n_sample = min(MAX_SAMPLE_ROWS, MAX_SAMPLE_CELLS // len(self.source.columns), n - n_valid)
        chosen = self.rng.choice(n, n_valid + n_sample, replace=False)
        return np.sort(chosen[n_valid:]), np.sort(chosen[:n_valid])

    def _scan(self) -> tuple[pyarrow.Table, NDArray[np.int64], Task, int]:
        """The first pass: the rows of the sample and their positions, the task, the rows without a target."""
        totals = ScanTotals(self.reader)
        for scan in self._pass("reading a sample", self.reader.scan):
            totals.add(scan)
        table, position = totals.rows()
        if contains(self.reader.sampled, position).sum() < 2:
            n_rows = self.source.n_rows
            message = _without_target(self.reader.target, n_rows - totals.n_missing, n_rows)
            raise ValueError(message)
        return table, position, self._make_task(totals, table, position), totals.n_missing

    def _make_task(self, totals: ScanTotals, table: pyarrow.Table, position: NDArray[np.int64]) -> Task:
        """The task, from the targets of all training rows."""
        reader, labels = self.reader, totals.labels
        if not reader.is_classifier:
            moments = totals.moments
            assert moments is not None
            extremes = np.stack([moments.minimum, moments.maximum])
            check_size(extremes, None)
            warn_if_constant(extremes, None, int(moments.count.max()))
            scale = moments.scale()
            is_single = isinstance(reader.target, str)
            return Regression(moments.mean, np.where(np.isinf(scale), 1.0, scale), is_single)
        # Validation rows of a class that no training row has become training rows.
        label = read_target(table, reader.target, is_classifier=True, first_row=0)
        is_new = np.array([one not in labels for one in label.tolist()])
        held_out = np.setdiff1d(reader.held_out, position[is_new])
        sampled = np.union1d(reader.sampled, position[is_new])
        self.reader = replace(reader, held_out=held_out, sampled=sampled)
        classes = sorted(labels | set(label[is_new].tolist()))
        if len(classes) < 2:
            raise ValueError(
                f"A classifier needs at least 2 classes, but the target {reader.target!r} is {classes[0]!r} "
                "in all rows. Check the column."
            )
        array = np.array(classes, dtype=object if isinstance(classes[0], str) else None)
        return Classification.of(read_labels(array, len(classes)))

    def _fit_encoder(
        self, table: pyarrow.Table, position: NDArray[np.int64], is_valid: Bools, task: Task
    ) -> tuple[StreamedEncoder, int]:
        """Fit an encoder to the sample, then the second pass. Also returns the number of training rows."""
        estimator, reader = self.estimator, self.reader
        target = read_target(table, reader.target, reader.is_classifier, 0)
        encoder = TableEncoder(estimator.max_one_hot, estimator.date_features)
        with rows_at(position):
            rows = read_table(table.select(reader.features))
        encoder.fit_transform(rows, np.flatnonzero(~is_valid), encode_target(task, target), task, self.rng)
        numeric = [is_numeric(self.source.schema.field(name).type) for name in reader.features]
        streamed = StreamedEncoder(encoder, np.array(numeric))
        function = partial(reader.statistics, streamed, task)
        batches = (one for one in self._pass("statistics of all rows", function) if one is not None)
        statistics = reduce(EncodingStatistics.merged, batches)
        streamed.set_statistics(statistics)
        never_missing = self.method.never_missing or ()
        for column in never_missing:
            if statistics.n_missing[column]:
                raise ValueError(
                    f"never_missing contains column {reader.features[column]!r}, but it is missing in "
                    f"{count(int(statistics.n_missing[column]), 'row')}. Remove it from never_missing, or "
                    "list the columns that may go missing in may_vanish."
                )
        return streamed, statistics.n_rows

    def _encode_sample(
        self,
        encoder: StreamedEncoder,
        table: pyarrow.Table,
        position: NDArray[np.int64],
        is_valid: Bools,
        task: Task,
    ) -> tuple[MaskedData, MaskedData]:
        """The encoded sample and validation rows."""
        reader = self.reader
        target = encode_target(task, read_target(table, reader.target, reader.is_classifier, 0))
        rows = read_table(table.select(reader.features))
        valid_rows = rows.rows(np.flatnonzero(is_valid))
        train_rows = rows.rows(np.flatnonzero(~is_valid))
        encoded = encoder.encoder.transform(valid_rows)
        groups = encoder.encoder.groups
        values, mask = encoder.encode(train_rows, position[~is_valid])
        sample = MaskedData(values, mask, target[~is_valid], np.ones(len(values)), groups)
        held_out = target[is_valid], np.ones(len(encoded.values)), groups
        return sample, MaskedData(encoded.values, encoded.mask, *held_out)

    def _pass(self, description: str, function: Callable[[int, pyarrow.Table], Result]) -> Iterator[Result]:
        """Results of a pass over all batches, with progress."""
        self.progress.start(description)
        for number, result in enumerate(self.source.map(function)):
            self.progress.update(number + 1, f"batch {number + 1:,}")
            yield result
        self.progress.finish()
