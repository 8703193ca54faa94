"""Are row weights sane? How dependent columns and mask bits are before and after, and at what price."""

from stablemiss.diagnostics.dependence import dependence_matrix
from stablemiss.diagnostics.weights import WeightReport, weight_report

__all__ = ["WeightReport", "dependence_matrix", "weight_report"]
