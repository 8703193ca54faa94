from stablemiss.experiments.budgets import BUDGETS
from stablemiss.report.statistics import format_like, read_quotes, statistics
from stablemiss.report.summary import summarise


def test_statistics_of_a_small_table(stored):
    values = statistics(summarise(stored, BUDGETS["quick"]))
    # At 10, 50 and 90% OLS has gaps 30, 60, 80, StableMiss 50, 30, 50, NeuMiss 40, 40, 120.
    assert (values["wins.table1.all.ols"], values["wins.table1.all.stablemiss_unweighted"]) == (1, 1)
    assert (values["wins.table1.eight.neumiss"], values["wins.table1.eight.stablemiss"]) == (1, 2)
    assert (values["beaten.neumiss"], values["columns.neumiss"]) == (2, 3)
    assert values["beaten_by.ols"] == 1


def test_quotes_are_read_with_their_unit_and_compared_at_their_precision():
    page = "first in 2<!-- first.shift --> columns, −0.13<!-- agreement.table6 -->, 27.0%<!-- gap.shift -->"
    quotes = read_quotes(page)
    assert quotes == [("2", "", "first.shift"), ("−0.13", "", "agreement.table6"), ("27.0", "%", "gap.shift")]
    values = {"first.shift": 2, "agreement.table6": -0.127, "gap.shift": 0.2701}
    assert all(format_like(values[name], digits, unit) == digits for digits, unit, name in quotes)
    assert format_like(0.2751, "27.0", "%") != "27.0"


def test_every_statistic_of_a_complete_reproduction_is_defined(complete):
    values = statistics(summarise(complete, BUDGETS["standard"]))
    for name in ("first.shift", "gap.published.same", "weights.mean", "figure2.full.last", "median.optimal"):
        assert name in values
    assert values["columns.shift"] + values["columns.same"] == 80
