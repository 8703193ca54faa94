"""When to stop, and the parameters to return to."""

from __future__ import annotations

from torch import Tensor, nn


class EarlyStopping:
    """Keeps the parameters of the epoch with the lowest validation score.

    Parameters
    ----------
    module : nn.Module
        What is kept and restored.
    patience : int
        Epochs without a better score after which patience is lost. More patience finds late improvements
        and costs time, never accuracy on the validation rows.

    Examples
    --------
    >>> stopping = EarlyStopping(nn.Linear(1, 1), patience=2)
    >>> [stopping.should_stop(epoch, score) for epoch, score in enumerate([3.0, 1.0, 2.0, 2.0])]
    [False, False, False, True]
    >>> stopping.best_epoch
    1
    """

    def __init__(self, module: nn.Module, patience: int):
        self.module = module
        self.patience = patience
        self.best_score = float("inf")
        self.best_epoch = 0
        self._waiting_since = 0
        self._snapshot = self._copy()

    def should_stop(self, epoch: int, score: float) -> bool:
        """Note an epoch's score, keep the parameters if it is the best yet, say whether patience is lost."""
        if score < self.best_score:
            self.best_score, self.best_epoch, self._waiting_since = score, epoch, epoch
            self._snapshot = self._copy()
        return epoch - self._waiting_since >= self.patience

    def restore_best(self, epoch: int) -> None:
        """Put the best epoch's parameters back and wait anew, counted from `epoch`."""
        self.module.load_state_dict(self._snapshot)
        self._waiting_since = epoch

    def _copy(self) -> dict[str, Tensor]:
        return {name: part.clone() for name, part in self.module.state_dict().items()}
