"""Dates and times: recognising them in text, and expanding them into features."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.encoding.table import DATE_DTYPE, TIME_OF_DAY_DATE, missing_entries

# Features of a date. The year is decimal (2015.5 is the middle of 2015) and so is the hour; Monday is 0.
NUMBERS_OF_DATES = ("year", "month", "day of year", "weekday", "hour")
# Sine and cosine put the end of a year, a week and a day next to its beginning.
PERIODS = {"day of year": 365.25, "weekday": 7.0, "hour": 24.0}
DATE_PARTS = (
    *NUMBERS_OF_DATES,
    *(f"{function} of {part}" for part in PERIODS for function in ("sine", "cosine")),
)

_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
_THEN_TIME = rf"(?:(?:,?\s+|T){_TIME}\s*(?:Z|UTC|GMT|[+-]\d{{2}}:?\d{{2}})?)?"
_TIME_OF_DAY = re.compile(_TIME)
# 2014-10-13, 2014-10-13T09:30:00+02:00, 20141013T093000. Eight digits alone are a number.
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T].+)?|\d{8}T\d{2}.*")
_YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})([./-])(?P<month>\d{{1,2}})\2(?P<day>\d{{1,2}}){_THEN_TIME}")
# A year of two digits is accepted only in 31/12/20 and 31.12.20, because 1.2.3 is more often a version.
_YEAR_LAST = re.compile(
    r"(?P<first>\d{1,2})(?P<separator>[./-])(?P<second_number>\d{1,2})(?P=separator)"
    rf"(?P<year>\d{{4}}|(?<=/)\d{{2}}|(?<=\d\d\.\d\d\.)\d{{2}}){_THEN_TIME}"
)
_NAME = r"(?P<name>[A-Za-z]{3,9})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_WITH_MONTH_NAME = (
    re.compile(rf"(?:[A-Za-z]{{3,9}},?\s+)?{_DAY}[ -]{_NAME},?[ -]{_YEAR}{_THEN_TIME}"),
    re.compile(rf"(?:[A-Za-z]{{3,9}},\s+)?{_NAME} {_DAY},? {_YEAR}{_THEN_TIME}"),
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True)
class DateFormat:
    """How the text of a column of dates is read.

    ISO dates (2014-10-13, 2014-10-13T09:30:00, 20141013T093000), dates that begin with the year (2014/10/13),
    dates with an English month name (13 Oct 2014) and numeric dates that end with the year (13/10/2014) are
    recognised, each with an optional time such as 09:30, 09:30:15 or 9:30 PM. A time zone is ignored.

    Attributes
    ----------
    day_first : bool or None
        Whether the day precedes the month in dates that end with the year. None if there were none, so that
        03/04/2014 cannot be read.
    is_time_of_day : bool
        Whether the entries are times without a date.
    is_ambiguous : bool
        Whether `day_first` was assumed, because no entry has a number above 12.

    Examples
    --------
    >>> rule = DateFormat.infer(["03/04/2014", "13/04/2014 09:30"])
    >>> rule.day_first, str(rule.parse("04/03/2014"))
    (True, '2014-03-04 00:00:00')
    >>> DateFormat.infer(["2014-10-13", "soon"]) is None
    True
    """

    day_first: bool | None = None
    is_time_of_day: bool = False
    is_ambiguous: bool = False

    @classmethod
    def infer(cls, entries: Iterable[str]) -> DateFormat | None:
        """Find the format in which all entries are dates, or all are times of day; None if there is none.

        The first number of a numeric date is the day if it exceeds 12 in some entry. If all numbers are at
        most 12, it is the day in 03.04.2014 and the month in 03/04/2014 and 03-04-2014.
        """
        kinds: set[str] = set()
        orders: set[bool] = set()
        separators: set[str] = set()
        is_undecided = False
        for entry in entries:
            text = entry.strip()
            if match := _YEAR_LAST.fullmatch(text):
                first, second = int(match["first"]), int(match["second_number"])
                if _year_last(match, day_first=first > 12) is None:
                    return None
                separators.add(match["separator"])
                if max(first, second) > 12:
                    orders.add(first > 12)
                is_undecided |= first != second
                kinds.add("date")
            elif _time_of_day(text) is not None:
                kinds.add("time")
            elif cls().parse(text) is not None:
                kinds.add("date")
            else:
                return None
        if len(kinds) != 1 or len(orders) > 1:
            return None
        if orders or not separators:
            return cls(orders.pop() if orders else None, kinds == {"time"})
        is_day_first = separators == {"."}
        return cls(is_day_first, is_ambiguous=is_undecided and not is_day_first)

    @classmethod
    def of(cls, dates: NDArray) -> DateFormat:
        """The format in which text is accepted instead of dates (n,) datetime64[us].

        No order of day and month is known, so 03/04/2014 is not accepted.
        """
        days = dates[~np.isnat(dates)].astype("datetime64[D]")
        return cls(is_time_of_day=bool((days == np.datetime64(TIME_OF_DAY_DATE)).all()))

    def completed(self, entries: Iterable[str]) -> DateFormat:
        """The same format with the order of day and month in these entries, if it has none and they show it.

        Examples
        --------
        >>> DateFormat().completed(["02.02.2014", "soon"]).day_first
        True
        >>> DateFormat().completed(["03/04/2014"]).day_first is None
        True
        """
        if self.day_first is not None:
            return self
        inferred = DateFormat.infer(entry for entry in entries if _YEAR_LAST.fullmatch(entry.strip()))
        return (
            self if inferred is None or inferred.is_ambiguous else replace(self, day_first=inferred.day_first)
        )

    def explain(self, text: str) -> str:
        """End of a sentence that says why `parse` does not accept an entry."""
        match = _YEAR_LAST.fullmatch(text.strip())
        if self.day_first is None and match and max(int(match["first"]), int(match["second_number"])) <= 12:
            return "in which day and month cannot be told apart."
        if self.day_first is None:
            return "which is not a date such as 2014-10-13."
        example = "13/10/2014" if self.day_first else "10/13/2014"
        return f"which is not a date in the format of the training rows, such as {example}."

    def parse(self, text: str) -> datetime | None:
        """Convert one entry; None if it is not a date in this format."""
        text = text.strip()
        if _ISO.fullmatch(text):
            try:
                return datetime.fromisoformat(text).replace(tzinfo=None)
            except ValueError:
                pass  # for example with a time such as 9:30 PM, which is read below
        if match := _YEAR_FIRST.fullmatch(text):
            return _combine(match, int(match["month"]), int(match["day"]))
        if match := _YEAR_LAST.fullmatch(text):
            day_first = self.day_first
            if day_first is None and max(int(match["first"]), int(match["second_number"])) > 12:
                day_first = int(match["first"]) > 12
            return None if day_first is None else _year_last(match, day_first)
        for pattern in _WITH_MONTH_NAME:
            if match := pattern.fullmatch(text):
                return _combine(match, _month(match["name"]), int(match["day"]))
        return _time_of_day(text) if self.is_time_of_day else None

    def parse_column(self, column: NDArray) -> tuple[NDArray, Bools]:
        """Convert a column of text, with None = missing.

        Returns
        -------
        dates : (n,) datetime64[us]
            NaT where missing or not a date.
        is_invalid : (n,) bool
            Entries that are not dates in this format.
        """
        entries = column.tolist()
        # A date usually occurs in many rows.
        codes = {entry: code for code, entry in enumerate(dict.fromkeys(entries))}
        parsed = np.array([None if entry is None else self.parse(entry) for entry in codes], dtype=DATE_DTYPE)
        dates = parsed[[codes[entry] for entry in entries]]
        return dates, np.isnat(dates) & ~missing_entries(column)


def date_parts(dates: NDArray) -> Floats:
    """Expand dates (n,) datetime64[us] into the features `DATE_PARTS`, (n, 11); NaN where missing.

    Examples
    --------
    >>> parts = date_parts(np.array(["2014-10-13T18:00"], dtype="datetime64[us]"))[0]
    >>> dict(zip(DATE_PARTS, parts.round(2).tolist()))["hour"], parts[:4].round(2).tolist()
    (18.0, [2014.78, 10.0, 286.0, 0.0])
    """
    missing = np.isnat(dates)
    dates = np.where(missing, np.datetime64(0, "us"), dates)
    days, years = dates.astype("datetime64[D]"), dates.astype("datetime64[Y]")
    start, end = years.astype(days.dtype), (years + 1).astype(days.dtype)
    numbers = {
        # Without the time of day, so that the year of times of day is constant.
        "year": years.astype(np.int64) + 1970 + (days - start) / (end - start),
        "month": dates.astype("datetime64[M]").astype(np.int64) % 12 + 1,
        "day of year": (days - start).astype(np.int64) + 1,
        # The first of January 1970 was a Thursday.
        "weekday": (days.astype(np.int64) + 3) % 7,
        "hour": (dates - days) / np.timedelta64(1, "h"),
    }
    angles = [2 * np.pi * numbers[part] / period for part, period in PERIODS.items()]
    cycles = [cycle for angle in angles for cycle in (np.sin(angle), np.cos(angle))]
    parts = np.column_stack([*numbers.values(), *cycles]).astype(np.float64)
    parts[missing] = np.nan
    return parts


class DateEncoder:
    """Encodes one column of dates as the features that vary in the training rows.

    Parameters
    ----------
    parts : list of str
        Features from `DATE_PARTS`.
    text_format : DateFormat
        How dates written as text are read.

    Examples
    --------
    >>> days = np.array(["2014-10-13", "2014-10-14", "NaT"], dtype="datetime64[us]")
    >>> encoder = DateEncoder.fit(days, DateFormat())
    >>> encoder.parts[:3]
    ['year', 'day of year', 'weekday']
    >>> encoder.encode(days)[:, 2].tolist()
    [0.0, 1.0, nan]
    """

    def __init__(self, parts: list[str], text_format: DateFormat):
        self.parts = list(parts)
        self.text_format = text_format
        self._positions = [DATE_PARTS.index(part) for part in self.parts]

    @classmethod
    def fit(cls, dates: NDArray, text_format: DateFormat) -> DateEncoder:
        """Find the features that vary.

        Parameters
        ----------
        dates : (n,) datetime64[us]
            The column in the training rows, with at least one date.
        text_format : DateFormat
            How dates written as text are read.
        """
        observed = date_parts(dates[~np.isnat(dates)])[:, : len(NUMBERS_OF_DATES)]
        varies = dict(zip(NUMBERS_OF_DATES, np.ptp(observed, axis=0) > 0, strict=True))
        parts = [
            part for part in DATE_PARTS if varies[part.removeprefix("sine of ").removeprefix("cosine of ")]
        ]
        # A constant column is encoded as zero.
        return cls(parts or ["year"], text_format)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.parts)

    def encode(self, dates: NDArray) -> Floats:
        """Features (n, width) of a column of dates; NaN where missing."""
        return date_parts(dates)[:, self._positions]

    def state(self) -> dict[str, Any]:
        """What `from_state` needs to recreate the encoder."""
        return {"parts": self.parts, "text_format": asdict(self.text_format)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> DateEncoder:
        """Create an encoder from the result of `state`."""
        return cls(state["parts"], DateFormat(**state["text_format"]))


def describe_year(year: float) -> str:
    """The date of a decimal year, for messages.

    Examples
    --------
    >>> describe_year(2014.5)
    '2014-07-02'
    """
    whole = int(np.floor(year))
    if not date.min.year <= whole < date.max.year:
        return f"{year:.6g}"
    start = datetime(whole, 1, 1)
    # Half a second more, because midnight must not be rounded to the day before.
    return str((start + (year - whole) * (datetime(whole + 1, 1, 1) - start) + timedelta(seconds=0.5)).date())


def _year_last(match: re.Match[str], day_first: bool) -> datetime | None:
    day, month = int(match["first"]), int(match["second_number"])
    return _combine(match, month, day) if day_first else _combine(match, day, month)


def _month(name: str) -> int:
    """Number of an English month, abbreviated or not; 0 if it is none."""
    start = name[:3].lower()
    return _MONTHS.index(start) + 1 if start in _MONTHS else 0


def _time_of_day(text: str) -> datetime | None:
    match = _TIME_OF_DAY.fullmatch(text)
    if match is None or (time_ := _time(match)) is None:
        return None
    return datetime.combine(TIME_OF_DAY_DATE, time_)


def _combine(match: re.Match[str], month: int, day: int) -> datetime | None:
    """Date of these numbers with the year and the time of a match; None if there is no such date."""
    year = int(match["year"])
    if len(match["year"]) == 2:
        year += 1900 if year >= 69 else 2000
    time_ = time() if match["hour"] is None else _time(match)
    try:
        return None if time_ is None else datetime.combine(date(year, month, day), time_)
    except ValueError:
        return None


def _time(match: re.Match[str]) -> time | None:
    hour = int(match["hour"])
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["half"][0] in "Pp")
    try:
        return time(hour, int(match["minute"]), int(match["second"] or 0))
    except ValueError:
        return None
