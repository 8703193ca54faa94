from xml.etree import ElementTree

import matplotlib
import pytest

from stablemiss.report.plots import COLOURS, INK, gap_plot
from stablemiss.report.tables import gap_table


def test_the_same_table_gives_the_same_bytes(rows):
    assert gap_plot(gap_table(rows)) == gap_plot(gap_table(rows))


def test_one_svg_element_with_a_line_and_a_label_per_method(rows):
    svg = gap_plot(gap_table(rows))
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg")
    assert "viewBox" in root.attrib
    assert "width" not in root.attrib
    texts = {text.strip() for text in root.itertext()}
    assert {
        "ols",
        "boosting",
        "em_mixture",
        "linear",
        "constant",
        "trained at 10%",
        "10%",
        "50%",
        "90%",
    } <= texts
    for colour in COLOURS[:3]:
        assert colour in svg


def test_ink_is_the_colour_of_the_text_around_the_plot(rows):
    svg = gap_plot(gap_table(rows))
    assert "currentColor" in svg
    assert INK not in svg


@pytest.mark.parametrize("name", ["a$b$c", "</svg><script>alert(1)</script>", "&<>\"'"])
def test_names_stay_text(rows, name):
    renamed = [{**row, "method": name} if row["method"] == "ols" else row for row in rows]
    root = ElementTree.fromstring(gap_plot(gap_table(renamed)))
    assert name in {text.strip() for text in root.itertext()}
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_global_plot_settings_stay_untouched(rows):
    before = dict(matplotlib.rcParams)
    gap_plot(gap_table(rows))
    assert dict(matplotlib.rcParams) == before
