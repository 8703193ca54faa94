"""StableMiss and StableMiss+: rows are weighted first, then the predictor is trained."""

from dataclasses import replace

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.methods.stablemiss import DECORRELATION_TERMS, StableMiss
from stablemiss.methods.stablemiss_plus import StableMissPlus
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression

QUICK = {"hidden": 8, "max_epochs": 3}


def draw(seed, n=300, d=4):
    """Correlated columns that are often missing together."""
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


@pytest.mark.parametrize("decorrelate", [name for name in DECORRELATION_TERMS if name != "none"])
@pytest.mark.parametrize("form", ["weighted", "paper"])
def test_with_a_large_penalty_it_equals_the_unweighted_fit(decorrelate, form):
    """Equal weights change neither initial parameters nor batches: predictions are identical."""
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
    weighting = predictor.weighting
    assert len(weighting.weight) == 800
    assert weighting.effective_rows < 790
    assert sum(weighting.after.values()) < sum(weighting.before.values())
    plain = fit(StableMiss(decorrelate="none", **QUICK), values, mask, y)
    assert (predictor.predict(values, mask) != plain.predict(values, mask)).any()


@pytest.mark.parametrize("method", [StableMiss(decorrelate="full", **QUICK), StableMissPlus(**QUICK)])
def test_missing_values_influence_neither_weights_nor_predictions(method):
    values, mask, y = draw(1)
    other = np.where(mask, values, 1e6)
    one, two = (fit(method, table, mask, y) for table in (values, other))
    np.testing.assert_array_equal(one.weighting.weight, two.weighting.weight)
    np.testing.assert_array_equal(one.predict(values, mask), two.predict(other, mask))


@pytest.mark.parametrize("method", [StableMiss(decorrelate="full", **QUICK), StableMissPlus(**QUICK)])
def test_fitted_weights_multiply_the_sample_weights(method):
    """With a large penalty, the weights are the sample weights."""
    values, mask, y = draw(2)
    weight = np.where(np.arange(len(y)) % 3 == 0, 3.0, 1.0)
    method = type(method)(**method.get_params() | {"strength": 1e9})
    expected = weight[:240] / weight[:240].mean()
    np.testing.assert_allclose(fit(method, values, mask, y, weight).weighting.weight, expected, rtol=1e-5)


@pytest.mark.parametrize("method", [StableMiss(decorrelate="full", **QUICK), StableMissPlus(**QUICK)])
def test_weights_do_not_depend_on_the_target(method):
    """The weights are the same for one number, several numbers, and classes."""
    values, mask, y = draw(3)
    several = np.column_stack([y, -y, y**2])
    labels = (y > 0).astype(int)
    weights = [
        fit(method, values, mask, target, task=task).weighting.weight
        for target, task in ((y, None), (several, None), (labels, Classification.of(labels)))
    ]
    np.testing.assert_array_equal(weights[0], weights[1])
    np.testing.assert_array_equal(weights[0], weights[2])


def test_dependence_within_a_group_is_ignored():
    """Two encoded columns of one original column are always missing together, which weights cannot change."""
    rng = to_rng(0)
    values = rng.normal(size=(2000, 2))
    mask = np.repeat(rng.uniform(size=(2000, 1)) < 0.5, 2, axis=1)
    y = values.sum(axis=1)
    task = Regression.of(y)
    method = StableMiss(decorrelate="full", **QUICK)
    separate = MaskedData.of(values, mask, task.encode(y))
    grouped = replace(separate, groups=np.zeros(2, dtype=int))
    spread = {}
    for name, data in (("separate", separate), ("grouped", grouped)):
        train, valid = data.rows(np.arange(1600)), data.rows(np.arange(1600, 2000))
        spread[name] = method.fit(train, valid, task, to_rng(0), NullProgress()).weighting.weight.std()
    assert spread["grouped"] < 1e-6 < 0.1 < spread["separate"]
