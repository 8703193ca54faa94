"""Randomness is an argument: numpy generators are passed in, the process's own state stays untouched."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator


def to_rng(random_state: Any = None) -> Rng:
    """A numpy generator from what scikit-learn calls a random state.

    Parameters
    ----------
    random_state : None, int, SeedSequence, RandomState or Generator
        An int gives the same numbers each time; a Generator is used as it is (and so moves on);
        a RandomState seeds a new generator; None takes fresh entropy.

    Examples
    --------
    >>> int(to_rng(0).integers(100)) == int(to_rng(0).integers(100))
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    return np.random.default_rng(random_state)


def draw_seed(rng: Rng) -> int:
    """One non-negative 31-bit seed, for libraries that take an int."""
    return int(rng.integers(2**31 - 1))
