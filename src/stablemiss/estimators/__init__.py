"""The scikit-learn estimators for tables with missing values, and saving and loading them."""

from stablemiss.encoding import ColumnSummary, SuspiciousDataWarning
from stablemiss.estimators.anymask import AnyMaskClassifier, AnyMaskRegressor
from stablemiss.estimators.archive import ArchiveError
from stablemiss.estimators.loading import load_model
from stablemiss.estimators.missing import MissingClassifier, MissingRegressor
from stablemiss.estimators.stablemiss import StableMissClassifier, StableMissRegressor
from stablemiss.estimators.unusual_input import (
    OutOfRangeWarning,
    UnknownCategoryWarning,
    UnseenMissingWarning,
)

__all__ = [
    "AnyMaskClassifier",
    "AnyMaskRegressor",
    "ArchiveError",
    "ColumnSummary",
    "MissingClassifier",
    "MissingRegressor",
    "OutOfRangeWarning",
    "StableMissClassifier",
    "StableMissRegressor",
    "SuspiciousDataWarning",
    "UnknownCategoryWarning",
    "UnseenMissingWarning",
    "load_model",
]
