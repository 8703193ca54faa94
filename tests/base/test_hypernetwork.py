"""StableMiss and StableMiss+: rows are weighted first, then the predictor is trained."""

from dataclasses import replace

import numpy as np
import pytest

from stablemiss.base.hypernetwork import HypernetworkPredictor
from stablemiss.data import MaskedData
from stablemiss.decorrelation import Weighting
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


# Weights that differ clearly: nearly without penalty, and so large a penalty that all weights are equal.
GAMMAS = (0.1, 5.0, 1e9)


@pytest.mark.parametrize("gammas", [GAMMAS, GAMMAS[::-1]], ids=["rising", "falling"])
@pytest.mark.parametrize(
    ("patience", "loss"),
    [
        (8, lambda history: min(history.scores)),
        # Without early stopping no validation row has an influence, so the training loss decides.
        (None, lambda history: history.losses[-1][0]),
    ],
    ids=["early stopping", "all epochs"],
)
def test_of_several_penalties_the_one_with_the_lowest_loss_is_kept(patience, loss, gammas):
    """Predictions are those of the best of the separate fits."""
    values, mask, y = draw(0, n=200)
    settings = {**QUICK, "decorrelate": "full", "form": "paper", "patience": patience}
    fits = [fit(StableMiss(gamma=gamma, **settings), values, mask, y) for gamma in gammas]
    losses = [loss(one.history[0]) for one in fits]
    assert len(set(losses)) == len(gammas)  # otherwise the test would be vacuous
    best = fits[np.argmin(losses)]
    chosen = fit(StableMiss(gamma=gammas, **settings), values, mask, y)
    assert chosen.weighting.gamma == best.weighting.gamma
    np.testing.assert_array_equal(chosen.weighting.weight, best.weighting.weight)
    np.testing.assert_array_equal(chosen.predict(values, mask), best.predict(values, mask))


class TwoCandidates(StableMiss):
    """Equal weights, and weights of those rows alone whose target is zero."""

    def learn_row_weights(self, train, rng, progress):
        weight = np.where(train.target[:, 0] == 0, 1.0, 1e-6)
        weight /= weight.mean()
        return [
            None,
            Weighting(weight, effective_rows=1.0, gamma=0.0, critical_gamma=1.0, before={}, after={}),
        ]


@pytest.mark.parametrize(("patience", "has_weights"), [(8, False), (None, True)])
def test_weights_with_a_low_training_loss_and_a_high_validation_loss(patience, has_weights):
    """Half of the rows have the target zero, whatever their columns: they are fitted easily, and it does not
    help to predict the others."""
    values, mask, _ = draw(0, d=2)
    y = np.where(np.arange(len(values)) % 2 == 0, 0.0, 10 + values.sum(axis=1))
    task = Regression(np.zeros(1), np.ones(1), single=True)
    method = TwoCandidates(hidden=8, max_epochs=20, learning_rate=1e-2, patience=patience)
    predictor = fit(method, values, mask, y, task=task)
    assert (predictor.weighting is not None) == has_weights


@pytest.mark.parametrize("method", [StableMiss(decorrelate="full", **QUICK), StableMissPlus(**QUICK)])
def test_the_effective_share_belongs_to_the_weights_of_the_training_rows(method):
    values, mask, y = draw(0)
    weight = np.where(np.arange(len(y)) % 3 == 0, 3.0, 1.0)
    predictor = fit(method, values, mask, y, weight)
    fitted = predictor.weighting.weight
    assert predictor.effective_share == pytest.approx(fitted.sum() ** 2 / (240 * (fitted**2).sum()))
    assert 0 < predictor.effective_share < 0.99
    loaded = HypernetworkPredictor.from_state(predictor.state(), values.shape[1], Regression.of(y))
    assert loaded.effective_share is None


def test_without_weights_there_is_no_effective_share():
    assert fit(StableMiss(**QUICK), *draw(0)).effective_share is None


def test_one_cycle_runs_all_epochs_and_ends_with_small_steps():
    """Pure noise: adaptive training stops early; one cycle does not, and its last epochs change little."""
    values, mask, _ = draw(0)
    y = to_rng(1).normal(size=len(values))
    losses = {
        schedule: fit(
            StableMiss(max_epochs=40, patience=1, learning_rate=0.02, schedule=schedule), values, mask, y
        )
        .history[0]
        .losses
        for schedule in ("adaptive", "one_cycle")
    }
    assert len(losses["adaptive"]) < 40 == len(losses["one_cycle"])
    changes = np.abs(np.diff([loss for (loss,) in losses["one_cycle"]]))
    assert changes[-3:].max() < 0.2 * changes.max()
