"""Chosen columns that go dark together."""

from __future__ import annotations

import numpy as np
import pytest

from stablemiss.missingness import Outage

X = np.random.default_rng(0).normal(size=(4000, 6))


def test_at_level_one_the_chosen_columns_are_dark_and_no_others() -> None:
    mask = Outage([1, 4]).draw(X, np.random.default_rng(0))
    assert not mask[:, [1, 4]].any()
    assert mask[:, [0, 2, 3, 5]].all()


def test_every_column_can_go_dark() -> None:
    assert not Outage(range(6)).draw(X, np.random.default_rng(0)).any()


@pytest.mark.parametrize("level", [0.0, 0.2, 0.7])
def test_a_share_of_the_rows_is_hit_and_loses_all_chosen_columns_together(level: float) -> None:
    mask = Outage(np.array([1, 4]), level).draw(X, np.random.default_rng(0))
    np.testing.assert_array_equal(mask[:, 1], mask[:, 4])
    assert mask[:, [0, 2, 3, 5]].all()
    assert abs(1 - mask[:, 1].mean() - level) <= 5 * np.sqrt(level * (1 - level) / len(X))


def test_no_columns_no_outage() -> None:
    assert Outage([]).draw(X, np.random.default_rng(0)).all()


def test_a_change_of_the_given_list_does_not_reach_the_mechanism() -> None:
    columns = [1]
    mechanism = Outage(columns)
    columns.append(2)
    assert mechanism.draw(X, np.random.default_rng(0))[:, 2].all()


@pytest.mark.parametrize("columns", [3, "a", ["a"], [1.5], [True, False], np.array([True, False])])
def test_what_is_no_sequence_of_positions_is_refused(columns: object) -> None:
    with pytest.raises(ValueError, match="columns must be a sequence of column positions"):
        Outage(columns)  # type: ignore[arg-type]


@pytest.mark.parametrize("column", [-1, 6])
def test_columns_that_the_table_lacks_are_refused(column: int) -> None:
    mechanism, rng = Outage([0, column]), np.random.default_rng(0)
    for use in (mechanism.fit, mechanism.draw):
        with pytest.raises(ValueError, match=rf"names columns \[{column}\], but X has columns 0 to 5"):
            use(X, rng)
