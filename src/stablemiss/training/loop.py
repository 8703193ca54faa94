"""The one training loop: stages in order, in each stage steps in turn, each step its own loss and optimiser.

An ordinary fit is one stage with one step. Alternation (a critic on every batch, a generator on every fifth)
is one stage with two steps. "Weights, then predictor" is two stages. Full-batch descent is a stage whose
batch holds all rows. A small problem to be solved within each batch is a call of `inner_loop` in the loss.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from stablemiss.progress import Progress
from stablemiss.seeding import Rng
from stablemiss.torch_state import torch_randomness, torch_threads
from stablemiss.training.early_stopping import EarlyStopping
from stablemiss.training.history import History
from stablemiss.training.optimisers import MakeOptimiser
from stablemiss.training.rows import Rows

# What a learning rate is multiplied by when patience is lost.
LR_FACTOR = 0.3
# Multiplications in a step up to which a second thread saves little.
SMALL_STEP = 2**26


@dataclass(frozen=True)
class Step:
    """One loss, the parameters it moves (and no others), and how.

    Attributes
    ----------
    loss : callable
        Batch → scalar tensor. It may draw from torch's own generators: `run_stages` seeds them.
    parameters : sequence of tensors
        What this step moves. Whatever else the loss depends on gets no gradient from it.
    optimiser : callable
        Parameters → torch optimiser, such as ``adamw(1e-3)`` or ``partial(torch.optim.SGD, lr=1.0)``.
    clip : float
        Largest norm of the gradient. Lower is safer against a rare wild batch and, far below the usual norm,
        slower; infinity turns it off.
    every : int
        Run on every so many batches, counted through all epochs of the stage.
    """

    loss: Callable[[Rows], Tensor]
    parameters: Sequence[Tensor]
    optimiser: MakeOptimiser
    clip: float = 5.0
    every: int = 1


@dataclass(frozen=True)
class Stage:
    """Epochs of steps on the same rows, until the validation score has stopped falling.

    Attributes
    ----------
    name : str
        Told to the progress.
    module : nn.Module
        Holds all that the steps move; afterwards it is what it was at its best epoch. In training mode while
        stepping, in evaluation mode while scoring and when the stage is over.
    rows : Rows
        Shuffled anew in each pass.
    steps : sequence of Step
        Taken in this order on each batch.
    score : callable
        () → validation score, lower is better, called without gradients. There is no way to do without it:
        on incomplete data the loss of overfitting is as large as the effects to be measured.
    batch_size : int
        More rows in a batch: quicker epochs of fewer, steadier steps.
    max_epochs : int
        The most epochs to run.
    patience : int
        Epochs without a better score before patience is lost.
    lr_reductions : int
        How often, when patience is lost, to go back to the best parameters and continue at a lower learning
        rate, before giving up. More cuts find a better end and take longer; 0 stops at once.
    min_batches : int
        An epoch makes as many whole passes over the rows as it needs for this many batches. Raise it where
        a pass is few steps (small tables, full batches), so that scores are not taken at every step.
    schedule : callable, optional
        Share of the stage's batches that are over, 0 to 1 → what learning rates are multiplied by.
    n_threads : int, optional
        Processor threads. One is best for steps of a millisecond, see `torch_threads`; None leaves it to
        torch, which is best for long ones.
    """

    name: str
    module: nn.Module
    rows: Rows
    steps: Sequence[Step]
    score: Callable[[], float]
    batch_size: int = 256
    max_epochs: int = 100
    patience: int = 10
    lr_reductions: int = 0
    min_batches: int = 1
    schedule: Callable[[float], float] | None = None
    n_threads: int | None = None


def run_stages(stages: Sequence[Stage], rng: Rng, progress: Progress) -> list[History]:
    """Run the stages one after the other; afterwards every module holds its best epoch.

    A loss or score that is not finite is treated like lost patience: back to the best parameters, lower
    rates. Only when no cut is left does training end, with a warning if it had got somewhere, since hours
    of good epochs should not be thrown away, and with an error if it had not, since an untrained module
    must not pass for a trained one.

    Parameters
    ----------
    stages : sequence of Stage
        What to run.
    rng : numpy Generator
        Decides the order of the rows and all that torch draws inside losses. The process's own random state
        stays untouched.
    progress : Progress
        Told each epoch's score.

    Returns
    -------
    list of History
        One for each stage.

    Examples
    --------
    Fit a line and see the validation score fall:

    >>> import numpy as np
    >>> from stablemiss.data import MaskedData
    >>> from stablemiss.training import adamw
    >>> x = np.linspace(-1, 1, 64)[:, None]
    >>> rows = Rows.of(MaskedData.of(x, x == x, 3 * x), torch.device("cpu"))
    >>> line = nn.Linear(1, 1)
    >>> loss = lambda batch: ((line(batch.values) - batch.target) ** 2).mean()
    >>> step = Step(loss, list(line.parameters()), adamw(learning_rate=0.1))
    >>> stage = Stage("line", line, rows, [step], lambda: float(loss(rows)), batch_size=16)
    >>> [history] = run_stages([stage], np.random.default_rng(0), NullProgress())
    >>> history.best_score < 0.01 < history.scores[0]
    True
    """
    histories = []
    for stage in stages:
        with torch_randomness(rng), torch_threads(stage.n_threads):
            histories.append(_run(stage, rng, progress))
    return histories


def inner_loop(
    loss: Callable[[], Tensor], parameters: Sequence[Tensor], optimiser: MakeOptimiser, n_steps: int
) -> None:
    """Take steps on a small problem, such as the weights of one batch's rows inside that batch's loss.

    Parameters
    ----------
    loss : callable
        () → scalar tensor.
    parameters : sequence of tensors
        What is moved, in place.
    optimiser : callable
        As in `Step`; starts afresh with each call.
    n_steps : int
        More steps solve the problem more exactly; each costs one evaluation of the loss and its gradient.

    Examples
    --------
    >>> from functools import partial
    >>> place = torch.tensor([4.0], requires_grad=True)
    >>> inner_loop(lambda: (place - 1.0).square().sum(), [place], partial(torch.optim.SGD, lr=0.5), n_steps=1)
    >>> place.detach()
    tensor([1.])
    """
    descent = _Descent(parameters, optimiser, clip=math.inf)
    with torch.enable_grad():
        for _ in range(n_steps):
            descent.step(loss())


class _Descent:
    """An optimiser at work on its parameters."""

    def __init__(
        self, parameters: Sequence[Tensor], optimiser: MakeOptimiser, clip: float, slower: float = 1.0
    ):
        self.parameters = list(parameters)
        self.clip = clip
        self.optimiser = optimiser(self.parameters)
        self.rates = [group["lr"] * slower for group in self.optimiser.param_groups]
        self.scale_rates(1.0)

    def scale_rates(self, factor: float) -> None:
        """Set the learning rates to so many times their first ones."""
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = factor * rate

    def step(self, loss: Tensor) -> None:
        """Move the parameters once, against the gradient of `loss`."""
        # Not loss.backward(), which would leave gradients on what other steps move.
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        if self.clip < math.inf:
            nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimiser.step()
        self.optimiser.zero_grad()


def _run(stage: Stage, rng: Rng, progress: Progress) -> History:
    if not len(stage.rows):
        raise ValueError(f'The stage "{stage.name}" has no rows to train on; give it at least one.')
    history = History(stage.name)
    stopping = EarlyStopping(stage.module, stage.patience)
    descents = _descents(stage, n_reductions=0)
    progress.start(stage.name, total=stage.max_epochs)
    try:
        # The start competes too: where there is nothing to learn, it is the best there is.
        history.scores.append(_score(stage))
        stopping.should_stop(0, history.scores[0])
        for epoch in range(1, stage.max_epochs + 1):
            history.losses.append(_run_epoch(stage, descents, epoch, rng))
            history.scores.append(_score(stage))
            progress.update(epoch, f"validation {history.scores[-1]:.4g}")
            if _has_diverged(history) or stopping.should_stop(epoch, history.scores[-1]):
                if len(history.lr_reductions) == stage.lr_reductions:
                    history.ending = "patience"
                    break
                history.lr_reductions.append(epoch)
                stopping.restore_best(epoch)
                descents = _descents(stage, len(history.lr_reductions))
    finally:
        progress.finish()
    stopping.restore_best(len(history.losses))
    history.best_epoch = stopping.best_epoch
    if _has_diverged(history):
        history.ending = "diverged"
        _tell_divergence(history)
    return history


def _descents(stage: Stage, n_reductions: int) -> list[_Descent]:
    """Optimisers without memory of earlier steps, which may have led astray."""
    return [
        _Descent(step.parameters, step.optimiser, step.clip, LR_FACTOR**n_reductions) for step in stage.steps
    ]


def _run_epoch(stage: Stage, descents: list[_Descent], epoch: int, rng: Rng) -> tuple[float | None, ...]:
    """Mean loss of each step over the batches of one epoch."""
    stage.module.train()
    n_batches = stage.rows.n_batches(stage.batch_size)
    n_passes = math.ceil(stage.min_batches / n_batches)
    n_seen = (epoch - 1) * n_passes * n_batches
    losses: list[list[Tensor]] = [[] for _ in stage.steps]
    for _ in range(n_passes):
        for batch in stage.rows.batches(stage.batch_size, rng):
            if stage.schedule is not None:
                factor = stage.schedule(n_seen / (stage.max_epochs * n_passes * n_batches))
                for descent in descents:
                    descent.scale_rates(factor)
            n_seen += 1
            for step, descent, own_losses in zip(stage.steps, descents, losses, strict=True):
                if n_seen % step.every == 0:
                    loss = step.loss(batch)
                    descent.step(loss)
                    own_losses.append(loss.detach())
    # Read once per epoch: to read each loss as it comes would make a GPU wait for it.
    return tuple(float(torch.stack(own).mean()) if own else None for own in losses)


def _score(stage: Stage) -> float:
    stage.module.eval()
    with torch.no_grad():
        return float(stage.score())


def _has_diverged(history: History) -> bool:
    """Whether a number of the last epoch is not finite."""
    losses = [loss for loss in history.losses[-1] if loss is not None]
    return not all(math.isfinite(number) for number in (*losses, history.scores[-1]))


def _tell_divergence(history: History) -> None:
    what = (
        f'Training of "{history.stage}" diverged: in epoch {len(history.losses)} a loss or the validation '
        "score was not finite."
    )
    advice = "Lower the learning rate, and look for extreme values in the features and the target."
    if history.best_epoch == 0:
        raise FloatingPointError(f"{what} Nothing had been learnt before. {advice}")
    kept = f"The parameters of epoch {history.best_epoch} are kept."
    warnings.warn(f"{what} {kept} {advice}", RuntimeWarning, stacklevel=4)
