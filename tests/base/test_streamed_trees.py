"""Trees from rows in batches are those from the same rows at once."""

from collections.abc import Callable, Iterator
from typing import Any

import lightgbm
import numpy as np
import pytest

from stablemiss.base import streamed_trees
from stablemiss.base.boosted_trees import TreeData
from stablemiss.base.cluster_trees import bin_edges, to_bins, with_edges
from stablemiss.base.lightgbm_text import load_booster, model_text
from stablemiss.base.row_stream import RowStream
from stablemiss.base.streamed_trees import TreeStream, boost_streamed
from stablemiss.data import MaskedData
from stablemiss.methods import Boosting
from stablemiss.progress import NullProgress

PARAMS: dict[str, Any] = {
    "objective": "regression",
    "num_leaves": 7,
    "seed": 0,
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbosity": -1,
}


class Batches(RowStream):
    """Rows in batches of changing size."""

    def __init__(self, data: MaskedData, sizes: list[int]):
        self.data, self.sizes = data, sizes
        self.n_rows, self.n_columns = len(data), data.n_columns

    def map(self, function: Callable[[MaskedData, int], Any]) -> Iterator[Any]:
        first = 0
        for size in self.sizes:
            yield function(self.data.rows(np.arange(first, first + size)), first)
            first += size

    def submit(self, function: Callable[[MaskedData, int], Any]) -> list[Any]:
        raise NotImplementedError


def make_data(n: int = 600) -> MaskedData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    mask = rng.random(X.shape) > 0.2
    y = np.stack([X[:, 0] + np.sin(3 * X[:, 1]), X[:, 2]], axis=1)
    return MaskedData.of(X, mask, y)


def stream_of(data: MaskedData, sizes: list[int]) -> TreeStream:
    rows = TreeData.of(data)
    return TreeStream(Batches(data, sizes), lambda batch, _: TreeData.of(batch), len(data), rows, rows)


def test_the_sizes_of_batches_do_not_matter() -> None:
    data, method = make_data(), Boosting(n_trees=20)
    models = [
        boost_streamed(method, PARAMS, stream_of(data, sizes), NullProgress())
        for sizes in ([600], [1, 299, 300], [200, 150, 250])
    ]
    assert len(models[0]) == 2  # one model per target
    assert models[0] == models[1] == models[2]


def test_trees_are_those_of_lightgbm_on_the_whole_table() -> None:
    data = make_data()
    (text, _) = boost_streamed(Boosting(n_trees=20), PARAMS, stream_of(data, [400, 200]), NullProgress())
    rows = TreeData.of(data)
    booster = lightgbm.train(PARAMS, lightgbm.Dataset(rows.table, rows.target[:, 0]), num_boost_round=20)
    streamed = load_booster(text, 3, "regression").predict(rows.table)
    np.testing.assert_allclose(streamed, booster.predict(rows.table), rtol=1e-5, atol=1e-5)


def test_a_bounded_subset_of_very_many_rows_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    # One byte for each of 3 columns, and 40 for each of 2 targets.
    monkeypatch.setattr(streamed_trees, "MAX_BINNED_BYTES", 200 * 83)
    data = make_data()
    binned = streamed_trees._BinnedRows(stream_of(data, [1, 299, 300]), NullProgress())
    assert len(binned.sequence()) == 200
    table = np.concatenate([binned.sequence()[first : first + 50] for first in range(0, 200, 50)])
    rows = TreeData.of(data)
    # Every row is one of the data, none occurs twice, and the targets are theirs.
    where = {row.tobytes(): number for number, row in enumerate(rows.table)}
    numbers = [where[row.tobytes()] for row in table]
    assert len(set(numbers)) == 200
    np.testing.assert_allclose(binned.target, rows.target[numbers], rtol=1e-6)


def test_many_classes_need_more_memory_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_trees, "MAX_BINNED_BYTES", 200 * 83)
    binned = streamed_trees._BinnedRows(stream_of(make_data(), [600]), NullProgress(), n_classes=20)
    assert binned.n_rows == 200 * 83 // (3 + 20 * 40)


def test_a_column_that_is_rare_in_the_sample_is_used() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    flag = (np.arange(n) % 100 == 0).astype(float)
    X = np.stack([flag, rng.normal(size=n)], axis=1)
    data = MaskedData.of(X, np.ones(X.shape, dtype=bool), 10 * flag[:, None] + rng.normal(size=(n, 1)))
    rows = TreeData.of(data)
    # Four rows of the sample have the flag, fewer than a leaf needs, but forty of all rows.
    sample = TreeData.of(data.rows(np.arange(400)))
    stream = TreeStream(Batches(data, [2000, 2000]), lambda batch, _: TreeData.of(batch), n, sample, rows)
    (text,) = boost_streamed(Boosting(n_trees=30), PARAMS, stream, NullProgress())
    predictions = load_booster(text, 2, "regression").predict(np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert predictions[1] > predictions[0] + 5


def test_trees_of_bins_become_trees_of_values() -> None:
    data = make_data()
    rows = TreeData.of(data)
    rows.table[:50, 2] = np.round(rows.table[:50, 2])
    edges = bin_edges(rows.table)
    bins = to_bins(rows.table, edges)
    assert np.array_equal(np.isnan(bins), np.isnan(rows.table))
    params = PARAMS | {"min_data_in_bin": 1, "max_bin": 255}
    booster = lightgbm.train(params, lightgbm.Dataset(bins, rows.target[:, 0]), num_boost_round=30)
    of_values = load_booster(with_edges(model_text(booster), edges), 3, "regression")
    np.testing.assert_allclose(of_values.predict(rows.table), booster.predict(bins), rtol=1e-12)
    # New values too, whether they are missing or beyond all edges.
    new = np.array([[np.nan, 0.0, 99.0], [-99.0, np.nan, np.nan], [edges[0][3], edges[1][5], edges[2][7]]])
    np.testing.assert_allclose(of_values.predict(new), booster.predict(to_bins(new, edges)), rtol=1e-12)
