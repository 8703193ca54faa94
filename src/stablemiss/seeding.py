"""Random number generators, which are passed as arguments. The global random state is never used."""

from __future__ import annotations

from typing import Any

import numpy as np

from stablemiss.checks import is_integer, shown

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
    is_seed = is_integer(random_state) and random_state >= 0
    if not is_seed and not isinstance(random_state, np.random.SeedSequence | None):
        raise ValueError(
            "random_state must be None, an integer of at least 0, or a Generator, RandomState or "
            f"SeedSequence of numpy; got {shown(random_state)}."
        )
    return np.random.default_rng(random_state)


def one_of(random_state: Any, rng: Any) -> Any:
    """`rng` if it is given, else `random_state`: functions accept both names (SPEC 7 of scientific Python).

    Raises TypeError if both are given and `random_state` is not its default, None or 0.

    Examples
    --------
    >>> one_of(0, rng=None), one_of(None, rng=3)
    (0, 3)
    """
    if rng is None:
        return random_state
    if random_state is not None and not (is_integer(random_state) and random_state == 0):
        raise TypeError("Give rng or random_state, which mean the same, but not both.")
    return rng


def check_rng(rng: Rng) -> None:
    """Raise TypeError unless `rng` is a numpy Generator."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy Generator, such as numpy.random.default_rng(0); got {shown(rng)}."
        )


def draw_seed(rng: Rng) -> int:
    """Draw one non-negative 31-bit seed, for libraries that take an int."""
    return int(rng.integers(2**31 - 1))
