"""StableNet: weighted batches and mean imputation."""

import numpy as np
import pytest

from stablemiss.data import MaskedData
from stablemiss.decorrelation import BatchDecorrelator
from stablemiss.methods import stablenet as module
from stablemiss.methods.constant import Constant
from stablemiss.methods.ols import OLS
from stablemiss.methods.stablenet import StableNet, StableNetPredictor
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression

QUICK = {"max_epochs": 3, "inner_steps": 4}


def draw(seed, n=300, d=4, common=1.0):
    """Correlated columns with missing values, and a target linear in them."""
    rng = to_rng(seed)
    values = 2 + rng.normal(size=(n, d)) + common * rng.normal(size=(n, 1))
    mask = rng.uniform(size=(n, d)) < 0.7
    return values, mask, values[:, 0] - values[:, 1] + 0.3 * rng.normal(size=n)


def fit(method, values, mask, y, task=None, weight=None, seed=0):
    task = task or Regression.of(y)
    data = MaskedData.of(values, mask, task.encode(y), weight)
    n = len(data) - len(data) // 5
    train, valid = data.rows(np.arange(n)), data.rows(np.arange(n, len(data)))
    return method.fit(train, valid, task, to_rng(seed), NullProgress())


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_with_a_large_lambda_p_it_equals_the_unweighted_fit(hidden):
    """Same initial parameters, same order of rows, equal weights."""
    values, mask, y = draw(0)
    weighted = fit(StableNet(hidden, **QUICK, lambda_p=1e12), values, mask, y)
    plain = fit(StableNet(hidden, **QUICK | {"inner_steps": 0}), values, mask, y)
    np.testing.assert_allclose(
        weighted.predict(values, mask), plain.predict(values, mask), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("hidden", [(), (8,)])
@pytest.mark.parametrize("memory", ["queue", "blend"])
def test_weights_of_dependent_features_reach_the_predictor(hidden, memory):
    values, mask, y = draw(1)
    method = StableNet(hidden, **QUICK, lambda_p=1.0, memory=memory)
    plain = StableNet(hidden, **QUICK | {"inner_steps": 0})
    weighted, unweighted = (fit(m, values, mask, y).predict(values, mask) for m in (method, plain))
    assert abs(weighted - unweighted).max() > 1e-3


@pytest.mark.parametrize(
    ("settings", "lambda_p"),
    [
        ({}, 2.0),
        ({"use_mask": True}, 2.0),
        ({"hidden": (100,)}, 70 * (100 / 512) ** 2),
        ({"hidden": (150,)}, 70 * (128 / 512) ** 2),
        ({"hidden": (16, 100), "max_columns": 90}, 70 * (90 / 512) ** 2),
    ],
    ids=str,
)
def test_by_default_lambda_p_is_scaled_by_the_square_of_the_number_of_features(settings, lambda_p):
    """The published value is 70 for 512 features; with more than `max_columns`, subsets of them are used."""
    values, mask, y = draw(0)
    default, explicit, literal = (
        fit(StableNet(**settings, **QUICK, lambda_p=each), values, mask, y) for each in (None, lambda_p, 70.0)
    )
    np.testing.assert_array_equal(default.predict(values, mask), explicit.predict(values, mask))
    assert default.effective_share == explicit.effective_share
    assert default.effective_share < literal.effective_share


@pytest.mark.parametrize("d", [30, 50])
def test_the_published_lambda_p_has_no_effect_on_few_columns_and_the_default_decorrelates(d, monkeypatch):
    batches = []

    class Recorded(BatchDecorrelator):
        def __call__(self, features, weight):
            fitted = super().__call__(features, weight)
            batches.append((features.numpy(), fitted.numpy()))
            return fitted

    def mean_correlation(columns, weight):
        """Root mean square over pairs of columns."""
        covariance = np.cov(columns.T, aweights=weight, ddof=0)
        scale = np.sqrt(np.diag(covariance))
        return np.sqrt(np.mean((covariance / np.outer(scale, scale))[np.triu_indices(d, 1)] ** 2))

    monkeypatch.setattr(module, "BatchDecorrelator", Recorded)
    values, mask, y = draw(0, n=2600, d=d, common=0.5)
    shares, changes = {}, {}
    for lambda_p in (70.0, None):
        batches.clear()
        shares[lambda_p] = fit(StableNet(lambda_p=lambda_p, max_epochs=1), values, mask, y).effective_share
        by_hand = [1 / (len(weight) * (weight**2).sum()) for _, weight in batches]
        assert shares[lambda_p] == pytest.approx(np.mean(by_hand), rel=1e-5)
        before, after = (
            np.mean([mean_correlation(columns, w) for columns, w in pairs])
            for pairs in ([(columns, np.ones(len(columns))) for columns, _ in batches], batches)
        )
        changes[lambda_p] = after / before
    assert 0.3 < shares[None] < 0.98 < 0.99 < shares[70.0] <= 1
    assert changes[None] < 0.9 < 0.97 < changes[70.0]


@pytest.mark.parametrize("hidden", [(), (64,)])
def test_with_a_smaller_lambda_p_the_weights_are_less_equal(hidden):
    values, mask, y = draw(0, n=2600, d=50, common=0.5)
    shares = [
        fit(StableNet(hidden, max_epochs=1, lambda_p=lambda_p), values, mask, y).effective_share
        for lambda_p in (2.0, 10.0, 70.0, 300.0)
    ]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1] - 0.05


def test_without_inner_steps_all_rows_are_effective():
    values, mask, y = draw(0)
    predictor = fit(StableNet(**QUICK | {"inner_steps": 0}), values, mask, y)
    assert predictor.effective_share == pytest.approx(1.0)
    loaded = StableNetPredictor.from_state(predictor.state(), values.shape[1], Regression.of(y))
    assert loaded.effective_share is None


def test_missing_values_are_imputed_by_the_weighted_column_mean():
    values, mask, y = draw(2)
    weight = to_rng(0).uniform(0.5, 2.0, size=len(y))
    predictor = fit(StableNet((8,), **QUICK), values, mask, y, weight=weight)
    train = slice(0, 240)
    mean = np.average(np.where(mask, values, 0.0)[train], axis=0, weights=weight[train]) / np.average(
        mask[train], axis=0, weights=weight[train]
    )
    filled = np.where(mask, values, mean)
    np.testing.assert_allclose(
        predictor.predict(filled, np.ones_like(mask)), predictor.predict(values, mask), atol=1e-5
    )


def test_the_mask_is_read_only_with_use_mask():
    """A target equal to a mask indicator cannot be predicted without the mask, and easily with it."""
    values, mask, _ = draw(3, n=400, common=0.0)
    y = mask[:, 0].astype(float)
    task = Regression.of(y)
    losses = {
        use_mask: task.loss(
            fit(
                StableNet(use_mask=use_mask, inner_steps=2, learning_rate=1e-2, max_epochs=20),
                values,
                mask,
                y,
            ).predict(values, mask),
            task.encode(y),
            np.ones(len(y)),
        )
        for use_mask in (False, True)
    }
    assert losses[True] < 0.05 < 0.8 < losses[False]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_on_independent_columns_it_is_as_good_as_least_squares(seed):
    values, mask, y = draw(seed, n=1000, common=0.0)
    new_values, new_mask, new_y = draw(100 + seed, n=2000, common=0.0)
    task = Regression.of(y)
    stablenet, ols = (
        task.loss(
            fit(method, values, mask, y, task).predict(new_values, new_mask),
            task.encode(new_y),
            np.ones(len(new_y)),
        )
        for method in (StableNet(inner_steps=4), OLS())
    )
    assert stablenet < 1.03 * ols


@pytest.mark.parametrize("hidden", [(), (16,)])
@pytest.mark.parametrize("kind", ["several numbers", "classes"])
def test_several_targets_and_classes_are_predicted_better_than_by_a_constant(hidden, kind):
    values, mask, y = draw(4, n=500)
    if kind == "classes":
        target = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
        task = Classification.of(target)
    else:
        target = np.column_stack([y, values[:, 2], -y])
        task = Regression.of(target)
    losses = [
        task.loss(
            fit(method, values, mask, target, task).predict(values, mask),
            task.encode(target),
            np.ones(len(y)),
        )
        for method in (StableNet(hidden, inner_steps=4, learning_rate=1e-2, max_epochs=12), Constant())
    ]
    assert losses[0] < 0.8 * losses[1]


def test_with_a_hidden_layer_it_is_non_linear():
    values, mask, _ = draw(5, n=400, common=0.0)
    mask = np.ones_like(mask)
    y = abs(values[:, 0] - 2)
    task = Regression.of(y)
    linear, non_linear = (
        task.loss(
            fit(StableNet(hidden, inner_steps=2, max_epochs=20), values, mask, y).predict(values, mask),
            task.encode(y),
            np.ones(len(y)),
        )
        for hidden in ((), (16,))
    )
    assert non_linear < 0.3 < 0.9 < linear


def test_the_state_holds_only_the_network_and_refitting_gives_the_same_result():
    values, mask, y = draw(6)
    method = StableNet(**QUICK)
    state = fit(method, values, mask, y).state()
    assert set(state["parameters"]) == {"center", "mlp.last.weight", "mlp.last.bias"}
    # The method keeps no state: a second fit equals the first.
    again = fit(method, values, mask, y).state()
    for name, part in state["parameters"].items():
        np.testing.assert_array_equal(part, again["parameters"][name])


def test_dependence_within_a_group_is_ignored():
    """A column and its copy are decorrelated, unless they are in the same group."""
    values, mask, y = draw(7, d=2)
    values[:, 1], mask[:, 1] = values[:, 0], mask[:, 0]
    task = Regression.of(y)
    fits = {}
    for groups in ((0, 0), (0, 1)):
        data = MaskedData.of(values, mask, task.encode(y), groups=np.array(groups))
        train, valid = data.rows(np.arange(240)), data.rows(np.arange(240, 300))
        method = StableNet(**QUICK, lambda_p=2.0)
        fits[groups] = method.fit(train, valid, task, to_rng(0), NullProgress()).predict(values, mask)
    plain = fit(StableNet(**QUICK | {"inner_steps": 0}), values, mask, y, task).predict(values, mask)
    np.testing.assert_allclose(fits[0, 0], plain, rtol=1e-4, atol=1e-5)
    assert abs(fits[0, 1] - plain).max() > 1e-3
