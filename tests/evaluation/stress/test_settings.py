"""What is hidden from the models."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from stablemiss.evaluation.stress.rows import TestRows
from stablemiss.evaluation.stress.settings import (
    DESCRIPTIONS,
    OTHER_TABLE,
    OWN_MASKS,
    InformativeOutage,
    column_settings,
    make_settings,
)

LEVELS = (0.2, 0.5, 0.8)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 10))
    y = X[:, 3] + 0.5 * X[:, 7]
    X[rng.random(X.shape) < 0.1] = np.nan
    return TestRows.of(pd.DataFrame(X, columns=list("abcdefghij")), y)


@pytest.fixture
def settings(rows):
    return make_settings(rows, None, LEVELS, None, np.random.default_rng(0))


def test_all_defaults_have_a_description(rows, settings):
    other = make_settings(rows, None, LEVELS, rows.X, np.random.default_rng(0))
    assert list(dict.fromkeys(s.mechanism for s in other)) == ["as given", *DESCRIPTIONS]


def test_values_that_are_missing_stay_missing(rows, settings):
    for setting in settings:
        observed = setting.observed(rows)
        assert not (observed & ~rows.observed).any()
        hidden = rows.masked(observed)
        assert (hidden.notna().to_numpy() == observed).all()


@pytest.mark.parametrize("mechanism", ["MCAR", "window", "MNAR", "outage"])
def test_the_level_is_the_share_of_hidden_values(rows, settings, mechanism):
    for setting in settings:
        if setting.mechanism == mechanism:
            share = 1 - setting.observed(rows)[rows.observed].mean()
            assert share == pytest.approx(setting.level, abs=0.02)


def test_masks_of_higher_levels_contain_those_of_lower_ones(rows, settings):
    masks = [setting.observed(rows) for setting in settings if setting.mechanism == "MCAR"]
    for low, high in pairwise(masks):
        assert not (high & ~low).any()


def test_an_outage_hides_the_most_informative_columns_first(rows, settings):
    for setting in settings:
        if setting.mechanism == "outage":
            hidden = np.flatnonzero(~setting.observed(rows).any(axis=0))
            assert len(hidden) == round(setting.level * 10)
            assert {3, 7} <= set(hidden)
    # Even the lowest level hides a column.
    mechanism = InformativeOutage([1, 0], 0.01)
    assert mechanism.draw(np.zeros((1, 2)), np.random.default_rng(0)).tolist() == [[True, False]]


def test_own_masks_are_used_at_levels_that_occur(rows, settings):
    levels = [setting.level for setting in settings if setting.mechanism == OWN_MASKS]
    shares = (~rows.observed).mean(axis=1)
    assert levels == [None, *(level for level in LEVELS if level < shares.max())]


def test_masks_of_another_table_are_matched_by_name(rows):
    other = pd.DataFrame({"extra": [1.0], **{name: [1.0] for name in "jihgfedcba"}})
    other.loc[0, "c"] = np.nan
    (_, setting) = [
        setting
        for setting in make_settings(rows, ["MCAR"], [0.5], other, np.random.default_rng(0))
        if setting.mechanism in ("as given", OTHER_TABLE)
    ]
    expected = rows.observed.copy()
    expected[:, 2] = False
    assert (setting.observed(rows) == expected).all()


def test_masks_do_not_depend_on_the_order_in_which_they_are_drawn(rows, settings):
    setting = settings[-1]
    assert (setting.observed(rows) == setting.observed(rows)).all()


def test_columns_are_hidden_in_all_rows(rows):
    (setting,) = column_settings([(2, 5)])
    assert np.flatnonzero(~setting.observed(rows).any(axis=0)).tolist() == [2, 5]
