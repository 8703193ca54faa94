"""Where a published method differs from its paper, its file says so: marked in place, listed at the top."""

import inspect
import re
import sys

import pytest

from stablemiss.methods import METHODS

PUBLISHED = [
    "neumiss",
    "partial_vae",
    "miwae",
    "p_bigan",
    "dwr",
    "srdo",
    "stablenet",
    "stablemiss",
    "stablemiss_plus",
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_mark_is_in_the_list_at_the_top_of_the_file(name):
    module = sys.modules[METHODS[name].__module__]
    listed = re.search(r"^Deviations: (.+?)\.(?=\s|$)", inspect.getdoc(module), re.DOTALL | re.MULTILINE)
    marks = re.findall(r"^ *# DEVIATION: ", inspect.getsource(module), re.MULTILINE)
    assert listed, f"{name} lists no deviations"
    assert len(listed[1].split(";")) == len(marks)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_mark_begins_its_line_and_says_why(name):
    source = inspect.getsource(sys.modules[METHODS[name].__module__])
    assert source.count("DEVIATION") == len(re.findall(r"^ *# DEVIATION: ", source, re.MULTILINE))
    for mark in re.findall(r"^ *# DEVIATION: .*(?:\n *# (?!DEVIATION|PAPER).*)*", source, re.MULTILINE):
        assert "because" in mark, mark
