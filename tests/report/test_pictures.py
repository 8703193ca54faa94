from xml.etree import ElementTree

from stablemiss.experiments.budgets import BUDGETS
from stablemiss.experiments.compare import compare
from stablemiss.experiments.exhibits import EXHIBITS
from stablemiss.report.pictures import figure_plot, mask_picture
from stablemiss.report.plots import INK


def figure(stored, name="figure2"):
    """A figure of two variants, from rows that are turned into fits at 10%."""
    rows = [{**row, "train_level": 0.1} for row in stored if "label" in row]
    return compare(EXHIBITS[name], rows, BUDGETS["quick"])


def test_a_plot_has_a_line_and_a_name_for_each_variant_and_the_same_bytes_again(stored):
    svg = figure_plot(figure(stored))
    assert svg == figure_plot(figure(stored))
    texts = {text.strip() for text in ElementTree.fromstring(svg).itertext()}
    assert {"StableMiss full", "StableMiss only intra", "StableMiss unweighted", "10%", "90%"} <= texts
    assert INK not in svg


def test_two_plots_in_a_page_share_no_id(stored):
    first, second = (
        {
            element.get("id")
            for element in ElementTree.fromstring(figure_plot(figure(stored, name))).iter()
            if element.get("id")
        }
        for name in ("figure2", "figure3")
    )
    assert first
    assert not first & second


def test_a_mask_has_a_square_for_each_observed_cell():
    svg = ElementTree.fromstring(mask_picture(["101", "000"]))
    path = next(element for element in svg.iter() if element.tag.endswith("path"))
    assert path.get("d") == "M0 0h.9v.9h-.9zM2 0h.9v.9h-.9z"
