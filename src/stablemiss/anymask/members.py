"""Fitting the members of AnyMask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stablemiss.anymask.background import BackgroundTask
from stablemiss.anymask.plan import BOOSTING, MIXTURE, Plan
from stablemiss.anymask.residual_boosting import ResidualBoosting
from stablemiss.anymask.steps import Steps
from stablemiss.base.method import Method, Predictor
from stablemiss.data import MaskedData
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.column_net import ColumnNet
from stablemiss.methods.em_mixture import EMMixture, EMMixturePredictor
from stablemiss.missingness import MaskSource
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Classification, Task
from stablemiss.torch_state import torch_threads

RESIDUAL_BOOSTING = "residual boosting"
# Boosting is trained on the rows and masked copies of them. Maximum number of rows in the copies, and of
# cells in the rows and copies together (320 MB).
MAX_COPIED_ROWS, MAX_COPIED_CELLS = 600_000, 40_000_000
# Maximum number of rows to which the mixture is fitted. It applies up to MAX_COLUMNS_AT_FULL_ROWS columns and
# decreases with the square of their number beyond, because the time to fit the mixture grows with the cube.
MAX_MIXTURE_ROWS, MAX_COLUMNS_AT_FULL_ROWS = 20_000, 64


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


def names_of_members(methods: dict[str, Method], task: Task) -> list[str]:
    """The members that `fit_members` returns, in the same order."""
    names = [name for name, method in methods.items() if not isinstance(method, ColumnNet)]
    if {MIXTURE, BOOSTING} <= set(methods) and not isinstance(task, Classification):
        names.append(RESIDUAL_BOOSTING)
    return names + [name for name in methods if name not in names]


def fit_members(
    methods: dict[str, Method], plan: Plan, data: FitData, rng: Rng, steps: Steps
) -> dict[str, Predictor]:
    """Fit the selected members; networks with small steps are trained on a second thread at the same time.

    Parameters
    ----------
    methods : dict
        Member name → method, a selection from `plan.methods`.
    plan : Plan
    data : FitData
    rng : numpy Generator
    steps : Steps
        Receives the progress of each member, by its name in `names_of_members`.
    """
    seed = draw_seed(rng)
    # One generator per member, so that leaving out one member does not change the random draws of another.
    rngs = {name: np.random.default_rng([seed, number]) for number, name in enumerate(plan.methods)}
    nets = {name: method for name, method in methods.items() if isinstance(method, ColumnNet)}

    def fit_nets(progress: Progress) -> dict[str, Predictor]:
        rows = data.train, data.valid, data.task
        # Their progress is shown after that of the other members, but they start together with the first one.
        remark = " (begun in step 1)" if background.is_concurrent else ""
        return {
            name: net.fit(*rows, rngs[name], steps.report_to(progress, name, remark), data.augmentation)
            for name, net in nets.items()
        }

    members: dict[str, Predictor] = {}
    is_small = bool(nets) and all(net.has_small_steps(data.train) for net in nets.values())
    background = BackgroundTask(fit_nets, concurrent=is_small and len(methods) > len(nets))
    with background:
        mixture: EMMixturePredictor | None = None
        if isinstance(method := methods.get(MIXTURE), EMMixture):
            mixture = _fit_mixture(method, data, rngs[MIXTURE], steps, background)
            members[MIXTURE] = mixture
        if isinstance(method := methods.get(BOOSTING), Boosting):
            copies = _boosting_data(data, plan.masked_copies, rngs[BOOSTING])
            n_threads = background.n_free_threads
            members |= fit_boosting(method, mixture, copies, rngs[BOOSTING], steps.report, n_threads)
            del copies  # much larger than the rows themselves
        return members | background.result(steps.progress)


def _fit_mixture(
    method: EMMixture, data: FitData, rng: Rng, steps: Steps, background: BackgroundTask
) -> EMMixturePredictor:
    subset = mixture_subset(data.train, rng)
    with torch_threads(background.n_free_threads):
        return method.fit(subset, data.valid, data.task, rng, steps.report(MIXTURE))


def mixture_subset(train: MaskedData, rng: Rng) -> MaskedData:
    """The rows to which the mixture is fitted: all, or a random subset of a long table."""
    max_rows = int(MAX_MIXTURE_ROWS * min(1.0, MAX_COLUMNS_AT_FULL_ROWS / train.n_columns) ** 2)
    return train.rows(np.sort(rng.permutation(len(train))[:max_rows]))


def fit_boosting(
    method: Boosting,
    mixture: EMMixturePredictor | None,
    data: FitData,
    rng: Rng,
    report: Callable[[str], Progress],
    n_threads: int | None = None,
) -> dict[str, Predictor]:
    """Plain boosting and, for numeric targets with a mixture, residual boosting.

    Parameters
    ----------
    method : Boosting
    mixture : EMMixturePredictor or None
    data : FitData
        Rows together with their masked copies.
    rng : numpy Generator
    report : callable
        From the name of a member to its progress.
    n_threads : int, default=None
        As in `Boosting.fit`.
    """
    rows = data.train, data.valid, data.task
    members: dict[str, Predictor] = {BOOSTING: method.fit(*rows, rng, report(BOOSTING), n_threads=n_threads)}
    if mixture is not None and not isinstance(data.task, Classification):
        residual, progress = ResidualBoosting(method, mixture), report(RESIDUAL_BOOSTING)
        members[RESIDUAL_BOOSTING] = residual.fit(*rows, rng, progress, n_threads=n_threads)
    return members


def _boosting_data(data: FitData, n_copies: int, rng: Rng) -> FitData:
    """The data of boosting: training and early-stopping rows together with masked copies of them."""
    train, valid = (
        with_masked_copies(rows, data.augmentation, n_copies, rng) for rows in (data.train, data.held_out)
    )
    return replace(data, train=train, valid=valid)


def with_masked_copies(data: MaskedData, augmentation: MaskSource, n_copies: int, rng: Rng) -> MaskedData:
    """The rows followed by masked copies; if the table is too long for that, a single masked copy alone."""
    n_copies = min(
        n_copies, MAX_COPIED_ROWS // max(1, len(data)), MAX_COPIED_CELLS // max(1, data.values.size) - 1
    )
    if n_copies > 0:
        return augmentation.copies(data, n_copies, rng)
    return data.keep_where(augmentation.draw(len(data), rng))
