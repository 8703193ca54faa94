"""Display names and number formats."""

import pytest

from stablemiss.experiments.array_comparison import compare_arrays
from stablemiss.experiments.array_tables import ARRAY_TABLES
from stablemiss.experiments.budgets import BUDGETS, LABELS
from stablemiss.experiments.comparison import compare
from stablemiss.experiments.tables import TABLES
from stablemiss.report.text import (
    DESCRIPTIONS,
    KEEPS_OBSERVED,
    array_line_title,
    array_notes,
    axis_title,
    column_titles,
    decimals_for,
    interval_text,
    number,
    percent,
    range_text,
    signed_percent,
    title_of,
)

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


def test_every_label_of_a_table_has_a_name_of_its_own_and_a_description():
    labels = {label for table in (*TABLES.values(), *ARRAY_TABLES.values()) for label in table.methods}
    assert labels <= DESCRIPTIONS.keys()
    titles = [title_of(label) for label in labels | LABELS.keys()]
    assert len(set(titles)) == len(titles)
    # Names are listed in sentences.
    assert not any("," in title for title in titles)


def test_a_mark_that_is_explained_replaces_a_long_remark():
    images, sensors = (
        compare_arrays(ARRAY_TABLES[name], [], BUDGETS["quick"]) for name in ("table4", "table5")
    )
    titles = [array_line_title(line) for line in images.lines]
    assert {title for title in titles if title.endswith("§")} == {
        "Gaussian of the complete images§",
        "factor analysis by EM§",
    }
    assert not any(KEEPS_OBSERVED in title for title in titles)
    is_explained = [any(note.startswith("§") for note in array_notes(one)) for one in (images, sensors)]
    assert is_explained == [True, False]


def test_differences_have_a_sign_and_intervals_brackets():
    """Below one per cent they have two decimals, so that a small difference keeps its sign."""
    texts = {0.0312: "+3.1%", -0.0312: "−3.1%", -0.0004: "−0.04%", 0.0: "0.00%", None: "–"}
    assert [signed_percent(value) for value in texts] == list(texts.values())
    assert (interval_text((-0.012, 0.034)), interval_text(None)) == ("[−1.2, 3.4]", "")
    assert (range_text((0.1, 45.6)), range_text((5.0, 5.0)), range_text(None)) == ("0.1–46", "5", "–")


def test_percentages_have_no_rounding_noise():
    assert [percent(level) for level in (0.1, 0.3, 0.1 * 3, 0.125)] == ["10%", "30%", "30%", "12.5%"]
