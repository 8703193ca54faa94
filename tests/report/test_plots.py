import re

import numpy as np
import pytest

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.comparison import compare
from stablemiss.experiments.tables import ABLATION, TABLES, WEIGHTED_ABLATION
from stablemiss.pages import INK
from stablemiss.report.plots import VARIANTS, gap_limits, gap_plot, mask_plot

STANDARD = BUDGETS["standard"]


def test_a_plot_names_every_method_and_takes_the_colour_of_the_page(complete):
    svg = gap_plot(compare(TABLES["figure2"], complete, STANDARD))
    for name in ("StableMiss full", "StableMiss only intra", "StableMiss unweighted", "missing at test"):
        assert name in svg
    assert INK not in svg
    assert "currentColor" in svg
    assert not re.search(r"<svg[^>]* (width|height)=", svg)


def test_forms_of_the_weights_are_told_apart_by_their_lines(complete):
    """The same terms have the same colour; lines of our form are dashed."""
    for full, ours in zip(ABLATION[:3], WEIGHTED_ABLATION, strict=True):
        assert VARIANTS[full]["color"] == VARIANTS[ours]["color"]
        assert (VARIANTS[full]["linestyle"], VARIANTS[ours]["linestyle"]) == ("-", "--")
    svg = gap_plot(compare(TABLES["figure2"], complete, STANDARD))
    assert "StableMiss only inter with our weights" in svg
    assert "stroke-dasharray" in svg


def test_two_plots_of_a_table_can_share_an_axis_and_no_ids(complete):
    comparison = compare(TABLES["figure2"], complete, STANDARD)
    low, high = gap_limits([comparison])
    gaps = [cell.gap for line in comparison.lines for cell in line.cells]
    assert low < min(0, *gaps) <= max(gaps) < high
    assert gap_limits([compare(TABLES["figure2"], [], STANDARD)]) is None
    plots = [gap_plot(comparison, prefix, (low, high)) for prefix in ("a-", "b-")]
    ids = [set(re.findall(r'\bid="([^"]+)"', plot)) for plot in plots]
    assert not ids[0] & ids[1]


def test_plots_of_one_page_share_no_ids(complete):
    first, second = (
        set(re.findall(r'\bid="([^"]+)"', gap_plot(compare(TABLES[name], complete, STANDARD))))
        for name in ("figure2", "figure3")
    )
    assert first
    assert not first & second


def test_a_mask_has_a_square_for_every_observed_value():
    mask = np.array([[True, False], [True, True], [False, False]])
    svg = mask_plot(mask)
    assert svg.count("h.9v.9h-.9z") == 3
    assert "3 rows of 2 columns" in svg


def test_global_plot_settings_do_not_change(complete):
    matplotlib = pytest.importorskip("matplotlib")
    before = dict(matplotlib.rcParams)
    gap_plot(compare(TABLES["figure2"], complete, STANDARD))
    assert dict(matplotlib.rcParams) == before
