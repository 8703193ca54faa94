"""The report of the columns names what is unusual, and stays silent about ordinary data."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import datasets

from stablemiss.encoding import ColumnSummary, SuspiciousDataWarning, TableEncoder, read_table
from stablemiss.tasks import Regression

N = 100
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=N)


def fit(X: Any, rows: Any = None, y: Any = None, **settings: Any) -> TableEncoder:
    table = read_table(X)
    y = np.arange(float(table.n_rows)) if y is None else y
    encoder = TableEncoder(**settings)
    rows = np.arange(table.n_rows) if rows is None else rows
    encoder.fit_transform(table, rows, y[:, None], Regression.of(y), np.random.default_rng(0))
    return encoder


def report(X: Any, **settings: Any) -> tuple[dict[str, ColumnSummary], list[str]]:
    """Summaries by name, and the warnings of the fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder = fit(X, **settings)
    assert all(warning.category is SuspiciousDataWarning for warning in caught)
    messages = [str(warning.message) for warning in caught]
    return {summary.name: summary for summary in encoder.column_report}, messages


def replaced(column: Any, value: Any, n: int = 3) -> np.ndarray:
    """A copy in which the first `n` entries are replaced."""
    column = np.array(column, dtype=object if isinstance(value, str) else None)
    column[:n] = value
    return column


def test_ordinary_columns_have_no_remarks() -> None:
    when = pd.Timestamp("2014-01-01") + pd.to_timedelta(RNG.integers(0, 10_000, N), unit="h")
    frame = pd.DataFrame(
        {
            "x": NUMBERS,
            "count": RNG.poisson(3, N),
            "flag": RNG.random(N) < 0.5,
            "colour": RNG.choice(["red", "green", "blue"], N),
            "when": when,
        }
    ).mask(RNG.random((N, 5)) < 0.2)
    summaries, messages = report(frame)
    assert messages == []
    assert [s.kind for s in summaries.values()] == ["number", "number", "number", "category", "date"]
    assert [s.n_levels for s in summaries.values()] == [None, None, None, 3, None]
    assert [s.n_missing for s in summaries.values()] == frame.isna().sum().tolist()
    assert all(s.remarks == () for s in summaries.values())


def test_columns_without_information_are_ignored_without_a_warning() -> None:
    frame = pd.DataFrame(
        {
            "same": 3.0,
            "one level": "a",
            "empty": None,
            "note": [f"note {i}" for i in range(N)],
            "rare": [1.0, 2.0] + [np.nan] * (N - 2),
            "row": range(N),
        }
    )
    summaries, messages = report(frame)
    assert messages == []
    remarks = {name: (s.kind, *s.remarks) for name, s in summaries.items()}
    assert remarks["same"] == ("ignored", "constant")
    assert remarks["one level"] == ("ignored", "constant")
    assert remarks["empty"] == ("ignored", "never observed")
    assert remarks["note"] == ("ignored", "no entry occurs twice, probably an identifier")
    assert remarks["rare"] == ("number", "missing in 98.0% of the rows")
    assert remarks["row"] == ("number", "whole numbers in strict order, probably an identifier")


def test_a_column_of_many_categories_is_not_constant_if_the_target_is() -> None:
    towns = pd.DataFrame({"town": [f"town {i % 30}" for i in range(N)]})
    summaries, _ = report(towns, y=np.ones(N))
    assert (summaries["town"].kind, summaries["town"].remarks) == ("category", ())


@pytest.mark.parametrize(
    ("column", "code", "n"),
    [
        (NUMBERS, -999.0, 3),
        (NUMBERS, -999.0, 1),
        (NUMBERS, 9999.0, 1),
        (RNG.integers(0, 90, N), -1, 3),
        (RNG.integers(0, 90, N), 999, 2),
        (RNG.uniform(0, 5000, N), -999.0, 2),
        (RNG.uniform(1000, 90_000, N), -1.0, 1),
        (RNG.integers(1, 6, N), -9, 4),
        (RNG.integers(1, 6, N), 99, 1),
        (RNG.uniform(size=N), -32768.0, 2),
        (NUMBERS, 9999999, 2),
        (NUMBERS, -2147483648, 2),
        (RNG.normal(10, 10, N), -200.0, 3),
        (RNG.uniform(300, 2000, N), -200.0, 3),
    ],
)
def test_codes_for_missing_values_are_found(column: Any, code: float, n: int) -> None:
    summaries, (message,) = report(pd.DataFrame({"x": replaced(column, code, n)}))
    (remark,) = summaries["x"].remarks
    assert remark.startswith(f"{int(code)} in {n} row")
    assert f"{column[n:].min():.6g} to {column[n:].max():.6g}" in remark
    assert f"'x': {remark}" in message


@pytest.mark.parametrize(
    "column",
    [
        RNG.integers(-1, 6, N),
        RNG.integers(-1, 2, N),
        RNG.integers(-9, 10, N),
        RNG.integers(0, 100, N).clip(max=99),
        RNG.choice([-1, 1], N),
        np.append(RNG.integers(0, 30, N), [-1]),
        np.round(RNG.normal(5, 3, N), 1).clip(-1),
        replaced(RNG.exponential(200, N), 999.0, 1),
        1000 * NUMBERS,
        np.append(NUMBERS, 1e9),
        replaced([1.0, 2.0, 3.0, 4.0], -999.0, 1),
        np.arange(-1, 50),
        np.append(RNG.uniform(0, 5000, N), [-200.0]),
        np.round(RNG.normal(0, 100, N), -2),
    ],
    ids=range(14),
)
def test_ordinary_numbers_are_not_taken_for_codes(column: Any) -> None:
    _, messages = report(pd.DataFrame({"x": column}))
    assert messages == []


def test_several_codes_in_a_column_are_all_found() -> None:
    column = replaced(NUMBERS, -999.0, 5)
    column[:2] = 9999.0
    summaries, _ = report(pd.DataFrame({"x": column}))
    assert [remark.split(" may")[0] for remark in summaries["x"].remarks] == [
        "9999 in 2 rows",
        "-999 in 3 rows",
    ]


@pytest.mark.parametrize(("code", "n"), [("1900-01-01", 1), ("9999-12-31", 2), ("1970-01-01", 1)])
def test_dates_that_stand_for_missing_dates_are_found(code: str, n: int) -> None:
    days = pd.date_range("2014-01-01", periods=N).to_numpy().astype("datetime64[us]")
    summaries, (message,) = report(pd.DataFrame({"when": replaced(days, np.datetime64(code), n)}))
    assert summaries["when"].remarks[0].startswith(f"{code} in {n} row")
    assert "2014-04-10" in message
    text = pd.Series(days).dt.strftime("%d.%m.%Y").to_numpy(dtype=object)
    written = "{2}.{1}.{0}".format(*code.split("-"))
    summaries, _ = report(pd.DataFrame({"when": replaced(text, written, n)}))
    assert summaries["when"].remarks[0].startswith(f"{written} in {n} row")
    births = pd.date_range("1900-01-01", "2000-01-01", periods=N)
    assert report(pd.DataFrame({"born": births}))[1] == []


TEXTS = {
    "pandas": lambda entries: pd.DataFrame({"x": entries}),
    "object": lambda entries: pd.DataFrame({"x": entries}, dtype=object),
    "polars": lambda entries: pl.DataFrame({"x": entries}),
    "pyarrow": lambda entries: pa.table({"x": entries}),
}


@pytest.mark.parametrize("convert", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("extra", [[], [None]], ids=["complete", "with a missing value"])
def test_numbers_written_as_text_stay_categorical_with_a_warning(convert: Any, extra: list[None]) -> None:
    summaries, (message,) = report(convert([str(i % 30) for i in range(N)] + extra))
    assert (summaries["x"].kind, summaries["x"].n_levels) == ("category", 30)
    assert summaries["x"].remarks == ("numbers written as text",)
    assert "to_numeric" in message


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"zip": pd.Categorical([98101, 98102] * 20)}),
        pd.DataFrame({"zip": pd.Categorical(["98101", "98102"] * 20)}),
        pl.DataFrame({"zip": pl.Series(["98101", "98102"] * 20, dtype=pl.Categorical)}),
        pl.DataFrame({"zip": pl.Series(["98101", "98102"] * 20, dtype=pl.Enum(["98101", "98102"]))}),
        pa.table({"zip": pa.array(["98101", "98102"] * 20).dictionary_encode()}),
    ],
    ids=lambda frame: type(frame).__module__.split(".")[0],
)
def test_numbers_in_a_categorical_type_are_meant_as_categories(frame: Any) -> None:
    summaries, messages = report(frame)
    assert (summaries["zip"].kind, summaries["zip"].remarks, messages) == ("category", (), [])


def test_text_that_is_numeric_except_for_few_entries_is_found() -> None:
    numbers = [str(i % 50) for i in range(N)]
    summaries, (message,) = report(
        pd.DataFrame({"x": replaced(numbers, "?"), "y": replaced(numbers, "unknown", 1), "z": "a"})
    )
    assert summaries["x"].remarks == ("numeric except for 3 entries such as '?'",)
    assert summaries["y"].remarks == ("numeric except for 1 entry such as 'unknown'",)
    assert "'x': " in message
    assert "'y': " in message


@pytest.mark.parametrize("convert", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(
    "pattern",
    [
        *("{:.2f}", "{:.0f}", "{:.0f},5", "1.{:03.0f},28", "1,{:03.0f}", "1 {:03.0f},5", "{:.0f}.5%"),
        *("{:.0f} %", "{:.0f} kg", "1,{:03.0f}.56 €", "${:.0f}", "EUR {:.2f}", "-{:.0f},5 °C"),
    ],
)
def test_numbers_with_separators_or_units_are_found(pattern: str, convert: Any) -> None:
    """Also if no entry occurs twice, or if a few entries are not numbers."""
    for n_different in (N, 30):
        entries = [pattern.format(10 + i % n_different) for i in range(N)]
        summaries, (message,) = report(convert(entries))
        assert "numbers" in message
        assert not any("identifier" in remark for remark in summaries["x"].remarks)
        summaries, (message,) = report(convert([*entries[:-2], "?", None]))
        assert "except for 1 entry such as '?'" in summaries["x"].remarks[0]
        assert 'na_values="?"' in message


@pytest.mark.parametrize(
    "pattern",
    ["K{}", "#{}", "{}-{}", "{}.{}.{}", "{}a7", "room {}", "+{}+", "{} or more of them", "1,{},{}"],
)
def test_text_with_digits_is_not_taken_for_numbers(pattern: str) -> None:
    _, messages = report(pd.DataFrame({"x": [pattern.format(*[10 + i % 30] * 3) for i in range(N)]}))
    assert messages == []


def test_few_categories_with_a_unit_are_not_taken_for_numbers() -> None:
    summaries, messages = report(pd.DataFrame({"rate": ["0%", "7%", "19%"] * 30}))
    assert (summaries["rate"].remarks, messages) == ((), [])


@pytest.mark.parametrize("extra", [[], ["?"], [None]])
def test_digits_with_leading_zeros_are_codes(extra: list[Any]) -> None:
    summaries, messages = report(pd.DataFrame({"postcode": ["01067", "80331", "10115"] * 30 + extra}))
    assert messages == []
    assert summaries["postcode"].kind == "category"
    assert summaries["postcode"].remarks[0] == "digits with leading zeros, probably codes"


def test_digits_of_different_lengths_are_numbers_in_spite_of_a_leading_zero() -> None:
    assert report(pd.DataFrame({"x": ["05", "7", "123"] * 30}))[0]["x"].remarks == (
        "numbers written as text",
    )


@pytest.mark.parametrize("entry", ["3+", "more"])
def test_an_entry_among_few_numeric_categories_is_one_more_category(entry: str) -> None:
    _, messages = report(pd.DataFrame({"children": replaced(["0", "1", "2"] * 50, entry)}))
    assert messages == []


def test_markers_of_missing_values_among_categories_are_mentioned_without_a_warning() -> None:
    summaries, messages = report(pd.DataFrame({"x": replaced(["red", "blue"] * 50, "?")}))
    assert messages == []
    assert summaries["x"].remarks == ("3 entries of '?', probably missing",)


def test_dates_that_are_ambiguous_or_have_exceptions_are_found() -> None:
    days = pd.date_range("2014-01-01", periods=200)
    early = days[days.day <= 12]
    for column, remark in [
        (early.strftime("%d/%m/%Y"), "day and month cannot be told apart"),
        (replaced(days.strftime("%Y-%m-%d"), "soon"), "dates except for 3 entries such as 'soon'"),
        (np.append(days.strftime("%d/%m/%Y"), ["12/31/2014"]), "dates in more than one format"),
    ]:
        summaries, (message,) = report(pd.DataFrame({"when": column}))
        assert remark in summaries["when"].remarks[0]
        assert remark in message
    assert report(pd.DataFrame({"when": early.strftime("%d.%m.%Y")}))[1] == []


def test_at_most_five_columns_are_listed_in_one_warning() -> None:
    frame = pd.DataFrame({f"x{k}": replaced(RNG.normal(size=N), -999.0) for k in range(8)})
    _, (message,) = report(frame)
    assert "'x4': " in message
    assert "'x5'" not in message
    assert "3 more" in message


def test_the_report_covers_all_rows_and_survives_saving() -> None:
    column = np.append(NUMBERS, [-999.0, np.nan])
    with pytest.warns(SuspiciousDataWarning):
        encoder = fit(pd.DataFrame({"x": column, "c": "a"}), rows=np.arange(N))
    assert encoder.column_report[0].remarks[0].startswith("-999 in 1 row")
    assert encoder.column_report[0].n_missing == 1
    state = encoder.state()
    state["column_report"] = json.loads(json.dumps(state["column_report"]))
    assert TableEncoder.from_state(state).column_report == encoder.column_report


@pytest.mark.parametrize(
    "load", [datasets.load_iris, datasets.load_diabetes, datasets.load_wine, datasets.load_breast_cancer]
)
def test_tables_of_scikit_learn_have_no_likely_mistakes(load: Any) -> None:
    assert report(load(as_frame=True).frame)[1] == []


@pytest.mark.parametrize("seed", range(5))
def test_random_tables_have_no_likely_mistakes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = [
        rng.normal(size=(N, 20)),
        np.round(10 * rng.normal(size=(N, 20))),
        rng.integers(0, rng.integers(2, 30, 20), (N, 20)),
        rng.integers(-3, 4, (N, 20)),
        np.round(100 * rng.lognormal(size=(N, 20))),
        datasets.make_regression(N, 20, random_state=seed)[0],
    ]
    for X in tables:
        assert report(X)[1] == []


def test_an_identifier_in_random_order_is_recognised_by_its_name() -> None:
    numbers = RNG.permutation(10_000)[:N].astype(float)
    frame = pd.DataFrame({"house_id": numbers, "area": numbers, "grid": numbers, "group_id": numbers % 5})
    summaries, warned = report(frame)
    assert warned == []
    found = [name for name, summary in summaries.items() if "identifier" in str(summary.remarks)]
    assert found == ["house_id"]


def test_one_of_two_numbers_is_no_code() -> None:
    assert report(RNG.choice([-100.0, 100.0], (N, 1)))[1] == []
