"""Results are frames in the library of the user's table."""

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stablemiss import AnyMaskClassifier, AnyMaskRegressor
from stablemiss.estimators import frames
from stablemiss.estimators.frames import make_frame

ERRORS = np.array([0.5, 1.0])
POSITIONS = np.array([1, None], dtype=object)
NAMES = np.array(["a", None], dtype=object)
NOTHING = np.array([None, None], dtype=object)


def make(column, like, column_type):
    return make_frame({"error": ERRORS, "column": column}, {"column": column_type}, like)


def test_pandas_frames_keep_the_index_of_the_table():
    index = pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["letter", "number"])
    frame = make(POSITIONS, pd.DataFrame({"z": [0, 0]}, index=index), nw.Int64)
    pd.testing.assert_index_equal(frame.index, index)
    # Positions stay integers although one is missing.
    assert frame["column"].tolist() == [1, None]
    assert frame["error"].tolist() == [0.5, 1.0]
    assert make(NAMES, frame, nw.String)["column"].isna().tolist() == [False, True]


def test_polars_and_arrow_columns_have_a_type_even_if_everything_is_missing():
    for column, column_type, expected in ((POSITIONS, nw.Int64, pl.Int64), (NOTHING, nw.String, pl.String)):
        frame = make(column, pl.DataFrame({"z": [0, 0]}), column_type)
        assert frame.schema == {"error": pl.Float64, "column": expected}
        assert frame["column"].to_list() == column.tolist()
    for like in (pa.table({"z": [0, 0]}), pa.record_batch({"z": [0, 0]})):
        frame = make(NOTHING, like, nw.Int64)
        assert frame.schema.field("column").type == pa.int64()
        assert frame.to_pydict() == {"error": [0.5, 1.0], "column": [None, None]}


def test_arrays_and_lists_give_a_frame_of_the_first_library_that_is_installed(monkeypatch):
    kinds = [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
    for i, (_, kind) in enumerate(kinds):
        absent = {name for name, _ in kinds[:i]}
        monkeypatch.setattr(frames, "find_spec", lambda name, absent=absent: None if name in absent else name)
        for like in (np.zeros((2, 1)), [[0.0], [None]]):
            assert isinstance(make(NAMES, like, nw.String), kind)
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pandas, polars or pyarrow.*pip install"):
        make(NAMES, np.zeros((2, 1)), nw.String)


@pytest.mark.parametrize("estimator", [AnyMaskRegressor, AnyMaskClassifier])
def test_explanations_are_frames_of_the_library_of_the_table(estimator):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 2)), columns=["a", "b"])
    model = estimator(budget="fast", members=["mixture"], random_state=0).fit(X, (X["a"] > 0).astype(int))
    new = X[:3].assign(a=[None, 0.0, 1.0])
    new.index = ["u", "v", "w"]
    explanation = model.explain_missing(new)
    assert explanation.index.tolist() == ["u", "v", "w"]
    assert explanation["most_informative_missing"].iloc[0] == "a"
    assert explanation["most_informative_missing"].isna().tolist() == [False, True, True]
    for table in (pl.from_pandas(new), pa.Table.from_pandas(new, preserve_index=False)):
        other = model.explain_missing(table)
        assert type(other) is type(table)
        assert nw.from_native(other)["most_informative_missing"].to_list() == ["a", None, None]
        np.testing.assert_array_equal(nw.from_native(other)["error"].to_numpy(), explanation["error"])
