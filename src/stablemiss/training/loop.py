"""The training loop: stages run one after the other, and each stage runs its steps on each batch.

- An ordinary fit is one stage with one step.
- Alternating updates (a critic on every batch, a generator on every fifth) are one stage with two steps.
- Fitting row weights and then the predictor takes two stages.
- Full-batch optimisation is a stage without rows, or a stage whose batch size is the number of rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from time import monotonic

import torch
from torch import Tensor, nn

from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.torch_state import torch_randomness, torch_threads
from stablemiss.training.averaging import ParameterAverage
from stablemiss.training.early_stopping import EarlyStopping
from stablemiss.training.history import History
from stablemiss.training.optimisers import MakeOptimiser
from stablemiss.training.rows import Rows

# Factor by which the learning rates are multiplied when training is out of patience.
LR_FACTOR = 0.3
# Steps with fewer multiplications use a single thread, because more threads would save little time.
MIN_OPS_FOR_THREADS = 2**26
# Minimum number of seconds between two progress reports within an epoch. A report may also raise an exception
# in order to stop the training, so it must not wait for the end of a long epoch.
REPORT_SECONDS = 0.1


@dataclass(frozen=True)
class Step:
    """A loss, the parameters it updates, and the optimiser.

    Attributes
    ----------
    loss : callable
        Function from a batch (`Rows`) to a scalar tensor; in a stage without rows it takes no argument. It
        may draw from torch's global generators, which `run_stages` seeds.
    parameters : sequence of tensors
        Parameters updated by this step. No gradients are computed for other tensors.
    optimiser : callable
        Function from parameters to an optimiser, such as ``adamw(1e-3)`` or
        ``partial(torch.optim.SGD, lr=1.0)``.
    clip : float, default=5.0
        Maximum norm of the gradient; infinity turns clipping off. A lower value is safer against rare
        batches with large gradients, and slows training down if it is far below the usual norm.
    every : int, default=1
        Run the step only on every `every`-th batch, counted through all epochs of the stage.
    """

    loss: Callable[..., Tensor]
    parameters: Sequence[Tensor]
    optimiser: MakeOptimiser
    clip: float = 5.0
    every: int = 1


@dataclass(frozen=True)
class Stage:
    """One stage of training: epochs of steps on the same rows, with early stopping on a validation score.

    Attributes
    ----------
    name : str
        Shown by the progress report.
    module : nn.Module
        Holds all parameters that the steps update. It is in training mode during steps and in evaluation
        mode during scoring. When the stage ends it is in evaluation mode with the parameters of the best
        epoch.
    steps : sequence of Step
        Run in this order on each batch.
    score : callable
        Function without arguments that returns the validation score, lower is better; called under
        `torch.no_grad`. It is required, because without early stopping overfitting hides the differences
        between methods.
    rows : Rows, default=None
        Training rows, shuffled in each pass. None for a problem without mini-batches: each loss is then
        called once per pass, without arguments.
    batch_size : int, default=256
        Maximum number of rows in a batch. A larger value gives faster epochs with fewer, less noisy steps.
    max_epochs : int, default=100
        Maximum number of epochs.
    patience : int, default=10
        Number of epochs without a better score before the learning rates are lowered or training ends. None
        turns early stopping off: all epochs are run at the full learning rates, the module keeps the
        parameters of the last one, and the score is computed only then.
    tolerance : float, default=0.0
        Epochs whose score is within this fraction of the best one do not count against patience.
    only_if_rising : bool, default=False
        Whether training that is out of patience continues until the score is also the highest since the best
        one, so that noise does not end it; see `EarlyStopping`.
    lr_reductions : int, default=0
        How often the learning rates are lowered, continuing from the best parameters, before training ends.
        More reductions find a better optimum and take longer; 0 ends training when patience runs out.
        Training that diverges before it improves the score gets one in any case.
    min_batches : int, default=1
        Minimum number of batches per epoch; an epoch makes several passes over the rows if necessary. Raise
        it if a pass has few batches (small tables, full batches), so that the score is computed less often.
    max_batches : int, default=None
        Maximum number of batches per epoch; a longer pass over the rows is cut off, and the next epoch draws
        another order of the rows. Lower it if a pass is long, so that the score is computed more often. None:
        epochs are whole passes.
    schedule : callable, default=None
        Function from the completed fraction of the stage's batches, 0 to 1, to the factor by which the
        learning rates are multiplied.
    averaging : float, default=None
        Score and keep an average of the parameters over recent batches instead of the newest ones, see
        `ParameterAverage`; a larger value averages over fewer. None does not average. Needs `patience`.
    n_threads : int, default=None
        Number of CPU threads. One thread is best for steps of about a millisecond, see `torch_threads`. None
        uses torch's setting, which is best for longer steps.
    """

    name: str
    module: nn.Module
    steps: Sequence[Step]
    score: Callable[[], float]
    rows: Rows | None = None
    batch_size: int = 256
    max_epochs: int = 100
    patience: int | None = 10
    tolerance: float = 0.0
    only_if_rising: bool = False
    lr_reductions: int = 0
    min_batches: int = 1
    max_batches: int | None = None
    schedule: Callable[[float], float] | None = None
    averaging: float | None = None
    n_threads: int | None = None

    @property
    def n_batches(self) -> int:
        """Number of batches in one pass over the rows."""
        return 1 if self.rows is None else self.rows.n_batches(self.batch_size)

    @property
    def batches_per_epoch(self) -> int:
        """Number of batches in one epoch: one or several passes over the rows, or a part of one."""
        n_batches = math.ceil(self.min_batches / self.n_batches) * self.n_batches
        return n_batches if self.max_batches is None else min(n_batches, self.max_batches)

    def batches(self, rng: Rng) -> Iterator[tuple[Rows, ...]]:
        """Positional arguments of the losses, for each batch of one pass."""
        if self.rows is None:
            yield ()
        else:
            for batch in self.rows.batches(self.batch_size, rng):
                yield (batch,)


def run_stages(stages: Sequence[Stage], rng: Rng, progress: Progress) -> list[History]:
    """Run the stages one after the other; afterwards every module has the parameters of its best epoch.

    A loss or score that is not finite is treated like running out of patience: the best parameters are
    restored and the learning rates are lowered. If no reduction is left, training ends: with a warning if an
    earlier epoch improved the score, because its parameters are still useful. Otherwise the learning rates
    are lowered once in any case, and then it ends with an error, because the module is not trained.

    Parameters
    ----------
    stages : sequence of Stage
        The stages to run.
    rng : numpy Generator
        Determines the order of the rows and everything that torch draws inside the losses. The random state
        of the process is not changed.
    progress : Progress
        Receives the number of batches several times a second, and the score of each epoch.

    Returns
    -------
    list of History
        One per stage.

    Examples
    --------
    Fit a line:

    >>> import numpy as np
    >>> from stablemiss.data import MaskedData
    >>> from stablemiss.progress import NullProgress
    >>> from stablemiss.training import adamw
    >>> x = np.linspace(-1, 1, 64)[:, None]
    >>> rows = Rows.of(MaskedData.of(x, x == x, 3 * x), torch.device("cpu"))
    >>> line = nn.Linear(1, 1)
    >>> loss = lambda batch: ((line(batch.values) - batch.target) ** 2).mean()
    >>> step = Step(loss, list(line.parameters()), adamw(learning_rate=0.1))
    >>> stage = Stage("line", line, [step], lambda: float(loss(rows)), rows, batch_size=16)
    >>> [history] = run_stages([stage], np.random.default_rng(0), NullProgress())
    >>> history.best_score < 0.01 < history.scores[0]
    True
    """
    histories = []
    for stage in stages:
        with torch_randomness(rng), torch_threads(stage.n_threads):
            histories.append(_run(stage, rng, progress))
    return histories


class _Updater:
    """Applies optimiser steps to a list of parameters.

    Parameters
    ----------
    parameters : sequence of tensors
    optimiser : callable
        As in `Step`.
    clip : float
        Maximum norm of the gradient.
    lr_factor : float, default=1.0
        Multiplies the optimiser's learning rates.
    """

    def __init__(
        self, parameters: Sequence[Tensor], optimiser: MakeOptimiser, clip: float, lr_factor: float = 1.0
    ):
        self.parameters = list(parameters)
        self.clip = clip
        self.optimiser = optimiser(self.parameters)
        self.learning_rates = [group["lr"] * lr_factor for group in self.optimiser.param_groups]
        self.scale_learning_rates(1.0)

    def scale_learning_rates(self, factor: float) -> None:
        """Set the learning rates to `factor` times their initial values."""
        for group, learning_rate in zip(self.optimiser.param_groups, self.learning_rates, strict=True):
            group["lr"] = factor * learning_rate

    def step(self, loss: Tensor) -> None:
        """Update the parameters once with the gradient of `loss`."""
        # loss.backward() would also accumulate gradients on the parameters of other steps.
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        if self.clip < math.inf:
            nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimiser.step()
        self.optimiser.zero_grad()


def _run(stage: Stage, rng: Rng, progress: Progress) -> History:
    if stage.rows is not None and not len(stage.rows):
        raise ValueError(f'The stage "{stage.name}" has no rows to train on; give it at least one.')
    history = History(stage.name)
    updaters = _make_updaters(stage, n_reductions=0)
    report = _Report(progress, stage)
    if stage.patience is None:
        return _run_all_epochs(stage, updaters, history, rng, report)
    stopping = EarlyStopping(stage.module, stage.patience, stage.tolerance, stage.only_if_rising)
    average = _make_average(stage)
    try:
        # The initial parameters count as epoch 0: if training only makes the score worse, they are kept.
        history.scores.append(_score(stage))
        stopping.update(0, history.scores[0])
        for epoch in range(1, stage.max_epochs + 1):
            history.losses.append(_run_epoch(stage, updaters, epoch, rng, report, average))
            with nullcontext() if average is None else average.applied():
                history.scores.append(_score(stage))
                is_out_of_patience = _has_diverged(history) or stopping.update(epoch, history.scores[-1])
            report.epoch(history.scores[-1])
            if is_out_of_patience:
                # Training that diverged before it improved anything gets a second chance at a lower rate.
                is_untrained = _has_diverged(history) and stopping.best_epoch == 0
                if len(history.lr_reductions) >= max(stage.lr_reductions, int(is_untrained)):
                    history.ending = "patience"
                    break
                history.lr_reductions.append(epoch)
                stopping.restore_best(epoch)
                updaters = _make_updaters(stage, len(history.lr_reductions))
                average = _make_average(stage)
    finally:
        report.finish()
    stopping.restore_best(len(history.losses))
    history.best_epoch = stopping.best_epoch
    if _has_diverged(history):
        history.ending = "diverged"
        _report_divergence(history)
    return history


def _run_all_epochs(
    stage: Stage, updaters: list[_Updater], history: History, rng: Rng, report: _Report
) -> History:
    """Run all epochs without early stopping."""
    try:
        for epoch in range(1, stage.max_epochs + 1):
            history.losses.append(_run_epoch(stage, updaters, epoch, rng, report))
            if epoch == stage.max_epochs:
                history.scores.append(_score(stage))
            numbers = [*(loss for loss in history.losses[-1] if loss is not None), *history.scores]
            if not all(map(math.isfinite, numbers)):
                advice = "Lower the learning rate"
                if stage.schedule is None:
                    advice += ", or set patience to a number of epochs, which turns early stopping on"
                raise FloatingPointError(
                    f'Training of "{stage.name}" diverged: in epoch {epoch} a loss or the score was not '
                    f"finite. {advice}."
                )
    finally:
        report.finish()
    history.best_epoch = stage.max_epochs
    return history


class _Report:
    """Reports the number of batches and the latest validation score of a stage."""

    def __init__(self, progress: Progress, stage: Stage):
        self._progress, self._n_batches, self._note = progress, 0, ""
        progress.start(stage.name, total=stage.max_epochs * stage.batches_per_epoch)
        self._reported = monotonic()

    def batch(self) -> None:
        self._n_batches += 1
        if monotonic() - self._reported >= REPORT_SECONDS:
            self._update()

    def epoch(self, score: float) -> None:
        self._note = f"validation {score:.4g}"
        self._update()

    def finish(self) -> None:
        self._progress.finish()

    def _update(self) -> None:
        self._progress.update(self._n_batches, self._note)
        self._reported = monotonic()


def _make_updaters(stage: Stage, n_reductions: int) -> list[_Updater]:
    """One updater per step, with new optimisers: after restoring parameters, old moments do not apply."""
    lr_factor = LR_FACTOR**n_reductions
    return [_Updater(step.parameters, step.optimiser, step.clip, lr_factor) for step in stage.steps]


def _make_average(stage: Stage) -> ParameterAverage | None:
    return None if stage.averaging is None else ParameterAverage(stage.module, stage.averaging)


def _run_epoch(
    stage: Stage,
    updaters: list[_Updater],
    epoch: int,
    rng: Rng,
    report: _Report,
    average: ParameterAverage | None = None,
) -> tuple[float | None, ...]:
    """Mean loss of each step over the batches of one epoch."""
    stage.module.train()
    n_seen = (epoch - 1) * stage.batches_per_epoch
    losses: list[list[Tensor]] = [[] for _ in stage.steps]
    for _ in range(math.ceil(stage.batches_per_epoch / stage.n_batches)):
        for batch in islice(stage.batches(rng), stage.batches_per_epoch):
            if stage.schedule is not None:
                factor = stage.schedule(n_seen / (stage.max_epochs * stage.batches_per_epoch))
                for updater in updaters:
                    updater.scale_learning_rates(factor)
            n_seen += 1
            for step, updater, step_losses in zip(stage.steps, updaters, losses, strict=True):
                if n_seen % step.every == 0:
                    loss = step.loss(*batch)
                    updater.step(loss)
                    step_losses.append(loss.detach())
            if average is not None:
                average.update()
            report.batch()
    # Losses are read once per epoch, because reading each one would make a GPU wait.
    return tuple(float(torch.stack(values).mean()) if values else None for values in losses)


def _score(stage: Stage) -> float:
    stage.module.eval()
    with torch.no_grad():
        return float(stage.score())


def _has_diverged(history: History) -> bool:
    """Whether a loss or the score of the last epoch is not finite."""
    losses = [loss for loss in history.losses[-1] if loss is not None]
    return not all(math.isfinite(number) for number in (*losses, history.scores[-1]))


def _report_divergence(history: History) -> None:
    """Raise if no epoch improved the score, otherwise warn."""
    problem = (
        f'Training of "{history.stage}" diverged: in epoch {len(history.losses)} a loss or the validation '
        "score was not finite."
    )
    advice = "Lower the learning rate, and check the features and the target for extreme values."
    if history.best_epoch == 0:
        raise FloatingPointError(f"{problem} No epoch had improved the score before. {advice}")
    kept = f"The parameters of epoch {history.best_epoch} are kept."
    warnings.warn(f"{problem} {kept} {advice}", RuntimeWarning, stacklevel=4)
