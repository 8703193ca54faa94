"""Columns of the training table: their types, and dates written as text."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import centre_and_scale
from stablemiss.encoding.dates import DateFormat
from stablemiss.encoding.table import Table, describe_column, missing_entries

NUMBERS, CATEGORIES, DATES = "numbers", "categories", "dates"
# Kinds of columns that are not used.
CONSTANT, NEVER_OBSERVED, IGNORED = "constant", "never observed", "ignored"

# Letter by which numpy abbreviates the dtype of each kind of column.
DTYPE_KINDS = {NUMBERS: "f", CATEGORIES: "O", DATES: "M"}

# In fewer rows, text of which no entry occurs twice may be chance.
MIN_DISTINCT = 20


@dataclass(frozen=True, eq=False)
class TrainingColumn:
    """A column of the table passed to `fit`, after conversion of dates written as text.

    Attributes
    ----------
    column : (n,) float64, object or datetime64[us]
        As in `Table`.
    n_missing : int
        Number of missing values.
    levels : set of str
        Distinct entries of a text column; empty for other columns, and for dates.
    text_format : DateFormat or None
        The format of dates that were text.
    text : (n,) object or None
        Their text.
    is_category : bool
        Whether the column has a categorical type in its library.
    """

    column: NDArray
    n_missing: int
    levels: Set[str]
    text_format: DateFormat | None
    text: NDArray | None
    is_category: bool

    @classmethod
    def of(cls, table: Table, j: int, date_features: bool) -> TrainingColumn:
        """Read column `j` of a table; raises TypeError if it contains dates and these are not expanded."""
        column, is_category = table.columns[j], j in table.declared_categories
        n_missing = int(missing_entries(column).sum())
        if column.dtype.kind == "M" and not date_features:
            raise TypeError(_dates_message(describe_column(table.labels, j), column))
        levels = distinct_entries(column)
        if levels and date_features and not is_category:
            text_format = DateFormat.infer(levels)
            if text_format is not None:
                dates, _ = text_format.parse_column(column)
                return cls(dates, n_missing, set(), text_format, column, is_category)
        return cls(column, n_missing, levels, None, None, is_category)

    def kind(self, rows: NDArray[np.integer]) -> str:
        """How the column is used, given the training rows."""
        sample = self.column[rows]
        observed = sample[~missing_entries(sample)]
        if not len(observed):
            return NEVER_OBSERVED
        if len(self.levels) == len(self.column) - self.n_missing >= MIN_DISTINCT:
            return IGNORED
        if _is_constant(observed):
            return CONSTANT
        return next(kind for kind, letter in DTYPE_KINDS.items() if letter == self.column.dtype.kind)


def distinct_entries(column: NDArray) -> Set[str]:
    """Distinct entries of a text column; the empty set for other columns."""
    return set(column.tolist()) - {None} if column.dtype == object else set()


def _is_constant(observed: NDArray) -> bool:
    """Whether entries without missing values are all equal, numbers up to rounding."""
    if observed.dtype.kind == "f":
        return bool(np.isinf(centre_and_scale(observed[:, None])[1]).all())
    return bool((observed == observed[0]).all())


def _dates_message(label: str, column: NDArray) -> str:
    return (
        f"Dates and times are not expanded with date_features=False, but {label} contains "
        f"{column[~np.isnat(column)][0]}. Convert it to numbers that are informative for the prediction, "
        "such as the hour, the weekday, or the days since a fixed date, drop the column, or set "
        "date_features=True."
    )
