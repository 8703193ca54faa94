"""Completed tables: types and observed values stay, expected values replace the missing ones."""

import warnings

import numpy as np
import pytest

from stablemiss import AnyMaskClassifier, AnyMaskRegressor, MissingRegressor

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")


def make_table(n=120):
    rng = np.random.default_rng(0)
    size = rng.normal(size=n)
    days = pandas.to_timedelta((100 * size).astype(int), unit="D")
    table = pandas.DataFrame(
        {
            "size": size,
            "rooms": pandas.array(np.rint(5 + size), dtype="Int64"),
            "kind": np.where(size > 0, "house", "flat"),
            "colour": pandas.Categorical(np.where(size > 0.5, "red", np.where(size > -0.5, "green", "blue"))),
            "has_garden": pandas.array(size > 0, dtype="boolean"),
            "sold": pandas.Timestamp("2014-06-01") + days,
        }
    )
    return table.mask(rng.random(table.shape) < 0.2), size


@pytest.fixture(scope="module")
def fitted():
    table, target = make_table()
    return AnyMaskRegressor(budget="fast", members=["mixture"], random_state=0).fit(table, target), table


def test_pandas_keeps_types_index_and_observed_values(fitted):
    model, table = fitted
    table = table.set_index(np.arange(1000, 1000 + len(table)))
    before = table.copy()
    completed = model.impute(table)
    pandas.testing.assert_frame_equal(table, before)
    assert not completed.isna().any().any()
    assert (completed.dtypes == table.dtypes).all()
    assert completed.index.equals(table.index)
    for name in table:
        observed = table[name].notna()
        pandas.testing.assert_series_equal(completed[name][observed], table[name][observed], check_exact=True)


def test_polars_keeps_types_and_observed_values(fitted):
    model, table = fitted
    frame = polars.from_pandas(table)
    completed = model.impute(frame)
    assert completed.schema == frame.schema
    assert sum(completed.null_count().row(0)) == 0
    for name in frame.columns:
        observed = frame[name].is_not_null()
        assert completed[name].filter(observed).to_list() == frame[name].filter(observed).to_list()


def test_arrow_keeps_types(fitted):
    pytest.importorskip("pyarrow")
    model, table = fitted
    arrow = polars.from_pandas(table).to_arrow()
    completed = model.impute(arrow)
    assert completed.schema.types == arrow.schema.types
    assert sum(column.null_count for column in completed.columns) == 0


def test_missing_values_follow_from_the_observed_ones(fitted):
    model, table = fitted
    row = table.iloc[:2].copy()
    for name in row.columns[1:]:
        row[name] = None
    row["size"] = [1.5, -1.5]
    row = row.astype(table.dtypes)
    completed = model.impute(row)
    assert completed["kind"].tolist() == ["house", "flat"]
    assert completed["colour"].tolist() == ["red", "blue"]
    assert completed["has_garden"].tolist() == [True, False]
    assert completed["rooms"][0] > completed["rooms"][1]
    assert completed["sold"][0] > completed["sold"][1]


def test_a_row_in_which_everything_is_missing_gets_values_within_the_range(fitted):
    model, table = fitted
    row = table.iloc[:1].copy()
    for name in row.columns:
        row.loc[row.index[0], name] = None
    completed = model.impute(row)
    assert not completed.isna().any().any()
    assert table["size"].min() <= completed["size"].iloc[0] <= table["size"].max()
    assert completed["kind"].iloc[0] in ("house", "flat")


def test_arrays_of_single_precision_stay_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    model = AnyMaskClassifier(budget="fast", members=["mixture"], random_state=0).fit(X, np.arange(60) % 2)
    completed = model.impute(X)
    assert completed.dtype == np.float32
    assert np.isfinite(completed).all()
    np.testing.assert_array_equal(completed[~np.isnan(X)], X[~np.isnan(X)])


def test_columns_of_which_nothing_is_known_are_named():
    X = pandas.DataFrame({"a": np.arange(60.0), "never": np.nan})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AnyMaskRegressor(budget="fast", members=["mixture"], random_state=0).fit(X, X["a"])
    with pytest.warns(UserWarning, match="'never'"):
        completed = model.impute(X)
    assert completed["never"].isna().all()


def test_only_models_with_a_mixture_impute():
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(AttributeError, match="impute"):
        MissingRegressor("ols").fit(X, X[:, 0]).impute(X)
    model = AnyMaskRegressor(budget="fast", members=["boosting"], random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="mixture"):
        model.impute(X)
