"""The paper's numbers, as printed."""

import pytest

from stablemiss.experiments.published import read_published
from stablemiss.experiments.tables import PAPER_METHODS, TABLES
from stablemiss.missingness import LEVELS


@pytest.mark.parametrize("name", [name for name in [*TABLES, "table4"] if name.startswith("table")])
def test_every_table_has_the_eight_methods_at_every_level(name):
    printed = read_published(name)
    assert {key for key in printed if key[0] != "reference"} == {
        (label, level) for label in PAPER_METHODS for level in LEVELS
    }
    assert all(value >= 0 for value in printed.values())
    assert any(key[0] == "reference" for key in printed)


def test_figures_have_no_published_numbers():
    assert read_published("figure2") == {}
