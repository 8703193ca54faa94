"""Masks of tables, and hiding further values in tables of every library."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stablemiss.encoding import numeric_columns, observed_cells, read_table, with_missing

COLUMNS = {
    "whole": [1, 2, 3],
    "flag": [True, False, True],
    "text": ["a", None, "c"],
    "number": [0.5, 1.5, None],
}
OBSERVED = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 1, 0]], dtype=bool)
TABLES = {
    "pandas": pd.DataFrame(COLUMNS),
    "nullable pandas": pd.DataFrame(COLUMNS).convert_dtypes(),
    "polars": pl.DataFrame(COLUMNS),
    "pyarrow": pa.table(COLUMNS),
    "objects": np.array([list(row) for row in zip(*COLUMNS.values(), strict=True)], dtype=object),
    "lists": [list(row) for row in zip(*COLUMNS.values(), strict=True)],
}


@pytest.mark.parametrize("name", TABLES)
def test_values_are_hidden_exactly_where_the_mask_says_and_others_stay(name):
    before = read_table(TABLES[name])
    hidden = with_missing(TABLES[name], OBSERVED)
    after = read_table(hidden)
    is_observed = observed_cells(before) & OBSERVED
    np.testing.assert_array_equal(observed_cells(after), is_observed)
    assert after.names == before.names
    for j in range(4):
        rows = is_observed[:, j]
        assert after.columns[j][rows].tolist() == before.columns[j][rows].tolist()
    if name != "lists":
        assert type(hidden) is type(TABLES[name])
    # The table itself is unchanged.
    np.testing.assert_array_equal(observed_cells(read_table(TABLES[name])), observed_cells(before))


def test_categories_and_the_index_of_pandas_stay():
    table = pd.DataFrame({"a": pd.Categorical(["x", "y"]), "b": [1.0, 2.0]}, index=[7, 7])
    hidden = with_missing(table, np.array([[False, True], [True, False]]))
    assert hidden["a"].dtype == table["a"].dtype
    assert hidden.index.tolist() == [7, 7]
    assert hidden["a"].isna().tolist() == [True, False]


def test_single_precision_stays_single():
    assert with_missing(np.ones((2, 1), np.float32), np.array([[True], [False]])).dtype == np.float32


def test_dates_and_categories_become_numbers_in_their_order():
    table = pd.DataFrame({"day": pd.to_datetime(["2020-01-02", None, "2020-01-01"]), "c": ["b", "a", None]})
    numbers = numeric_columns(read_table(table))
    assert numbers[0, 0] - numbers[2, 0] == 24 * 3600
    assert np.isnan(numbers[1, 0])
    assert numbers[:2, 1].tolist() == [1.0, 0.0]
