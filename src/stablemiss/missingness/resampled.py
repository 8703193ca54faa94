"""Resampled: new rows get the masks that a given table had."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import softmax

from stablemiss.data import Bools, Floats, check_is_table, missing_cells, to_array
from stablemiss.missingness.mechanism import Mechanism, check_columns, check_share, unfitted
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class Resampled(Mechanism):
    """Each row gets the whole mask of a row drawn with replacement from real masks.

    This keeps whatever binds the columns' missingness together, and cuts every tie between masks and values.
    At another level the same masks are drawn with other chances, more often those with more (or fewer)
    hidden cells; so only levels between the emptiest and the fullest mask can be reached, and no mask ever
    comes up that did not occur. There is no spread: the masks bring their own.

    Parameters
    ----------
    masks : (n_masks, d) bool, optional
        The masks to draw from, True = observed. None takes those of the table given to `fit`, whose entries
        may be of any kind: only which of them are missing matters.
    level : float, optional
        Mean share of hidden cells. Raising it draws masks with more hidden cells more often. None draws all
        masks equally often.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = [[1.0, np.nan], [2.0, np.nan], [3.0, 4.0]]
    >>> mechanism = Resampled().fit(table, rng)
    >>> mechanism.at(0.5).draw(np.zeros((3, 2)), rng).tolist()
    [[True, False], [True, False], [True, False]]
    """

    masks: NDArray | None = None
    level: float | None = None
    learnt: Bools | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.level is not None:
            check_share("level", self.level)
        if self.masks is not None:
            masks = np.array(self.masks)
            if masks.dtype != bool or masks.ndim != 2 or masks.size == 0:
                raise ValueError(
                    "masks must be a boolean table with at least one row and one column, True = observed, "
                    f"but {masks.dtype} of shape {masks.shape} came. For a table with NaN write "
                    "Resampled().fit(table, rng)."
                )
            object.__setattr__(self, "masks", masks)

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """The mechanism with the masks of X, or this mechanism itself where masks were given. `rng` is left alone."""
        array = to_array(X)
        observed = ~missing_cells(array if array.dtype.kind in "fiub" else array.astype(object))
        check_is_table(observed)
        if self.masks is not None:
            check_columns(observed, self.masks.shape[1])
            return self
        if len(observed) == 0:
            raise ValueError("Resampled draws from the masks of X, but X has no rows. Give it at least one.")
        return replace(self, learnt=observed)

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def keep(self, table: Floats, rng: Rng) -> Bools:
        masks = self.learnt if self.masks is None else self.masks
        if masks is None:
            raise unfitted(self)
        check_columns(table, masks.shape[1])
        chances = None if self.level is None else _tilted_chances(masks, self.level)
        return masks[rng.choice(len(masks), size=len(table), p=chances)]


def _tilted_chances(masks: Bools, level: float) -> Floats:
    """Chances (n_masks,) of the masks under which the mean share of hidden cells is `level`.

    Of all such chances these, proportional to exp(tilt · hidden share), are the closest to equal ones.
    """
    shares = (~masks).mean(axis=1)
    # A level such as 1 / 3 may be off by rounding.
    if not shares.min() - 1e-9 <= level <= shares.max() + 1e-9:
        raise ValueError(
            f"Resampled only draws masks that occurred, and these hide {shares.min():.3g} to "
            f"{shares.max():.3g} of a row; it cannot hide {level:.3g} on average. Choose a level in between, "
            "or another mechanism."
        )

    def mean_share(tilt: float) -> float:
        return float(softmax(tilt * shares) @ shares)

    # Shares differ by at least one cell, so at these tilts only the emptiest or the fullest masks are left.
    limit = 50.0 * masks.shape[1]
    target = np.clip(level, mean_share(-limit), mean_share(limit))
    return softmax(brentq(lambda tilt: mean_share(tilt) - target, -limit, limit) * shares)
