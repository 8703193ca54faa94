"""Dates in any form become the same features, missing dates are missing, other entries raise."""

from __future__ import annotations

import calendar
import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stablemiss.encoding import TableEncoder, read_table
from stablemiss.encoding.dates import DATE_PARTS, DateEncoder, DateFormat, date_parts, describe_year
from stablemiss.tasks import Regression

MOMENT = dt.datetime(2014, 10, 13, 9, 30)
BERLIN = "Europe/Berlin"


def fit(X: Any, rows: Any = None, **settings: Any) -> tuple[TableEncoder, np.ndarray, np.ndarray]:
    table = read_table(X)
    y = np.arange(float(table.n_rows))
    encoder = TableEncoder(**settings)
    rows = np.arange(table.n_rows) if rows is None else rows
    values, mask = encoder.fit_transform(table, rows, y[:, None], Regression.of(y), np.random.default_rng(0))
    return encoder, values, mask


def hours(n: int = 200, seed: int = 0) -> pd.DatetimeIndex:
    """Full hours from 2013 to 2015."""
    offsets = np.random.default_rng(seed).integers(0, 3 * 365 * 24, n)
    return pd.DatetimeIndex(pd.Timestamp("2013-01-01") + pd.to_timedelta(offsets, unit="h"))


# Reading of tables


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"c": [MOMENT, None]}),
        pd.DataFrame({"c": [pd.Timestamp(MOMENT, tz=BERLIN), pd.NaT]}),
        pd.DataFrame({"c": [pd.Timestamp(MOMENT, tz=BERLIN), None]}, dtype=object),
        pd.DataFrame({"c": pd.array([MOMENT, None], dtype=pd.ArrowDtype(pa.timestamp("ms")))}),
        pl.DataFrame({"c": [MOMENT, None]}),
        pl.DataFrame({"c": [MOMENT, None]}).with_columns(pl.col("c").dt.replace_time_zone(BERLIN)),
        pl.DataFrame({"c": pl.Series([MOMENT, None], dtype=pl.Datetime("ns"))}),
        pa.table({"c": [MOMENT, None]}),
        pa.table({"c": pa.array([pd.Timestamp(MOMENT, tz=BERLIN), None], pa.timestamp("s", BERLIN))}),
        np.array([["2014-10-13T09:30"], ["NaT"]], dtype="datetime64[m]"),
        np.array([[MOMENT], [pd.NaT]], dtype=object),
        [[MOMENT], [None]],
        [[np.datetime64(MOMENT)], [np.datetime64("NaT")]],
    ],
    ids=lambda X: type(X).__module__.split(".")[0],
)
def test_dates_of_all_libraries_keep_their_local_time(X: Any) -> None:
    (column,) = read_table(X).columns
    assert column.dtype == "datetime64[us]"
    assert column.tolist() == [MOMENT, None]


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"c": pd.array([MOMENT.date(), None], dtype=pd.ArrowDtype(pa.date32()))}),
        pl.DataFrame({"c": [MOMENT.date(), None]}),
        pa.table({"c": [MOMENT.date(), None]}),
        [[MOMENT.date()], [None]],
    ],
    ids=lambda X: type(X).__module__.split(".")[0],
)
def test_days_are_dates_at_midnight(X: Any) -> None:
    assert read_table(X).columns[0].tolist() == [dt.datetime(2014, 10, 13), None]


@pytest.mark.parametrize(
    "X",
    [
        pl.DataFrame({"c": [MOMENT.time(), None]}),
        pa.table({"c": [MOMENT.time(), None]}),
        [[MOMENT.time()], [None]],
    ],
    ids=lambda X: type(X).__module__.split(".")[0],
)
def test_only_the_hour_of_times_of_day_varies(X: Any) -> None:
    (column,) = read_table(X).columns
    assert date_parts(column)[0, DATE_PARTS.index("hour")] == 9.5
    times = [[dt.time(hour)] for hour in range(24)]
    assert fit(times)[0].encoded_names == [
        "column 0 (hour)",
        "column 0 (sine of hour)",
        "column 0 (cosine of hour)",
    ]


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"c": [pd.Timedelta(hours=1), None]}),
        pl.DataFrame({"c": [dt.timedelta(hours=1), None]}),
        pa.table({"c": [dt.timedelta(hours=1), None]}),
        np.array([[1], ["NaT"]], dtype="timedelta64[h]"),
        [[dt.timedelta(hours=1)], [None]],
        [[np.timedelta64(1, "h")], [np.timedelta64("NaT")]],
    ],
    ids=lambda X: type(X).__module__.split(".")[0],
)
def test_durations_are_numbers_in_seconds(X: Any) -> None:
    np.testing.assert_array_equal(read_table(X).columns[0], [3600.0, np.nan])


# Text


FORMATS = {
    "%Y-%m-%d": None,
    "%Y-%m-%dT%H:%M:%S": None,
    "%Y-%m-%d %H:%M:%S.%f": None,
    "%Y-%m-%dT%H:%M:%SZ": None,
    "%Y-%m-%dT%H:%M:%S+02:00": None,
    "%Y%m%dT%H%M%S": None,
    "%Y/%m/%d": None,
    "%Y.%m.%d %H:%M": None,
    "%Y-%m-%d %I:%M %p": None,
    "%d/%m/%Y": True,
    "%d.%m.%Y %H:%M": True,
    "%d-%m-%Y": True,
    "%m/%d/%Y": False,
    "%m/%d/%Y %I:%M:%S %p": False,
    "%d/%m/%y": True,
    "%d.%m.%y": True,
    "%d %b %Y": None,
    "%d-%b-%Y %H:%M": None,
    "%B %d, %Y": None,
    "%a, %d %b %Y %H:%M:%S GMT": None,
}


@pytest.mark.parametrize(("pattern", "day_first"), FORMATS.items())
def test_text_in_all_formats_is_recognised(pattern: str, day_first: bool | None) -> None:
    moments = hours()
    texts = np.array([*moments.strftime(pattern), None], dtype=object)
    rule = DateFormat.infer(set(texts) - {None})
    assert rule is not None
    assert (rule.day_first, rule.is_ambiguous) == (day_first, False)
    dates, is_invalid = rule.parse_column(texts)
    assert not is_invalid.any()
    has_time = "%H" in pattern or "%I" in pattern
    expected = moments if has_time else moments.normalize()
    np.testing.assert_array_equal(dates[:-1], expected.to_numpy().astype("datetime64[us]"))
    assert np.isnat(dates[-1])


@pytest.mark.parametrize(
    "entries",
    [
        ["red", "blue"],
        ["20141013", "20141014"],
        ["1.2.3", "1.2.4"],
        ["120/80", "110/70"],
        ["2014-10-13", "soon"],
        ["2014-02-30"],
        ["13/13/2014"],
        ["13/04/2014", "04/13/2014"],
        ["2014-10-13", "09:30"],
        ["25:10"],
        ["13 Foo 2014"],
        ["20141013A12"],
        ["2014", "2015"],
        ["13:30 PM"],
        [],
    ],
    ids=str,
)
def test_text_that_is_not_entirely_dates_of_one_format_is_not_recognised(entries: list[str]) -> None:
    assert DateFormat.infer(entries) is None


@pytest.mark.parametrize(
    ("entries", "day_first", "is_ambiguous"),
    [
        (["03/04/2014", "13/04/2014"], True, False),
        (["03/04/2014", "04/13/2014"], False, False),
        (["03/04/2014", "05/06/2014"], False, True),
        (["03-04-2014"], False, True),
        (["03.04.2014"], True, False),
        (["03/03/2014"], False, False),
        (["2014-03-04"], None, False),
    ],
)
def test_an_entry_above_twelve_decides_the_order_of_day_and_month(
    entries: list[str], day_first: bool | None, is_ambiguous: bool
) -> None:
    rule = DateFormat.infer(entries)
    assert rule is not None
    assert (rule.day_first, rule.is_ambiguous) == (day_first, is_ambiguous)


def test_times_of_day_are_recognised() -> None:
    rule = DateFormat.infer(["09:30", "9:30 pm", "23:59:59"])
    assert rule is not None
    assert rule.is_time_of_day
    assert [rule.parse(text).time() for text in ("9:30 PM", "12:00 AM")] == [dt.time(21, 30), dt.time(0)]


# Features


@pytest.mark.parametrize("seed", range(5))
def test_features_agree_with_the_standard_library(seed: int) -> None:
    """Including leap years and dates before 1970."""
    rng = np.random.default_rng(seed)
    seconds = rng.integers(-3 * 10**9, 3 * 10**9, 50)
    moments = [dt.datetime(1970, 1, 1) + dt.timedelta(seconds=int(s)) for s in seconds]
    parts = dict(zip(DATE_PARTS, date_parts(np.array(moments, dtype="datetime64[us]")).T, strict=True))
    for k, moment in enumerate(moments):
        hour = moment.hour + moment.minute / 60 + moment.second / 3600
        days = 366 if calendar.isleap(moment.year) else 365
        day_of_year = moment.timetuple().tm_yday
        expected = {
            "year": moment.year + (day_of_year - 1) / days,
            "month": moment.month,
            "day of year": day_of_year,
            "weekday": moment.weekday(),
            "hour": hour,
            "sine of weekday": np.sin(2 * np.pi * moment.weekday() / 7),
            "cosine of hour": np.cos(2 * np.pi * hour / 24),
        }
        np.testing.assert_allclose([parts[name][k] for name in expected], list(expected.values()), atol=1e-9)


def test_the_end_of_a_cycle_is_next_to_its_beginning() -> None:
    ends = date_parts(np.array(["2014-12-31T23:59", "2015-01-01T00:00"], dtype="datetime64[us]"))
    cycles = [k for k, name in enumerate(DATE_PARTS) if "sine" in name and "weekday" not in name]
    np.testing.assert_allclose(ends[0, cycles], ends[1, cycles], atol=0.03)


def test_missing_dates_are_missing_in_all_features() -> None:
    encoder, values, mask = fit(pd.DataFrame({"when": [*hours(50), pd.NaT], "x": 1.0}))
    assert encoder.groups.tolist() == [0] * 11 + [1]
    assert mask[:50].all()
    assert not mask[50, :11].any()
    assert (values[50, :11] == 0).all()
    assert encoder.ever_missing.tolist() == [True, False]


def test_features_that_are_constant_in_training_are_left_out() -> None:
    days = hours().normalize()
    names = fit(pd.DataFrame({"when": days}))[0].encoded_names
    assert len(names) == 8
    assert not any("hour" in name for name in names)
    one_year = fit(pd.DataFrame({"when": pd.date_range("2014-03-01", "2014-03-31")}))[0].encoded_names
    assert "when (month)" not in one_year
    encoder, values, mask = fit(pd.DataFrame({"when": [MOMENT] * 5}))
    assert encoder.encoded_names == ["when"]
    assert mask.all()
    assert (values == 0).all()


def test_the_features_are_chosen_by_the_training_rows() -> None:
    when = pd.DatetimeIndex([*hours(50).normalize(), MOMENT])
    assert fit(pd.DataFrame({"when": when}), rows=np.arange(50))[1].shape == (51, 8)


# Encoding


@pytest.mark.parametrize("pattern", ["%Y-%m-%dT%H:%M:%S", "%d/%m/%Y %H:%M", "%m/%d/%Y %I:%M %p"])
def test_text_and_dates_are_interchangeable(pattern: str) -> None:
    moments = hours()
    as_dates = pd.DataFrame({"when": moments})
    as_text = pd.DataFrame({"when": moments.strftime(pattern)})
    encoder, values, mask = fit(as_text)
    assert encoder.kinds == ["dates"]
    np.testing.assert_array_equal(values, fit(as_dates)[1])
    for X in (as_dates, as_text, pd.DataFrame({"when": [str(moment) for moment in moments]})):
        np.testing.assert_array_equal(encoder.transform(read_table(X)).values, values)
    restored = TableEncoder.from_state(encoder.state())
    np.testing.assert_array_equal(restored.transform(read_table(as_text.head(1))).values, values[:1])
    assert restored.encoded_names == encoder.encoded_names
    assert mask.all()


@pytest.mark.parametrize(
    ("pattern", "entry"),
    [("%d/%m/%Y", "04/13/2014"), ("%d/%m/%Y", "soon"), ("%Y-%m-%d", "03/04/2014"), ("%Y-%m-%d", "")],
)
def test_new_text_that_is_not_a_date_as_in_training_raises(pattern: str, entry: str) -> None:
    texts = hours().strftime(pattern)
    encoder, *_ = fit(pd.DataFrame({"when": texts}))
    new = pd.DataFrame({"when": [texts[0], None, entry]})
    with pytest.raises(ValueError, match=rf"column 'when'.* row 2 is '{entry}'.*Correct it.*2014-10-13"):
        encoder.transform(read_table(new))


@pytest.mark.parametrize(
    ("entries", "days"),
    [
        (["02.02.2014", "27.06.2014"], ["2014-02-02", "2014-06-27"]),
        (["03.04.2014"], ["2014-04-03"]),
        (["03/04/2014", "06/27/2014", None], ["2014-03-04", "2014-06-27", "NaT"]),
        (["03/04/2014", "27/06/2014", "2014-01-01"], ["2014-04-03", "2014-06-27", "2014-01-01"]),
        (["02/02/2014"], ["2014-02-02"]),
    ],
)
def test_the_order_of_day_and_month_is_that_of_the_new_text_if_training_had_none(
    entries: list[str], days: list[str]
) -> None:
    for training in (hours(), hours().strftime("%Y-%m-%d")):
        encoder, *_ = fit(pd.DataFrame({"when": training}))
        as_dates = encoder.transform(read_table(pd.DataFrame({"when": pd.to_datetime(days)})))
        as_text = encoder.transform(read_table(pd.DataFrame({"when": entries})))
        np.testing.assert_array_equal(as_text.values, as_dates.values)


@pytest.mark.parametrize(
    ("entry", "reason"), [("03/04/2014", "cannot be told apart"), ("45.13.2014", "not a date")]
)
def test_the_reason_why_new_text_is_refused_is_true(entry: str, reason: str) -> None:
    encoder, *_ = fit(pd.DataFrame({"when": hours()}))
    with pytest.raises(ValueError, match=f"row 1 is '{entry}', .*{reason}"):
        encoder.transform(read_table(pd.DataFrame({"when": ["2014-01-01", entry]})))


def test_a_column_of_another_type_than_in_training_raises() -> None:
    encoder, *_ = fit(pd.DataFrame({"when": hours(), "x": np.arange(200.0), "c": ["a", "b"] * 100}))
    new = pd.DataFrame({"when": hours(3), "x": 1.0, "c": "a"})
    for name, column, message in [
        ("when", 3.0, r"Dates were expected in column 'when', .*numbers such as 3\.0"),
        ("x", MOMENT, r"Numbers were expected in column 'x', .*dates such as 2014-10-13"),
        ("c", MOMENT, r"Categories .* expected in column 'c', .*dates such as 2014-10-13"),
    ]:
        with pytest.raises(ValueError, match=message):
            encoder.transform(read_table(new.assign(**{name: column})))
    missing = encoder.transform(read_table(new.assign(when=None)))
    assert not missing.mask[:, :11].any()


def test_dates_far_from_the_training_rows_are_out_of_range() -> None:
    encoder, *_ = fit(pd.DataFrame({"when": hours(), "x": np.arange(200.0)}))
    new = pd.DataFrame({"when": pd.to_datetime(["2014-05-01", "1900-01-01", "2050-06-01"]), "x": 1.0})
    encoded = encoder.transform(read_table(new))
    assert encoded.out_of_range[:, 0].tolist() == [False, True, True]
    assert (encoded.out_of_range[:, :11] == encoded.out_of_range[:, :1]).all()
    (exceeded,) = encoded.exceeded
    assert (exceeded.label, exceeded.smallest, exceeded.largest) == ("'when'", "1900-01-01", "2050-06-01")
    assert exceeded.seen.startswith("2013-01")
    assert np.abs(encoded.values).max() < 5
    hidden = encoder.transform(read_table(new), on_out_of_range="missing")
    assert hidden.mask[:, 0].tolist() == [True, False, False]
    assert not hidden.mask[1:, :11].any()


def test_a_season_that_did_not_occur_in_training_is_out_of_range() -> None:
    winters = pd.DatetimeIndex(
        [day for year in (2013, 2014, 2015) for day in pd.date_range(f"{year}-01-01", periods=90)]
    )
    encoder, *_ = fit(pd.DataFrame({"when": winters}))
    (exceeded,) = encoder.transform(read_table(pd.DataFrame({"when": [dt.datetime(2014, 11, 1)]}))).exceeded
    assert exceeded.label == "'when' (month)"


def test_date_features_can_be_switched_off() -> None:
    with pytest.raises(TypeError, match=r"column 'when' contains 2014-10-13.*date_features=True"):
        fit(pd.DataFrame({"when": [MOMENT, None]}), date_features=False)
    days = hours().strftime("%Y-%m")
    text = pd.DataFrame({"when": days + "-01"})
    assert fit(text, date_features=False)[0].kinds == ["categories"]


def test_dates_declared_categorical_stay_categorical() -> None:
    text = pd.DataFrame({"when": pd.Categorical(["2014-10-13", "2014-10-14"] * 20)})
    assert fit(text)[0].kinds == ["categories"]


def test_an_encoder_of_dates_keeps_at_least_one_feature() -> None:
    encoder = DateEncoder.fit(np.array([MOMENT], dtype="datetime64[us]"), DateFormat())
    assert encoder.parts == ["year"]


@pytest.mark.parametrize("text", ["2014-01-01", "2014-12-31", "2016-02-29", "0001-01-01", "9998-12-31"])
def test_a_decimal_year_is_described_by_its_date(text: str) -> None:
    year = date_parts(np.array([text], dtype="datetime64[us]"))[0, 0]
    assert describe_year(year) == text
    assert describe_year(1e6) == "1e+06"
