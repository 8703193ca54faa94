"""The picture of the three missing patterns: masks of a few rows and columns at half of the cells missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from stablemiss.missingness import MECHANISMS

PATTERNS = "patterns"
# PAPER: ten columns, half of the cells missing; its picture, like this one, shows the columns side by side.
N_COLUMNS, N_ROWS, LEVEL = 10, 30, 0.5
SHOWN = ("mcar_independent", "mcar_window", "mar")


def pattern_rows(budget: str, seed: int = 0) -> list[dict[str, Any]]:
    """A row for each pattern; its ``mask`` is a list of strings, "1" where a cell is observed.

    Examples
    --------
    >>> row = pattern_rows("quick")[0]
    >>> row["train_mechanism"], len(row["mask"]), len(row["mask"][0])
    ('mcar_independent', 30, 10)
    """
    # Views need only the names above, and no scikit-learn.
    from stablemiss.evaluation.provenance import source_digest, versions

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, N_COLUMNS))
    found = []
    for name in SHOWN:
        # Each row at the same rate, so that the picture shows the pattern and not the rates.
        mask = MECHANISMS[name](LEVEL, spread=0.0).fit(X, rng).draw(X[:N_ROWS], rng)
        found.append(
            {
                "key": f"{budget} {PATTERNS} {name}",
                "budget": budget,
                "train_mechanism": name,
                "train_level": LEVEL,
                "seed": seed,
                "versions": versions(),
                "source": source_digest(),
                "mask": ["".join("01"[int(bit)] for bit in row) for row in mask],
                "scores": [],
                "error": None,
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
    return found
