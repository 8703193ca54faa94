"""Batches of training rows from a source: their targets, statistics and encoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stablemiss.base.row_stream import RowStream
from stablemiss.data import Bools, Floats, MaskedData
from stablemiss.encoding import read_table
from stablemiss.encoding.encoder import to_outputs
from stablemiss.encoding.streamed import EncodingStatistics, Moments, StreamedEncoder
from stablemiss.estimators.rows import MAX_DEVIATION
from stablemiss.sources import Part, Source
from stablemiss.tasks import Classification, Task
from stablemiss.text import count, quoted, rows_at

if TYPE_CHECKING:
    import pyarrow

# Text columns with more different entries in a batch, or in all batches, are represented by the sample alone.
MAX_EXAMPLES, MAX_CATEGORIES = 1000, 10_000
# More different labels than this are not classes.
MAX_CLASSES = 1000

Result = TypeVar("Result")
# The name of the column to predict, or the names of several.
Target = str | list[str]


@dataclass(frozen=True, eq=False)
class Scan:
    """What the first pass finds in a batch of rows.

    Attributes
    ----------
    rows : pyarrow.Table
        The rows of the sample, the validation rows, and a row for each category.
    position : (n,) int64
        Their positions among all rows.
    moments : Moments or None
        Of a numeric target in training rows.
    labels : set
        Classes of the training rows.
    n_missing : int
        Number of rows without a target.
    """

    rows: pyarrow.Table
    position: NDArray[np.int64]
    moments: Moments | None
    labels: set[Any]
    n_missing: int


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads batches of training rows, in whatever process it is called.

    Attributes
    ----------
    target : str or list of str
        Name or names of the target.
    features : list of str
        The other columns.
    sampled, held_out : (n,) int64
        Sorted positions of the rows of the sample, and of the validation rows.
    is_classifier, drop_missing_target : bool
    """

    target: Target
    features: list[str]
    sampled: NDArray[np.int64]
    held_out: NDArray[np.int64]
    is_classifier: bool
    drop_missing_target: bool

    def with_target(
        self, first_row: int, table: pyarrow.Table
    ) -> tuple[pyarrow.Table, NDArray, NDArray[np.int64]]:
        """The rows of a batch that have a target, their targets, and their positions among all rows."""
        import pyarrow

        position = np.arange(first_row, first_row + table.num_rows)
        missing = missing_target(table, self.target)
        if missing.any():
            if not self.drop_missing_target:
                names = quoted([self.target] if isinstance(self.target, str) else self.target)
                raise ValueError(
                    f"The target {names} is missing in row {first_row + int(missing.argmax()):,}, and in "
                    f"{count(int(missing.sum()), 'row')} from {first_row:,} to "
                    f"{first_row + table.num_rows - 1:,}; remove rows without a target before fit."
                )
            table, position = table.filter(pyarrow.array(~missing)), position[~missing]
        return table, read_target(table, self.target, self.is_classifier, first_row), position

    def scan(self, first_row: int, table: pyarrow.Table) -> Scan:
        """The first pass."""
        n_rows = table.num_rows
        table, target, position = self.with_target(first_row, table)
        is_held_out = contains(self.held_out, position)
        is_chosen = contains(self.sampled, position) | is_held_out
        is_chosen[self._examples(table, np.flatnonzero(~is_held_out))] = True
        chosen = np.flatnonzero(is_chosen)
        training = target[~is_held_out]
        moments, labels = None, set[Any]()
        if self.is_classifier:
            labels = set(np.unique(training).tolist())
        else:
            # A batch may have no training rows.
            n_targets = 1 if isinstance(self.target, str) else len(self.target)
            moments = Moments.of(training.reshape(len(training), n_targets))
        return Scan(table.take(chosen), position[chosen], moments, labels, n_rows - table.num_rows)

    def _examples(self, table: pyarrow.Table, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first of these rows with each category or class, so that none is overlooked."""
        examples = [np.zeros(0, dtype=np.int64)]
        for name in self.category_columns(table):
            codes = table.column(name).take(rows).combine_chunks().dictionary_encode()
            if len(codes.dictionary) <= MAX_EXAMPLES:
                # Missing entries have no code.
                found = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
                examples.append(rows[np.unique(found, return_index=True)[1]])
        return np.concatenate(examples)

    def category_columns(self, table: pyarrow.Table) -> list[str]:
        """The features that hold text or categories, and the target of a classifier."""
        from pyarrow import types

        tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
        is_text = {name: any(test(table.schema.field(name).type) for test in tests) for name in self.features}
        return [name for name in self.features if is_text[name]] + [str(self.target)] * self.is_classifier

    def statistics(
        self, encoder: StreamedEncoder, task: Task, first_row: int, table: pyarrow.Table
    ) -> EncodingStatistics | None:
        """The second pass."""
        table, target, position = self.with_target(first_row, table)
        if not table.num_rows:
            return None
        is_train = ~contains(self.held_out, position)
        outputs = to_outputs(encode_target(task, target), task)
        with rows_at(position):
            rows = read_table(table.select(self.features))
            return encoder.statistics(rows, outputs, position, is_train)

    def encode(
        self, encoder: StreamedEncoder, task: Task, first_row: int, table: pyarrow.Table
    ) -> MaskedData | None:
        """The encoded training rows of a batch; None if there are none."""
        table, target, position = self.with_target(first_row, table)
        kept = np.flatnonzero(~contains(self.held_out, position))
        if not len(kept):
            return None
        table, target, position = table.take(kept), target[kept], position[kept]
        with rows_at(position):
            values, mask = encoder.encode(read_table(table.select(self.features)), position)
        groups = encoder.encoder.groups
        return MaskedData(values, mask, encode_target(task, target), np.ones(len(kept)), groups)


class ScanTotals:
    """The scans of all batches, added up so that memory does not grow with the number of batches.

    Parameters
    ----------
    reader : Reader
        Whose scans are added.

    Attributes
    ----------
    moments : Moments or None
        Of a numeric target in all training rows.
    labels : set
        Classes of all training rows.
    n_missing : int
        Number of rows without a target.
    """

    def __init__(self, reader: Reader):
        self._reader = reader
        self.moments: Moments | None = None
        self.labels: set[Any] = set()
        self.n_missing = 0
        self._tables: list[pyarrow.Table] = []
        self._positions: list[NDArray[np.int64]] = []
        # Entries of the training rows so far, by column.
        self._known: dict[str, set[Any]] = {}

    def add(self, scan: Scan) -> None:
        """Add a scan; raises ValueError if there are too many classes."""
        self.n_missing += scan.n_missing
        if scan.moments is not None:
            self.moments = scan.moments if self.moments is None else self.moments.merged(scan.moments)
        self.labels |= scan.labels
        if len(self.labels) > MAX_CLASSES:
            raise ValueError(
                f"A classifier needs 2 to {MAX_CLASSES:,} classes, but the target has more. Check the "
                "column, or use a regressor if it is numeric."
            )
        kept = self._with_new_categories(scan.rows, scan.position, self._known)
        self._tables.append(scan.rows.take(kept))
        self._positions.append(scan.position[kept])

    def rows(self) -> tuple[pyarrow.Table, NDArray[np.int64]]:
        """The rows of the sample, the validation rows, and one training row for each further category.

        Returns
        -------
        table : pyarrow.Table
        position : (n,) int64
            Their positions among all rows.
        """
        import pyarrow

        table = pyarrow.concat_tables(self._tables, promote_options="permissive")
        position = np.concatenate(self._positions)
        # Again, because the sample may have a category in a later batch than the first row with it.
        kept = self._with_new_categories(table, position, {})
        return table.take(kept), position[kept]

    def _with_new_categories(
        self, table: pyarrow.Table, position: NDArray[np.int64], known: dict[str, set[Any]]
    ) -> NDArray[np.int64]:
        """The rows of the sample, the validation rows, and others with categories that are not `known`."""
        is_held_out = contains(self._reader.held_out, position)
        is_kept = contains(self._reader.sampled, position) | is_held_out
        for name in self._reader.category_columns(table):
            entries = np.array(table.column(name).to_pylist(), dtype=object)
            of_column = known.setdefault(name, {None})
            of_column |= set(entries[is_kept & ~is_held_out].tolist())
            for row in np.flatnonzero(~is_kept):
                if entries[row] not in of_column and len(of_column) < MAX_CATEGORIES:
                    of_column.add(entries[row])
                    is_kept[row] = True
        return np.flatnonzero(is_kept)


class EncodedStream(RowStream):
    """The training rows of a source."""

    def __init__(self, source: Source, reader: Reader, encoder: StreamedEncoder, task: Task, n_rows: int):
        self._source = source
        self._encode = partial(reader.encode, encoder, task)
        self.n_rows, self.n_columns = n_rows, len(encoder.encoder.groups)
        self.client = getattr(source, "client", None)

    def map(self, function: Callable[[MaskedData, int], Result]) -> Iterator[Result]:
        # Batches without training rows have no result.
        for result in self._source.map(partial(_call, self._encode, function)):
            yield from result

    def submit(self, function: Callable[[MaskedData, int], Result]) -> list[Any]:
        columns = tuple(self._source.columns)
        return self._source.submit(partial(_call_part, self._encode, function, columns))


def _call(
    encode: Callable[..., MaskedData | None],
    function: Callable[[MaskedData, int], Result],
    first_row: int,
    table: pyarrow.Table,
) -> list[Result]:
    data = encode(first_row, table)
    return [] if data is None else [function(data, first_row)]


def _call_part(
    encode: Callable[..., MaskedData | None],
    function: Callable[[MaskedData, int], Result],
    columns: Sequence[str],
    part: Part,
) -> list[Result]:
    results: list[Result] = []
    for first_row, table in part.batches(columns):
        results += _call(encode, function, first_row, table)
    return results


def encode_target(task: Task, target: NDArray) -> NDArray:
    """The target as the task encodes it; extreme values are clipped."""
    encoded = task.encode(target)
    return encoded if isinstance(task, Classification) else np.clip(encoded, -MAX_DEVIATION, MAX_DEVIATION)


def missing_target(table: pyarrow.Table, target: Target) -> Bools:
    """Which rows (n,) have no target."""
    names = [target] if isinstance(target, str) else target
    missing = [table.column(name).is_null(nan_is_null=True).to_numpy() for name in names]
    return np.any(missing, axis=0)


def read_target(table: pyarrow.Table, target: Target, is_classifier: bool, first_row: int) -> NDArray:
    """Numbers (n,) or (n, n_targets), or labels (n,), of rows that all have a target."""
    if is_classifier:
        return _read_labels(table.column(str(target)))
    names = [target] if isinstance(target, str) else target
    columns = [_read_numbers(table.column(name), name, first_row) for name in names]
    return columns[0] if isinstance(target, str) else np.stack(columns, axis=1)


def _read_numbers(column: pyarrow.ChunkedArray, name: str, first_row: int) -> Floats:
    import pyarrow

    if not is_numeric(column.type):
        raise ValueError(
            f"The target of a regressor must be numeric, but {name!r} is {column.type}. Convert it to "
            "numbers, or use a classifier if it holds classes."
        )
    numbers = np.asarray(column.cast(pyarrow.float64()).to_numpy(), dtype=np.float64)
    if np.isinf(numbers).any():
        row = first_row + int(np.isinf(numbers).argmax())
        raise ValueError(f"The target {name!r} is infinite near row {row:,}; give it a finite target.")
    return numbers


def _read_labels(column: pyarrow.ChunkedArray) -> NDArray:
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string(column.type) or types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy()


def is_numeric(type_: pyarrow.DataType) -> bool:
    """Whether a type of pyarrow holds numbers or booleans."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(type_) for test in tests)


def contains(positions: NDArray[np.int64], position: NDArray[np.int64]) -> Bools:
    """Which entries of `position` are among the sorted `positions`."""
    found = np.searchsorted(positions, position)
    return positions[np.minimum(found, len(positions) - 1)] == position if len(positions) else found < 0
