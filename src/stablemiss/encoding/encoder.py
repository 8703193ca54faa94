"""Encoding of a table with missing values as (values, mask), the same for training and new rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, centre_and_scale, missing_cells
from stablemiss.encoding.categories import CategoryEncoder, fit_target_encoding
from stablemiss.encoding.check_state import check_state
from stablemiss.encoding.table import Table, describe_column
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task
from stablemiss.text import non_numeric_entry

NUMBERS, CATEGORIES, NEVER_OBSERVED = "numbers", "categories", "never observed"
# Number of encoded columns for each type of column; None if the embedding of the categories defines it.
ENCODED_WIDTHS = {NUMBERS: 1, CATEGORIES: None, NEVER_OBSERVED: 1}

# No value among n training rows is more than sqrt(n - 1) standard deviations from their mean, so clipping
# affects only values far outside the training range. It keeps them and their squares finite in float32.
_MAX_DEVIATION = 1e6


class TableEncoder:
    """Encodes tables as standardised numbers with a mask; fitted on the training rows.

    Every encoded column is centred and scaled by its observed values in the training rows, including the
    columns of a one-hot encoding. Missing values are filled with zero, which then means "average". A column
    that was constant in training is always encoded as zero, because the effect of other values is unknown. A
    column that was never observed in training counts as missing in new rows too. Values are clipped at a
    million standard deviations.

    Parameters
    ----------
    max_one_hot : int, default=12
        Maximum number of categories for one-hot encoding (a single column for two categories). Columns with
        more categories are target-encoded: each category becomes its mean target, one number per output or
        class. Raising it keeps more categories distinct, but makes the encoded table wider and
        sparser.

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
        Type of each column in the training rows: "numbers", "categories" or "never observed".
    groups : (d,) int64
        Index of the input column that each encoded column belongs to.
    ever_missing : (n_features,) bool
        Which input columns had missing values in the table passed to `fit_transform`.

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
    >>> encoder.transform(read_table([[5.0, "never seen"]]))
    (array([[3., 0.]]), array([[ True, False]]))
    """

    n_features: int
    names: list[str] | None
    labels: list[str] | None
    is_numbered: bool
    kinds: list[str]
    groups: NDArray[np.int64]
    ever_missing: Bools

    def __init__(self, max_one_hot: int = 12):
        if max_one_hot < 2:
            raise ValueError(f"max_one_hot must be at least 2; got {max_one_hot}.")
        self.max_one_hot = max_one_hot

    def fit_transform(
        self, table: Table, rows: NDArray[np.integer], target: NDArray, task: Task, rng: Rng
    ) -> tuple[Floats, Bools]:
        """Fit on the training rows of a table and encode all its rows.

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
        self.ever_missing = np.array([missing_cells(column).any() for column in table.columns])
        self.kinds = [_kind(column, rows) for column in table.columns]
        self._categories: dict[int, CategoryEncoder] = {}
        cross_fitted: dict[int, Floats] = {}
        centres: list[Floats] = []
        scales: list[Floats] = []
        for j, column in enumerate(table.columns):
            numbers = np.empty((0, 1))
            if self.kinds[j] == NUMBERS:
                numbers = column[rows, None]
            elif self.kinds[j] == CATEGORIES:
                sample = column[rows]
                categories = sorted(set(sample) - {None})
                if len(categories) <= self.max_one_hot:
                    self._categories[j] = CategoryEncoder.one_hot(categories)
                else:
                    self._warn_non_numeric(j, sample)
                    outputs = _outputs(target[rows], task)
                    self._categories[j], cross_fitted[j] = fit_target_encoding(
                        categories, sample, outputs, rng
                    )
                numbers = self._categories[j].encode(sample)
            centre, scale = centre_and_scale(numbers)
            centres.append(centre)
            scales.append(scale)
        self.groups = np.repeat(np.arange(self.n_features), [len(scale) for scale in scales])
        self._mean, self._scale = np.concatenate(centres), np.concatenate(scales)

        values = self._to_numbers(table.columns, table.n_rows)
        # The scale is that of the target means used for new rows. The cross-fitted means of the training
        # rows can be almost equal (for an identifier, where no category occurs twice), and dividing by their
        # standard deviation would give new rows huge values.
        for j, numbers in cross_fitted.items():
            values[rows, self._encoded_columns(j)] = numbers
        return self._standardise(values)

    def transform(
        self, table: Table, *, allow_missing_columns: bool = False, estimator_name: str = "the model"
    ) -> tuple[Floats, Bools]:
        """Encode new rows as in training. Unknown categories count as missing.

        Parameters
        ----------
        table : Table
            Columns are matched by label, in any order. They are matched by position if one of the two tables
            has no labels, or if the labels differ and those of one table are just 0, 1, …
        allow_missing_columns : bool, default=False
            If True, absent columns count as missing in every row. If False, they raise an error.
        estimator_name : str, default="the model"
            Name of the estimator, for error messages.

        Returns
        -------
        values : (n, d) float64
            Standardised, exactly zero where missing.
        mask : (n, d) bool
            True = observed.
        """
        columns = self._match(table, allow_missing_columns, estimator_name)
        for j, column in enumerate(columns):
            self._check_kind(j, column)
        return self._standardise(self._to_numbers(columns, table.n_rows))

    def unseen_missing(self, mask: Bools) -> list[str]:
        """Names of columns that were never missing in training but are missing in some rows of `mask`.

        Parameters
        ----------
        mask : (n, d) bool
            From `transform`. Absent columns and unknown categories count as missing.
        """
        missing_now = np.unique(self.groups[~mask.all(axis=0)])
        return [
            f"column {j}" if self.names is None else self.names[j]
            for j in missing_now
            if not self.ever_missing[j]
        ]

    def state(self) -> dict[str, Any]:
        """Arrays, strings and numbers from which `from_state` recreates the encoder."""
        return {
            "max_one_hot": self.max_one_hot,
            "names": self.names,
            "labels": self.labels,
            "is_numbered": self.is_numbered,
            "kinds": self.kinds,
            "groups": self.groups,
            "ever_missing": self.ever_missing,
            "mean": self._mean,
            "scale": self._scale,
            "categories": {str(j): encoder.categories for j, encoder in self._categories.items()},
            "embedding": {str(j): encoder.embedding for j, encoder in self._categories.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableEncoder:
        """Create an encoder from the result of `state`; raises ValueError if the state is invalid."""
        check_state(state, ENCODED_WIDTHS)
        encoder = cls(int(state["max_one_hot"]))
        encoder.names = state["names"]
        encoder.labels = state["labels"]
        encoder.is_numbered = bool(state["is_numbered"])
        encoder.kinds = list(state["kinds"])
        encoder.n_features = len(encoder.kinds)
        encoder.groups = np.asarray(state["groups"], dtype=np.int64)
        encoder.ever_missing = np.asarray(state["ever_missing"], dtype=bool)
        encoder._mean = np.asarray(state["mean"], dtype=np.float64)
        encoder._scale = np.asarray(state["scale"], dtype=np.float64)
        encoder._categories = {
            j: CategoryEncoder(state["categories"][str(j)], state["embedding"][str(j)])
            for j, kind in enumerate(encoder.kinds)
            if kind == CATEGORIES
        }
        return encoder

    def _match(self, table: Table, allow_missing_columns: bool, estimator_name: str) -> list[NDArray | None]:
        """The columns of `table` in the order of training; None for an absent column."""
        known = set(self.labels or [])
        unexpected = [label for label in table.labels or [] if label not in known]
        # Labels 0, 1, … are only positions, so they cannot be matched with the names of another table.
        cannot_match_labels = bool(unexpected) and (self.is_numbered or table.is_numbered)
        if self.labels is None or table.labels is None or cannot_match_labels:
            if len(table.columns) != self.n_features:
                raise ValueError(
                    f"X has {len(table.columns)} features, but {estimator_name} is expecting "
                    f"{self.n_features} features as input. Without column names, columns are matched by "
                    "position: pass all columns of the training table, in the same order."
                )
            return list(table.columns)
        column_of = dict(zip(table.labels, table.columns, strict=True))
        absent = [label for label in self.labels if label not in column_of]
        if unexpected or (absent and not allow_missing_columns):
            problems = [f"not in the training table: {_quoted(unexpected)}"] * bool(unexpected)
            problems += [f"in the training table but absent now: {_quoted(absent)}"] * bool(absent)
            raise ValueError(
                f"The columns of X are not those that {estimator_name} was fitted with "
                f"({'; '.join(problems)}). Give renamed columns the names they had in training, and drop "
                "columns that are new. Columns that are not available may be left out with "
                "allow_missing_columns=True; they then count as missing in every row."
            )
        return [column_of.get(label) for label in self.labels]

    def _check_kind(self, j: int, column: NDArray | None) -> None:
        """Raise ValueError if a numeric column became categorical or vice versa.

        A column in which all values are missing is accepted as either.
        """
        if column is None or self.kinds[j] == NEVER_OBSERVED:
            return
        is_category = column.dtype == object
        if is_category == (self.kinds[j] == CATEGORIES) or missing_cells(column).all():
            return
        label, example = describe_column(self.names, j), column[~missing_cells(column)][0]
        if is_category:
            raise ValueError(
                f"Numbers were expected in {label}, as in training, but it contains strings such as "
                f"{example!r}. Convert the column to numbers, with NaN for other entries, or refit with a "
                "categorical column."
            )
        raise ValueError(
            f"Categories (strings) were expected in {label}, as in training, but it contains numbers such as "
            f"{float(example)!r}. Convert them to the strings used in training, or refit with a numeric "
            "column."
        )

    def _warn_non_numeric(self, j: int, sample: NDArray) -> None:
        """Warn if a column is numeric except for a few entries that turn it into a categorical column."""
        entry = non_numeric_entry(text for text in sample if text is not None)
        if entry is not None:
            label = describe_column(self.labels, j)
            warnings.warn(
                f"Nearly all entries of {label} are numbers stored as text, but {entry!r} is not a number, "
                "so the whole column is treated as categorical. If it should be numeric, convert such "
                "entries to missing values first (pandas.to_numeric(..., errors='coerce')).",
                UserWarning,
                stacklevel=4,
            )

    def _encoded_columns(self, j: int) -> slice:
        """Positions of the encoded columns of input column `j`."""
        start, stop = np.searchsorted(self.groups, [j, j + 1])
        return slice(start, stop)

    def _to_numbers(self, columns: Sequence[NDArray | None], n_rows: int) -> Floats:
        """Encoded columns (n_rows, d) before standardisation, NaN where missing or unknown."""
        values = np.full((n_rows, len(self.groups)), np.nan)
        for j, column in enumerate(columns):
            if column is None or self.kinds[j] == NEVER_OBSERVED:
                continue
            if column.dtype == object:
                values[:, self._encoded_columns(j)] = self._categories[j].encode(column)
            elif self.kinds[j] == NUMBERS:
                values[:, self._encoded_columns(j)] = column[:, None]
        return values

    def _standardise(self, values: Floats) -> tuple[Floats, Bools]:
        """Standardise the result of `_to_numbers` in place; returns values and mask."""
        mask = ~np.isnan(values)
        with np.errstate(over="ignore", invalid="ignore"):
            values -= self._mean
            values /= self._scale
        np.clip(values, -_MAX_DEVIATION, _MAX_DEVIATION, out=values)
        # The scale of a constant column is infinite, so a value that overflowed in it is now NaN (inf / inf).
        values[~mask | np.isinf(self._scale)] = 0.0
        return values, mask


def _kind(column: NDArray, rows: NDArray[np.integer]) -> str:
    """Type of a column in the training rows."""
    if missing_cells(column[rows]).all():
        return NEVER_OBSERVED
    return CATEGORIES if column.dtype == object else NUMBERS


def _outputs(target: NDArray, task: Task) -> Floats:
    """Outputs (n, k) for the target encoding: targets, or class indicators (one column for two classes)."""
    if isinstance(task, Classification):
        indicators = np.eye(task.d_output)[target]
        return indicators[:, 1:] if task.d_output == 2 else indicators
    return np.asarray(target, dtype=np.float64).reshape(len(target), -1)


def _quoted(names: list[str], limit: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
