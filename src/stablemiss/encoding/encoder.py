"""Encoding of a table with missing values as (values, mask), the same for training and new rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, centre_and_scale
from stablemiss.encoding.categories import (
    ONE_HOT_CHOICES,
    CategoryEncoder,
    choose_max_one_hot,
    fit_target_encoding,
)
from stablemiss.encoding.check_state import check_state
from stablemiss.encoding.columns import (
    CATEGORIES,
    CONSTANT,
    DATES,
    DTYPE_KINDS,
    IGNORED,
    NUMBERS,
    TrainingColumn,
    distinct_entries,
)
from stablemiss.encoding.dates import NUMBERS_OF_DATES, DateEncoder, DateFormat, describe_year
from stablemiss.encoding.encoded import Encoded, OnOutOfRange, OutOfRange, UnknownCategories, check_in_range
from stablemiss.encoding.matching import match_columns
from stablemiss.encoding.ranges import Ranges
from stablemiss.encoding.report import ColumnSummary, SuspiciousDataWarning, describe_mistakes, summarise
from stablemiss.encoding.table import Table, describe_column, missing_entries, read_table
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task
from stablemiss.text import RowError

# The limits of a column with values near the largest float64 may be further from its mean than any float64.
# This bound is far beyond all other limits, and keeps such values and their squares finite in float32.
MAX_DEVIATION = 1e6


class TableEncoder:
    """Encodes tables as standardised numbers with a mask; fitted on the training rows.

    Every encoded column is centred and scaled by its observed values in the training rows, including the
    columns of a one-hot encoding. Missing values are filled with zero, which then means "average". A column
    that was constant in training is always encoded as zero, because the effect of other values is unknown; if
    it was never missing either, it never counts as missing. A column that was never observed in training
    counts as missing in new rows too. New numbers far outside the range of the training rows are clipped near
    it, count as missing, or raise an error; see `transform`.

    A column of dates, or of text in which every entry is a date (see `DateFormat`), becomes up to eleven
    columns: the decimal year, the month, the day of the year, the weekday (0 = Monday) and the decimal hour
    as numbers, and sine and cosine of the day of the year, the weekday and the hour. Those that are constant
    in the training rows, such as the hour of dates without time, are left out.

    Text in which no entry occurs twice, in 20 rows or more, is ignored, because new rows would have other
    entries: it is encoded as zero and never counts as missing.

    Parameters
    ----------
    max_one_hot : int or "auto", default="auto"
        Maximum number of categories for one-hot encoding (a single column for two categories). Columns with
        more categories are target-encoded: each category becomes its mean target, one number per output or
        class. Raising it keeps more categories distinct, but makes the encoded table wider and
        sparser. "auto" is 12, or fewer for tables that would otherwise be wider than MAX_WIDTH; when fitted,
        the attribute is the number that was chosen.
    date_features : bool, default=True
        True expands dates. False raises an error for columns of dates, and leaves dates written as text
        categorical.

    Attributes
    ----------
    n_features : int
        Number of columns of the input table.
    names : list of str, or None
        Column names in training: the labels if all are strings, as in scikit-learn; otherwise None.
    labels : list of str, or None
        Column labels in training, converted to strings. Columns of new tables are matched by them.
    is_numbered : bool
        Whether the labels were just 0, 1, …
    kinds : list of str
        Type of each column in the training rows: "numbers", "categories", "dates", "constant", "never
        observed" or "ignored". Columns of the last three kinds may be absent from new tables.
    groups : (d,) int64
        Index of the input column that each encoded column belongs to.
    ever_missing : (n_features,) bool
        Which input columns had missing values in the table passed to `fit_transform`.
    column_report : list of ColumnSummary
        How each column of that table was read, and what is unusual about it.

    See Also
    --------
    read_table : Reads the tables to encode.

    Examples
    --------
    >>> from stablemiss.encoding import read_table
    >>> from stablemiss.tasks import Regression
    >>> table = read_table([[1.0, "a"], [3.0, "b"], [None, "a"], [1.0, "b"], [3.0, None]])
    >>> y = np.arange(5.0)
    >>> encoder = TableEncoder()
    >>> values, mask = encoder.fit_transform(
    ...     table, np.arange(5), y[:, None], Regression.of(y), np.random.default_rng(0)
    ... )
    >>> values.tolist()
    [[-1.0, -1.0], [1.0, 1.0], [0.0, -1.0], [-1.0, 1.0], [1.0, 0.0]]
    >>> new = encoder.transform(read_table([[5.0, "never seen"]]))
    >>> new.values.tolist(), new.mask.tolist()
    ([[3.0, 0.0]], [[True, False]])
    """

    # How messages call the parts of a row.
    unit: ClassVar[str] = "column"

    n_features: int
    names: list[str] | None
    labels: list[str] | None
    is_numbered: bool
    kinds: list[str]
    groups: NDArray[np.int64]
    ever_missing: Bools
    column_report: list[ColumnSummary]

    def __init__(self, max_one_hot: int | Literal["auto"] = "auto", date_features: bool = True):
        self._is_auto = max_one_hot == "auto"
        self.max_one_hot = ONE_HOT_CHOICES[0] if max_one_hot == "auto" else max_one_hot
        if self.max_one_hot < 2:
            raise ValueError(f"max_one_hot must be at least 2; got {max_one_hot}.")
        self.date_features = date_features

    def fit_transform(
        self, table: Table, rows: NDArray[np.integer], target: NDArray, task: Task, rng: Rng
    ) -> tuple[Floats, Bools]:
        """Fit on the training rows of a table and encode all its rows.

        A `SuspiciousDataWarning` lists columns that look as if they contain mistakes.

        Parameters
        ----------
        table : Table
            Training and validation rows together.
        rows : (n_train,) int
            Indices of the training rows. Means, scales, categories and target means are computed from them
            alone.
        target : (n, d_target) float64 or (n,) int64
            Target, encoded by the task; used only for columns with more than `max_one_hot` categories.
        task : Task
            Regression or classification.
        rng : numpy Generator
            Draws the folds of the target encoding, in which no row is encoded with its own target.

        Returns
        -------
        values : (n, d) float64
            Standardised, exactly zero where missing.
        mask : (n, d) bool
            True = observed.
        """
        self.n_features, self.names = len(table.columns), table.names
        self.labels, self.is_numbered = table.labels, table.is_numbered
        columns = [TrainingColumn.of(table, j, self.date_features) for j in range(self.n_features)]
        self.ever_missing = np.array([column.n_missing > 0 for column in columns])
        self.kinds = [column.kind(rows) for column in columns]
        self._dates: dict[int, DateEncoder] = {}
        self._categories: dict[int, CategoryEncoder] = {}
        cross_fitted: dict[int, Floats] = {}
        for j in self._of_kind(DATES):
            sample = columns[j].column[rows]
            self._dates[j] = DateEncoder.fit(sample, columns[j].text_format or DateFormat.of(sample))
        categories = {j: sorted(distinct_entries(columns[j].column[rows])) for j in self._of_kind(CATEGORIES)}
        outputs = to_outputs(target[rows], task)
        if self._is_auto:
            n_others = self.n_features - len(categories)
            n_others += sum(date.width - 1 for date in self._dates.values())
            n_categories = [len(entries) for entries in categories.values()]
            self.max_one_hot = choose_max_one_hot(n_categories, n_others, outputs.shape[1])
        for j, entries in categories.items():
            if len(entries) <= self.max_one_hot:
                self._categories[j] = CategoryEncoder.one_hot(entries)
            else:
                self._categories[j], cross_fitted[j] = fit_target_encoding(
                    entries, columns[j].column[rows], outputs, rng
                )
        encoders: dict[int, CategoryEncoder | DateEncoder] = {**self._categories, **self._dates}
        widths = [encoders[j].width if j in encoders else 1 for j in range(self.n_features)]
        self._set_groups(np.repeat(np.arange(self.n_features), widths))

        values, _ = self._to_numbers([column.column for column in columns], table.n_rows)
        # One column at a time, because a copy of all training rows would need too much memory.
        self._mean, self._scale = (
            np.concatenate(parts)
            for parts in zip(*(centre_and_scale(column[rows, None]) for column in values.T), strict=True)
        )
        has_range = [
            self.kinds[j] == NUMBERS or self._part(k) in NUMBERS_OF_DATES for k, j in self._encoded()
        ]
        self._ranges = Ranges.of(values, rows, np.array(has_range) & np.isfinite(self._scale))
        # The scale is that of the target means used for new rows. The cross-fitted means of the training
        # rows can be almost equal (for an identifier, where no category occurs twice), and dividing by their
        # standard deviation would give new rows huge values.
        for j, numbers in cross_fitted.items():
            values[rows, self._slices[j]] = numbers
        # Only validation rows can exceed the limits.
        np.clip(values, self._ranges.lower, self._ranges.upper, out=values)
        self._write_report(columns)
        return self._standardise(values)

    def encode(self, X: Any, **options: Any) -> Encoded:
        """Read a table, as `read_table` does, and encode it; the options are those of `transform`."""
        return self.transform(read_table(X), **options)

    def transform(
        self,
        table: Table,
        *,
        allow_missing_columns: bool = False,
        on_out_of_range: OnOutOfRange = "clip",
        estimator_name: str = "the model",
    ) -> Encoded:
        """Encode new rows as in training. Unknown categories count as missing.

        Parameters
        ----------
        table : Table
            Columns are matched by label, in any order. They are matched by position if one of the two tables
            has no labels, or if the labels differ and those of one table are just 0, 1, …
        allow_missing_columns : bool, default=False
            If True, absent columns count as missing in every row. If False, they raise an error.
        on_out_of_range : "clip", "missing" or "raise", default="clip"
            What happens to numbers far outside the range in training (see `Ranges`): "clip" moves them to the
            limit, "missing" makes them missing, "raise" raises ValueError.
        estimator_name : str, default="the model"
            Name of the estimator, for error messages.
        """
        columns = match_columns(
            table,
            self.labels,
            self.n_features,
            is_numbered=self.is_numbered,
            dispensable={
                self.labels[j] for j, kind in enumerate(self.kinds) if kind not in DTYPE_KINDS and self.labels
            },
            allow_missing_columns=allow_missing_columns,
            estimator_name=estimator_name,
        )
        numbers, unknown = self._to_numbers(columns, table.n_rows)
        beyond = self._ranges.beyond(numbers)
        exceeded: tuple[OutOfRange, ...] = ()
        if beyond.any():
            exceeded = self._describe_beyond(numbers, beyond)
            check_in_range(exceeded, on_out_of_range)
            beyond = self._whole_columns(beyond)
            if on_out_of_range == "missing":
                numbers[beyond] = np.nan
            np.clip(numbers, self._ranges.lower, self._ranges.upper, out=numbers)
        values, mask = self._standardise(numbers)
        return Encoded(values, mask, beyond, exceeded, unknown)

    def unseen_missing(self, encoded: Encoded) -> dict[str, int]:
        """Columns that were never missing in training but are missing now, with the number of rows.

        Absent columns count as missing. Unknown categories and values out of range do not, because `encoded`
        describes them separately.
        """
        if encoded.mask.all():
            return {}
        n_missing = (~encoded.mask & ~encoded.out_of_range)[:, self._first].sum(axis=0)
        for unknown in encoded.unknown:
            n_missing[unknown.column] -= unknown.n_rows
        return {
            self.column_name(int(j)): int(n_missing[j])
            for j in np.flatnonzero((n_missing > 0) & ~self.ever_missing)
        }

    def with_missing_seen(self, mask: Bools) -> TableEncoder:
        """A copy for which missing values in the columns that `mask` (n, d) lacks are not new."""
        other = copy(self)
        is_missing = (~mask[:, self._first]).any(axis=0)
        # Constant columns are encoded as observed if they were never missing.
        is_used = np.array([kind in DTYPE_KINDS for kind in self.kinds])
        other.ever_missing = self.ever_missing | (is_missing & is_used)
        return other

    def encodes_like(self, other: TableEncoder) -> bool:
        """Whether two encoders encode every table in the same way, up to rounding."""
        if self.kinds != other.kinds or not np.array_equal(self.groups, other.groups):
            return False
        scales = ((self._mean, other._mean), (self._scale, other._scale))
        same_categories = all(
            encoder.categories == other._categories[j].categories for j, encoder in self._categories.items()
        )
        return same_categories and all(np.allclose(one, two, rtol=1e-6) for one, two in scales)

    def column_name(self, j: int) -> str:
        """Name of an input column in messages: "column 3" if the table has no names."""
        return f"column {j}" if self.names is None else self.names[j]

    def state(self) -> dict[str, Any]:
        """Arrays, strings and numbers from which `from_state` recreates the encoder."""
        return {
            "max_one_hot": self.max_one_hot,
            "date_features": self.date_features,
            "names": self.names,
            "labels": self.labels,
            "is_numbered": self.is_numbered,
            "kinds": self.kinds,
            "groups": self.groups,
            "ever_missing": self.ever_missing,
            "mean": self._mean,
            "scale": self._scale,
            "ranges": self._ranges.state(),
            "column_report": [asdict(summary) for summary in self.column_report],
            "dates": {str(j): encoder.state() for j, encoder in self._dates.items()},
            "categories": {str(j): encoder.categories for j, encoder in self._categories.items()},
            "embedding": {str(j): encoder.embedding for j, encoder in self._categories.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableEncoder:
        """Create an encoder from the result of `state`; raises ValueError if the state is invalid."""
        check_state(state)
        encoder = cls(state["max_one_hot"], state["date_features"])
        encoder.names = state["names"]
        encoder.labels = state["labels"]
        encoder.is_numbered = bool(state["is_numbered"])
        encoder.kinds = list(state["kinds"])
        encoder.n_features = len(encoder.kinds)
        encoder._set_groups(np.asarray(state["groups"], dtype=np.int64))
        encoder.ever_missing = np.asarray(state["ever_missing"], dtype=bool)
        encoder._mean = np.asarray(state["mean"], dtype=np.float64)
        encoder._scale = np.asarray(state["scale"], dtype=np.float64)
        encoder._ranges = Ranges(
            **{name: np.asarray(end, dtype=np.float64) for name, end in state["ranges"].items()}
        )
        encoder._categories = {
            j: CategoryEncoder(state["categories"][str(j)], state["embedding"][str(j)])
            for j, kind in enumerate(encoder.kinds)
            if kind == CATEGORIES
        }
        encoder.column_report = [
            ColumnSummary(**{**summary, "remarks": tuple(summary["remarks"])})
            for summary in state["column_report"]
        ]
        encoder._dates = {
            int(j): DateEncoder.from_state(date_state) for j, date_state in state["dates"].items()
        }
        return encoder

    @property
    def encoded_names(self) -> list[str]:
        """Names of the encoded columns: "age", "colour = red", "sold (weekday)", "town (mean target 0)"."""
        names = []
        for k, j in self._encoded():
            name, part = self.column_name(j), self._part(k)
            if j in self._categories:
                encoder, position = self._categories[j], k - self._first[j]
                is_one_hot = len(encoder.categories) <= self.max_one_hot
                first = len(encoder.categories) - encoder.width
                part = encoder.categories[first + position] if is_one_hot else f"mean target {position}"
                names.append(f"{name} = {part}" if is_one_hot else f"{name} ({part})")
            else:
                names.append(name if part is None else f"{name} ({part})")
        return names

    def _of_kind(self, kind: str) -> list[int]:
        """Positions of the input columns of this kind."""
        return [j for j, other in enumerate(self.kinds) if other == kind]

    def _encoded(self) -> list[tuple[int, int]]:
        """Position of each encoded column and of its input column."""
        return list(enumerate(self.groups.tolist()))

    def _part(self, k: int) -> str | None:
        """The feature of a date that encoded column `k` contains; None for other columns."""
        j = int(self.groups[k])
        return self._dates[j].parts[k - self._first[j]] if j in self._dates else None

    def _read_dates(self, j: int, column: NDArray) -> NDArray:
        """Convert text to dates as in training; other columns are returned unchanged."""
        if column.dtype != object:
            return column
        # A model fitted to dates, or to text such as 2014-10-13, does not know the order of day and month.
        text_format = self._dates[j].text_format
        dates, is_invalid = text_format.completed(distinct_entries(column)).parse_column(column)
        if is_invalid.any():
            row = int(is_invalid.argmax())
            raise RowError(
                f"Dates were expected in {describe_column(self.names, j)}, as in training, but the entry in "
                "row ",
                row,
                f" is {column[row]!r}, {text_format.explain(column[row])} Correct it, or make it missing if "
                "it is unknown. Dates such as 2014-10-13 are always accepted.",
            )
        return dates

    def _check_kind(self, j: int, column: NDArray) -> None:
        """Raise ValueError if a column has another type than in training.

        A column in which all values are missing is accepted.
        """
        missing = missing_entries(column)
        if missing.all():
            return
        expected = {NUMBERS: "Numbers", CATEGORIES: "Categories (strings)", DATES: "Dates"}[self.kinds[j]]
        given = {"f": "numbers", "O": "strings", "M": "dates"}[column.dtype.kind]
        example = column[~missing][0]
        shown = repr(example) if isinstance(example, str) else str(example)
        raise ValueError(
            f"{expected} were expected in {describe_column(self.names, j)}, as in training, but it contains "
            f"{given} such as {shown}. Convert the column to the type that it had in training, with missing "
            "values for other entries, or refit."
        )

    def _write_report(self, columns: Sequence[TrainingColumn]) -> None:
        """Set `column_report`, and warn about likely mistakes."""
        self.column_report = []
        mistakes: list[tuple[str, str]] = []
        for j, column in enumerate(columns):
            summary, n_mistakes = summarise(self.column_name(j), column, self.kinds[j])
            self.column_report.append(summary)
            mistakes += [(self._message_label(j), remark) for remark in summary.remarks[:n_mistakes]]
        if mistakes:
            # Level 5 is the user's call: 1 is this method, 2 `fit_transform`, 3 `encode_rows`, 4 `fit`.
            warnings.warn(describe_mistakes(mistakes), SuspiciousDataWarning, stacklevel=5)

    def _set_groups(self, groups: NDArray[np.int64]) -> None:
        """Set `groups`, and the positions of the encoded columns of each input column."""
        self.groups = groups
        ends = np.searchsorted(groups, np.arange(self.n_features + 1))
        self._first = ends[:-1]
        self._slices = [slice(start, stop) for start, stop in pairwise(ends)]

    def _to_numbers(
        self, columns: Sequence[NDArray | None], n_rows: int
    ) -> tuple[Floats, tuple[UnknownCategories, ...]]:
        """Encoded columns (n_rows, d) before standardisation, NaN where missing or unknown."""
        numbers = np.full((n_rows, len(self.groups)), np.nan)
        unknown: list[UnknownCategories] = []
        for j, (column, kind, position) in enumerate(zip(columns, self.kinds, self._slices, strict=True)):
            if kind == IGNORED or (kind == CONSTANT and not self.ever_missing[j]):
                numbers[:, position.start] = 0.0
            elif kind == CONSTANT and column is not None:
                numbers[~missing_entries(column), position.start] = 0.0
            if column is None or kind not in DTYPE_KINDS:
                continue
            if kind == DATES:
                column = self._read_dates(j, column)
            if column.dtype.kind != DTYPE_KINDS[kind]:
                self._check_kind(j, column)
            elif kind == NUMBERS:
                numbers[:, position.start] = column
            elif kind == DATES:
                numbers[:, position] = self._dates[j].encode(column)
            else:
                encoder = self._categories[j]
                codes = encoder.codes(column)
                numbers[:, position] = encoder.embed(codes)
                if codes.max() == encoder.unknown_code:
                    entries = column[codes == encoder.unknown_code].tolist()
                    label = self._message_label(j)
                    distinct = tuple(dict.fromkeys(entries))
                    unknown.append(UnknownCategories(j, label, distinct, len(entries)))
        return numbers, tuple(unknown)

    def _message_label(self, j: int) -> str:
        return f"column {j}" if self.names is None else repr(self.names[j])

    def _describe_beyond(self, numbers: Floats, beyond: Bools) -> tuple[OutOfRange, ...]:
        """Describe the cells of `numbers` (n, d) that are `beyond` the limits."""
        exceeded: dict[int, OutOfRange] = {}
        for k in np.flatnonzero(beyond.any(axis=0)).tolist():
            j, part = int(self.groups[k]), self._part(k)
            values = numbers[beyond[:, k], k]
            ends = [values.min(), values.max(), self._ranges.minimum[k], self._ranges.maximum[k]]
            smallest, largest, *seen = (
                describe_year(end) if part == "year" else f"{end:.6g}" for end in ends
            )
            label = self._message_label(j)
            if part is not None and part != "year":
                label += f" ({part})"
            # The year of a date comes first. If it is out of range, other features need no mention.
            exceeded.setdefault(j, OutOfRange(j, label, len(values), smallest, largest, " to ".join(seen)))
        return tuple(exceeded.values())

    def _whole_columns(self, cells: Bools) -> Bools:
        """Mark all encoded columns of an input column if one of them is marked."""
        return np.logical_or.reduceat(cells, self._first, axis=1)[:, self.groups]

    def _standardise(self, values: Floats) -> tuple[Floats, Bools]:
        """Standardise the result of `_to_numbers` in place; returns values and mask."""
        mask = ~np.isnan(values)
        with np.errstate(over="ignore", invalid="ignore"):
            values -= self._mean
            values /= self._scale
        np.clip(values, -MAX_DEVIATION, MAX_DEVIATION, out=values)
        # The scale of a constant column is infinite, so a value that overflowed in it is now NaN (inf / inf).
        values[~mask | np.isinf(self._scale)] = 0.0
        return values, mask


def to_outputs(target: NDArray, task: Task) -> Floats:
    """Outputs (n, k) for the target encoding: targets, or class indicators (one column for two classes)."""
    if isinstance(task, Classification):
        indicators = np.eye(task.d_output)[target]
        return indicators[:, 1:] if task.d_output == 2 else indicators
    return np.asarray(target, dtype=np.float64).reshape(len(target), -1)
