"""Numbers far outside the range of the training rows are named and bounded; ordinary new rows are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stablemiss.encoding import TableEncoder, read_table
from stablemiss.encoding.ranges import Ranges
from stablemiss.tasks import Regression


def fit(X: Any, rows: Any = None) -> TableEncoder:
    table = read_table(X)
    y = np.arange(float(table.n_rows))
    encoder = TableEncoder()
    rows = np.arange(table.n_rows) if rows is None else rows
    encoder.fit_transform(table, rows, y[:, None], Regression.of(y), np.random.default_rng(0))
    return encoder


@pytest.fixture(scope="module")
def encoder() -> TableEncoder:
    """Numbers from 0 to 10, town, and a constant."""
    frame = pd.DataFrame({"x": np.linspace(0, 10, 1000), "town": ["a", "b"] * 500, "same": 3.0})
    return fit(frame)


def new_rows(*x: float | None) -> Any:
    return read_table(pd.DataFrame({"x": np.array(x, dtype=float), "town": "a", "same": 1e9}))


def test_values_beyond_the_limits_are_clipped_and_marked(encoder: TableEncoder) -> None:
    encoded = encoder.transform(new_rows(-999.0, 5.0, None, 1e9, -4.9))
    assert encoded.out_of_range[:, 0].tolist() == [True, False, False, True, False]
    assert not encoded.out_of_range[:, 1:].any()
    assert encoded.mask[:, 0].tolist() == [True, True, False, True, True]
    # The limits are half the range, and 20 / 1000 of it, beyond either end.
    limits = encoder.transform(new_rows(-5.2, 15.2))
    assert not limits.out_of_range.any()
    np.testing.assert_allclose(encoded.values[[0, 3], 0], limits.values[:, 0])


def test_values_beyond_the_limits_can_be_missing(encoder: TableEncoder) -> None:
    encoded = encoder.transform(new_rows(-999.0, 5.0), on_out_of_range="missing")
    assert encoded.mask[:, 0].tolist() == [False, True]
    assert encoded.values[0, 0] == 0.0
    assert encoded.out_of_range[:, 0].tolist() == [True, False]
    # They are described as out of range and not once more as missing.
    assert encoder.unseen_missing(encoded) == {}


def test_values_beyond_the_limits_can_raise(encoder: TableEncoder) -> None:
    with pytest.raises(ValueError, match=r"'x' \(-999 in 1 row; 0 to 10 in training\).*on_out_of_range="):
        encoder.transform(new_rows(-999.0, 5.0), on_out_of_range="raise")


def test_the_description_names_rows_extremes_and_the_range(encoder: TableEncoder) -> None:
    (exceeded,) = encoder.transform(new_rows(-999.0, 5.0, 1e9, 70.5)).exceeded
    assert (exceeded.column, exceeded.label, exceeded.n_rows) == (0, "'x'", 3)
    assert (exceeded.smallest, exceeded.largest, exceeded.seen) == ("-999", "1e+09", "0 to 10")
    assert encoder.transform(new_rows(5.0)).exceeded == ()


def test_columns_without_names_are_described_by_position() -> None:
    encoded = fit(np.linspace(0, 1, 100)[:, None]).transform(read_table([[77.0]]))
    assert encoded.exceeded[0].label == "column 0"


def test_without_out_of_range_hides_only_the_values_out_of_range(encoder: TableEncoder) -> None:
    encoded = encoder.transform(new_rows(5.0, -999.0))
    rows, values, mask = encoded.without_out_of_range()
    assert rows.tolist() == [1]
    assert mask.tolist() == [[False, True, True]]
    assert values[0].tolist() == [0.0, encoded.values[1, 1], 0.0]
    hidden = encoder.transform(new_rows(5.0, -999.0), on_out_of_range="missing")
    assert len(hidden.without_out_of_range()[0]) == 0


def test_training_rows_are_never_out_of_range_and_validation_rows_are_clipped_in_fit() -> None:
    x = np.append(np.random.default_rng(0).standard_cauchy(200), 1e12)[:, None]
    table, y = read_table(x), np.arange(201.0)
    encoder = TableEncoder()
    values, _ = encoder.fit_transform(
        table, np.arange(200), y[:, None], Regression.of(y), np.random.default_rng(0)
    )
    encoded = encoder.transform(table)
    assert np.flatnonzero(encoded.out_of_range[:, 0]).tolist() == [200]
    np.testing.assert_array_equal(values, encoded.values)


def test_constant_columns_and_categories_have_no_limits(encoder: TableEncoder) -> None:
    state = encoder.state()["ranges"]
    assert np.isfinite(state["lower"]).tolist() == [True, False, False]
    assert np.isfinite(state["upper"]).tolist() == [True, False, False]


def test_limits_survive_saving(encoder: TableEncoder) -> None:
    restored = TableEncoder.from_state(encoder.state())
    new = new_rows(-999.0, 5.0, 1e9)
    for one, other in zip(encoder.transform(new), restored.transform(new), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [3, 20, 100, 1000])
def test_normal_rows_practically_never_exceed_the_limits_however_few_rows_were_seen(n: int) -> None:
    rng = np.random.default_rng(n)
    n_columns = 2000
    ranges = Ranges.of(rng.normal(size=(n, n_columns)), np.arange(n), np.ones(n_columns, dtype=bool))
    share = ranges.beyond(rng.normal(size=(100, n_columns))).mean()
    assert share <= (1e-2 if n == 3 else 1e-5)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("n", [20, 1000])
def test_a_value_ten_ranges_away_always_exceeds_the_limits(n: int, scale: float) -> None:
    x = scale * np.linspace(-1, 1, n)[:, None]
    ranges = Ranges.of(x, np.arange(n), np.array([True]))
    assert ranges.beyond(np.array([[-20.0 * scale], [20.0 * scale]])).all()


def test_huge_numbers_have_finite_limits() -> None:
    x = np.array([[1.7e308], [-1.7e308], [0.0]])
    ranges = Ranges.of(x, np.arange(3), np.array([True]))
    assert np.isfinite([ranges.lower, ranges.upper]).all()
    assert not ranges.beyond(x).any()
