"""Resampling of the masks of an existing table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import softmax

from stablemiss.checks import check_number, shown
from stablemiss.data import Bools, Floats, check_is_table, missing_cells, to_array
from stablemiss.missingness.mechanism import Mechanism, check_columns, not_fitted_error
from stablemiss.seeding import Rng


@dataclass(frozen=True, eq=False)
class Resampled(Mechanism):
    """Draws the mask of each row, with replacement, from the masks of an existing table.

    This keeps the dependence between the columns' missingness, and removes any dependence between masks and
    values. At another level the same masks are drawn with other probabilities: masks with more (or fewer)
    hidden values become more likely. Masks that do not occur in the table are never drawn, so the level must
    lie between the missing rates of its most and its least complete row.

    Parameters
    ----------
    masks : (n_masks, d) bool, default=None
        The masks to draw from, True = observed. None uses the masks of the table passed to `fit`, whose
        columns may have any type.
    level : float, default=None
        Mean share of hidden values. Raising it makes masks with more hidden values more likely. None makes
        all masks equally likely.

    Attributes
    ----------
    fitted_masks : (n_masks, d) bool or None
        The masks of the table passed to `fit`; None before `fit`, or if `masks` is given.

    See Also
    --------
    MCARIndependent, MCARWindow : Missing completely at random, without an existing table.

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
    fitted_masks: Bools | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_number(self, level="[0, 1]", unless=None)
        if self.masks is not None:
            try:
                masks = np.array(self.masks)
            except ValueError:  # rows of different lengths
                masks = np.array(None)
            if masks.dtype != bool or masks.ndim != 2 or masks.size == 0:
                raise ValueError(
                    "masks must be a boolean table with at least one row and one column, True = observed; "
                    f"got {shown(self.masks)}. For a table with NaN, use Resampled().fit(table, rng)."
                )
            object.__setattr__(self, "masks", masks)

    def fit(self, X: ArrayLike, rng: Rng) -> Self:
        """Return a copy with the masks of X, or the mechanism itself if it has `masks`. `rng` is not used."""
        array = to_array(X)
        observed = ~missing_cells(array if array.dtype.kind in "fiub" else array.astype(object))
        check_is_table(observed)
        if self.masks is not None:
            check_columns(observed, self.masks.shape[1])
            return self
        if len(observed) == 0:
            raise ValueError("Resampled must be fitted on at least one row, but X has no rows.")
        return replace(self, fitted_masks=observed)

    def at(self, level: float) -> Self:
        return replace(self, level=level)

    def _draw(self, table: Floats, rng: Rng) -> Bools:
        masks = self.fitted_masks if self.masks is None else self.masks
        if masks is None:
            raise not_fitted_error(self)
        check_columns(table, masks.shape[1])
        probabilities = None if self.level is None else _tilted_probabilities(masks, self.level)
        return masks[rng.choice(len(masks), size=len(table), p=probabilities)]


def _tilted_probabilities(masks: Bools, level: float) -> Floats:
    """Probabilities (n_masks,) of drawing each mask, such that the mean share of hidden values is `level`.

    They are proportional to exp(tilt · hidden share). Of all distributions with this mean, exponential
    tilting gives the one with the smallest Kullback-Leibler divergence from the uniform distribution.
    """
    shares = (~masks).mean(axis=1)
    # A level such as 1 / 3 may have a rounding error.
    if not shares.min() - 1e-9 <= level <= shares.max() + 1e-9:
        raise ValueError(
            f"level must lie between the smallest and the largest share of hidden values in the masks, "
            f"{shares.min():.3g} and {shares.max():.3g}; got {level:.3g}. Choose a level in between, or "
            "another mechanism."
        )

    def mean_share(tilt: float) -> float:
        return float(softmax(tilt * shares) @ shares)

    # Different shares differ by at least one value, so at these tilts only the masks with the smallest or
    # the largest share have a positive probability.
    limit = 50.0 * masks.shape[1]
    target = np.clip(level, mean_share(-limit), mean_share(limit))
    return softmax(brentq(lambda tilt: mean_share(tilt) - target, -limit, limit) * shares)
