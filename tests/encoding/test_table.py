"""Tables from all libraries are read in the same way, and invalid ones raise the same errors."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from stablemiss.data import missing_cells
from stablemiss.encoding.table import Table, read_table

small = settings(max_examples=40, deadline=None)

finite = st.floats(-1e9, 1e9)
ENTRIES = {
    "float": finite,
    "int": st.integers(-(2**40), 2**40),
    "bool": st.booleans(),
    "str": st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
}


@st.composite
def columns_with_missing(draw: st.DrawFn) -> dict[str, tuple[str, list[Any]]]:
    """Name → (kind of its entries, entries with None = missing), all of one length."""
    n_rows = draw(st.integers(1, 8))
    kinds = draw(st.lists(st.sampled_from(sorted(ENTRIES)), min_size=1, max_size=4))
    return {
        f"c{j}": (kind, draw(st.lists(st.none() | ENTRIES[kind], min_size=n_rows, max_size=n_rows)))
        for j, kind in enumerate(kinds)
    }


def as_pandas_nullable(columns: dict[str, tuple[str, list[Any]]]) -> pd.DataFrame:
    dtypes: dict[str, Any] = {"float": "Float64", "int": "Int64", "bool": "boolean", "str": "string"}
    return pd.DataFrame(
        {name: pd.array(cells, dtype=dtypes[kind]) for name, (kind, cells) in columns.items()}
    )


def as_pandas_plain(columns: dict[str, tuple[str, list[Any]]]) -> pd.DataFrame:
    """Floats with NaN, objects with None and pd.NA, categoricals."""
    frame = {}
    for name, (kind, cells) in columns.items():
        if kind == "bool":
            frame[name] = pd.Series([pd.NA if cell is None else cell for cell in cells], dtype=object)
        else:
            frame[name] = pd.Series(cells, dtype="category" if kind == "str" else "float64")
    return pd.DataFrame(frame)


def as_pandas_arrow(columns: dict[str, tuple[str, list[Any]]]) -> pd.DataFrame:
    return as_pyarrow(columns).to_pandas(types_mapper=pd.ArrowDtype)


def as_polars(columns: dict[str, tuple[str, list[Any]]]) -> pl.DataFrame:
    dtypes: dict[str, Any] = {"float": pl.Float64, "int": pl.Int64, "bool": pl.Boolean, "str": pl.String}
    return pl.DataFrame(
        {name: pl.Series(cells, dtype=dtypes[kind]) for name, (kind, cells) in columns.items()}
    )


def as_polars_categorical(columns: dict[str, tuple[str, list[Any]]]) -> pl.DataFrame:
    return as_polars(columns).with_columns(pl.selectors.string().cast(pl.Categorical))


def as_pyarrow(columns: dict[str, tuple[str, list[Any]]]) -> pa.Table:
    types = {"float": pa.float64(), "int": pa.int64(), "bool": pa.bool_(), "str": pa.string()}
    return pa.table({name: pa.array(cells, types[kind]) for name, (kind, cells) in columns.items()})


def as_numpy(columns: dict[str, tuple[str, list[Any]]]) -> np.ndarray:
    array = np.empty((len(next(iter(columns.values()))[1]), len(columns)), dtype=object)
    for j, (_, cells) in enumerate(columns.values()):
        array[:, j] = cells
    return array


def as_lists(columns: dict[str, tuple[str, list[Any]]]) -> list[list[Any]]:
    return as_numpy(columns).tolist()


FRAMES = [
    as_pandas_nullable,
    as_pandas_plain,
    as_pandas_arrow,
    as_polars,
    as_polars_categorical,
    as_pyarrow,
]
SOURCES = [*FRAMES, as_numpy, as_lists]


def assert_same(a: Table, b: Table) -> None:
    assert a.n_rows == b.n_rows
    assert len(a.columns) == len(b.columns)
    for left, right in zip(a.columns, b.columns, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("source", SOURCES)
@small
@given(columns=columns_with_missing())
def test_all_sources_give_the_same_values(source: Any, columns: dict[str, tuple[str, list[Any]]]) -> None:
    """Observed values are unchanged and missing values are missing, in all libraries."""
    table = read_table(source(columns))
    assert table.names == (list(columns) if source in FRAMES else None)
    for column, (kind, cells) in zip(table.columns, columns.values(), strict=True):
        missing = [cell is None for cell in cells]
        assert missing_cells(column).tolist() == missing
        observed = [cell for cell in cells if cell is not None]
        assert column[~missing_cells(column)].tolist() == observed
        assert column.dtype == (object if kind == "str" and observed else np.float64)


@pytest.mark.parametrize(
    "marker", [None, np.nan, float("nan"), pd.NA, pd.NaT, Decimal("NaN"), Decimal("sNaN")], ids=repr
)
@pytest.mark.parametrize("cells", [[1.5, 2.5], ["a", "b"], [True, False], [Decimal(1), 2]], ids=str)
def test_all_markers_of_missing_values_mean_the_same(marker: Any, cells: list[Any]) -> None:
    with_marker = np.array([[cells[0]], [marker], [cells[1]]], dtype=object)
    with_none = np.array([[cells[0]], [None], [cells[1]]], dtype=object)
    assert missing_cells(read_table(with_marker).columns[0]).tolist() == [False, True, False]
    assert_same(read_table(with_marker), read_table(with_none))
    assert_same(read_table(pd.DataFrame(with_marker)), read_table(with_none))


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, None], dtype="Int8"),
        pd.array([1, None], dtype="UInt64"),
        pd.array([True, None], dtype="boolean"),
        pd.array([1.0, np.nan], dtype="float32"),
        pd.array([1, None], dtype=pd.ArrowDtype(pa.int64())),
        pd.array([Decimal(1), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        pd.arrays.SparseArray([1.0, np.nan]),
        pl.Series([1, None], dtype=pl.UInt8),
        pl.Series([1.0, float("nan")]),
        pl.Series([Decimal(1), None]),
        pa.array([1, None], pa.float16()),
        pa.array([Decimal(1), None], pa.decimal256(50, 3)),
    ],
    ids=lambda column: f"{type(column).__module__.split('.')[0]}-{getattr(column, 'dtype', '')}",
)
def test_all_numeric_types_of_data_frames_are_numeric(column: Any) -> None:
    library = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
    frame = library[type(column).__module__.split(".")[0]]({"c": column})
    np.testing.assert_array_equal(read_table(frame).columns[0], [1.0, np.nan])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64, bool])
@pytest.mark.parametrize("order", ["C", "F"])
def test_all_numeric_dtypes_of_arrays_are_numeric(dtype: Any, order: Any) -> None:
    array = np.array([[0, 1, 1], [1, 1, 0]], dtype=dtype, order=order)
    np.testing.assert_array_equal(np.column_stack(read_table(array).columns), array.astype(float))


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(["x", None], categories=["y", "x"]),
        pd.array(["x", None], dtype="string"),
        pd.array(["x", None], dtype="str"),
        pd.Series(["x", None], dtype=object),
        pd.array(["x", None], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
        pl.Series(["x", None], dtype=pl.Categorical),
        pl.Series(["x", None], dtype=pl.Enum(["y", "x"])),
        pa.array(["x", None]).dictionary_encode(),
        pa.array(["x", None], pa.large_string()),
    ],
    ids=lambda column: f"{type(column).__module__.split('.')[0]}-{getattr(column, 'dtype', '')}",
)
def test_all_string_and_categorical_types_are_categorical(column: Any) -> None:
    library = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
    frame = library[type(column).__module__.split(".")[0]]({"c": column})
    assert read_table(frame).columns[0].tolist() == ["x", None]


@pytest.mark.parametrize("extra", [[], [None]], ids=["complete", "with a missing value"])
def test_digits_in_a_text_column_of_a_frame_are_text(extra: list[None]) -> None:
    """Only in an array of text can numpy have created them from numbers."""
    cells = ["1", "2.5", *extra]
    frames = [pd.DataFrame({"c": cells}), pl.DataFrame({"c": cells}), pa.table({"c": cells})]
    for frame in (*frames, pd.DataFrame({"c": cells}, dtype=object), [[cell] for cell in cells]):
        assert read_table(frame).columns[0].tolist() == cells


def test_categorical_types_are_declared_categories() -> None:
    frame = pd.DataFrame({"a": ["x", "y"], "b": pd.Categorical(["x", "y"]), "c": pd.Categorical([1, 2])})
    assert read_table(frame).declared_categories == {1, 2}
    assert read_table(pl.from_pandas(frame[["a", "b"]])).declared_categories == {1}
    assert read_table(frame.to_numpy()).declared_categories == frozenset()
    assert read_table(frame).rows(np.array([0])).declared_categories == {1, 2}


def test_integer_and_float_codes_are_the_same_categories() -> None:
    """A column of integer codes becomes float as soon as one value is missing."""
    for cells in ([1, 2], [1.0, 2.0], [1, 2, None], [1.0, 2.0, None]):
        frame = pd.DataFrame({"c": pd.Categorical(cells)})
        assert read_table(frame).columns[0].tolist() == ["1", "2", None][: len(cells)]
    assert read_table(pd.DataFrame({"c": pd.Categorical([1.5])})).columns[0].tolist() == ["1.5"]


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"c": [None, None]}),
        pl.DataFrame({"c": pl.Series([None, None], dtype=pl.List(pl.Int64))}),
        pl.DataFrame({"c": pl.Series([None, None], dtype=pl.Categorical)}),
        pa.table({"c": pa.nulls(2)}),
        pa.table({"c": pa.nulls(2, pa.string())}),
        pd.DataFrame({"c": [pd.NA, None]}),
        pd.DataFrame({"c": pd.to_datetime([None, None])}),
        pd.DataFrame({"c": pd.Categorical([None, None])}),
        np.array([[None], [np.nan]], dtype=object),
        np.array([["NaT"], ["NaT"]], dtype="datetime64[s]"),
    ],
)
def test_an_empty_column_of_any_type_is_numeric_and_missing(frame: Any) -> None:
    np.testing.assert_array_equal(read_table(frame).columns[0], [np.nan, np.nan])


def test_masked_values_of_a_masked_array_are_missing() -> None:
    array = np.ma.masked_array([[1, 2], [3, 999]], [[False, False], [False, True]])
    np.testing.assert_array_equal(np.column_stack(read_table(array).columns), [[1, 2], [3, np.nan]])


def test_a_list_may_have_numeric_and_string_columns() -> None:
    table = read_table([[1, "a"], [2.5, "b"]])
    assert [column.tolist() for column in table.columns] == [[1.0, 2.5], ["a", "b"]]


def test_labels_that_are_not_strings_are_not_names() -> None:
    """As in scikit-learn, column labels 0, 1, … are positions, not names."""
    assert read_table(pd.DataFrame([[1, 2]])).names is None
    assert read_table(pd.DataFrame([[1, 2]], columns=["0", "1"])).names == ["0", "1"]


@pytest.mark.parametrize(
    "labels", [[None, 2.5], [True, False], pd.Index([("a", 1), ("b", 2)], tupleize_cols=False)], ids=str
)
def test_labels_of_a_pandas_frame_may_be_anything(labels: Any) -> None:
    frame = pd.DataFrame([[1.0, "x"], [2.0, None]], columns=labels)
    assert [column.tolist() for column in read_table(frame).columns] == [[1.0, 2.0], ["x", None]]


def test_a_record_batch_has_column_names() -> None:
    table = pa.table({"a": [1.0, None], "b": ["x", "y"]})
    batch = read_table(table.to_batches()[0])
    assert batch.names == ["a", "b"]
    assert_same(batch, read_table(table))


def test_the_input_array_is_not_modified() -> None:
    array = np.array([[1.0, np.nan], [3.0, 4.0]], order="F")
    before = array.copy()
    read_table(array)
    np.testing.assert_array_equal(array, before)


DAY = datetime.datetime(2024, 5, 1)
INVALID = {
    "inf, named": (
        pd.DataFrame({"age": [1.0, np.inf]}),
        ValueError,
        r"inf.*column 'age': inf in row 1\. Replace",
    ),
    "inf, polars": (pl.DataFrame({"age": [-np.inf]}), ValueError, r"column 'age': -inf in row 0"),
    "inf, array": (np.array([[0, 0, 0, np.inf]]), ValueError, r"column 3: inf"),
    "inf, object": (np.array([[np.inf]], dtype=object), ValueError, r"column 0: inf"),
    "inf, too large": ([[10**400]], ValueError, r"column 0: a number too large"),
    "mixed, array": (
        np.array([[1, 2], [3, "n/a"]], dtype=object),
        ValueError,
        r"mixed in column 1, such as 2 and 'n/a'\. If .*to_numeric",
    ),
    "mixed, pandas": (pd.DataFrame({"age": [1, "n/a"]}), ValueError, r"mixed in column 'age'"),
    "mixed, list": ([[1], ["n/a"]], ValueError, r"mixed in column 0"),
    "dates and text": (np.array([[DAY], ["soon"]], dtype=object), ValueError, r"mixed in column 0.*'soon'"),
    "dates and numbers": ([[DAY], [3]], ValueError, r"Dates.*mixed in column 0.*2024-05-01.* and 3\."),
    "dates and times": (pd.DataFrame({"when": [DAY, DAY.time()]}), ValueError, r"mixed in column 'when'"),
    "dates and durations": ([[DAY], [datetime.timedelta(1)]], ValueError, r"mixed in column 0"),
    "numbers converted to text by numpy": (
        np.array([[1.5, "a"], [np.nan, "b"]]),
        ValueError,
        r"stored as text, such as '1\.5', in column 0.*dtype=object",
    ),
    "complex": (np.array([[1j]]), ValueError, r"Complex data not supported: column 0"),
    "complex, object": (np.array([[1j]], dtype=object), ValueError, r"Complex data not supported: column 0"),
    "complex, pandas": (pd.DataFrame({"z": [1j]}), ValueError, r"Complex data not supported: column 'z'"),
    "dict": (
        np.array([[{"a": 1}]], dtype=object),
        TypeError,
        r"dict in column 0.* argument must be a string or a num",
    ),
    "nested": (pl.DataFrame({"l": [[1]]}), TypeError, r"type List\(Int64\) in column 'l'"),
    "bytes": (pa.table({"b": [b"x"]}), TypeError, r"type bytes in column 'b'"),
    "sparse": (scipy.sparse.csr_matrix([[1.0]]), TypeError, r"Sparse data is not supported.*toarray"),
    "lazy": (pl.LazyFrame({"a": [1]}), TypeError, r"lazy frame.*\.collect\(\)"),
    "1-D": (np.zeros(3), ValueError, r"Expected 2D array, got 1D array instead.*Reshape your data"),
    "series": (pd.Series([1.0]), ValueError, r"Expected 2D array, got 1D array instead.*to_frame"),
    "3-D": (np.zeros((1, 1, 1)), ValueError, r"Expected 2D array, got 3D array instead"),
    "not a table": ({"a": [1]}, ValueError, r"X must be a table.* got a dict\."),
    "ragged": ([[1, 2], [3]], ValueError, r"rows differ in length"),
    "no rows": (
        np.zeros((0, 3)),
        ValueError,
        r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required\.",
    ),
    "no rows, polars": (
        pl.DataFrame({"a": []}),
        ValueError,
        r"0 sample\(s\) \(shape=\(0, 1\)\) while a minimum",
    ),
    "no columns": (
        np.zeros((3, 0)),
        ValueError,
        r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is req",
    ),
    "repeated names": (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        ValueError,
        r"names of X must be unique.*'a' occurs",
    ),
    "repeated, pyarrow": (
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
        ValueError,
        r"names of X must be unique.*'a' occurs",
    ),
    "mixed names": (pd.DataFrame([[1, 2]], columns=["a", 0]), TypeError, r"such as 0 \(int\).*astype\(str\)"),
}


@pytest.mark.parametrize(("X", "error", "message"), INVALID.values(), ids=INVALID)
def test_invalid_tables_raise(X: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_table(X)
