"""Hyper-parameter search with hold-out validation. Studies are stored in a file and can be resumed."""

from importlib.util import find_spec

if find_spec("optuna") is None:
    raise ImportError('Tuning needs optuna; install with: pip install "stablemiss[tune]".')

from stablemiss.base.search_space import Choice, Range, Space
from stablemiss.tuning.search import Trial
from stablemiss.tuning.tune import TuningResult, tune

__all__ = ["Choice", "Range", "Space", "Trial", "TuningResult", "tune"]
