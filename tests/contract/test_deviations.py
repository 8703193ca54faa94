"""Deviations from a published method are marked in its source, with a reason, and listed in its docstring."""

import inspect
import re
import sys

import pytest

from stablemiss.methods import METHODS

PUBLISHED = [
    "pattern_submodels",
    "iterative_imputer",
    "neumiss",
    "partial_vae",
    "miwae",
    "p_bigan",
    "gain",
    "misgan",
    "dwr",
    "srdo",
    "crlr",
    "dgbr",
    "stablenet",
    "stablemiss",
    "stablemiss_plus",
    "mask_dro",
    "mirrams",
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_module_with_marked_deviations_summarises_them_in_its_docstring(name):
    module = sys.modules[METHODS[name].__module__]
    assert "# DEVIATION: " in inspect.getsource(module)
    assert re.search(r"^Deviations: \w", inspect.getdoc(module), re.MULTILINE)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_deviation_starts_a_comment_and_gives_a_reason(name):
    module = sys.modules[METHODS[name].__module__]
    # The docstring of the module refers to the comments and is not one of them.
    source = inspect.getsource(module).replace(module.__doc__, "", 1)
    assert "Deviations: " not in source
    assert source.count("DEVIATION") == len(re.findall(r"^ *# DEVIATION: ", source, re.MULTILINE))
    for mark in re.findall(r"^ *# DEVIATION: .*(?:\n *# (?!DEVIATION|PAPER).*)*", source, re.MULTILINE):
        assert "because" in mark, mark
