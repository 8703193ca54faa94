"""A table with holes becomes (values, mask), in the same way at fit and ever after."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stablemiss.data import Bools, Floats, centre_and_scale, missing_cells
from stablemiss.encoding.categories import Categories, learn_target_means
from stablemiss.encoding.table import Table, column_label
from stablemiss.seeding import Rng
from stablemiss.tasks import Classification, Task
from stablemiss.text import non_numeric_entry

NUMBERS, CATEGORIES, NEVER_OBSERVED = "numbers", "categories", "never observed"

# Among n training rows no cell is more than sqrt(n - 1) standard deviations from their mean, so this touches
# only cells unlike anything in training; it keeps them finite in single precision, squares included.
_FARTHEST = 1e6


class TableEncoder:
    """Learns from the training rows how a table becomes numbers, and remembers it.

    Every encoded column is centred and scaled by its observed cells in the training rows, the columns of a
    one-hot code included: zero, which also fills hidden cells, then means "average". A column
    that was constant in training stays zero, whatever it becomes: nothing was learnt about other values. A
    column that was never observed in training keeps its place but stays hidden, even when it turns up later.
    Cells are cut off at a million standard deviations.

    Parameters
    ----------
    max_one_hot : int
        Columns of up to this many categories get one column per category (one in all for two categories).
        Above it each category is told by the mean target of its rows, one number per output or class.
        Raising it keeps categories apart exactly, at the price of wider and sparser values.

    Attributes
    ----------
    n_features : int
        Columns of the user's table.
    names : list of str, or None
        Their names in training.
    labels : list of str, or None
        The text of their labels in training, strings or not, by which columns are matched.
    is_numbered : bool
        Whether those labels were just 0, 1, …
    kinds : list of str
        What each held in the training rows: "numbers", "categories" or "never observed".
    groups : (d,) int64
        The user's column from which each encoded column came.
    ever_missing : (n_features,) bool
        Which of the user's columns had a missing cell in the table given to `fit_transform`.

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
            raise ValueError(f"max_one_hot must be at least 2; it is {max_one_hot}.")
        self.max_one_hot = max_one_hot

    def fit_transform(
        self, table: Table, rows: NDArray[np.integer], target: NDArray, task: Task, rng: Rng
    ) -> tuple[Floats, Bools]:
        """Learn from some rows of a table, encode all of them.

        Parameters
        ----------
        table : Table
            Training and validation rows together.
        rows : (n_train,) int
            The training rows: means, scales, categories and target means come from them alone.
        target : (n, d_target) float64 or (n,) int64
            As the task encoded it; used only where a column has more than `max_one_hot` categories.
        task : Task
            What the target means.
        rng : numpy Generator
            Splits the training rows so that none is encoded with the help of its own target.

        Returns
        -------
        values : (n, d) float64
            Standardised, exactly zero where hidden.
        mask : (n, d) bool
            True = observed.
        """
        self.n_features, self.names = len(table.columns), table.names
        self.labels, self.is_numbered = table.labels, table.is_numbered
        self.ever_missing = np.array([missing_cells(column).any() for column in table.columns])
        self.kinds = [_kind(column, rows) for column in table.columns]
        self._categories: dict[int, Categories] = {}
        crossed: dict[int, Floats] = {}
        centres: list[Floats] = []
        scales: list[Floats] = []
        for j, column in enumerate(table.columns):
            numbers = np.empty((0, 1))
            if self.kinds[j] == NUMBERS:
                numbers = column[rows, None]
            elif self.kinds[j] == CATEGORIES:
                sample = column[rows]
                levels = sorted(set(sample) - {None})
                if len(levels) <= self.max_one_hot:
                    self._categories[j] = Categories.one_hot(levels)
                else:
                    self._mind_stray_text(j, sample)
                    outputs = _outputs(target[rows], task)
                    self._categories[j], crossed[j] = learn_target_means(levels, sample, outputs, rng)
                numbers = self._categories[j].encode(sample)
            centre, scale = centre_and_scale(numbers)
            centres.append(centre)
            scales.append(scale)
        self.groups = np.repeat(np.arange(self.n_features), [len(scale) for scale in scales])
        self._mean, self._scale = np.concatenate(centres), np.concatenate(scales)

        values = self._to_numbers(table.columns, table.n_rows)
        # The scale is that of the means new rows will get. Those of the training rows can be all but equal
        # (an identifier: no category comes twice), and dividing by such a spread would blow up new rows.
        for j, numbers in crossed.items():
            values[rows, self._place(j)] = numbers
        return self._standardise(values)

    def transform(
        self, table: Table, *, allow_missing_columns: bool = False, owner: str = "the model"
    ) -> tuple[Floats, Bools]:
        """Encode new rows as in training; unknown categories count as missing.

        Parameters
        ----------
        table : Table
            Columns are matched by label, in any order; by position if this or the training table has none,
            or other labels that just count its columns.
        allow_missing_columns : bool
            True takes absent columns as missing in every row instead of raising.
        owner : str
            Who expects the columns, for the error messages.

        Returns
        -------
        values : (n, d) float64
            Standardised, exactly zero where hidden.
        mask : (n, d) bool
            True = observed.
        """
        columns = self._match(table, allow_missing_columns, owner)
        for j, column in enumerate(columns):
            self._check_kind(j, column)
        return self._standardise(self._to_numbers(columns, table.n_rows))

    def unseen_missing(self, mask: Bools) -> list[str]:
        """Names of columns that were never missing in training and are now hidden somewhere.

        Parameters
        ----------
        mask : (n, d) bool
            From `transform`: absent columns and unknown categories are hidden there too.
        """
        hidden_now = np.unique(self.groups[~mask.all(axis=0)])
        return [
            f"column {j}" if self.names is None else self.names[j]
            for j in hidden_now
            if not self.ever_missing[j]
        ]

    def state(self) -> dict[str, Any]:
        """Arrays, strings and numbers from which `from_state` builds the same encoder."""
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
            "levels": {str(j): categories.levels for j, categories in self._categories.items()},
            "embedding": {str(j): categories.embedding for j, categories in self._categories.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableEncoder:
        """The encoder that `state` described."""
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
            j: Categories(state["levels"][str(j)], state["embedding"][str(j)])
            for j, kind in enumerate(encoder.kinds)
            if kind == CATEGORIES
        }
        return encoder

    def _match(self, table: Table, allow_missing_columns: bool, owner: str) -> list[NDArray | None]:
        """The table's columns in the order of training; None where one is absent."""
        known = set(self.labels or [])
        unexpected = [label for label in table.labels or [] if label not in known]
        # Labels that just count columns say nothing where the other table has names of its own.
        only_counted = bool(unexpected) and (self.is_numbered or table.is_numbered)
        if self.labels is None or table.labels is None or only_counted:
            if len(table.columns) != self.n_features:
                raise ValueError(
                    f"X has {len(table.columns)} features, but {owner} is expecting {self.n_features} "
                    "features as input. Without column names, columns are matched by position: give the "
                    "columns of the training table in their order."
                )
            return list(table.columns)
        arrived = dict(zip(table.labels, table.columns, strict=True))
        absent = [label for label in self.labels if label not in arrived]
        if unexpected or (absent and not allow_missing_columns):
            problems = [f"not in the training table: {_listed(unexpected)}"] * bool(unexpected)
            problems += [f"in the training table but absent now: {_listed(absent)}"] * bool(absent)
            raise ValueError(
                f"The columns of X are not those that {owner} was fitted with ({'; '.join(problems)}). Give "
                "renamed columns their old names and drop the others. Columns that are not available may be "
                "left out with allow_missing_columns=True; they then count as missing in every row."
            )
        return [arrived.get(label) for label in self.labels]

    def _check_kind(self, j: int, column: NDArray | None) -> None:
        """Raise if numbers became categories or the reverse; a column of only missing cells is either."""
        if column is None or self.kinds[j] == NEVER_OBSERVED:
            return
        is_category = column.dtype == object
        if is_category == (self.kinds[j] == CATEGORIES) or missing_cells(column).all():
            return
        label, example = column_label(self.names, j), column[~missing_cells(column)][0]
        if is_category:
            raise ValueError(
                f"Numbers were expected in {label}, as in training, but it holds strings such as "
                f"{example!r}. Turn it into numbers, with NaN for what is none, or fit again with it as a "
                "category."
            )
        raise ValueError(
            f"Categories (strings) were expected in {label}, as in training, but it holds numbers such as "
            f"{float(example)!r}. Turn it into the strings used in training, or fit again with it as numbers."
        )

    def _mind_stray_text(self, j: int, sample: NDArray) -> None:
        """Warn of a column of numbers that a stray word has turned into categories."""
        entry = non_numeric_entry(text for text in sample if text is not None)
        if entry is not None:
            label = column_label(self.labels, j)
            warnings.warn(
                f"Nearly all entries of {label} are numbers written as text, but {entry!r} is none, so the "
                "whole column is taken for categories. If it should be numbers, turn such entries into "
                "missing values first (pandas.to_numeric(..., errors='coerce')).",
                UserWarning,
                stacklevel=4,
            )

    def _place(self, j: int) -> slice:
        """Where the encoded columns of the user's column `j` stand."""
        start, stop = np.searchsorted(self.groups, [j, j + 1])
        return slice(start, stop)

    def _to_numbers(self, columns: Sequence[NDArray | None], n_rows: int) -> Floats:
        """(n_rows, d) in the columns' own units, NaN where missing or unknown."""
        values = np.full((n_rows, len(self.groups)), np.nan)
        for j, column in enumerate(columns):
            if column is None or self.kinds[j] == NEVER_OBSERVED:
                continue
            if column.dtype == object:
                values[:, self._place(j)] = self._categories[j].encode(column)
            elif self.kinds[j] == NUMBERS:
                values[:, self._place(j)] = column[:, None]
        return values

    def _standardise(self, values: Floats) -> tuple[Floats, Bools]:
        """Values and mask of `_to_numbers`; works in place."""
        mask = ~np.isnan(values)
        with np.errstate(over="ignore", invalid="ignore"):
            values -= self._mean
            values /= self._scale
        np.clip(values, -_FARTHEST, _FARTHEST, out=values)
        # The scale of a constant column is infinite; what overflowed in one is not a number by now.
        values[~mask | np.isinf(self._scale)] = 0.0
        return values, mask


def _kind(column: NDArray, rows: NDArray[np.integer]) -> str:
    """What the training rows of a column hold."""
    if missing_cells(column[rows]).all():
        return NEVER_OBSERVED
    return CATEGORIES if column.dtype == object else NUMBERS


def _outputs(target: NDArray, task: Task) -> Floats:
    """What is averaged per category, (n, k): targets, or indicators of the classes (of one of two)."""
    if isinstance(task, Classification):
        indicators = np.eye(task.d_output)[target]
        return indicators[:, 1:] if task.d_output == 2 else indicators
    return np.asarray(target, dtype=np.float64).reshape(len(target), -1)


def _listed(names: list[str], limit: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
