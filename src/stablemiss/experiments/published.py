"""The paper's numbers, as it prints them."""

from __future__ import annotations

import csv
from pathlib import Path

# Our label → the paper's name.
NAMES = {
    "partial_vae": "Partial VAE",
    "miwae": "MIWAE",
    "p_bigan": "P-BiGAN",
    "neumiss": "NeuMiss",
    "dwr": "DWR",
    "srdo": "SRDO",
    "stablenet": "StableNet",
    "stablemiss": "StableMiss",
}
REFERENCES = ("Optimal", "StableMiss-ID")
# In the repository, and in an installed package.
FOLDERS = (Path(__file__).parents[3] / "paper" / "published", Path(__file__).parent / "published")


def read_published(name: str) -> dict[tuple[str, float], float]:
    """Published numbers of a table: (our label or "reference", missing level) → number.

    The number is a gap for methods and an RMSE for the reference. Figures have no published numbers, so their
    dictionary is empty.

    Examples
    --------
    >>> read_published("table1")["stablemiss", 0.5]
    282.75
    """
    return {(label, level): value for (label, level, _), value in _read(name).items() if level is not None}


def read_published_rmse(name: str) -> dict[tuple[str, float | None], float]:
    """Published RMSEs of a table: (our label or "reference", missing level, None if natural) → RMSE.

    Examples
    --------
    >>> read_published_rmse("table5")["stablemiss", None]
    11.84
    >>> round(read_published_rmse("table4")["stablemiss", 0.1], 2)
    31.6
    """
    printed = _read(name)
    base = {level: value for (label, level, _), value in printed.items() if label == "reference"}
    return {
        (label, level): value + (base[level] if quantity == "gap" else 0.0)
        for (label, level, quantity), value in printed.items()
    }


def _read(name: str) -> dict[tuple[str, float | None, str], float]:
    """(our label or "reference", missing level, "gap" or "rmse") → number."""
    path = next((folder / f"{name}.csv" for folder in FOLDERS if folder.is_dir()), None)
    if path is None or not path.exists():
        return {}
    labels = {printed: label for label, printed in NAMES.items()} | dict.fromkeys(REFERENCES, "reference")
    with path.open(newline="") as file:
        return {
            (labels[line["method"]], _level(line["missing_level"]), line["quantity"]): float(line["value"])
            for line in csv.DictReader(file)
        }


def _level(text: str) -> float | None:
    """Missing rate from a percentage; None if missingness is natural."""
    return int(text) / 100 if text.isdigit() else None
