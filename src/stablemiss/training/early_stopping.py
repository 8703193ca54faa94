"""Early stopping with a copy of the best parameters."""

from __future__ import annotations

from torch import Tensor, nn


class EarlyStopping:
    """Track the validation score and keep the parameters of the best epoch.

    Parameters
    ----------
    module : nn.Module
        The module whose parameters and buffers are copied and restored.
    patience : int
        Number of epochs without a better score after which training should stop. A larger value finds late
        improvements and takes longer; it never makes the best validation score worse.
    tolerance : float, default=0.0
        An epoch does not count against patience if its score is within this fraction of the best one. A
        larger value continues through noise and plateaus.
    only_if_rising : bool, default=False
        Whether training continues, out of patience, until the score is also the highest since the best one.
        Overfitting raises the score epoch after epoch; noise raises it only for some epochs.

    Attributes
    ----------
    best_score : float
        Lowest score so far.
    best_epoch : int
        Epoch with the lowest score.

    See Also
    --------
    stablemiss.training.run_stages : The training loop that uses it.

    Examples
    --------
    >>> stopping = EarlyStopping(nn.Linear(1, 1), patience=2)
    >>> [stopping.update(epoch, score) for epoch, score in enumerate([3.0, 1.0, 2.0, 2.0])]
    [False, False, False, True]
    >>> stopping.best_epoch
    1
    """

    def __init__(
        self, module: nn.Module, patience: int, tolerance: float = 0.0, only_if_rising: bool = False
    ):
        self.module = module
        self.patience = patience
        self.tolerance = tolerance
        self.only_if_rising = only_if_rising
        self.best_score = self._highest = float("inf")
        self.best_epoch = 0
        self._waiting_since = 0
        self._snapshot = self._copy()

    def update(self, epoch: int, score: float) -> bool:
        """Record a score; True if out of patience. The parameters of the best epoch are copied."""
        if score < self.best_score:
            self.best_score, self.best_epoch, self._waiting_since = score, epoch, epoch
            self._highest = score
            self._snapshot = self._copy()
        elif score < self.best_score + self.tolerance * abs(self.best_score):
            self._waiting_since = epoch
        is_rising = score >= self._highest
        self._highest = max(self._highest, score)
        return epoch - self._waiting_since >= self.patience and (is_rising or not self.only_if_rising)

    def restore_best(self, epoch: int) -> None:
        """Load the parameters of the best epoch and restart the patience counter at `epoch`."""
        self.module.load_state_dict(self._snapshot)
        self._waiting_since, self._highest = epoch, self.best_score

    def _copy(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.module.state_dict().items()}
