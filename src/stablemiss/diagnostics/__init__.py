"""Has the missingness shifted? Are row weights reasonable? As numbers, pages and pictures."""

from stablemiss.diagnostics.dependence import dependence_matrix
from stablemiss.diagnostics.pictures import plot_missingness, plot_missingness_shift
from stablemiss.diagnostics.shift import Diagnosis, diagnose
from stablemiss.diagnostics.weights import WeightReport, weight_report

__all__ = [
    "Diagnosis",
    "WeightReport",
    "dependence_matrix",
    "diagnose",
    "plot_missingness",
    "plot_missingness_shift",
    "weight_report",
]
