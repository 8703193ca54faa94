"""Batches of training rows: nothing is overlooked, and memory does not grow with the number of batches."""

import numpy as np
import pyarrow
import pytest

from stablemiss.estimators import source_rows
from stablemiss.estimators.source_rows import Reader, ScanTotals


def make_reader(is_classifier: bool, sampled: list[int] | None = None) -> Reader:
    positions = np.array([0, 1] if sampled is None else sampled)
    return Reader("y", ["town", "a"], positions, np.array([2, 3]), is_classifier, False)


def make_batch(n: int, town: list[str], y: object) -> pyarrow.Table:
    return pyarrow.table({"town": town, "a": np.arange(float(n)), "y": y})


def test_rows_with_known_categories_are_not_collected_again() -> None:
    reader = make_reader(False)
    totals = ScanTotals(reader)
    for number in range(50):
        town = [f"town {k % 20}" for k in range(100)]
        totals.add(reader.scan(100 * number, make_batch(100, town, np.arange(100.0))))
    assert sum(table.num_rows for table in totals._tables) <= 4 + 20
    table, position = totals.rows()
    # Validation rows have two of the towns, but only training rows count.
    assert sorted(position.tolist()) == [*range(20), 22, 23]
    assert set(table["town"].to_pylist()) == {f"town {k}" for k in range(20)}
    assert totals.moments is not None
    assert totals.moments.count.tolist() == [50 * 100 - 2]


def test_ever_new_categories_are_collected_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_rows, "MAX_CATEGORIES", 30)
    reader = make_reader(False)
    totals = ScanTotals(reader)
    for number in range(50):
        town = [f"order {number * 10 + k // 10}" for k in range(100)]
        totals.add(reader.scan(100 * number, make_batch(100, town, np.arange(100.0))))
    assert totals.rows()[0].num_rows <= 4 + 30


def test_a_row_of_each_class_is_collected_even_if_classes_are_numbers() -> None:
    reader = make_reader(True)
    y = np.zeros(100, dtype=int)
    y[[70, 90]] = 7, 8
    totals = ScanTotals(reader)
    totals.add(reader.scan(0, make_batch(100, ["Ulm"] * 100, y)))
    assert totals.labels == {0, 7, 8}
    assert totals.rows()[1].tolist() == [0, 1, 2, 3, 70, 90]


@pytest.mark.parametrize("target", ["y", ["y", "a"]])
def test_a_batch_may_have_no_training_rows(target: str | list[str]) -> None:
    positions = np.array([0, 1]), np.array([100, 101])
    reader = Reader(target, ["town"], *positions, is_classifier=False, drop_missing_target=True)
    totals = ScanTotals(reader)
    totals.add(reader.scan(0, make_batch(100, ["Ulm"] * 100, np.arange(100.0))))
    # Two validation rows, then rows without a target.
    totals.add(reader.scan(100, make_batch(2, ["Ulm"] * 2, np.arange(2.0))))
    totals.add(reader.scan(102, make_batch(9, ["Ulm"] * 9, pyarrow.nulls(9, pyarrow.float64()))))
    assert totals.moments is not None
    assert set(totals.moments.count.tolist()) == {100}
    assert totals.n_missing == 9


def test_too_many_classes_are_refused_in_the_batch_in_which_they_are() -> None:
    reader = make_reader(True)
    totals = ScanTotals(reader)
    with pytest.raises(ValueError, match="1,000 classes"):
        totals.add(reader.scan(0, make_batch(1500, ["Ulm"] * 1500, np.arange(1500.0))))
