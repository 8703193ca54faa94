"""Two tables with the same columns, as masks and as features of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from stablemiss.data import Bools, Floats
from stablemiss.encoding import Table, numeric_columns, read_table
from stablemiss.encoding.table import missing_entries
from stablemiss.seeding import Rng

# Tests that need values, and the classifier, use at most this many rows of each table, drawn at random.
MAX_ROWS = 10_000
# Categories with an indicator of their own; the others have none.
MAX_CATEGORIES = 8


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
    """

    names: list[str]
    reference: Bools
    current: Bools
    absent: list[str]
    added: list[str]
    retyped: list[str]
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
        return cls(names, masks[0], masks[1], absent, added, retyped, columns)

    def n_alike(self) -> NDArray[np.int64]:
        """For the first column of several that are missing in the same rows, how many others; −1 for these.

        Columns without missing values, and those that are always missing, are not alike.
        """
        masks = np.concatenate([self.reference, self.current])
        positions: dict[bytes, list[int]] = {}
        for j, packed in enumerate(np.packbits(masks, axis=0).T):
            is_constant = masks[:, j].all() or not masks[:, j].any()
            key = str(j).encode() if is_constant else packed.tobytes()
            positions.setdefault(key, []).append(j)
        counts = np.full(masks.shape[1], -1, dtype=np.int64)
        for group in positions.values():
            counts[group[0]] = len(group) - 1
        return counts

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
        features = []
        for name, (first, second) in zip(self.names, self._columns, strict=True):
            if name in self.retyped:
                features.append(np.zeros((len(rows[0]) + len(rows[1]), 0)))
            else:
                features.append(value_features(_join(first[rows[0]], second[rows[1]])))
        return Sample(
            observed=np.concatenate([self.reference[rows[0]], self.current[rows[1]]]),
            is_current=np.repeat([False, True], [len(rows[0]), len(rows[1])]),
            features=features,
            is_number=np.array([first.dtype != object for first, _ in self._columns]),
        )


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of both tables, one after the other.

    Attributes
    ----------
    observed : (n, d) bool
    is_current : (n,) bool
    features : list of (n, r) arrays
        Features of the values of each column, zero where missing: normal scores and their squares of numbers
        and dates, indicators of the commonest categories. Empty for columns that changed their type.
    is_number : (d,) bool
        Whether a column holds numbers or dates.
    """

    observed: Bools
    is_current: Bools
    features: Sequence[Floats]
    is_number: Bools


def value_features(column: NDArray) -> Floats:
    """Features (n, r) of the values of one column, which do not depend on units; zero where missing.

    Examples
    --------
    >>> value_features(np.array([10.0, 30.0, np.nan, 1e6]))[:, 0].round(2).tolist()
    [-0.97, 0.0, 0.0, 0.97]
    """
    observed = ~missing_entries(column)
    if not observed.any():
        return np.zeros((len(column), 0))
    values = column[observed]
    if column.dtype == object:
        categories, codes, counts = np.unique(values.astype(str), return_inverse=True, return_counts=True)
        # One indicator less than there are categories, because the last one follows from the others.
        common = np.argsort(-counts, kind="stable")[: min(MAX_CATEGORIES, len(categories) - 1)]
        of_observed = (codes[:, None] == common).astype(float)
    else:
        ranks = rankdata(values.astype(np.int64) if values.dtype.kind == "M" else values)
        scores = ndtri((ranks - 0.5) / len(values))
        of_observed = np.column_stack([scores, scores**2])
        if np.ptp(ranks) == 0:
            of_observed = of_observed[:, :0]
    features = np.zeros((len(column), of_observed.shape[1]))
    features[observed] = of_observed - of_observed.mean(axis=0)
    return features


def _read(table: Any, name: str) -> Table:
    try:
        return read_table(table)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


def _is_retyped(first: NDArray, second: NDArray) -> bool:
    """Whether both columns have values, but of different kinds."""
    has_values = not missing_entries(first).all() and not missing_entries(second).all()
    return has_values and first.dtype.kind != second.dtype.kind


def _join(first: NDArray, second: NDArray) -> NDArray:
    if first.dtype.kind == second.dtype.kind:
        return np.concatenate([first, second])
    # One of them has no values, and the type of a column without values is float.
    typed, empty = (first, second) if second.dtype.kind == "f" else (second, first)
    missing = np.full(len(empty), None if typed.dtype == object else np.datetime64("NaT"), dtype=typed.dtype)
    return np.concatenate([typed, missing] if typed is first else [missing, typed])
