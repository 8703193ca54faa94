"""The verdict states the numbers of the records, and leaves out what they cannot say."""

from dataclasses import replace

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.tables import PAPER_METHODS
from stablemiss.report.summary import summarise
from stablemiss.report.verdict import verdict

QUICK, STANDARD = BUDGETS["quick"], BUDGETS["standard"]


def test_the_verdict_has_the_numbers_of_the_records(make_records):
    errors = dict.fromkeys(PAPER_METHODS, (130.0, 1.0, 120.0)) | {"optimal": (100.0, 1.0, 100.0)}
    errors |= {"stablemiss": (120.0, 1.0, 115.0), "neumiss": (110.0, 1.0, 116.0)}
    errors |= {"stablemiss_unweighted": (100.0, 1.0, 92.0), "em_mixture": (101.0, 1.0, 102.0)}
    extra = {"stablemiss": {"effective_share": 0.987}}
    records = make_records("table7", {label: [rmse] for label, rmse in errors.items()}, extra=extra)
    text = verdict(summarise(records, QUICK))
    # Table 7: lowest at 90% alone, and the only claim that can be decided.
    assert "0 held, 1 in part, 0 not held" in text
    assert "1 of 2 table columns" in text
    # Mean gaps to Optimal: StableMiss 20 and 15, NeuMiss 10 and 16, the best other of each column the same.
    assert all(gap in text for gap in ("17.5%", "13.0%", "1.5%"))
    # The weights raise the error by 20, 0 and 25%.
    assert "+15.0%" in text
    assert "98.7%" in text
    assert "incomplete" in text


def test_complete_records_are_said_to_be_complete(complete_summary):
    text = verdict(complete_summary)
    assert "incomplete" not in text
    assert "of 62 table columns" in text
    for name in (
        "NeuMiss",
        "EM mixture",
        "AnyMask",
        "LightGBM on masked copies",
        "95% interval",
        "house sales",
    ):
        assert name.lower() in text.lower()


def test_any_part_of_the_records_has_a_verdict(stored, complete):
    """From a single record on, and without numbers that are not defined."""
    parts = [(stored[:1], QUICK), (stored, QUICK), (complete[:1], STANDARD), (complete[::7], STANDARD)]
    parts += [([replace(one, scores=()) for one in stored], QUICK)]
    for records, budget in parts:
        text = verdict(summarise(records, budget))
        assert "incomplete" in text
        assert "nan" not in text
        assert "None" not in text
