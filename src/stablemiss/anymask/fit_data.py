"""The rows to which the members of AnyMask are fitted, and masked copies of them."""

from __future__ import annotations

from dataclasses import dataclass

from stablemiss.data import MaskedData
from stablemiss.missingness import MaskSource
from stablemiss.seeding import Rng
from stablemiss.tasks import Task

# Boosting is trained on the rows and masked copies of them. Maximum number of rows in the copies, and of
# cells in the rows and copies together (160 MB; with a mixture, trees need about five times as much for the
# completed rows and the features made of both).
MAX_COPIED_ROWS, MAX_COPIED_CELLS = 600_000, 20_000_000


@dataclass(frozen=True, eq=False)
class FitData:
    """Data to which all members are fitted.

    Attributes
    ----------
    train, valid : MaskedData
        Training and validation rows; `valid` may be empty.
    task : Task
    augmentation : MaskSource
        Hides further values during training.
    """

    train: MaskedData
    valid: MaskedData
    task: Task
    augmentation: MaskSource

    @property
    def held_out(self) -> MaskedData:
        """Rows for early stopping, stacking and calibration: `valid`, or `train` if `valid` is empty."""
        return self.valid if len(self.valid) else self.train


def limit_copies(n_copies: int, n_rows: int, n_columns: int) -> int:
    """The number of masked copies of a table, at most `n_copies`; 0 if it is too long to be copied.

    Examples
    --------
    >>> limit_copies(3, 1000, 20), limit_copies(3, 250_000, 20), limit_copies(3, 1_000_000, 20)
    (3, 2, 0)
    """
    max_copies = min(MAX_COPIED_ROWS // max(1, n_rows), MAX_COPIED_CELLS // max(1, n_rows * n_columns) - 1)
    return max(0, min(n_copies, max_copies))


def with_masked_copies(data: MaskedData, augmentation: MaskSource, n_copies: int, rng: Rng) -> MaskedData:
    """The rows followed by masked copies; if the table is too long for that, a single masked copy alone."""
    n_copies = limit_copies(n_copies, *data.values.shape)
    if n_copies > 0:
        return augmentation.copies(data, n_copies, rng)
    return data.keep_where(augmentation.draw(len(data), rng))
