"""The results on the page of a method are those of the overview."""

from dataclasses import replace

import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.tables import PAPER_METHODS
from stablemiss.methods import METHODS
from stablemiss.report.method_results import SHOWN, method_results
from stablemiss.report.summary import summarise
from stablemiss.report.text import as_percent


def test_every_method_of_the_paper_has_results():
    assert set(SHOWN) == set(PAPER_METHODS) <= set(METHODS)
    assert all(labels[0] == name for name, labels in SHOWN.items())


@pytest.mark.parametrize("name", ["neumiss", "stablemiss"])
def test_cells_are_the_relative_gaps_of_the_overview(stored, name):
    summary = summarise(stored, BUDGETS["quick"])
    rows = [line.strip("| ").split(" | ") for line in method_results(summary, name).splitlines()]
    for cell, comparison in zip(rows[2][1:], summary.tables, strict=True):
        ours = summary.overview[name][comparison.table.name].ours
        assert cell == ("–" if ours is None else as_percent(ours))


def test_a_method_with_row_weights_shows_their_effective_share(complete, complete_summary):
    with_shares = [replace(record, extra={"effective_share": 0.25}) for record in complete]
    last = method_results(summarise(with_shares, BUDGETS["standard"]), "dwr").splitlines()[-1]
    assert last.startswith("| effective share")
    assert last.count("25.0%") == len(complete_summary.tables)
    assert "effective share" not in method_results(summarise(with_shares, BUDGETS["standard"]), "neumiss")
