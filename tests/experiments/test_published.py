"""The paper's numbers, as printed."""

import pytest

from stablemiss.experiments.exhibit import EIGHT
from stablemiss.experiments.exhibits import EXHIBITS, LATER
from stablemiss.experiments.published import read_published
from stablemiss.missingness import LEVELS


@pytest.mark.parametrize("name", [name for name in [*EXHIBITS, "table4"] if name.startswith("table")])
def test_every_table_has_the_eight_methods_at_every_level(name):
    printed = read_published(name)
    assert {key for key in printed if key[0] != "reference"} == {
        (label, level) for label in EIGHT for level in LEVELS
    }
    assert all(value >= 0 for value in printed.values())
    assert any(key[0] == "reference" for key in printed)


def test_figures_print_no_numbers():
    assert read_published("figure2") == {}


def test_what_cannot_be_run_yet_is_not_among_what_can():
    assert not set(LATER) & set(EXHIBITS)
