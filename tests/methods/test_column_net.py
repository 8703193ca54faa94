"""What is special about the augmented net: it fills what it does not see, and scales do not matter to it."""

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.methods.column_net import ColumnNet, _quantiles
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression

SMALL = {"width": 64, "depth": 2, "steps": 400}


def fit(method, values, mask, y, seed=0):
    task = Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y))
    n = len(data) - len(data) // 5
    train, valid = data.rows(np.arange(n)), data.rows(np.arange(n, len(data)))
    return method.fit(train, valid, task, to_rng(seed), NullProgress()), task


def draw(seed, n=1500):
    """x₁ is nearly a bent copy of x₀, on which y depends; nothing is missing."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, 4))
    values[:, 1] = np.exp(2 * values[:, 0]) + 0.01 * values[:, 1]
    return values, np.ones((n, 4), dtype=bool), np.sin(2 * values[:, 0])


@pytest.mark.parametrize("seed", range(2))
def test_a_column_that_goes_dark_is_made_up_for_by_its_bent_copy(seed):
    values, mask, y = draw(seed)
    predictor, task = fit(ColumnNet(**SMALL), values, mask, y, seed)
    new, dark, new_y = draw(seed + 100)
    dark[:, 0] = False
    error = task.decode(predictor.predict(new, dark)) - new_y
    assert np.mean(error**2) < 0.15 * new_y.var()


def test_the_scale_of_a_column_does_not_matter():
    values, mask, y = draw(0, n=400)
    one, _ = fit(ColumnNet(**SMALL), values, mask, y)
    other, _ = fit(ColumnNet(**SMALL), values * 64, mask, y)
    np.testing.assert_allclose(one.predict(values, mask), other.predict(values * 64, mask), atol=1e-3)


def test_cuts_are_ascending_and_scores_follow_the_ranks():
    rng = to_rng(0)
    values = np.column_stack(
        [rng.normal(size=500), rng.integers(3, size=500), np.zeros(500), rng.normal(size=500)]
    )
    mask = np.ones((500, 4), dtype=bool)
    mask[:, 3] = False
    cuts, scores = _quantiles(MaskedData.of(values, mask, np.zeros(500)), 16)
    assert (np.diff(cuts, axis=1) >= 0).all()
    assert (np.diff(scores, axis=1) >= 0).all()
    assert np.unique(cuts[1]).tolist() == [0, 1, 2]
    assert (cuts[2] == 0).all()
    assert (cuts[3] == 0).all()
    assert abs(scores[0][8]) < 0.01


def test_what_cannot_be_is_refused():
    values, mask, y = draw(0, n=50)
    for setting, reason in [
        ({"width": 0}, "width=0"),
        ({"width": 2.5}, "width=2.5"),
        ({"fill": -1}, "fill=-1"),
    ]:
        with pytest.raises(ValueError, match=reason):
            fit(ColumnNet(**setting), values, mask, y)
