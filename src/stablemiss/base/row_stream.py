"""Training rows that need not fit into memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from stablemiss.data import MaskedData

Result = TypeVar("Result")


class RowStream(ABC):
    """Encoded training rows in batches of a fixed order.

    Attributes
    ----------
    n_rows : int
        Number of rows in all batches.
    n_columns : int
        Number of encoded columns.
    client : distributed.Client or None
        The Dask cluster whose workers process the batches; None if this process does.
    """

    n_rows: int
    n_columns: int
    client: Any | None = None

    @abstractmethod
    def map(self, function: Callable[[MaskedData, int], Result]) -> Iterator[Result]:
        """Results of `function` for each batch, in order.

        Parameters
        ----------
        function : callable
            Receives the rows of a batch, all of weight one, and a number that identifies the batch, from
            which it derives its random generator. It must not depend on other batches, because other
            processes may call it, and on a cluster again if a worker is lost.
        """

    @abstractmethod
    def submit(self, function: Callable[[MaskedData, int], Result]) -> list[Any]:
        """One future of Dask per part, with the list of results for its batches; only with a `client`."""
