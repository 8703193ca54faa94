"""Heat maps of dependence matrices."""

from importlib import util
from io import BytesIO

import matplotlib
import numpy as np
import pytest

from stablemiss.diagnostics import heatmaps
from stablemiss.diagnostics.heatmaps import MAX_NAMED_COLUMNS, draw_matrices


def random_matrix(d, seed=0):
    half = np.random.default_rng(seed).random((2 * d, 2 * d)) / 4
    return half + half.T


def names(d):
    return [f"x{j}" for j in range(d)]


@pytest.mark.parametrize("d", [1, 3, MAX_NAMED_COLUMNS + 5])
def test_two_panels_share_a_colour_scale_and_render(d):
    first, second = random_matrix(d), random_matrix(d) / 2
    figure = draw_matrices(names(d), {"before": first, "after": second})
    panels = figure.axes[:2]
    assert [axes.get_title() for axes in panels] == ["before", "after"]
    images = [axes.images[0] for axes in panels]
    assert images[0].norm is images[1].norm
    assert images[0].norm.vmax == first[~np.eye(2 * d, dtype=bool)].max()
    assert len(figure.axes) == 3
    file = BytesIO()
    figure.savefig(file, format="png", dpi=50)
    file.seek(0)
    pixels = matplotlib.image.imread(file)[..., :3].reshape(-1, 3)
    assert len(np.unique(pixels, axis=0)) > 20


def test_diagonals_and_nan_are_masked():
    matrix = random_matrix(2)
    matrix[0, 1] = matrix[1, 0] = np.nan
    shown = draw_matrices(names(2), {"only": matrix}).axes[0].images[0].get_array()
    expected = np.eye(4, dtype=bool)
    expected[0, 1] = expected[1, 0] = True
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), expected)


def test_matrices_of_zeros_or_nan_can_be_drawn():
    for matrix in (np.zeros((4, 4)), np.full((4, 4), np.nan)):
        draw_matrices(names(2), {"a": matrix}).savefig(BytesIO(), format="png")


def test_names_are_shown_literally_and_long_ones_are_shortened():
    figure = draw_matrices(["price in $ or $$", "a$b^c$d"], {"a": random_matrix(2)})
    figure.savefig(BytesIO(), format="png")
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["price in $ or…", "a$b^c$d"] * 2
    assert not any(label.get_parse_math() for label in figure.axes[0].get_xticklabels())


def test_blocks_are_labelled_but_many_columns_are_not():
    figure = draw_matrices(names(MAX_NAMED_COLUMNS + 1), {"a": random_matrix(MAX_NAMED_COLUMNS + 1)})
    assert figure.axes[0].get_xticklabels() == []
    blocks = [[label.get_text() for label in edge.get_xticklabels()] for edge in figure.axes[0].child_axes]
    assert ["columns", "mask indicators"] in blocks


def test_global_plot_settings_do_not_change():
    before = dict(matplotlib.rcParams)
    draw_matrices(names(2), {"a": random_matrix(2)})
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setattr(
        heatmaps, "find_spec", lambda name: None if name == "matplotlib" else util.find_spec(name)
    )
    with pytest.raises(ModuleNotFoundError, match=r"pip install .stablemiss\[report\]"):
        draw_matrices(names(1), {"a": random_matrix(1)})
