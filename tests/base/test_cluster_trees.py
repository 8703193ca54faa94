"""Trees on a cluster, without one: repeated attempts, and the choice of the number of trees."""

from typing import Any

import lightgbm
import numpy as np
import pytest

from stablemiss.base import cluster_trees
from stablemiss.base.boosted_trees import TreeData
from stablemiss.base.cluster_trees import bin_edges, to_bins
from stablemiss.base.lightgbm_text import load_booster, model_text
from stablemiss.methods import Boosting


class Cluster:
    """A client whose workers are lost, one at each call of `lose`."""

    def __init__(self, n_workers: int):
        self.workers = [f"worker {number}" for number in range(n_workers)]

    def scheduler_info(self, n_workers: int) -> dict[str, list[str]]:
        return {"workers": self.workers}

    def wait_for_workers(self, n_workers: int, timeout: float) -> None:
        if len(self.workers) < n_workers:
            raise TimeoutError

    def lose(self, *arguments: Any) -> None:
        self.workers = self.workers[1:]
        raise RuntimeError("connection reset")


@pytest.mark.parametrize(("n_workers", "said"), [(9, "3 attempts"), (2, "none joined")])
def test_trees_that_cannot_be_grown_end_with_a_sentence_and_the_last_error(
    n_workers: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Cluster(n_workers)
    monkeypatch.setattr(cluster_trees, "_train_once", client.lose)
    monkeypatch.setattr(cluster_trees, "PAUSE", 0.0)
    monkeypatch.setattr(cluster_trees, "MAX_ATTEMPTS", 3)
    with pytest.raises(ChildProcessError, match=said) as raised:
        cluster_trees._train(Boosting(), {}, client, [], 1, 0)
    assert raised.value.__cause__ is not None
    assert "most likely" not in str(raised.value)


def test_no_worker_is_waited_for_in_vain_while_parts_are_computed() -> None:
    class Unfinished:
        def result(self, timeout: float) -> None:
            raise TimeoutError

        def done(self) -> bool:
            return False

    class Deserted(Cluster):
        def submit(self, *arguments: Any, **options: Any) -> Unfinished:
            return Unfinished()

    client = Deserted(0)
    with pytest.raises(ChildProcessError, match="none joined within"):
        cluster_trees._train(Boosting(), {}, client, [None], 1, 0)


def test_an_error_without_a_lost_worker_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr(cluster_trees, "_train_once", fail)
    monkeypatch.setattr(cluster_trees, "NOTICED_WITHIN", 0.0)
    with pytest.raises(KeyError, match="a mistake"):
        cluster_trees._train(Boosting(), {}, Cluster(2), [], 1, 0)


def test_trees_after_the_lowest_validation_loss_are_dropped() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 2))
    # Noise alone can be fitted by the last trees.
    target = (table[:, 0] > 0) + rng.normal(size=300)
    edges = bin_edges(table)
    params = {"learning_rate": 0.3, "verbosity": -1, "num_threads": 1, "boost_from_average": False}
    train = lightgbm.Dataset(to_bins(table[:200], edges), target[:200])
    booster = lightgbm.train(params, train, num_boost_round=30)
    valid = TreeData(table[200:], target[200:], np.ones(100))
    n_trees = cluster_trees._best_number(booster, valid, edges, 0, "regression", 0.0)
    losses = [
        np.mean((booster.predict(to_bins(table[200:], edges), num_iteration=n) - target[200:]) ** 2)
        for n in range(1, 31)
    ]
    assert n_trees == np.argmin(losses) + 1 < 30
    text = cluster_trees._truncated(model_text(booster), n_trees)
    expected = booster.predict(to_bins(table, edges), num_iteration=n_trees)
    truncated = load_booster(text, 2, "regression").predict(to_bins(table, edges))
    np.testing.assert_allclose(truncated, expected, rtol=1e-12)
