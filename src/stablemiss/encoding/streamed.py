"""Encoding of rows that do not fit into memory.

A `TableEncoder` that was fitted to a sample decides what kind of column each one is, which categories and
parts of dates it has. Everything that is computed from all values is then replaced by exact statistics of all
training rows, which are added up batch by batch: counts, means, standard deviations, ranges, and the mean
targets of categories.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats
from stablemiss.encoding.categories import CategoryEncoder
from stablemiss.encoding.columns import CONSTANT, NEVER_OBSERVED, NUMBERS
from stablemiss.encoding.dates import NUMBERS_OF_DATES
from stablemiss.encoding.encoder import TableEncoder
from stablemiss.encoding.matching import match_columns
from stablemiss.encoding.ranges import Ranges
from stablemiss.encoding.table import Table, missing_entries

# Rows are divided into this many folds. The mean targets with which a training row is encoded come from the
# other folds, so that no row is encoded with its own target.
N_FOLDS = 5
# As in `fit_target_encoding`.
SMOOTHING = 5.0
# Standard deviations below this share of the largest absolute value are rounding errors.
MIN_RELATIVE_SCALE = 1e-15


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean, sum of squared deviations, minimum and maximum of columns, (d,) each.

    Examples
    --------
    >>> one, two = Moments.of(np.array([[1.0], [np.nan]])), Moments.of(np.array([[3.0], [5.0]]))
    >>> both = one.merged(two)
    >>> both.count.tolist(), both.mean.tolist(), both.scale().round(3).tolist()
    ([3.0], [3.0], [1.633])
    """

    count: Floats
    mean: Floats
    squares: Floats
    minimum: Floats
    maximum: Floats

    @classmethod
    def of(cls, columns: Floats) -> Moments:
        """Moments of columns (n, d), NaN where missing."""
        observed = ~np.isnan(columns)
        count = observed.sum(axis=0).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.where(observed, columns, 0.0).sum(axis=0) / np.maximum(count, 1.0)
            squares = np.where(observed, (columns - mean) ** 2, 0.0).sum(axis=0)
        return cls(
            count,
            mean,
            squares,
            np.where(observed, columns, np.inf).min(axis=0, initial=np.inf),
            np.where(observed, columns, -np.inf).max(axis=0, initial=-np.inf),
        )

    def merged(self, other: Moments) -> Moments:
        """Moments of the rows of both; Chan, Golub & LeVeque (1983), without cancellation."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1.0)
        difference = other.mean - self.mean
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.mean + share * difference
            squares = self.squares + other.squares + self.count * share * difference**2
        return Moments(
            count,
            mean,
            squares,
            np.minimum(self.minimum, other.minimum),
            np.maximum(self.maximum, other.maximum),
        )

    def scale(self) -> Floats:
        """Standard deviation of each column; infinite if its values are all missing or equal."""
        with np.errstate(invalid="ignore"):
            scale = np.sqrt(self.squares / np.maximum(self.count, 1.0))
            largest = np.maximum(np.abs(self.minimum), np.abs(self.maximum))
            is_constant = (self.minimum >= self.maximum) | ~(scale > MIN_RELATIVE_SCALE * largest)
        return np.where(is_constant, np.inf, scale)


@dataclass(frozen=True, eq=False)
class EncodingStatistics:
    """What a batch of rows contributes to the encoding; batches are added up with `merged`.

    Attributes
    ----------
    moments : Moments
        Of the encoded columns of the training rows, before standardisation.
    n_missing : (n_features,) int64
        Missing values of each column of the table, in training and validation rows.
    n_rows : int
        Number of training rows.
    category_counts : dict of (n_categories, N_FOLDS)
        For each target-encoded column, the number of training rows of each category in each fold.
    category_sums : dict of (n_categories, N_FOLDS, k)
        The sums of their outputs.
    """

    moments: Moments
    n_missing: NDArray[np.int64]
    n_rows: int
    category_counts: dict[int, Floats]
    category_sums: dict[int, Floats]

    def merged(self, other: EncodingStatistics) -> EncodingStatistics:
        """The statistics of both batches."""
        return EncodingStatistics(
            self.moments.merged(other.moments),
            self.n_missing + other.n_missing,
            self.n_rows + other.n_rows,
            {j: counts + other.category_counts[j] for j, counts in self.category_counts.items()},
            {j: sums + other.category_sums[j] for j, sums in self.category_sums.items()},
        )


class StreamedEncoder:
    """Encodes training rows batch by batch.

    Parameters
    ----------
    encoder : TableEncoder
        Fitted to a sample of the rows.
    numeric : (n_features,) bool
        Columns whose type is numeric, even if the sample does not contain different numbers.

    Attributes
    ----------
    encoder : TableEncoder
        For new rows. After `set_statistics`, its means, scales, ranges and mean targets are those of all
        training rows.
    """

    def __init__(self, encoder: TableEncoder, numeric: Bools):
        self.encoder = copy(encoder)
        # A column that is constant in the sample may have rare other values. It is one encoded column
        # whether it is constant or numeric.
        kinds = zip(encoder.kinds, numeric, strict=True)
        self.encoder.kinds = [
            NUMBERS if kind in (CONSTANT, NEVER_OBSERVED) and is_number else kind for kind, is_number in kinds
        ]
        self._fold_means: dict[int, Floats] = {}

    @property
    def _target_encoded(self) -> dict[int, CategoryEncoder]:
        encoders = self.encoder._categories
        return {j: e for j, e in encoders.items() if len(e.categories) > self.encoder.max_one_hot}

    def statistics(
        self, table: Table, outputs: Floats, position: NDArray[np.int64], is_train: Bools
    ) -> EncodingStatistics:
        """The statistics of a batch of rows.

        Parameters
        ----------
        table : Table
        outputs : (n, k)
            Encoded numbers, or class indicators, to be averaged for each category.
        position : (n,)
            Position of each row among all rows, which determines its fold.
        is_train : (n,) bool
            The training rows; others count for missing values only.
        """
        encoder = self.encoder
        columns = self._match(table)
        numbers, _ = encoder._to_numbers(columns, table.n_rows)
        n_missing = [table.n_rows if c is None else int(missing_entries(c).sum()) for c in columns]
        counts: dict[int, Floats] = {}
        sums: dict[int, Floats] = {}
        fold, outputs = fold_of(position[is_train]), outputs[is_train]
        for j, category_encoder in self._target_encoded.items():
            n_categories, column = len(category_encoder.categories), columns[j]
            assert column is not None
            codes = category_encoder.codes(_text(column))[is_train]
            known = codes < n_categories
            cell = codes[known] * N_FOLDS + fold[known]
            size = n_categories * N_FOLDS
            counts[j] = np.bincount(cell, minlength=size).reshape(n_categories, N_FOLDS).astype(np.float64)
            per_output = [np.bincount(cell, output, size) for output in outputs[known].T]
            sums[j] = np.stack(per_output, axis=-1).astype(np.float64).reshape(n_categories, N_FOLDS, -1)
        moments = Moments.of(numbers[is_train])
        return EncodingStatistics(moments, np.array(n_missing), int(is_train.sum()), counts, sums)

    def set_statistics(self, statistics: EncodingStatistics) -> None:
        """Replace what was computed from the sample by statistics of all rows."""
        encoder, moments = self.encoder, statistics.moments
        encoder._categories = dict(encoder._categories)
        mean, scale = moments.mean.copy(), moments.scale()
        for j, category_encoder in self._target_encoded.items():
            counts, sums = statistics.category_counts[j], statistics.category_sums[j]
            embedding = _smoothed(counts.sum(axis=1), sums.sum(axis=1), sums.sum((0, 1)), counts.sum())
            others = counts.sum(axis=1, keepdims=True) - counts, sums.sum(axis=1, keepdims=True) - sums
            self._fold_means[j] = np.stack(
                [
                    _smoothed(others[0][:, f], others[1][:, f], others[1][:, f].sum(0), others[0][:, f].sum())
                    for f in range(N_FOLDS)
                ]
            )
            encoder._categories[j] = CategoryEncoder(category_encoder.categories, embedding)
            share = counts.sum(axis=1) / max(counts.sum(), 1.0)
            centre = share @ embedding
            deviation = np.sqrt(share @ (embedding - centre) ** 2)
            position = encoder._slices[j]
            mean[position], scale[position] = centre, np.where(deviation > 0, deviation, np.inf)
        encoder._mean, encoder._scale = mean, scale
        for j, kind in enumerate(encoder.kinds):
            first = encoder._first[j]
            if kind == NUMBERS and np.isinf(scale[first]):
                encoder.kinds[j] = CONSTANT if moments.count[first] else NEVER_OBSERVED
        encoder.ever_missing = statistics.n_missing > 0
        has_range = [
            encoder.kinds[j] == NUMBERS or encoder._part(k) in NUMBERS_OF_DATES for k, j in encoder._encoded()
        ]
        has_limits = np.array(has_range) & np.isfinite(scale)
        minimum, maximum = (np.where(has_limits, ends, 0.0) for ends in (moments.minimum, moments.maximum))
        encoder._ranges = Ranges.from_extremes(minimum, maximum, moments.count, has_limits)
        report = []
        for summary, n, kind in zip(encoder.column_report, statistics.n_missing, encoder.kinds, strict=True):
            if kind == NUMBERS and summary.kind != "number":
                summary = replace(summary, kind="number", remarks=())
            report.append(replace(summary, n_missing=int(n)))
        encoder.column_report = report

    def encode(self, table: Table, position: NDArray[np.int64]) -> tuple[Floats, Bools]:
        """Encode training rows: values (n, d), zero where missing, and mask (n, d), True = observed.

        Parameters
        ----------
        table : Table
        position : (n,)
            Position of each row among all rows.
        """
        encoder = self.encoder
        columns = self._match(table)
        numbers, _ = encoder._to_numbers(columns, table.n_rows)
        for j, means in self._fold_means.items():
            column, category_encoder = columns[j], encoder._categories[j]
            assert column is not None
            codes = category_encoder.codes(_text(column))
            known = codes < len(category_encoder.categories)
            cells = numbers[:, encoder._slices[j]]
            cells[known] = means[fold_of(position[known]), codes[known]]
        np.clip(numbers, encoder._ranges.lower, encoder._ranges.upper, out=numbers)
        return encoder._standardise(numbers)

    def _match(self, table: Table) -> Sequence[NDArray | None]:
        encoder = self.encoder
        return match_columns(
            table,
            encoder.labels,
            encoder.n_features,
            is_numbered=encoder.is_numbered,
            dispensable=(),
            allow_missing_columns=False,
            estimator_name="the model",
        )


def fold_of(position: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fold of each row, (n,), which depends on its position only, so that every pass finds the same one.

    Folds are a hash of the positions, as good as a random draw. With the remainder of the positions, rows of
    20 sensors in turn would have all rows of a sensor in one fold.

    Parameters
    ----------
    position : (n,)
        Position of each row among all rows.

    Examples
    --------
    >>> folds = fold_of(np.arange(0, 200_000, 20))
    >>> np.bincount(folds, minlength=N_FOLDS).tolist()
    [1975, 1989, 2038, 2021, 1977]
    """
    # The finaliser of SplitMix64 (Steele, Lea & Flood 2014).
    bits = (position.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return ((bits ^ (bits >> np.uint64(31))) % np.uint64(N_FOLDS)).astype(np.int64)


def _text(column: NDArray) -> NDArray:
    """A text column; one without any value in this batch was read as numbers."""
    return column if column.dtype == object else np.full(len(column), None, dtype=object)


def _smoothed(counts: Floats, sums: Floats, total: Floats, n: float) -> Floats:
    """Mean outputs (n_categories, k), shrunk towards the overall mean as if by `SMOOTHING` further rows."""
    overall = total / max(n, 1.0)
    return (sums + SMOOTHING * overall) / (counts[:, None] + SMOOTHING)
