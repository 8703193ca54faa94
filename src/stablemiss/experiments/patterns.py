"""Masks of a few rows under the paper's three missingness mechanisms, for the picture of its appendix."""

from __future__ import annotations

import numpy as np

from stablemiss.data import Bools
from stablemiss.experiments.tables import MECHANISM_TITLES
from stablemiss.missingness import MECHANISMS

# PAPER: ten columns, half of the values missing.
N_COLUMNS, N_ROWS, LEVEL = 10, 30, 0.5


def draw_patterns(seed: int = 0) -> dict[str, Bools]:
    """The paper's name of each mechanism → mask (30, 10), True = observed.

    Parameters
    ----------
    seed : int, default=0
        Random seed.

    Examples
    --------
    >>> {title: mask.shape for title, mask in draw_patterns().items()}
    {'MCAR-Ind': (30, 10), 'MCAR': (30, 10), 'MAR': (30, 10)}
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, N_COLUMNS))
    # Without a spread of the rates between rows, the picture shows only the pattern of each mechanism.
    return {
        MECHANISM_TITLES[name]: MECHANISMS[name](LEVEL, spread=0.0).fit(X, rng).draw(X[:N_ROWS], rng)
        for name in ("mcar_independent", "mcar_window", "mar")
    }
