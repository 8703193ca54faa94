"""How well methods predict when the missingness is not the one they were trained on."""

from stablemiss.evaluation.provenance import describe, versions
from stablemiss.evaluation.shift import ResultRow, score_under_shift

__all__ = ["ResultRow", "describe", "score_under_shift", "versions"]
