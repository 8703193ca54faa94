"""What is special about AnyMask: members, a stack that finds the better one, and columns that may vanish."""

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.methods.anymask import AnyMask
from stablemiss.methods.boosting import Boosting
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression
from stablemiss.torch_state import torch_threads


def fit(method, values, mask, y, task=None, seed=0):
    task = task or Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y))
    n = len(data) - len(data) // 5
    train, valid = data.rows(np.arange(n)), data.rows(np.arange(n, len(data)))
    return method.fit(train, valid, task, to_rng(seed), NullProgress()), task


def draw(seed, n=1000):
    """Complete rows in which x₀ tells nearly all and x₁ nearly as much."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, 4))
    values[:, 1] = values[:, 0] + 0.3 * values[:, 1]
    return values, np.ones((n, 4), dtype=bool), 3 * values[:, 0] + values[:, 2]


@pytest.mark.parametrize("seed", range(2))
def test_a_sensor_that_dies_costs_little_where_plain_trees_fail(seed):
    values, mask, y = draw(seed)
    new, dark, new_y = draw(seed + 100)
    dark[:, 0] = False

    def error(method):
        predictor, task = fit(method, values, mask, y, seed=seed)
        return np.sqrt(np.mean((task.decode(predictor.predict(new, dark)) - new_y) ** 2))

    # With x₀ known only through x₁ the best possible error is 3 · 0.3 / √1.09 ≈ 0.86.
    assert error(AnyMask("fast")) < 1.1 < 1.5 < error(Boosting())


def test_leaving_out_a_member_does_not_change_the_others():
    values, mask, y = draw(0, n=200)
    both, _ = fit(AnyMask("fast"), values, mask, y)
    alone, _ = fit(AnyMask("fast", members=["net"]), values, mask, y)
    one, other = (found.members["net"].predict(values, mask) for found in (both, alone))
    np.testing.assert_array_equal(one, other)


def test_the_number_of_threads_changes_nothing():
    """With one thread members are fitted in turn, with more the net beside the others."""
    values, mask, y = draw(0, n=300)
    found = []
    for n_threads in (1, 2, 3):
        with torch_threads(n_threads):
            found.append(fit(AnyMask("fast"), values, mask, y)[0].predict(values, mask))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_members_can_be_left_out():
    values, mask, y = draw(0, n=200)
    predictor, _ = fit(AnyMask("fast", members=["boosting"]), values, mask, y)
    assert set(predictor.members) <= {"constant", "boosting"}
    predictor, _ = fit(AnyMask(members=["mixture"]), values, mask, y)
    assert set(predictor.members) <= {"constant", "mixture"}


def test_columns_that_never_go_are_relied_upon():
    """Told that x₀ is always there, the model leans on it alone and is better where it is there."""
    values, mask, y = draw(1, n=600)
    new, seen, new_y = draw(101)

    def error(**settings):
        predictor, task = fit(AnyMask("fast", members=["net"], **settings), values, mask, y)
        return np.sqrt(np.mean((task.decode(predictor.predict(new, seen)) - new_y) ** 2))

    assert error(never_missing=[0, 1, 2, 3]) < error()
    assert error(never_missing=[0, 1]) == error(may_vanish=[2, 3])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"budget": "huge"}, "budget='huge' is unknown"),
        ({"members": ["trees"]}, "members must be some of"),
        ({"members": []}, "members must be some of"),
        ({"may_vanish": [0], "never_missing": [1]}, "not both"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(settings, reason):
    with pytest.raises(ValueError, match=reason):
        fit(AnyMask(**settings), *draw(0, n=60))
