"""Rows of the runs with images: loaded, split and masked, all determined by the seed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from stablemiss.data import Floats
from stablemiss.datasets import ImageDataset, load_mnist
from stablemiss.evaluation import TestSets, TestSetting
from stablemiss.experiments.problem import Problem
from stablemiss.experiments.shown import ShownDigits
from stablemiss.missingness import MECHANISMS, Mechanism
from stablemiss.seeding import Rng

if TYPE_CHECKING:
    from stablemiss.experiments.budgets import Budget
    from stablemiss.experiments.runs import Run

# Share of the training images that is held out for early stopping, of methods that have it.
VALIDATION_FRACTION = 0.1
# A picture shows the first test digits of the first instance at these levels.
N_SHOWN_DIGITS, SHOWN_LEVELS = 3, (0.1, 0.5, 0.9)


@cache
def mnist() -> ImageDataset:
    return load_mnist()


def image_settings(budget: Budget) -> dict[str, Any]:
    """What determines the rows beside the seed, for the record of a run."""
    return {
        "n_images": budget.n_images,
        "n_test_images": budget.n_test_images,
        "validation_fraction": VALIDATION_FRACTION,
    }


def draw_image_problem(run: Run) -> Problem:
    """Incomplete digits and the complete ones. Runs that differ only in their label get identical rows.

    The mechanism is fitted once, on the complete training images; between training and test only its level
    changes.
    """
    budget, data = run.budget, mnist()
    train_seed, test_seed, mask_seed, validation_seed = np.random.SeedSequence(run.seed).spawn(4)
    rng = np.random.default_rng(train_seed)
    train = rng.permutation(data.n_train)[: budget.n_images]
    n_test = len(data.images) - data.n_train
    test = data.n_train + np.random.default_rng(test_seed).permutation(n_test)[: budget.n_test_images]
    images, test_images = data.images[train], data.images[test]
    mechanism = MECHANISMS[run.mechanism](run.level).fit(_flat(images), rng)
    tests = {
        # Each level starts from the same random numbers: pixels missing at 20% are mostly missing at 30% too.
        setting: _hide(mechanism.at(setting.level or 0.0), test_images, np.random.default_rng(mask_seed))
        for setting in run.tests
    }
    is_validation = np.zeros(len(train), dtype=bool)
    n_validation = round(VALIDATION_FRACTION * len(train))
    is_validation[np.random.default_rng(validation_seed).permutation(len(train))[:n_validation]] = True
    masked = _hide(mechanism, images, rng)

    def measure(setting: TestSetting, predicted: Floats) -> dict[str, Any]:
        if run.instance != 0 or setting.level not in SHOWN_LEVELS:
            return {}
        shown = (images[:N_SHOWN_DIGITS] for images in (test_images, tests[setting], predicted))
        return {ShownDigits.key: ShownDigits.of(*shown).to_extra()}

    tests_and_images = TestSets(tests, test_images, measure)
    return Problem(masked, images.astype(np.float64), is_validation, tests_and_images, None)


def _flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1)


def _hide(mechanism: Mechanism, images: np.ndarray, rng: Rng) -> Floats:
    return mechanism.hide(_flat(images), rng).reshape(images.shape)
