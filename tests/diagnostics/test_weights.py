"""Reports on row weights."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from stablemiss.datasets import make_gaussian_mix
from stablemiss.decorrelation import Decorrelator
from stablemiss.diagnostics import dependence_matrix, weight_report
from stablemiss.missingness import MAR


def mar_table(seed, n=1500, d=6):
    rng = np.random.default_rng(seed)
    X, _ = make_gaussian_mix(n_features=d, random_state=seed).draw(n, rng)
    return MAR(0.5).fit(X, rng).hide(X, rng)


@pytest.mark.parametrize("seed", range(3))
def test_fitted_weights_lower_the_dependence_of_new_features(seed):
    X = mar_table(seed)
    values = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    weighting = Decorrelator().learn_weights(values, ~np.isnan(X), rng=np.random.default_rng(seed))
    report = weight_report(X, weighting.weight)
    assert sum(report.after.values()) < 0.8 * sum(report.before.values())
    assert report.matrix_after[6:, 6:].sum() < 0.8 * report.matrix_before[6:, 6:].sum()
    assert report.effective_rows == pytest.approx(weighting.effective_rows)


@pytest.mark.parametrize("seed", range(3))
def test_effective_rows_and_largest_share_follow_their_definition_on_any_scale(seed):
    X = mar_table(seed, n=300, d=3)
    weight = np.random.default_rng(seed).exponential(size=300)
    for scale in (1.0, 1e-200, 1e300):
        report = weight_report(X, scale * weight, draws=1)
        assert report.n_rows == 300
        assert report.effective_rows == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
        assert report.effective_share == pytest.approx(report.effective_rows / 300)
        assert report.largest_share == pytest.approx(weight.max() / weight.sum())


def test_equal_weights_change_nothing():
    report = weight_report(mar_table(0, n=300, d=3), np.full(300, 7.0))
    assert report.effective_rows == pytest.approx(300)
    assert report.largest_share == pytest.approx(1 / 300)
    assert report.after == pytest.approx(report.before)
    np.testing.assert_allclose(report.matrix_after, report.matrix_before, atol=1e-12)


def test_rows_of_weight_zero_are_ignored():
    X = mar_table(0, n=600, d=3)
    kept = np.arange(600) < 300
    # The second half is the first in reverse order, so that means and scales stay the same.
    X[~kept] = X[kept][::-1]
    weighted = weight_report(X, kept.astype(float))
    subset = weight_report(X[kept], np.ones(300))
    assert weighted.effective_rows == pytest.approx(300)
    assert weighted.after == pytest.approx(subset.after)
    np.testing.assert_allclose(weighted.matrix_after, subset.matrix_after, atol=1e-12)


def test_matrices_are_means_over_draws_and_reproducible():
    X = mar_table(1, n=300, d=3)
    weight = np.random.default_rng(0).exponential(size=300)
    first, second, other = (weight_report(X, weight, random_state=state) for state in (0, 0, 1))
    np.testing.assert_array_equal(first.matrix_after, second.matrix_after)
    assert first.after == second.after
    assert first.after != other.after
    # Entries of mask indicators do not depend on the draw, so their mean equals a single draw.
    values = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    single = dependence_matrix(values, ~np.isnan(X), weight, rng=np.random.default_rng(5))
    np.testing.assert_allclose(first.matrix_after[3:, 3:], single[3:, 3:], atol=1e-12)


def test_units_of_columns_have_no_influence():
    X = mar_table(2, n=300, d=3)
    weight = np.linspace(0.1, 2.0, 300)
    first, second = (weight_report(table, weight) for table in (X, X * [1e-6, 1e3, -1.0] + [5, 0, 1e4]))
    np.testing.assert_allclose(first.matrix_after[:2, :2], second.matrix_after[:2, :2], atol=1e-8)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names_and_categories_are_coded(kind):
    rng = np.random.default_rng(0)
    size = rng.normal(size=500)
    colour = np.where(size > 0, "red", "blue").astype(object)
    colour[::5] = None
    frame = kind({"size": size, "colour": colour, "nothing": [None] * 500})
    report = weight_report(frame, np.ones(500))
    assert report.names == ["size", "colour", "nothing"]
    # The columns size and colour are dependent; a column without values cannot be compared.
    assert report.matrix_before[0, 1] > 0.2
    assert np.isnan(report.matrix_before[2, :3]).all()
    assert "size and colour: " in str(report)


def test_the_text_shows_dependence_and_effective_rows_in_few_lines():
    X = mar_table(0, n=400, d=3)
    text = str(weight_report(X, np.where(np.arange(400) < 300, 1.0, 0.0)))
    for fact in ("400", "300", "75%", "0.33%"):
        assert fact in text.splitlines()[0]
    assert len(text.splitlines()) <= 12
    for words in (
        "two columns",
        "two mask indicators",
        "column and mask indicator",
        "mask of",
    ):
        assert words in text


def test_complete_tables_have_no_dependence_between_mask_indicators():
    report = weight_report(np.random.default_rng(0).normal(size=(100, 2)), np.ones(100))
    assert report.before["mm"] == pytest.approx(0, abs=1e-12)
    mask_line = next(line for line in str(report).splitlines() if line.startswith("two mask indicators"))
    assert mask_line.endswith("–")


def test_strongest_pairs_are_sorted_by_dependence_after_weighting():
    report = weight_report(mar_table(3, n=400, d=4), np.ones(400))
    pairs = report.strongest(5)
    upper = report.matrix_after[np.triu_indices(8, 1)]
    assert [after for *_, after in pairs] == sorted(upper, reverse=True)[:5]
    assert report.strongest(0) == []


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(9), "one number for each of the 10 rows"),
        (np.ones((10, 1)), r"shape \(10, 1\)"),
        (np.r_[np.ones(9), -1.0], "weight of row 9 is -1.0"),
        (np.r_[np.nan, np.ones(9)], "weight of row 0 is nan"),
        (np.r_[np.ones(9), np.inf], "weight of row 9 is inf"),
        (np.zeros(10), "must not all be zero"),
    ],
)
def test_invalid_weights_raise(weight, message):
    with pytest.raises(ValueError, match=message):
        weight_report(np.zeros((10, 2)), weight)


def test_features_and_draws_must_be_at_least_one():
    for settings in ({"q": 0}, {"draws": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            weight_report(np.zeros((10, 2)), np.ones(10), **settings)


def test_plot_shows_both_matrices():
    report = weight_report(mar_table(0, n=400, d=3), np.linspace(0, 1, 400))
    titles = [axes.get_title() for axes in report.plot().axes[:2]]
    assert "equal" in titles[0]
    assert "400" in titles[0]
    assert "300" in titles[1]
