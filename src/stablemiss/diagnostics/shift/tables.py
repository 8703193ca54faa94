"""Two tables with the same columns, as masks and as features of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from stablemiss.data import Bools, Floats
from stablemiss.encoding import Table, numeric_columns, read_table
from stablemiss.encoding.table import missing_entries
from stablemiss.seeding import Rng

# Tests that need values, and the classifier, use at most this many rows of each table, drawn at random.
MAX_ROWS = 10_000
# Categories with an indicator of their own; the others have none.
MAX_CATEGORIES = 8
# Rows that a category needs for an indicator of its own.
MIN_CATEGORY_ROWS = 10


@dataclass(frozen=True, eq=False)
class TwoTables:
    """The columns that a reference table and a current table share, and those that only one of them has.

    Attributes
    ----------
    names : list of str
        Columns of the reference.
    reference, current : (n, d) bool
        Masks, True = observed. Columns that are absent from the current table are missing in all its rows.
    absent, added : list of str
        Columns that only the reference has, and that only the current table has.
    retyped : list of str
        Columns that hold numbers in one table and text or dates in the other. Their masks are compared,
        their values are not.
    sequential : list of str
        Columns without repeated values whose values in one table are all above those in the other, such as
        times and running numbers. Their values are not compared either.
    """

    names: list[str]
    reference: Bools
    current: Bools
    absent: list[str]
    added: list[str]
    retyped: list[str]
    sequential: list[str]
    _columns: list[tuple[NDArray, NDArray]]

    @classmethod
    def of(cls, reference: Any, current: Any) -> TwoTables:
        """Read both tables and match their columns, by name if both have names, else by position."""
        first, second = _read(reference, "reference"), _read(current, "current")
        names = first.labels or [str(j) for j in range(len(first.columns))]
        labels = second.labels or [str(j) for j in range(len(second.columns))]
        if (first.labels is None) != (second.labels is None) and len(names) != len(labels):
            raise ValueError(
                f"reference has {len(names)} columns and current {len(labels)}, and only one of them has "
                "column names, so they cannot be matched. Pass data frames with names, or arrays with the "
                "same columns."
            )
        if (first.labels is None) != (second.labels is None):
            names = labels = first.labels or second.labels or []
        position = {label: j for j, label in enumerate(labels)}
        absent = [name for name in names if name not in position]
        if len(absent) == len(names):
            raise ValueError(
                f"reference and current share no column: {', '.join(map(repr, names[:3]))} … and "
                f"{', '.join(map(repr, labels[:3]))} …. Are these the right tables, with a header row?"
            )
        nothing = np.full(second.n_rows, np.nan)
        columns = [
            (column, second.columns[position[name]] if name in position else nothing)
            for name, column in zip(names, first.columns, strict=True)
        ]
        retyped = [name for name, pair in zip(names, columns, strict=True) if _is_retyped(*pair)]
        masks = [np.column_stack([~missing_entries(pair[i]) for pair in columns]) for i in range(2)]
        added = [label for label in labels if label not in set(names)]
        sequential = [
            name
            for name, pair in zip(names, columns, strict=True)
            if name not in retyped and _is_sequential(*pair)
        ]
        return cls(names, masks[0], masks[1], absent, added, retyped, sequential, columns)

    def alike(self) -> list[list[int]]:
        """Positions of columns that are missing in the same rows; one list for each group, or single column.

        Columns without missing values, and those that are always missing, are not alike.
        """
        masks = np.concatenate([self.reference, self.current])
        positions: dict[bytes, list[int]] = {}
        for j, packed in enumerate(np.packbits(masks, axis=0).T):
            is_constant = masks[:, j].all() or not masks[:, j].any()
            key = str(j).encode() if is_constant else packed.tobytes()
            positions.setdefault(key, []).append(j)
        return list(positions.values())

    def numbers(self, k: int) -> tuple[Floats, Bools, Bools]:
        """Column k as numbers (n,) over the rows of both tables, where it is observed, and which are current.

        Categories are numbered in their order.
        """
        joined = _join(*self._columns[k])
        numbers = numeric_columns(Table(None, None, [joined], len(joined)))[:, 0]
        is_current = np.repeat([False, True], [len(self.reference), len(self.current)])
        return np.nan_to_num(numbers), ~np.isnan(numbers), is_current

    def sample(self, rng: Rng, max_rows: int = MAX_ROWS) -> Sample:
        """Rows for tests that need values; all of them if there are not more than `max_rows` in a table."""
        rows = [np.sort(rng.permutation(len(mask))[:max_rows]) for mask in (self.reference, self.current)]
        left_out = {*self.retyped, *self.sequential}
        features = []
        for name, (first, second) in zip(self.names, self._columns, strict=True):
            joined = _join(first[rows[0]], second[rows[1]]) if name not in left_out else None
            features.append(ColumnFeatures.of(joined, len(rows[0]) + len(rows[1])))
        return Sample(
            observed=np.concatenate([self.reference[rows[0]], self.current[rows[1]]]),
            is_current=np.repeat([False, True], [len(rows[0]), len(rows[1])]),
            features=features,
        )


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of both tables, one after the other, each in their order.

    Attributes
    ----------
    observed : (n, d) bool
    is_current : (n,) bool
    features : list of ColumnFeatures
        Of each column.
    """

    observed: Bools
    is_current: Bools
    features: Sequence[ColumnFeatures]


@dataclass(frozen=True, eq=False)
class ColumnFeatures:
    """Features of the values of one column, which do not depend on units.

    Attributes
    ----------
    values : (n, r)
        Each feature has a range of 1; 0 where the value is missing. Numbers and dates: their rank, from −0.5
        to 0.5, and its squared distance from the middle, from 0 to 1. Categories, and numbers of which there
        are only two: indicators of the commonest ones.
    categories : tuple of str or None
        What the indicators stand for; None for ranks.
    """

    values: Floats
    categories: tuple[str, ...] | None = None

    @classmethod
    def of(cls, column: NDArray | None, n: int) -> ColumnFeatures:
        """Features of a column of n rows; there are none if it is None or has a single value.

        Examples
        --------
        >>> ColumnFeatures.of(np.array([10.0, 30.0, np.nan, 1e6]), 4).values.round(2).tolist()
        [[-0.33, 0.44], [0.0, 0.0], [0.0, 0.0], [0.33, 0.44]]
        """
        if column is None or (observed := ~missing_entries(column)).sum() == 0:
            return cls(np.zeros((n, 0)))
        values = column[observed]
        if values.dtype.kind == "M":
            values = values.astype(np.int64)
        entries = values.astype(str) if column.dtype == object else values
        distinct, codes, counts = np.unique(entries, return_inverse=True, return_counts=True)
        if column.dtype == object or len(distinct) <= 2:
            # One indicator less than there are categories, because the last one follows from the others.
            common = np.argsort(-counts, kind="stable")[: min(MAX_CATEGORIES, len(distinct) - 1)]
            common = common[counts[common] >= MIN_CATEGORY_ROWS]
            features = np.zeros((n, len(common)))
            features[observed] = codes[:, None] == common
            return cls(features, tuple(str(distinct[code]) for code in common))
        ranks = (rankdata(values) - 0.5) / len(values) - 0.5
        features = np.zeros((n, 2))
        features[observed] = np.column_stack([ranks, 4 * ranks**2])
        return cls(features)


def autocorrelation(columns: Floats, is_current: Bools) -> Floats:
    """Correlation (r,) of successive rows of a table, mean over two tables; zero unless it is clear.

    Rows of a log are often alike to those before. Tests that take them as independent are then too certain.

    Parameters
    ----------
    columns : (n, r)
        Rows of both tables, one after the other.
    is_current : (n,) bool
    """
    total = np.zeros(columns.shape[1])
    for table in (columns[~is_current], columns[is_current]):
        centred = table - table.mean(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lagged = (centred[1:] * centred[:-1]).sum(axis=0) / (centred**2).sum(axis=0)
        lagged = np.nan_to_num(lagged)
        total += len(table) * np.where(lagged > 4 / np.sqrt(len(table)), lagged, 0.0)
    return np.clip(total / len(columns), 0.0, 0.999)


def design_effect(correlation: Floats) -> Floats:
    """How much larger the variance of a mean is than for independent rows, from the autocorrelation."""
    return (1 + correlation) / (1 - correlation)


def _read(table: Any, name: str) -> Table:
    try:
        return read_table(table)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _is_retyped(first: NDArray, second: NDArray) -> bool:
    """Whether both columns have values, but of different kinds."""
    has_values = not missing_entries(first).all() and not missing_entries(second).all()
    return has_values and first.dtype.kind != second.dtype.kind


def _is_sequential(first: NDArray, second: NDArray) -> bool:
    values = [column[~missing_entries(column)] for column in (first, second)]
    if first.dtype == object or second.dtype == object or min(map(len, values)) < 2:
        return False
    overlap = values[0].max() >= values[1].min() and values[1].max() >= values[0].min()
    return not overlap and all(len(np.unique(one)) == len(one) for one in values)


def _join(first: NDArray, second: NDArray) -> NDArray:
    if first.dtype.kind == second.dtype.kind:
        return np.concatenate([first, second])
    # One of them has no values, and the type of a column without values is float.
    typed, empty = (first, second) if second.dtype.kind == "f" else (second, first)
    missing = np.full(len(empty), None if typed.dtype == object else np.datetime64("NaT"), dtype=typed.dtype)
    return np.concatenate([typed, missing] if typed is first else [missing, typed])
