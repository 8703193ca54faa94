"""Columns that are hidden together."""

from __future__ import annotations

import numpy as np
import pytest

from stablemiss.missingness import Outage

X = np.random.default_rng(0).normal(size=(4000, 6))


def test_at_level_one_exactly_the_given_columns_are_hidden() -> None:
    mask = Outage([1, 4]).draw(X, np.random.default_rng(0))
    assert not mask[:, [1, 4]].any()
    assert mask[:, [0, 2, 3, 5]].all()


def test_all_columns_can_be_hidden() -> None:
    assert not Outage(range(6)).draw(X, np.random.default_rng(0)).any()


@pytest.mark.parametrize("level", [0.0, 0.2, 0.7])
def test_the_level_is_the_share_of_rows_that_lose_all_given_columns(level: float) -> None:
    mask = Outage(np.array([1, 4]), level).draw(X, np.random.default_rng(0))
    np.testing.assert_array_equal(mask[:, 1], mask[:, 4])
    assert mask[:, [0, 2, 3, 5]].all()
    assert abs(1 - mask[:, 1].mean() - level) <= 5 * np.sqrt(level * (1 - level) / len(X))


def test_without_columns_nothing_is_hidden() -> None:
    assert Outage([]).draw(X, np.random.default_rng(0)).all()


def test_the_list_of_columns_is_copied() -> None:
    columns = [1]
    mechanism = Outage(columns)
    columns.append(2)
    assert mechanism.draw(X, np.random.default_rng(0))[:, 2].all()


@pytest.mark.parametrize("columns", [3, "a", ["a"], [1.5], [True, False], np.array([True, False])])
def test_invalid_columns_raise(columns: object) -> None:
    with pytest.raises(ValueError, match="columns must be a sequence of column positions"):
        Outage(columns)  # type: ignore[arg-type]


@pytest.mark.parametrize("column", [-1, 6])
def test_columns_that_the_table_does_not_have_raise(column: int) -> None:
    mechanism, rng = Outage([0, column]), np.random.default_rng(0)
    for method in (mechanism.fit, mechanism.draw):
        with pytest.raises(ValueError, match=rf"columns \[{column}\], but X has columns 0 to 5"):
            method(X, rng)
