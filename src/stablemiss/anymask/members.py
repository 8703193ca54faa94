"""Fitting the members of AnyMask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from stablemiss.anymask.background import BackgroundTask
from stablemiss.anymask.fit_data import FitData, with_masked_copies
from stablemiss.anymask.mixture_trees import MixtureTrees, names_of_trees
from stablemiss.anymask.plan import BOOSTING, MIXTURE, Plan
from stablemiss.anymask.steps import Steps
from stablemiss.anymask.streamed_boosting import fit_streamed_boosting
from stablemiss.base.method import Method, Predictor
from stablemiss.base.row_stream import RowStream
from stablemiss.data import MaskedData
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.column_net import ColumnNet
from stablemiss.methods.em_mixture import EMMixture, EMMixturePredictor
from stablemiss.progress import Progress
from stablemiss.seeding import Rng, draw_seed
from stablemiss.tasks import Task
from stablemiss.torch_state import torch_threads

# Maximum number of rows to which the mixture is fitted. It applies up to MAX_COLUMNS_AT_FULL_ROWS columns and
# decreases with the square of their number beyond, because the time to fit the mixture grows with the cube.
MAX_MIXTURE_ROWS, MAX_COLUMNS_AT_FULL_ROWS = 20_000, 64


def names_of_members(methods: dict[str, Method], task: Task) -> list[str]:
    """The members that `fit_members` returns, in the same order."""
    names = [name for name, method in methods.items() if not isinstance(method, ColumnNet)]
    if BOOSTING in methods:
        names = [name for name in names if name != BOOSTING] + names_of_trees(task, MIXTURE in methods)
    return names + [name for name in methods if name not in names]


def fit_members(
    methods: dict[str, Method],
    plan: Plan,
    data: FitData,
    rng: Rng,
    steps: Steps,
    stream: RowStream | None = None,
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
    stream : RowStream, default=None
        All training rows, if those of `data` are a sample of them. The mixture and the trees are fitted to
        all rows, the networks to the sample.
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
    is_small = bool(nets) and all(net.has_small_steps(data.train, data.task) for net in nets.values())
    background = BackgroundTask(fit_nets, concurrent=is_small and len(methods) > len(nets))
    with background:
        mixture: EMMixturePredictor | None = None
        if isinstance(method := methods.get(MIXTURE), EMMixture):
            mixture = _fit_mixture(method, data, rngs[MIXTURE], steps, background, stream)
            members[MIXTURE] = mixture
        if isinstance(method := methods.get(BOOSTING), Boosting):
            n_copies, reports = plan.masked_copies, (rngs[BOOSTING], steps.report)
            n_threads = background.n_free_threads
            if stream is None:
                copies = _boosting_data(data, n_copies, rngs[BOOSTING])
                members |= fit_boosting(method, mixture, copies, *reports, n_threads)
                del copies  # much larger than the rows themselves
            else:
                members |= fit_streamed_boosting(method, mixture, data, stream, n_copies, *reports, n_threads)
        return members | background.result(steps.progress)


def _fit_mixture(
    method: EMMixture,
    data: FitData,
    rng: Rng,
    steps: Steps,
    background: BackgroundTask,
    stream: RowStream | None,
) -> EMMixturePredictor:
    subset = _mixture_subset(data.train, rng)
    with torch_threads(background.n_free_threads):
        return method.fit(subset, data.valid, data.task, rng, steps.report(MIXTURE), stream)


def _mixture_subset(train: MaskedData, rng: Rng) -> MaskedData:
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
    """Boosting and, for numeric targets with a mixture, residual boosting.

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
    if mixture is not None:
        return MixtureTrees(method, mixture).fit(data, rng, report, n_threads)
    rows = data.train, data.valid, data.task
    return {BOOSTING: method.fit(*rows, rng, report(BOOSTING), n_threads=n_threads)}


def _boosting_data(data: FitData, n_copies: int, rng: Rng) -> FitData:
    """The data of boosting: training and early-stopping rows together with masked copies of them."""
    train, valid = (
        with_masked_copies(rows, data.augmentation, n_copies, rng) for rows in (data.train, data.held_out)
    )
    return replace(data, train=train, valid=valid)
