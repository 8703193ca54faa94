"""How accurate models are when the missingness changes after training."""

from stablemiss.evaluation.regret import regret, score_under_suite, shift_suite
from stablemiss.evaluation.scoring import TestSets, TestSetting, fit_and_score
from stablemiss.evaluation.stress import StressResult, stress_test

__all__ = [
    "StressResult",
    "TestSets",
    "TestSetting",
    "fit_and_score",
    "regret",
    "score_under_suite",
    "shift_suite",
    "stress_test",
]
