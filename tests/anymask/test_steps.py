"""A fit reports its steps by number and in plain words."""

import re

import numpy as np
import pytest

from stablemiss.anymask import AnyMask
from stablemiss.data import MaskedData
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression
from stablemiss.torch_state import torch_threads

MIXTURE, TREES, RESIDUAL_TREES = (
    "Gaussian mixture",
    "boosted trees",
    "boosted trees on the mixture's residuals",
)
NET, STACKING = "neural network", "combining and calibrating"


class RecordedProgress(NullProgress):
    def __init__(self):
        self.tasks = []

    def start(self, description, total=None):
        self.tasks.append((description, total))


def reported_steps(is_classification=False, n_threads=1, **settings):
    """Number and name of each step, and the number of all steps, in the order of their first report."""
    rng = to_rng(0)
    values = rng.normal(size=(60, 2))
    target = (values[:, 0] > 0).astype(int) if is_classification else values[:, 0]
    task = Classification(np.arange(2)) if is_classification else Regression.of(target)
    data = MaskedData.of(values, np.ones((60, 2)), task.encode(target))
    progress = RecordedProgress()
    with torch_threads(n_threads):
        AnyMask(**settings).fit(data.rows(np.arange(45)), data.rows(np.arange(45, 60)), task, rng, progress)
    assert all(total > 0 for _, total in progress.tasks)
    steps = {}
    for description, _ in progress.tasks:
        number, n_steps, name = re.fullmatch(r"step (\d) of (\d): ([^,(]*).*", description).groups()
        steps[int(number), name.strip()] = int(n_steps)
    return list(steps), set(steps.values())


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"budget": "fast"}, [MIXTURE, TREES, RESIDUAL_TREES, NET, STACKING]),
        ({"budget": "fast", "is_classification": True}, [MIXTURE, TREES, NET, STACKING]),
        ({"members": ["net", "boosting"], "budget": "fast"}, [TREES, NET, STACKING]),
        ({"members": ["mixture"]}, [MIXTURE, STACKING]),
    ],
    ids=str,
)
def test_all_steps_are_reported_in_order_and_counted_beforehand(settings, names):
    steps, totals = reported_steps(**settings)
    assert steps == list(enumerate(names, start=1))
    assert totals == {len(names)}


def test_a_network_that_is_trained_in_the_background_is_shown_last():
    """If it is ready before the other members, its step is not shown at all."""
    steps, totals = reported_steps(n_threads=2, budget="fast")
    names = [MIXTURE, TREES, RESIDUAL_TREES, NET, STACKING]
    assert [step for step in steps if step[1] != NET] == [
        (number, name) for number, name in enumerate(names, start=1) if name != NET
    ]
    assert totals == {5}
