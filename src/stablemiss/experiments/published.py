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
    path = next((folder / f"{name}.csv" for folder in FOLDERS if folder.is_dir()), None)
    if path is None or not path.exists():
        return {}
    labels = {printed: label for label, printed in NAMES.items()} | dict.fromkeys(REFERENCES, "reference")
    with path.open(newline="") as file:
        return {
            (labels[line["method"]], int(line["missing_level"]) / 100): float(line["value"])
            for line in csv.DictReader(file)
            if line["missing_level"].isdigit()
        }
