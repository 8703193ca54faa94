"""Training loop, early stopping and optimisers. No other package steps an optimiser."""

from stablemiss.training.early_stopping import EarlyStopping
from stablemiss.training.history import History
from stablemiss.training.loop import SMALL_STEP, Stage, Step, inner_loop, run_stages
from stablemiss.training.optimisers import MakeOptimiser, adamw, one_cycle
from stablemiss.training.rows import CHUNK, Rows, mean_loss, to_device

__all__ = [
    "CHUNK",
    "SMALL_STEP",
    "EarlyStopping",
    "History",
    "MakeOptimiser",
    "Rows",
    "Stage",
    "Step",
    "adamw",
    "inner_loop",
    "mean_loss",
    "one_cycle",
    "run_stages",
    "to_device",
]
