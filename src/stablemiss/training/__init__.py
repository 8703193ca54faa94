"""Training loop, early stopping and optimisers. No other package steps an optimiser."""

from stablemiss.training.early_stopping import EarlyStopping
from stablemiss.training.history import History
from stablemiss.training.loop import MIN_OPS_FOR_THREADS, Stage, Step, run_stages
from stablemiss.training.optimisers import MakeOptimiser, adamw, minimise, one_cycle
from stablemiss.training.rows import CHUNK_SIZE, Rows, mean_loss, to_device

__all__ = [
    "CHUNK_SIZE",
    "MIN_OPS_FOR_THREADS",
    "EarlyStopping",
    "History",
    "MakeOptimiser",
    "Rows",
    "Stage",
    "Step",
    "adamw",
    "mean_loss",
    "minimise",
    "one_cycle",
    "run_stages",
    "to_device",
]
