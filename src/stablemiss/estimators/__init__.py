"""The scikit-learn estimators for tables with missing values, and saving and loading them."""

from stablemiss.estimators.anymask import AnyMaskClassifier, AnyMaskRegressor
from stablemiss.estimators.archive import ArchiveError
from stablemiss.estimators.base import OutOfRangeWarning, UnknownCategoryWarning, UnseenMissingWarning
from stablemiss.estimators.loading import load_model
from stablemiss.estimators.missing import MissingClassifier, MissingRegressor
from stablemiss.estimators.stablemiss import StableMissClassifier, StableMissRegressor

__all__ = [
    "AnyMaskClassifier",
    "AnyMaskRegressor",
    "ArchiveError",
    "MissingClassifier",
    "MissingRegressor",
    "OutOfRangeWarning",
    "StableMissClassifier",
    "StableMissRegressor",
    "UnknownCategoryWarning",
    "UnseenMissingWarning",
    "load_model",
]
