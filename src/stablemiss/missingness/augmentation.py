"""Hide observed values in training, so that a model sees masks the data do not contain.

`MaskAugmentation` draws masks of any kind; `GivenMasks` draws those of given rows, such as new rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stablemiss.data import Bools, Floats, MaskedData, to_numbers, zero_where_missing
from stablemiss.seeding import Rng

# Share of rows in which values are hidden; the others stay unchanged.
AUGMENTED_SHARE = 0.8
# Share of these rows in which informative columns are hidden preferentially.
PREFERENTIAL_SHARE = 0.35
# Maximum fraction of the columns hidden in such a row: if nearly all were hidden, it would not matter which
# columns are hidden preferentially.
MAX_HIDDEN_FRACTION = 0.8


class MaskSource(ABC):
    """Random masks that hide further values of training rows.

    See Also
    --------
    MECHANISMS : The missingness mechanisms by their names.
    """

    # Whether the first of the copies of a row is the row itself.
    keeps_rows: ClassVar[bool]

    @abstractmethod
    def draw(self, n: int, rng: Rng) -> Bools:
        """Draw masks (n, d) for n rows, True = stays observed."""

    def useful_copies(self, n_copies: int) -> int:
        """The number of copies, at most `n_copies`, beyond which masks would repeat."""
        return n_copies

    def copies(self, data: MaskedData, n_copies: int, rng: Rng) -> MaskedData:
        """The rows, unchanged if `keeps_rows` and masked otherwise, followed by `n_copies` masked copies.

        Parameters
        ----------
        data : MaskedData
            The rows to copy.
        n_copies : int
            Number of copies, each with new masks. Time and memory grow in proportion.
        rng : numpy Generator
            Draws the masks.
        """
        first = data.mask if self.keeps_rows else data.mask & self.draw(len(data), rng)
        new_masks = (data.mask & self.draw(len(data), rng) for _ in range(n_copies))
        # All copies are built in one array, because they dominate the memory needed for training.
        mask = np.stack([first, *new_masks])
        weight = np.tile(data.weight, n_copies + 1)
        return replace(
            data,
            values=zero_where_missing(data.values, mask).reshape(-1, data.n_columns),
            mask=mask.reshape(-1, data.n_columns),
            target=np.concatenate([data.target] * (n_copies + 1)),
            weight=weight * (len(weight) / weight.sum()) if len(weight) else weight,
            target_mask=None
            if data.target_mask is None
            else np.concatenate([data.target_mask] * (n_copies + 1)),
        )


@dataclass(frozen=True, eq=False)
class GivenMasks(MaskSource):
    """The masks of given rows, such as new rows without targets, each about equally often.

    Attributes
    ----------
    mask : (n_given, d) bool
        True = observed; at least one row.

    See Also
    --------
    Resampled : Draws from the masks of given rows.

    Examples
    --------
    >>> masks = GivenMasks(np.array([[True, False], [True, True]]))
    >>> masks.draw(4, np.random.default_rng(0)).sum(axis=0).tolist()
    [4, 2]
    """

    keeps_rows: ClassVar[bool] = False
    mask: Bools

    def draw(self, n: int, rng: Rng) -> Bools:
        n_rounds = 1 + n // len(self.mask)
        rows = np.concatenate([rng.permutation(len(self.mask)) for _ in range(n_rounds)])
        return self.mask[rows[:n]]

    def useful_copies(self, n_copies: int) -> int:
        return min(n_copies, len(np.unique(self.mask, axis=0)) - 1)


@dataclass(frozen=True, eq=False)
class MaskAugmentation(MaskSource):
    """Random masks that hide further values, row by row.

    One row in five stays unchanged. For each other row a rate is drawn uniformly between 0 and 1. In about
    two thirds of these rows, each column is hidden independently with that probability. In the others, the
    rate determines how many columns are hidden, and columns of high `importance` are hidden preferentially,
    because masks in which only an important column is missing are rare among independent masks.

    Attributes
    ----------
    groups : (d,) int
        The column of the user's table that each encoded column belongs to, numbered from 0. Encoded columns
        of one group are hidden together.
    importance : (n_groups,) float
        Importance of each column of the user's table; only proportions matter. If all are zero,
        columns are always hidden independently.
    may_vanish : (n_groups,) bool
        Columns that may be hidden; the others never are.

    See Also
    --------
    stablemiss.StableMissRegressor : Hides values in training by it, with ``mask_augmentation=True``.

    Examples
    --------
    >>> augmentation = MaskAugmentation.of([0, 1, 1], may_vanish=[False, True])
    >>> keep = augmentation.draw(1000, np.random.default_rng(0))
    >>> bool(keep[:, 0].all()), bool((keep[:, 1] == keep[:, 2]).all()), bool(keep.all())
    (True, True, False)
    """

    keeps_rows: ClassVar[bool] = True
    groups: NDArray[np.int64]
    importance: Floats
    may_vanish: Bools

    @classmethod
    def of(
        cls, groups: ArrayLike, importance: ArrayLike | None = None, may_vanish: ArrayLike | None = None
    ) -> MaskAugmentation:
        """Build from group numbers that need not be consecutive.

        Parameters
        ----------
        groups : (d,) int
            The column of the user's table that each encoded column belongs to.
        importance : (n_groups,), default=None
            Importance of each column of the user's table. None treats all columns alike.
        may_vanish : (n_groups,) bool, default=None
            Columns that may be hidden. None means all.
        """
        _, group_index = np.unique(to_numbers("groups", groups, np.int64), return_inverse=True)
        n_groups = int(group_index.max(initial=-1)) + 1
        importance = np.zeros(n_groups) if importance is None else to_numbers("importance", importance)
        may_vanish = (
            np.ones(n_groups, bool) if may_vanish is None else to_numbers("may_vanish", may_vanish, bool)
        )
        for name, array in {"importance": importance, "may_vanish": may_vanish}.items():
            if array.shape != (n_groups,):
                raise ValueError(
                    f"{name} must have one entry for each of the {n_groups} columns of the table; got shape "
                    f"{array.shape}."
                )
        return cls(group_index.astype(np.int64), importance, may_vanish)

    def draw(self, n: int, rng: Rng) -> Bools:
        k = len(self.may_vanish)
        rate = rng.random((n, 1), dtype=np.float32)
        is_augmented = rng.random((n, 1), dtype=np.float32) < AUGMENTED_SHARE
        hidden = rng.random((n, k), dtype=np.float32) < rate
        if self.importance.any():
            rows = np.flatnonzero(rng.random(n, dtype=np.float32) < PREFERENTIAL_SHARE)
            # Gumbel-max trick: sorting log probabilities plus Gumbel noise draws columns without replacement,
            # in proportion to their probabilities. 0.2 / k gives unimportant columns a chance too.
            log_weights = np.log(self.importance / self.importance.sum() + 0.2 / k)
            log_weights[~self.may_vanish] = -np.inf
            noise = -np.log(-np.log(rng.random((len(rows), k), dtype=np.float32) + 1e-12) + 1e-12)
            rank = np.argsort(np.argsort(-(log_weights + noise), axis=1), axis=1)
            hidden[rows] = rank < np.ceil(rate[rows] * MAX_HIDDEN_FRACTION * self.may_vanish.sum())
        hidden &= is_augmented & self.may_vanish
        return ~hidden[:, self.groups]
