"""The one currency inside the library: values, mask, target, weight. NaN has ended before it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def hide(values: Floats, mask: Bools) -> Floats:
    """`values` with zeros wherever `mask` is False, whatever stood there (NaN and inf included)."""
    return np.where(mask, values, 0.0)


@dataclass(frozen=True)
class MaskedData:
    """Encoded rows of a table with holes.

    Attributes
    ----------
    values : (n, d) float64
        Features, roughly standardised; exactly zero where hidden.
    mask : (n, d) bool
        True = observed.
    target : (n, d_target) float64 for regression, (n,) int64 class codes for classification
        As the task encoded it.
    weight : (n,) float64
        One number per row, positive or zero, mean one.
    groups : (d,) int64
        Which column of the user's table each encoded column came from. The columns of a one-hot code share
        a group and are observed or hidden together.
    """

    values: Floats
    mask: Bools
    target: NDArray
    weight: Floats
    groups: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        values: NDArray,
        mask: NDArray,
        target: NDArray,
        weight: NDArray | None = None,
        groups: NDArray | None = None,
    ) -> MaskedData:
        """Build from arrays: hidden cells become zero, weights get mean one, shapes are checked."""
        mask = np.asarray(mask, dtype=bool)
        values = np.asarray(values, dtype=np.float64)
        target = np.asarray(target)
        n, d = values.shape
        weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        if mask.shape != values.shape or len(target) != n or weight.shape != (n,):
            raise ValueError(
                f"values {values.shape}, mask {mask.shape}, target {target.shape} and weight {weight.shape} "
                "must agree in their rows, and values and mask in their columns."
            )
        values = hide(values, mask)
        if not np.isfinite(values).all():
            raise ValueError("Observed values must be finite; mark NaN and inf as hidden or remove them.")
        if n and not weight.sum() > 0:
            raise ValueError("The weights must not all be zero.")
        weight = weight * (n / weight.sum()) if n else weight
        groups = np.arange(d) if groups is None else np.asarray(groups, dtype=np.int64)
        return cls(values, mask, target, weight, groups)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_columns(self) -> int:
        return self.values.shape[1]

    def rows(self, index: NDArray) -> MaskedData:
        """The chosen rows (weights brought back to mean one)."""
        return MaskedData.of(
            self.values[index], self.mask[index], self.target[index], self.weight[index], self.groups
        )

    def hidden_where(self, keep: Bools) -> MaskedData:
        """The same rows with every cell hidden where `keep` (n, d) is False."""
        mask = self.mask & keep
        return replace(self, values=hide(self.values, mask), mask=mask)
