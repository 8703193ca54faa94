"""The page of a diagnosis needs nothing from the network, and stays small with many columns."""

import re

import numpy as np
import pandas as pd
import pytest

from stablemiss import diagnose, plot_missingness, plot_missingness_shift
from stablemiss.seeding import to_rng


@pytest.fixture(scope="module")
def wide():
    """200 columns with names that contain markup, of which one dies and one is driven by another."""
    rng = to_rng(0)
    names = [f"<b>{j}</b> & ${j}$" for j in range(200)]
    before, after = rng.normal(size=(2, 300, 200))
    before[rng.random(before.shape) < 0.1], after[rng.random(after.shape) < 0.1] = np.nan, np.nan
    after[:, 7] = np.nan
    after[rng.random(300) < 1 / (1 + np.exp(-4 * np.nan_to_num(after[:, 1]))), 9] = np.nan
    return diagnose(pd.DataFrame(before, columns=names), pd.DataFrame(after, columns=names))


def test_the_page_is_one_small_file_without_scripts_or_addresses(wide, tmp_path):
    path = wide.save_html(tmp_path / "page.html")
    page = path.read_text()
    assert path.stat().st_size < 1_000_000
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="https?:', page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_the_verdict_comes_first_and_names_are_escaped(wide):
    page = wide.to_html()
    assert page.index("missing in 100.0%") < page.index("<h2>")
    assert "<b>7</b>" not in page
    assert "185 more columns" in page


def test_a_notebook_shows_the_page_in_a_frame(wide):
    assert wide._repr_html_().startswith("<iframe srcdoc=")


def test_pictures_are_drawn_on_given_axes():
    from matplotlib.figure import Figure

    first, second = Figure().subplots(1, 2)
    table = np.where(to_rng(0).random((30, 3)) < 0.3, np.nan, 1.0)
    assert plot_missingness(table, ax=first) is first
    assert plot_missingness_shift(table, table[:10], ax=second) is second
    assert len(second.get_yticklabels()) == 3


@pytest.mark.slow
def test_a_phone_shows_the_page_without_horizontal_scrolling(wide, open_on_phone):
    found = open_on_phone(wide.to_html())
    assert found["page"] <= found["seen"] <= 390
    assert found["scrolling"]
