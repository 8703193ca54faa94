"""Display names and number formats."""

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.comparison import compare
from stablemiss.experiments.tables import TABLES
from stablemiss.report.text import axis_title, column_titles, decimals_for, number, percent

LEVELS = ["10%", "50%", "90%"]


@pytest.mark.parametrize(
    ("name", "title"),
    [("table1", "tested at"), ("table2", "trained at"), ("table10", "trained and tested at")],
)
def test_the_axis_names_the_level_that_differs_between_columns(name, title):
    comparison = compare(TABLES[name], [], BUDGETS["quick"])
    assert axis_title(comparison) == title
    assert column_titles(comparison) == LEVELS


def test_numbers_have_no_negative_zero_and_enough_decimals():
    assert number(-0.001, 2) == "0.00"
    assert number(-1.5, 1) == "−1.5"
    assert (decimals_for([None, 99.0]), decimals_for([100.0]), decimals_for([])) == (2, 0, 2)


def test_percentages_have_no_rounding_noise():
    assert [percent(level) for level in (0.1, 0.3, 0.1 * 3, 0.125)] == ["10%", "30%", "30%", "12.5%"]
