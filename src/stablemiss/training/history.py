"""Training history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class History:
    """Losses and scores of one training stage.

    Attributes
    ----------
    stage : str
        Name of the stage.
    scores : list of float, default=[]
        Validation score before the first epoch and after each epoch, so that ``scores[epoch]`` belongs to
        `epoch`. Without early stopping, only the score of the last epoch.
    losses : list of tuple of float or None, default=[]
        For each epoch, the mean loss of every step, in the order of the steps. None for a step that did not
        run in that epoch. The first entry belongs to epoch 1.
    lr_reductions : list of int, default=[]
        Epochs after which the best parameters were restored and the learning rates lowered.
    best_epoch : int, default=0
        Epoch whose parameters were kept; 0 means that training did not improve the score.
    ending : {"max_epochs", "patience", "diverged"}, default="max_epochs"
        Why training ended.

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
        return self.scores[min(self.best_epoch, len(self.scores) - 1)]
