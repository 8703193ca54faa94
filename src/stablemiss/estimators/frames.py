"""Data frames as results, in the library of the user's table."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import narwhals as nw
from numpy.typing import NDArray

# Libraries for the result if the table is not a data frame; the first one that is installed is used.
LIBRARIES = ("pandas", "polars", "pyarrow")


def make_frame(columns: dict[str, NDArray], types: dict[str, Any], like: Any, keep_index: bool = True) -> Any:
    """A data frame with these columns, in the library of another table.

    Parameters
    ----------
    columns : dict
        Name → (n,) floats, or (n,) objects in which None means missing.
    types : dict
        Name → narwhals type, for each column of objects: without it, the type of a column in which everything
        is missing would be unknown.
    like : table
        A data frame: the result is a frame of the same library. For arrays and lists it is a pandas, polars
        or pyarrow table, whichever is installed.
    keep_index : bool, default=True
        Whether the result has the index of `like`, if that has one. It must then have as many rows.

    Examples
    --------
    >>> import numpy as np
    >>> import polars
    >>> table = polars.DataFrame({"a": [1]})
    >>> make_frame({"error": np.array([0.5])}, {}, like=table).columns
    ['error']
    """
    table = nw.from_native(like, pass_through=True)
    if not isinstance(table, nw.DataFrame):
        library = "pyarrow" if hasattr(like, "__arrow_c_stream__") else _installed_library()
        return _from_dict(columns, types, library)
    frame = _from_dict(columns, types, table.implementation)
    index = nw.maybe_get_index(table) if keep_index else None
    if index is not None:
        frame.index = index
    return frame


def empty_frame(table: Any) -> Any:
    """A frame without rows of the library of a table, for results; None for arrays and lists."""
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    return frame.head(0).to_native() if isinstance(frame, nw.DataFrame) else None


def _from_dict(columns: dict[str, NDArray], types: dict[str, Any], library: Any) -> Any:
    if nw.Implementation.from_backend(library).is_pandas_like():
        # Objects stay as they are: converted, positions that may be missing would become floats.
        return nw.from_dict(columns, backend=library).to_native()
    lists = {name: column.tolist() for name, column in columns.items()}
    return nw.from_dict(lists, dict.fromkeys(columns, nw.Float64) | types, backend=library).to_native()


def _installed_library() -> str:
    for name in LIBRARIES:
        if find_spec(name) is not None:
            return name
    raise ModuleNotFoundError(
        "The result is a data frame, which needs pandas, polars or pyarrow, but none of them is installed. "
        "Install one, for example with: pip install pandas"
    )
