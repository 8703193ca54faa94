"""Random number generators, which are passed as arguments. The global random state is never used."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator


def to_rng(random_state: Any = None) -> Rng:
    """Convert a scikit-learn `random_state` to a numpy generator.

    Parameters
    ----------
    random_state : int, SeedSequence, RandomState or Generator, default=None
        An int gives the same random numbers each time. A Generator is returned unchanged, so that
        its state advances with every use. A RandomState seeds a new generator. None uses fresh entropy.

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
    """Draw one non-negative 31-bit seed, for libraries that take an int."""
    return int(rng.integers(2**31 - 1))
