"""StableMiss: one network generates a predictor for each mask."""

import time

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs

from stablemiss import StableMissRegressor, load_model
from stablemiss.base.hypernetwork import HypernetworkPredictor
from stablemiss.data import MaskedData
from stablemiss.methods.stablemiss import StableMiss
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression

ARCHITECTURES = [StableMiss(), StableMiss("mlp", hidden=32), StableMiss("mlp", hidden=32, rank=4)]
NAMES = ["linear", "mlp", "low rank"]


def fit(method, data, task, seed=0):
    """Fit with the last fifth of the rows as validation rows."""
    n = len(data) - len(data) // 5
    train, valid = data.rows(np.arange(n)), data.rows(np.arange(n, len(data)))
    return method.fit(train, valid, task, to_rng(seed), NullProgress())


def equal_columns(seed, n=600, observed=0.7):
    """Y = X₁ + X₂ + X₃ with X₁ = X₂: the coefficient of each must double if the other is missing."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, 3))
    values[:, 1] = values[:, 0]
    return values, rng.uniform(size=(n, 3)) < observed, values.sum(axis=1)


def bayes(values, mask):
    """E[y | observed] for the equal columns."""
    value = np.where(mask[:, 0], values[:, 0], values[:, 1]) * (mask[:, 0] | mask[:, 1])
    return 2.0 * value + values[:, 2] * mask[:, 2]


@pytest.mark.parametrize("method", ARCHITECTURES, ids=NAMES)
@pytest.mark.parametrize("seed", range(2))
def test_a_missing_column_is_replaced_by_its_copy(method, seed):
    """No single linear map can do that: with one coefficient per column the error is at least 0.33."""
    values, mask, y = equal_columns(seed, n=1500)
    task = Regression.of(y)
    predictor = fit(method, MaskedData.of(values, mask, task.encode(y)), task, seed)
    new, new_mask, _ = equal_columns(seed + 100)
    error = task.decode(predictor.predict(new, new_mask)) - bayes(new, new_mask)
    assert np.mean(error**2) < 0.02


def test_several_targets_are_fitted_together():
    values, mask, y = equal_columns(3)
    target = np.column_stack([y, -3.0 * values[:, 2]])
    task = Regression.of(target)
    predictor = fit(StableMiss(), MaskedData.of(values, mask, task.encode(target)), task)
    complete = np.ones_like(mask)
    error = task.decode(predictor.predict(values, complete)) - target
    assert (np.mean(error**2, axis=0) < 0.05 * target.var(axis=0)).all()


@pytest.mark.parametrize("method", ARCHITECTURES, ids=NAMES)
@pytest.mark.parametrize("n", [100, 300])
def test_blobs_are_classified(method, n):
    values, labels = make_blobs(n_samples=n, random_state=0, cluster_std=0.6)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    task = Classification.of(labels)
    mask = to_rng(0).uniform(size=values.shape) < 0.95
    predictor = fit(method, MaskedData.of(values, mask, task.encode(labels)), task)
    assert np.mean(task.decode(predictor.predict(values, mask)) == labels) > 0.9


def test_predictions_of_a_noise_target_stay_near_its_mean():
    rng = to_rng(0)
    data = MaskedData.of(
        rng.normal(size=(300, 8)), rng.uniform(size=(300, 8)) < 0.5, rng.normal(size=(300, 1))
    )
    predictor = fit(StableMiss(), data, Regression(np.zeros(1), np.ones(1), single=True))
    assert np.std(predictor.predict(data.values, data.mask)) < 0.4


@pytest.mark.parametrize("method", ARCHITECTURES, ids=NAMES)
def test_a_predictor_rebuilt_from_its_state_gives_identical_predictions(method):
    values, mask, y = equal_columns(1, n=100)
    task = Regression.of(y)
    predictor = fit(method, MaskedData.of(values, mask, task.encode(y)), task)
    before = torch.get_rng_state()
    again = HypernetworkPredictor.from_state(predictor.state(), values.shape[1], task)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(again.predict(values, mask), predictor.predict(values, mask))


def test_a_state_is_a_copy():
    values, mask, y = equal_columns(1, n=60)
    task = Regression.of(y)
    predictor = fit(StableMiss(max_epochs=2), MaskedData.of(values, mask, task.encode(y)), task)
    again = HypernetworkPredictor.from_state(predictor.state(), values.shape[1], task)
    with torch.no_grad():
        for parameter in predictor.network.parameters():
            parameter.zero_()
    assert not np.array_equal(again.predict(values, mask), predictor.predict(values, mask))


def test_predictions_do_not_depend_on_the_number_of_rows():
    values, mask, y = equal_columns(2, n=2500)
    task = Regression.of(y)
    predictor = fit(StableMiss(max_epochs=3), MaskedData.of(values, mask, task.encode(y)), task)
    outputs = predictor.predict(values, mask)
    assert outputs.dtype == np.float64
    np.testing.assert_allclose(
        outputs[1020:1030], predictor.predict(values[1020:1030], mask[1020:1030]), atol=1e-5
    )
    assert predictor.predict(values[:0], mask[:0]).shape == (0, 1)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_rows_without_validation_rows_work(n):
    values, mask, y = equal_columns(0, n=n)
    task = Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y))
    predictor = StableMiss().fit(data, data.rows(np.arange(0)), task, to_rng(0), NullProgress())
    assert np.isfinite(predictor.predict(values, mask)).all()


def test_rows_of_weight_zero_are_ignored():
    values, mask, y = equal_columns(0)
    wrong = np.arange(len(y)) % 2 == 0
    task = Regression.of(y)
    target = task.encode(np.where(wrong, 100.0, y))
    predictor = fit(StableMiss(), MaskedData.of(values, mask, target, weight=1.0 - wrong), task)
    error = task.decode(predictor.predict(values, mask)) - bayes(values, mask)
    assert np.mean(error**2) < 0.1


def test_the_history_records_the_training():
    values, mask, y = equal_columns(0)
    task = Regression.of(y)
    predictor = fit(StableMiss(), MaskedData.of(values, mask, task.encode(y)), task)
    [history] = predictor.history
    assert history.best_score == min(history.scores) < 0.5 * history.scores[0]
    assert len(history.scores) == len(history.losses) + 1
    assert history.ending == "patience"


def test_a_small_table_takes_less_than_two_seconds():
    values, mask, y = equal_columns(0, n=50)
    task = Regression.of(y)
    start = time.process_time()
    fit(StableMiss(), MaskedData.of(values, mask, task.encode(y)), task)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize(
    "gamma", [[0.1, 1.0], (0.1, 1.0), np.array([0.1, 1.0])], ids=["list", "tuple", "array"]
)
def test_an_estimator_with_several_penalties_can_be_cloned_fitted_and_saved(gamma, tmp_path):
    model = StableMissRegressor(
        gamma=gamma, decorrelate="full", form="paper", hidden=8, max_epochs=2, random_state=0
    )
    assert model.get_params()["gamma"] is gamma
    copied = clone(model)
    assert list(copied.gamma) == [0.1, 1.0]
    values, mask, y = equal_columns(0, n=100)
    X = np.where(mask, values, np.nan)
    predictions = model.fit(X, y).predict(X)
    np.testing.assert_array_equal(copied.fit(X, y).predict(X), predictions)
    assert model.predictor_.weighting.gamma in gamma
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), predictions)
    assert list(loaded.gamma) == [0.1, 1.0]
    assert loaded.predictor_.effective_share is None
    np.testing.assert_array_equal(clone(loaded).fit(X, y).predict(X), predictions)


def test_a_single_penalty_equals_a_list_of_it():
    values, mask, y = equal_columns(0, n=100)
    task = Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y))
    settings = {"decorrelate": "full", "form": "paper", "hidden": 8, "max_epochs": 2}
    one, several = (fit(StableMiss(gamma=gamma, **settings), data, task) for gamma in (0.1, [0.1]))
    np.testing.assert_array_equal(one.predict(values, mask), several.predict(values, mask))


@pytest.mark.parametrize(
    ("decorrelate", "gamma", "n_networks"),
    [
        ("none", [0.1, 1e9], 1),
        ("intra", [0.1, 1e9], 2),
        # Weights that are nearly equal to earlier ones are not tried again.
        ("intra", [0.1, 1e9, 0.1001, 2e9], 2),
        ("intra", [1e9, 2e9], 1),
    ],
)
def test_one_network_is_trained_for_each_of_several_different_weightings(
    decorrelate, gamma, n_networks, monkeypatch
):
    calls = []
    original = StableMiss._fit_network
    monkeypatch.setattr(StableMiss, "_fit_network", lambda *args: calls.append(1) or original(*args))
    values, mask, y = equal_columns(0, n=100)
    task = Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y))
    fit(StableMiss(gamma=gamma, decorrelate=decorrelate, form="paper", max_epochs=1), data, task)
    assert len(calls) == n_networks
