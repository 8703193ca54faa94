"""Diagnostics of row weights: dependence before and after weighting, and the effective sample size."""

from stablemiss.diagnostics.dependence import dependence_matrix
from stablemiss.diagnostics.weights import WeightReport, weight_report

__all__ = ["WeightReport", "dependence_matrix", "weight_report"]
