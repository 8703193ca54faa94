"""Prediction from incomplete data that stays accurate when the missingness changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name → module. Imported on first use, so that `import stablemiss` and the command line start without
# torch and scikit-learn.
_MODULES = {
    "AnyMaskRegressor": "stablemiss.estimators",
    "AnyMaskClassifier": "stablemiss.estimators",
    "MissingRegressor": "stablemiss.estimators",
    "MissingClassifier": "stablemiss.estimators",
    "StableMissRegressor": "stablemiss.estimators",
    "StableMissClassifier": "stablemiss.estimators",
    "OutOfRangeWarning": "stablemiss.estimators",
    "SuspiciousDataWarning": "stablemiss.estimators",
    "UnknownCategoryWarning": "stablemiss.estimators",
    "UnseenMissingWarning": "stablemiss.estimators",
    "load_model": "stablemiss.estimators",
    "diagnose": "stablemiss.diagnostics",
    "plot_missingness": "stablemiss.diagnostics",
    "plot_missingness_shift": "stablemiss.diagnostics",
    "stress_test": "stablemiss.evaluation.stress",
}

__all__ = [
    "AnyMaskClassifier",
    "AnyMaskRegressor",
    "MissingClassifier",
    "MissingRegressor",
    "OutOfRangeWarning",
    "StableMissClassifier",
    "StableMissRegressor",
    "SuspiciousDataWarning",
    "UnknownCategoryWarning",
    "UnseenMissingWarning",
    "diagnose",
    "load_model",
    "plot_missingness",
    "plot_missingness_shift",
    "stress_test",
]

if TYPE_CHECKING:
    from stablemiss.diagnostics import diagnose, plot_missingness, plot_missingness_shift
    from stablemiss.estimators import (
        AnyMaskClassifier,
        AnyMaskRegressor,
        MissingClassifier,
        MissingRegressor,
        OutOfRangeWarning,
        StableMissClassifier,
        StableMissRegressor,
        SuspiciousDataWarning,
        UnknownCategoryWarning,
        UnseenMissingWarning,
        load_model,
    )
    from stablemiss.evaluation.stress import stress_test


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        import gc
        from importlib import import_module

        # Torch and scikit-learn create many objects when they are imported. None of them is garbage, so
        # collections in between would only cost time: about a fifth of that of the import.
        is_enabled = gc.isenabled()
        gc.disable()
        try:
            return getattr(import_module(_MODULES[name]), name)
        finally:
            if is_enabled:
                gc.enable()
    raise AttributeError(f"module 'stablemiss' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
