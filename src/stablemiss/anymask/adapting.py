"""Adapting a fitted AnyMask to the masks of new rows, whose targets are not known.

The masks of the new rows are laid over the labelled training rows. Trees, and for a while the network, are
trained once more under these masks alone; the members, old and new, are combined and calibrated again on
validation rows under these masks.
"""

from __future__ import annotations

from copy import deepcopy

from stablemiss.anymask.fit_data import FitData, with_masked_copies
from stablemiss.anymask.members import fit_boosting
from stablemiss.anymask.mixture_trees import names_of_trees
from stablemiss.anymask.plan import BOOSTING, MIXTURE
from stablemiss.anymask.steps import Steps
from stablemiss.base.method import Method, Predictor
from stablemiss.methods.boosting import Boosting
from stablemiss.methods.column_net import ColumnNet, ColumnNetPredictor
from stablemiss.methods.em_mixture import EMMixturePredictor
from stablemiss.seeding import Rng
from stablemiss.tasks import Task

# Before the name of a member that was trained under the new masks.
ADAPTED = "adapted "
# Training rows get this many different masks of the new rows, if these have different masks.
MASKED_COPIES = 2
# Further training of the network: enough steps to specialise, few enough to take seconds.
NET_STEPS, NET_LEARNING_RATE = 600, 1e-3


def names_of_adapted_members(
    members: dict[str, Predictor], methods: dict[str, Method], task: Task
) -> list[str]:
    """The members that `fit_adapted_members` returns, in the same order."""
    names = names_of_trees(task, MIXTURE in members) if BOOSTING in methods else []
    names += [name for name, member in members.items() if isinstance(member, ColumnNetPredictor)]
    return [ADAPTED + name for name in names]


def fit_adapted_members(
    members: dict[str, Predictor],
    methods: dict[str, Method],
    data: FitData,
    rng: Rng,
    steps: Steps,
) -> dict[str, Predictor]:
    """Trees trained under the masks of new rows, and networks that are trained further under them.

    Parameters
    ----------
    members : dict
        Name → fitted predictor.
    methods : dict
        Name → method of the members that were fitted.
    data : FitData
        Labelled rows; its `augmentation` draws the masks of the new rows.
    rng : numpy Generator
    steps : Steps
        Receives the progress of each member, by its name in `names_of_adapted_members`.
    """
    adapted: dict[str, Predictor] = {}
    masks = data.augmentation
    if isinstance(boosting := methods.get(BOOSTING), Boosting):
        n_copies = masks.useful_copies(MASKED_COPIES - 1)
        train, valid = (
            with_masked_copies(rows, masks, n_copies, rng) for rows in (data.train, data.held_out)
        )
        mixture = members.get(MIXTURE)
        adapted |= fit_boosting(
            boosting,
            mixture if isinstance(mixture, EMMixturePredictor) else None,
            FitData(train, valid, data.task, masks),
            rng,
            lambda name: steps.report(ADAPTED + name),
        )
    net = ColumnNet(steps=NET_STEPS, learning_rate=NET_LEARNING_RATE)
    for name, member in members.items():
        if isinstance(member, ColumnNetPredictor):
            start, report = deepcopy(member.network).float(), steps.report(ADAPTED + name)
            adapted[name] = net.fit(data.train, data.valid, data.task, rng, report, masks, start)
    return {ADAPTED + name: member for name, member in adapted.items()}
