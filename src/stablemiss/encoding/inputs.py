"""What estimators accept: a table, or rows that are arrays. Each kind has its reader and its encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.encoding.arrays import ArrayEncoder, ArrayRows, is_array, read_array
from stablemiss.encoding.encoded import Encoded, OnOutOfRange
from stablemiss.encoding.encoder import TableEncoder
from stablemiss.encoding.report import ColumnSummary
from stablemiss.encoding.table import Table, read_table
from stablemiss.seeding import Rng
from stablemiss.tasks import Task


class Encoder(Protocol):
    """What `TableEncoder` and `ArrayEncoder` have in common, with the same meaning."""

    @property
    def unit(self) -> str: ...
    @property
    def names(self) -> list[str] | None: ...
    @property
    def kinds(self) -> Sequence[str]: ...
    @property
    def column_report(self) -> list[ColumnSummary]: ...

    n_features: int
    groups: NDArray[np.int64]

    def fit_transform(
        self, table: Any, rows: NDArray[np.integer], target: NDArray, task: Task, rng: Rng
    ) -> tuple[Floats, Bools]: ...

    def encode(
        self,
        X: Any,
        *,
        allow_missing_columns: bool = False,
        on_out_of_range: OnOutOfRange = "clip",
        estimator_name: str = "the model",
    ) -> Encoded: ...

    def unseen_missing(self, encoded: Encoded) -> dict[str, int]: ...

    def column_name(self, j: int) -> str: ...

    def state(self) -> dict[str, Any]: ...


def read_rows(X: Any) -> Table | ArrayRows:
    """Read a table, or rows that are arrays if X has at least three dimensions.

    Examples
    --------
    >>> type(read_rows([[1.0, "a"]])).__name__, type(read_rows(np.zeros((5, 8, 8)))).__name__
    ('Table', 'ArrayRows')
    """
    return read_array(X) if is_array(X) else read_table(X)


def row_shape(rows: Table | ArrayRows) -> tuple[int, ...]:
    """Shape of one row; (n_columns,) for a table.

    Examples
    --------
    >>> row_shape(read_rows(np.zeros((5, 8, 8)))), row_shape(read_rows([[1.0, 2.0]]))
    ((8, 8), (2,))
    """
    return rows.shape if isinstance(rows, ArrayRows) else (len(rows.columns),)


def make_encoder(
    rows: Table | ArrayRows, max_one_hot: int | Literal["auto"] = "auto", date_features: bool = True
) -> Encoder:
    """Create the encoder for rows of this kind; the options are those of `TableEncoder`.

    Examples
    --------
    >>> type(make_encoder(read_rows(np.zeros((5, 8, 8))))).__name__
    'ArrayEncoder'
    """
    return ArrayEncoder() if isinstance(rows, ArrayRows) else TableEncoder(max_one_hot, date_features)


def encoder_from_state(state: dict[str, Any]) -> Encoder:
    """Create an encoder from its `state`; raises ValueError if the state is invalid."""
    return (ArrayEncoder if state.get("kind") == "array" else TableEncoder).from_state(state)
