"""MaskDRO: the weights of the mechanisms, their masks, and what the network gains under the worst of them."""

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.methods import mask_dro
from stablemiss.methods.constant import Constant
from stablemiss.methods.mask_dro import GroupWeights, MaskDRO, MaskGroups
from stablemiss.missingness import MCARIndependent, MCARWindow, Outage
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Regression

FLOOR = 0.2


def fit(method, values, y, seed=0):
    """Fit complete rows, the last fifth of them as validation rows."""
    task = Regression.of(y)
    data = MaskedData.of(values, np.ones(values.shape), task.encode(y))
    n_train = len(data) - len(data) // 5
    train, valid = data.rows(np.arange(n_train)), data.rows(np.arange(n_train, len(data)))
    return method.fit(train, valid, task, to_rng(seed), NullProgress()), task


@pytest.mark.parametrize("seed", range(5))
def test_the_weight_of_the_worst_group_rises_in_every_step_until_the_floors_stop_it(seed):
    losses = to_rng(seed).permutation(6) / 6
    worst = np.argmax(losses)
    weights = GroupWeights(6, step_size=0.1, floor=FLOOR)
    path = [weights.q]
    for _ in range(3000):
        weights.update(losses)
        path.append(weights.q)
    rise = np.diff([q[worst] for q in path])
    assert rise[0] > 0
    assert (rise > -1e-12).all()
    np.testing.assert_allclose(np.delete(weights.q, worst), FLOOR / 6)
    assert weights.q[worst] == pytest.approx(1 - 5 * FLOOR / 6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e300])
@pytest.mark.parametrize("seed", range(3))
def test_no_weight_falls_below_the_floor_and_they_sum_to_one(seed, scale):
    rng = to_rng(seed)
    weights = GroupWeights(6, step_size=1.0, floor=FLOOR)
    for _ in range(200):
        weights.update(scale * rng.normal(size=6) * [1, 1, 1, 1, 1, 100])
        assert weights.q.min() >= FLOOR / 6 - 1e-15
        assert weights.q.sum() == pytest.approx(1.0)


def test_weights_above_the_floor_are_those_of_the_exponentiated_gradient():
    losses = np.array([0.1, 0.5, 0.9])
    weights = GroupWeights(3, step_size=0.1, floor=FLOOR)
    for _ in range(4):
        weights.update(losses)
    expected = np.exp(0.4 * losses)
    np.testing.assert_allclose(weights.q, expected / expected.sum())


def test_a_group_that_becomes_the_worst_regains_its_weight_within_few_steps():
    """Without a floor its weight would have to grow from almost nothing."""
    with_floor, without = (GroupWeights(2, step_size=0.5, floor=floor) for floor in (FLOOR, 0.0))
    for weights in (with_floor, without):
        for losses in [np.array([1.0, 0.0])] * 200 + [np.array([0.0, 1.0])] * 20:
            weights.update(losses)
    assert with_floor.q[1] > 0.6
    assert without.q[1] < 1e-6


def test_without_a_floor_a_weight_that_was_rounded_to_zero_can_rise_again():
    weights = GroupWeights(3, step_size=1e6, floor=0.0)
    for worst in (0, 2, 1):
        weights.update(np.arange(3) == worst)
        np.testing.assert_allclose(weights.q, np.arange(3) == worst, atol=1e-12)


@pytest.mark.parametrize(("step_size", "floor"), [(0.0, 0.0), (1.0, 1.0)])
def test_without_steps_or_with_the_highest_floor_weights_stay_equal(step_size, floor):
    weights = GroupWeights(3, step_size, floor)
    weights.update(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(weights.q, 1 / 3)


def test_a_loss_that_is_not_finite_changes_nothing():
    weights = GroupWeights(2, 1.0, 0.1)
    weights.update(np.array([1.0, np.inf]))
    assert weights.q.tolist() == [0.5, 0.5]


def test_losses_that_are_not_finite_cause_no_further_warning(monkeypatch):
    """The training loop reports that training diverged; one sentence is enough."""
    calls = []
    monkeypatch.setattr(mask_dro, "train_network", lambda *arguments: calls.append(arguments) or [])
    values = to_rng(0).normal(size=(100, 3))
    fit(MaskDRO(hidden=(4,)), values, values[:, 0])
    _, network, [step], rows, *_ = calls[0]
    network.float()
    assert step.loss(rows).isfinite()
    rows.target.fill_(np.nan)
    assert step.loss(rows).isnan()


def test_each_group_has_the_masks_of_its_mechanism_and_about_equally_many_rows():
    """Encoded columns 1 and 2 belong to one column of the user's table."""
    mechanisms = [MCARIndependent(0.0), MCARWindow(0.5, spread=0.0), Outage([1])]
    groups = MaskGroups(mechanisms, np.array([0, 1, 1, 2, 3]))
    group, keep = groups.draw(100, to_rng(0))
    assert sorted(np.bincount(group)) == [33, 33, 34]
    assert keep[group == 0].all()
    assert (keep[:, 1] == keep[:, 2]).all()
    assert (keep[group == 1][:, [0, 1, 3, 4]].sum(axis=1) == 2).all()
    assert (keep[group == 2] == [True, False, False, True, True]).all()


def test_validation_copies_have_every_row_in_every_group():
    data = MaskedData.of(np.arange(8.0).reshape(4, 2), np.ones((4, 2)), np.arange(4.0)[:, None])
    copies = MaskGroups([MCARIndependent(0.0), Outage([0])], np.arange(2)).copies(data, to_rng(0))
    np.testing.assert_array_equal(copies.values[:4], data.values)
    np.testing.assert_array_equal(copies.mask[4:], [[False, True]] * 4)
    np.testing.assert_array_equal(copies.values[4:, 0], 0.0)
    np.testing.assert_array_equal(copies.target[:, 0], [0, 1, 2, 3, 0, 1, 2, 3])


@pytest.mark.parametrize("seed", range(3))
def test_in_training_the_column_that_carries_the_target_becomes_the_worst_to_lose(seed):
    rng = to_rng(seed)
    values = rng.normal(size=(300, 4))
    method = MaskDRO((), 0.0, 4, step_size=0.1, floor=FLOOR, hidden=(16,), learning_rate=0.02, max_epochs=6)
    predictor, _ = fit(method, values, values[:, 2] + 0.1 * rng.normal(size=300), seed)
    weights = predictor.group_weights
    assert len(weights) == 5
    assert max(weights, key=weights.get) == str(Outage([2]))
    assert min(weights.values()) >= FLOOR / 5 - 1e-12
    assert sum(weights.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_robust_weights_lower_the_loss_under_the_worst_mechanism(seed):
    """y = x₀, x₁ = x₀ + noise. A linear network cannot use x₁ only where x₀ is missing: robust training
    relies more on x₁, which costs accuracy where x₀ is observed and gains where it is missing. There the
    loss comes close to that of a regression on x₁ alone."""
    rng = to_rng(seed)
    x, noise = rng.normal(size=(2, 800))
    values = np.column_stack([x, x + 0.7 * noise])
    missing = np.column_stack([np.zeros(800), np.ones(800)])
    losses = []
    for step_size in (0.0, 0.2):
        method = MaskDRO((), 0.0, 1, step_size=step_size, floor=0.05, hidden=(), learning_rate=0.02)
        predictor, task = fit(method.set_params(max_epochs=15, patience=None), values, x, seed)
        target = task.encode(x)
        losses.append(
            [
                ((predictor.predict(values, mask) - target) ** 2).mean()
                for mask in (missing == missing, missing)
            ]
        )
    equal, robust = losses
    best = 1 - np.corrcoef(values[:, 1], x)[0, 1] ** 2
    assert equal[1] > 2 * equal[0]
    assert robust[1] - best < 0.5 * (equal[1] - best)
    assert robust[0] > equal[0]


@pytest.mark.parametrize("seed", range(2))
def test_relative_to_a_linear_prediction_a_mechanism_that_is_merely_hard_attracts_less_weight(seed):
    rng = to_rng(seed)
    values = rng.normal(size=(400, 4))
    weight = {}
    for reference in ("none", "linear"):
        method = MaskDRO(
            (0.9,), 0.0, 0, reference, step_size=0.1, hidden=(), learning_rate=0.02, max_epochs=8
        )
        predictor, _ = fit(method, values, values.sum(axis=1), seed)
        weight[reference] = list(predictor.group_weights.values())[-1]
    assert weight["none"] > 0.8
    assert weight["linear"] < 0.7


@pytest.mark.parametrize("seed", range(3))
def test_on_independent_columns_it_is_better_than_the_constant_at_all_levels(seed, errors_on_gaussian_ind):
    """Gaussian-Ind, half of the values missing in training."""
    methods = {"dro": MaskDRO(hidden=(32,), learning_rate=0.01, max_epochs=8), "constant": Constant()}
    rmse = errors_on_gaussian_ind(methods, seed, test_levels=(0.1, 0.5), n_rows=2048)
    for dro, constant, optimal in zip(rmse["dro"], rmse["constant"], rmse["optimal"], strict=True):
        assert dro < 0.95 * constant
        assert optimal < dro
