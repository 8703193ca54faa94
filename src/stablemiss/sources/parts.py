"""Rows in parts, such as the row groups of Parquet files, which are read one after the other in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    import pyarrow

Result = TypeVar("Result")
# Maximum number of cells in a batch (16 MB of numbers), and of rows.
MAX_BATCH_CELLS, MAX_BATCH_ROWS = 2_000_000, 65_536


class SourceError(ValueError):
    """A source cannot be read; the message is one sentence that names the file.

    Examples
    --------
    >>> from stablemiss.sources import open_source
    >>> open_source("no-such-folder")
    Traceback (most recent call last):
    stablemiss.sources.parts.SourceError: There is no file or folder no-such-folder.
    """


@dataclass(frozen=True, eq=False)
class Part(ABC):
    """Rows that are read together: a row group of a file, or a partition of a data frame.

    Attributes
    ----------
    number : int
        Position among the parts of the source.
    first_row : int
        Position of its first row among the rows of the source.
    n_rows : int
        Number of rows.
    name : str
        Name for messages, such as "row group 3 of data/a.parquet".
    """

    number: int
    first_row: int
    n_rows: int
    name: str

    @abstractmethod
    def tables(self, columns: Sequence[str], max_rows: int) -> Iterator[pyarrow.Table]:
        """Read the rows in order, as tables of at most `max_rows` rows with these columns.

        Raises `SourceError` if they cannot be read.
        """

    def fingerprint(self) -> list[Any]:
        """What shows whether a part is the same as in an earlier run, as data that JSON can hold."""
        return [self.n_rows]

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pyarrow.Table]]:
        """The tables of the part, each with the position of its first row among the rows of the source."""
        max_rows = max(1, min(MAX_BATCH_ROWS, MAX_BATCH_CELLS // max(1, len(columns))))
        n_read = 0
        for table in self.tables(columns, max_rows):
            yield self.first_row + n_read, table
            n_read += table.num_rows
        if n_read != self.n_rows:
            raise SourceError(
                f"There are {n_read:,} rows in {self.name}, but {self.n_rows:,} were announced; it was "
                "changed while it was read, so start again when it is complete."
            )


class Source(ABC):
    """Rows in parts of a fixed order. A context manager, because it may have temporary files.

    Attributes
    ----------
    schema : pyarrow.Schema
        Names and types of the columns, the same in all parts.
    parts : list of Part
    columns : list of str
        The columns that are read.
    """

    # Whether the parts are processed by other processes than this one.
    is_distributed = False

    def __init__(self, schema: pyarrow.Schema, parts: Sequence[Part]):
        self.schema = schema
        self.parts = list(parts)
        self.columns: list[str] = list(schema.names)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.parts)

    def select(self, columns: Sequence[str]) -> None:
        """Read these columns alone from now on."""
        self.columns = list(columns)

    @abstractmethod
    def map_parts(self, function: Callable[[Part], Result]) -> Iterator[Result]:
        """Results of `function` for each part, in the order of the parts."""

    def submit(self, function: Callable[[Part], Result]) -> list[Any]:
        """One future of Dask per part, in their order; only if `is_distributed`."""
        raise NotImplementedError

    def map(self, function: Callable[[int, pyarrow.Table], Result]) -> Iterator[Result]:
        """Results of `function` for each batch of rows, in order.

        Parameters
        ----------
        function : callable
            Receives the position of the first row of a batch and the batch. It must not depend on other
            batches, because other processes may call it.
        """
        for results in self.map_parts(partial(_map_batches, function, tuple(self.columns))):
            yield from results


class LocalSource(Source):
    """A source whose parts are read by this process, one after the other."""

    def map_parts(self, function: Callable[[Part], Result]) -> Iterator[Result]:
        return map(function, self.parts)

    def map(self, function: Callable[[int, pyarrow.Table], Result]) -> Iterator[Result]:
        # Batch by batch, so that only one of them is in memory at a time.
        for part in self.parts:
            for first_row, table in part.batches(self.columns):
                yield function(first_row, table)


def _map_batches(
    function: Callable[[int, pyarrow.Table], Result], columns: Sequence[str], part: Part
) -> list[Result]:
    return [function(first_row, table) for first_row, table in part.batches(columns)]
