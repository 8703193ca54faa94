"""What StableMiss and StableMiss+ share: rows are weighted first, and then the predictor is learnt."""

from dataclasses import replace

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.methods.stablemiss import TERMS_OF, StableMiss
from stablemiss.methods.stablemiss_plus import StableMissPlus
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression

QUICK = {"hidden": 8, "max_epochs": 3}


def draw(seed, n=300, d=4):
    """Correlated columns, hidden together more often than alone."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    mask = rng.uniform(size=(n, d)) < rng.choice([0.5, 0.95], size=(n, 1))
    return values, mask, values.sum(axis=1) + rng.normal(size=n)


def fit(method, values, mask, y, weight=None, task=None, seed=0):
    task = task or Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y), weight)
    n = len(data) - len(data) // 5
    train, valid = data.rows(np.arange(n)), data.rows(np.arange(n, len(data)))
    return method.fit(train, valid, task, to_rng(seed), NullProgress())


@pytest.mark.parametrize("decorrelate", [name for name in TERMS_OF if name != "none"])
@pytest.mark.parametrize("form", ["weighted", "paper"])
def test_at_a_prohibitive_penalty_nothing_but_the_plain_fit_is_left(decorrelate, form):
    """Equal weights are no weights: same start, same order of rows, same bits."""
    values, mask, y = draw(0)
    weighted = fit(StableMiss(decorrelate=decorrelate, form=form, gamma=1e9, **QUICK), values, mask, y)
    plain = fit(StableMiss(decorrelate="none", **QUICK), values, mask, y)
    np.testing.assert_allclose(weighted.weighting.weight, 1.0)
    assert plain.weighting is None
    np.testing.assert_array_equal(weighted.predict(values, mask), plain.predict(values, mask))


@pytest.mark.parametrize("method", [StableMiss(decorrelate="full", **QUICK), StableMissPlus(**QUICK)])
@pytest.mark.parametrize("seed", range(1))
def test_weights_lower_the_dependence_and_reach_the_predictor(method, seed):
    values, mask, y = draw(seed, n=1000)
    predictor = fit(method, values, mask, y)
    found = predictor.weighting
    assert len(found.weight) == 800
    assert found.effective_rows < 790
    assert sum(found.after.values()) < sum(found.before.values())
    plain = fit(StableMiss(decorrelate="none", **QUICK), values, mask, y)
    assert (predictor.predict(values, mask) != plain.predict(values, mask)).any()


@pytest.mark.parametrize("method", [StableMiss(decorrelate="full", **QUICK), StableMissPlus(**QUICK)])
def test_neither_weights_nor_predictions_depend_on_what_hidden_cells_hold(method):
    values, mask, y = draw(1)
    other = np.where(mask, values, 1e6)
    one, two = (fit(method, table, mask, y) for table in (values, other))
    np.testing.assert_array_equal(one.weighting.weight, two.weighting.weight)
    np.testing.assert_array_equal(one.predict(values, mask), two.predict(other, mask))


@pytest.mark.parametrize("method", [StableMiss(decorrelate="full", **QUICK), StableMissPlus(**QUICK)])
def test_learnt_weights_multiply_those_the_rows_have(method):
    """At a prohibitive penalty the rows' own weights are what is left."""
    values, mask, y = draw(2)
    weight = np.where(np.arange(len(y)) % 3 == 0, 3.0, 1.0)
    method = type(method)(**method.get_params() | {"strength": 1e9})
    own = weight[:240] / weight[:240].mean()
    np.testing.assert_allclose(fit(method, values, mask, y, weight).weighting.weight, own, rtol=1e-5)


@pytest.mark.parametrize("method", [StableMiss(decorrelate="full", **QUICK), StableMissPlus(**QUICK)])
def test_targets_have_no_part_in_the_weights(method):
    """Numbers, several of them or classes: the weights are the same, and all can be learnt with them."""
    values, mask, y = draw(3)
    several = np.column_stack([y, -y, y**2])
    labels = (y > 0).astype(int)
    found = [
        fit(method, values, mask, target, task=task).weighting.weight
        for target, task in ((y, None), (several, None), (labels, Classification.of(labels)))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_parts_of_one_column_do_not_count_as_dependent():
    """Two halves of a split column are always hidden together; nothing can or should be done about that."""
    rng = to_rng(0)
    values = rng.normal(size=(2000, 2))
    mask = np.repeat(rng.uniform(size=(2000, 1)) < 0.5, 2, axis=1)
    y = values.sum(axis=1)
    task = Regression.of(y)
    method = StableMiss(decorrelate="full", **QUICK)
    apart = MaskedData.of(values, mask, task.encode(y))
    together = replace(apart, groups=np.zeros(2, dtype=int))
    spread = {}
    for name, data in (("apart", apart), ("together", together)):
        train, valid = data.rows(np.arange(1600)), data.rows(np.arange(1600, 2000))
        spread[name] = method.fit(train, valid, task, to_rng(0), NullProgress()).weighting.weight.std()
    assert spread["together"] < 1e-6 < 0.1 < spread["apart"]


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (StableMiss(decorrelate="all"), "decorrelate='all' is unknown"),
        (StableMiss(decorrelate="full", strength=-1), "must not be negative"),
        (StableMiss(decorrelate="none", form="other"), "form='other' is unknown"),
        (StableMissPlus(strength=-1), "strength=-1 is too small"),
        (StableMissPlus(n_directions=0), "at least 1"),
        (StableMissPlus(n_directions=2.5), "n_directions=2.5 must be a whole number"),
    ],
)
def test_what_cannot_be_is_refused_in_words(method, reason):
    with pytest.raises(ValueError, match=reason):
        fit(method, *draw(0, n=50))
