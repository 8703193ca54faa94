"""An encoder from a manipulated file raises an error."""

import numpy as np
import pytest

from stablemiss.encoding import TableEncoder, read_table
from stablemiss.tasks import Regression


@pytest.fixture
def state():
    """State of an encoder of a number, two kinds of categories and a column that was never observed."""
    rng = np.random.default_rng(0)
    rows = [[float(i), "ab"[i % 2], f"id {i}", None] for i in range(40)]
    y = rng.normal(size=40)
    encoder = TableEncoder()
    encoder.fit_transform(read_table(rows), np.arange(40), y[:, None], Regression.of(y), rng)
    return encoder.state()


MANIPULATIONS = {
    "NaN as mean": {"mean": np.array([np.nan, 0, 0, 0])},
    "short mean": {"mean": np.zeros(3)},
    "NaN as scale": {"scale": np.array([np.nan, 1, 1, 1])},
    "zero as scale": {"scale": np.array([0.0, 1, 1, 1])},
    "negative scale": {"scale": np.array([1.0, -1, 1, 1])},
    "text as scale": {"scale": "1"},
    "group": {"groups": np.array([0, 1, 2, 4])},
    "order of groups": {"groups": np.array([1, 0, 2, 3])},
    "missing group": {"groups": np.array([0, 1, 3, 3])},
    "negative group": {"groups": np.array([-1, 1, 2, 3])},
    "type of groups": {"groups": np.array([0.0, 1, 2, 3])},
    "kind": {"kinds": ["numbers", "categories", "categories", "dates of birth"]},
    "number of kinds": {"kinds": ["numbers", "categories", "categories"]},
    "no column": {"kinds": []},
    "kind without categories": {"kinds": ["numbers", "numbers", "categories", "never observed"]},
    "categories of a number": {"kinds": ["categories", "categories", "categories", "never observed"]},
    "ever missing": {"ever_missing": np.ones(3, dtype=bool)},
    "type of ever missing": {"ever_missing": np.ones(4)},
    "names": {"names": ["a"]},
    "type of names": {"names": [1, 2, 3, 4]},
    "names without labels": {"names": ["a", "b", "c", "d"]},
    "is numbered": {"is_numbered": "yes"},
    "max one hot": {"max_one_hot": 1},
    "type of max one hot": {"max_one_hot": 3.5},
    "category twice": {"categories": {"1": ["a", "a"], "2": [f"id {i}" for i in range(40)]}},
    "type of category": {"categories": {"1": ["a", 2], "2": [f"id {i}" for i in range(40)]}},
    "number of categories": {"categories": {"1": ["a", "b", "c"], "2": [f"id {i}" for i in range(40)]}},
    "column of categories": {"categories": {"1": ["a", "b"], "3": [f"id {i}" for i in range(40)]}},
    "NaN in embedding": {"embedding": {"1": np.array([[0.0], [np.nan]]), "2": np.zeros((40, 1))}},
    "width of embedding": {"embedding": {"1": np.zeros((2, 2)), "2": np.zeros((40, 1))}},
    "extra embedding": {"embedding": {"1": np.eye(2)[:, 1:], "2": np.zeros((40, 1)), "3": np.zeros((1, 1))}},
}


def test_the_unchanged_state_is_valid(state):
    assert TableEncoder.from_state(state).groups.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", MANIPULATIONS)
def test_a_manipulated_state_raises(state, name):
    with pytest.raises((ValueError, TypeError, KeyError)):
        TableEncoder.from_state(state | MANIPULATIONS[name])


@pytest.mark.parametrize("key", ["kinds", "groups", "mean", "scale", "categories", "embedding", "names"])
def test_a_missing_entry_raises(state, key):
    del state[key]
    with pytest.raises(KeyError):
        TableEncoder.from_state(state)
