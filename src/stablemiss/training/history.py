"""What happened during training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class History:
    """The course of one stage.

    Attributes
    ----------
    stage : str
        Its name.
    scores : list of float
        Validation score before the first epoch and after each one, so ``scores[epoch]``.
    losses : list of tuple of float or None
        For each epoch the mean loss of every step, in the order of the steps (None for a step whose turn did
        not come). The first entry belongs to epoch 1.
    lr_reductions : list of int
        Epochs after which training went back to the best parameters and lowered its learning rates.
    best_epoch : int
        The epoch whose parameters were kept; 0 = training did not help.
    ending : str
        Why it ended.

    Examples
    --------
    >>> history = History("predictor", scores=[2.0, 1.0, 1.5], losses=[(1.9,), (1.1,)], best_epoch=1)
    >>> history.best_score
    1.0
    """

    stage: str
    scores: list[float] = field(default_factory=list)
    losses: list[tuple[float | None, ...]] = field(default_factory=list)
    lr_reductions: list[int] = field(default_factory=list)
    best_epoch: int = 0
    ending: Literal["max_epochs", "patience", "diverged"] = "max_epochs"

    @property
    def best_score(self) -> float:
        """Validation score of the kept parameters."""
        return self.scores[self.best_epoch]
