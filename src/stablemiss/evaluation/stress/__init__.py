"""Stress test: how much accuracy any model loses when values go missing."""

from stablemiss.evaluation.stress.result import (
    ColumnCost,
    ModelComparison,
    PairCost,
    StressResult,
    StressScore,
)
from stablemiss.evaluation.stress.run import stress_test

__all__ = ["ColumnCost", "ModelComparison", "PairCost", "StressResult", "StressScore", "stress_test"]
