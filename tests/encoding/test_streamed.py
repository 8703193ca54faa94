"""Encoding in batches: exact statistics, and no row is encoded with its own target."""

from functools import reduce

import numpy as np
import pytest

from stablemiss.data import centre_and_scale
from stablemiss.encoding import TableEncoder, read_table
from stablemiss.encoding.streamed import EncodingStatistics, Moments, StreamedEncoder, fold_of
from stablemiss.tasks import Regression

N = 400


def make_rows(seed: int) -> tuple[list[list[object]], np.ndarray]:
    rng = np.random.default_rng(seed)
    names = [f"name {number}" for number in rng.integers(20, size=N)]
    numbers = np.where(rng.random(N) < 0.2, np.nan, 5 + rng.normal(size=N))
    rows = [[name, number, 7.0] for name, number in zip(names, numbers, strict=True)]
    return rows, rng.normal(size=N)


def fit(rows: list[list[object]], y: np.ndarray, batch_size: int = 90) -> StreamedEncoder:
    """Structure from the first hundred rows, statistics from all."""
    task = Regression(np.zeros(1), np.ones(1), single=True)
    encoder = TableEncoder()
    rng = np.random.default_rng(0)
    encoder.fit_transform(read_table(rows[:100]), np.arange(100), y[:100, None], task, rng)
    streamed = StreamedEncoder(encoder, np.array([False, True, True]))
    found = []
    for first in range(0, N, batch_size):
        stop = min(N, first + batch_size)
        position = np.arange(first, stop)
        table = read_table(rows[first:stop])
        is_train = np.ones(len(position), dtype=bool)
        found.append(streamed.statistics(table, y[first:stop, None], position, is_train))
    streamed.set_statistics(reduce(EncodingStatistics.merged, found))
    return streamed


@pytest.mark.parametrize("seed", range(3))
def test_moments_of_batches_are_those_of_all_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = 1e6 + rng.normal(size=(1000, 3)) * [1.0, 1e-3, 0.0]
    columns[rng.random(columns.shape) < 0.3] = np.nan
    parts = [Moments.of(part) for part in np.array_split(columns, [1, 10, 500])]
    merged = reduce(Moments.merged, parts)
    centre, scale = centre_and_scale(columns)
    np.testing.assert_allclose(merged.mean, centre, rtol=1e-12)
    np.testing.assert_allclose(merged.scale()[:2], scale[:2], rtol=1e-6)
    assert np.isinf(merged.scale()[2])
    np.testing.assert_array_equal(merged.minimum, np.nanmin(columns, axis=0))


def test_means_scales_and_ranges_are_exact_whatever_the_batches() -> None:
    rows, y = make_rows(0)
    encoders = [fit(rows, y, size).encoder for size in (1, 90, N)]
    numbers = np.array([row[1] for row in rows], dtype=float)
    for encoder in encoders:
        assert encoder._mean[1] == pytest.approx(np.nanmean(numbers), rel=1e-12)
        assert encoder._scale[1] == pytest.approx(np.nanstd(numbers), rel=1e-12)
        assert encoder._ranges.maximum[1] == np.nanmax(numbers)
        assert encoder.column_report[1].n_missing == np.isnan(numbers).sum()


def test_a_number_that_is_constant_in_the_sample_only_is_a_number() -> None:
    rows, y = make_rows(0)
    assert fit(rows, y).encoder.kinds[2] == "constant"
    rows[300][2] = 8.0
    assert fit(rows, y).encoder.kinds[2] == "numbers"


def test_a_row_is_not_encoded_with_its_own_target() -> None:
    rows, y = make_rows(1)
    position = np.arange(N)
    values, _ = fit(rows, y).encode(read_table(rows), position)
    changed = y.copy()
    changed[17] += 100.0
    again, _ = fit(rows, changed).encode(read_table(rows), position)
    # Means and scales change with the target, so that the encoded row is compared with its own fold: in it,
    # no row of the same category may move relative to another fold's.
    others = [row for row in range(N) if row != 17 and rows[row][0] == rows[17][0]]
    fold = fold_of(position)
    same_fold = [row for row in others if fold[row] == fold[17]]
    other_folds = [row for row in others if fold[row] != fold[17]]
    assert same_fold
    assert other_folds
    assert again[17, 0] == again[same_fold[0], 0]
    assert (again[other_folds, 0] > again[17, 0] + 1).all()
    assert np.ptp(values[others, 0]) < np.ptp(again[others, 0])


def test_new_rows_are_encoded_with_the_means_of_all_rows() -> None:
    rows, y = make_rows(2)
    encoder = fit(rows, y).encoder
    of_category = y[[row[0] == "name 3" for row in rows]]
    expected = (of_category.sum() + 5 * y.mean()) / (len(of_category) + 5)
    encoded = encoder.transform(read_table([["name 3", 5.0, 7.0]]))
    assert encoded.values[0, 0] * encoder._scale[0] + encoder._mean[0] == pytest.approx(expected)


def test_categories_in_turn_are_encoded_by_their_means() -> None:
    # As in a table of 20 sensors, sorted by time: each sensor has every 20th row.
    rng = np.random.default_rng(0)
    sensor = np.arange(N) % 20
    rows = [[f"sensor {number}", rng.normal(), 7.0] for number in sensor]
    y = sensor + 0.1 * rng.normal(size=N)
    values, _ = fit(rows, y).encode(read_table(rows), np.arange(N))
    assert np.corrcoef(values[:, 0], y)[0, 1] > 0.9


def test_folds_are_of_equal_size_and_independent_of_any_period() -> None:
    for period in (1, 5, 20, 1024, 1000):
        counts = np.bincount(fold_of(np.arange(20_000) * period), minlength=5)
        assert abs(counts - 4000).max() < 250
