"""Comparison of two tables: has the missingness shifted, how, and what does it cost a model?"""

from stablemiss.diagnostics.shift.diagnosis import Diagnosis, diagnose
from stablemiss.diagnostics.shift.findings import Finding
from stablemiss.diagnostics.shift.forecast import Cause, Forecast

__all__ = ["Cause", "Diagnosis", "Finding", "Forecast", "diagnose"]
