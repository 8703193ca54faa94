"""The contract of every method."""

import random
from functools import cache

import numpy as np
import pytest
import torch

from stablemiss.data import MaskedData
from stablemiss.methods import METHODS, Constant
from stablemiss.progress import NullProgress
from stablemiss.seeding import to_rng
from stablemiss.tasks import Classification, Regression, task_from_state

KINDS = ["regression", "multi-output", "binary", "three classes"]
# For facts about the rows and their weights, which most methods treat alike for one target and several, and
# for two classes and more: the other two kinds are in the slow suite.
SLOW_KINDS = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("multi-output", "binary")]
BOTH_TASKS = pytest.mark.parametrize("kind", ["regression", "three classes", *SLOW_KINDS])
# For facts about the rows that do not depend on the kind of the target.
SLOW_CLASSES = pytest.param("three classes", marks=pytest.mark.slow)
MOSTLY_REGRESSION = pytest.mark.parametrize("kind", ["regression", SLOW_CLASSES, *SLOW_KINDS])


def in_one_process(names):
    """Tests of one method run in one process, where they share the predictors of `fitted`."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]


def brief(name):
    """Quick to fit: the contract does not depend on the size of the model, and there are hundreds of fits."""
    return METHODS[name](**METHODS[name].brief)


@pytest.fixture(params=in_one_process(METHODS))
def method(request):
    return brief(request.param)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def draw(kind, seed=0, n=80, d=4, observed=0.75):
    """Correlated columns with missing values, a target that is nearly linear in them, and its task."""
    rng = to_rng(seed)
    values = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    mask = rng.uniform(size=(n, d)) < observed
    signal = values[:, 0] + 0.1 * rng.normal(size=n)
    if kind == "regression":
        task, target = Regression.of(signal), signal
    elif kind == "multi-output":
        target = np.column_stack([signal, -2 * values[:, -1], values.sum(axis=1)])
        task = Regression.of(target)
    else:
        n_classes = 2 if kind == "binary" else 3
        task = Classification(np.arange(n_classes))
        target = np.argsort(np.argsort(signal)) * n_classes // n
    return MaskedData.of(values, mask, task.encode(target)), task


def fit(method, data, task, seed=0):
    """Fit, with every fifth row for validation."""
    is_valid = np.arange(len(data)) % 5 == 2
    train, valid = data.rows(np.flatnonzero(~is_valid)), data.rows(np.flatnonzero(is_valid))
    return method.fit(train, valid, task, to_rng(seed), NullProgress())


def predict(predictor, data):
    return predictor.predict(data.values, data.mask)


@cache
def fitted(name, kind):
    """A fitted predictor, shared by tests that do not change it."""
    data, task = draw(kind)
    return fit(brief(name), data, task)


@MOSTLY_REGRESSION
def test_outputs_are_finite_and_have_one_row_per_sample(method, kind):
    data, task = draw(kind)
    outputs = predict(fitted(method.name, kind), data)
    assert outputs.shape == (len(data), task.d_output)
    assert outputs.dtype == np.float64
    assert np.isfinite(outputs).all()


@BOTH_TASKS
def test_the_same_seed_gives_the_same_result_and_global_random_states_are_unchanged(method, kind):
    data, task = draw(kind)

    def states():
        return str(np.random.get_state()), random.getstate(), torch.get_rng_state().tolist()  # noqa: NPY002

    first = predict(fitted(method.name, kind), data)
    before = states()
    second = predict(fit(method, data, task), data)
    assert states() == before
    np.testing.assert_array_equal(first, second)


def test_fitting_changes_neither_the_method_nor_the_data(method):
    data, task = draw("regression")
    settings, values, mask = method.get_params(), data.values.copy(), data.mask.copy()
    fit(method, data, task)
    assert method.get_params() == settings
    np.testing.assert_array_equal(data.values, values)
    np.testing.assert_array_equal(data.mask, mask)


@BOTH_TASKS
def test_hidden_values_have_no_influence(method, kind):
    data, task = draw(kind)
    garbage = np.where(data.mask, data.values, [np.nan, np.inf, -1e9, 5.0])
    predictor = fitted(method.name, kind)
    refitted = fit(method, MaskedData.of(garbage, data.mask, data.target), task)
    np.testing.assert_array_equal(predictor.predict(garbage, data.mask), predict(predictor, data))
    np.testing.assert_array_equal(predict(refitted, data), predict(predictor, data))


@BOTH_TASKS
def test_a_row_has_the_same_prediction_alone_in_a_batch_and_in_any_order(method, kind):
    data, _ = draw(kind)
    predictor = fitted(method.name, kind)
    together = predict(predictor, data)
    order = to_rng(0).permutation(len(data))
    np.testing.assert_allclose(predict(predictor, data.rows(order)), together[order], rtol=1e-5, atol=1e-6)
    for row in range(0, len(data), 17):
        alone = predict(predictor, data.rows(np.array([row])))
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-5, atol=1e-6)


@MOSTLY_REGRESSION
def test_entirely_missing_rows_and_columns_are_accepted(method, kind):
    data, task = draw(kind)
    keep = np.ones_like(data.mask)
    keep[::10] = False
    keep[:, 1] = False
    incomplete = data.keep_where(keep)
    predictor = fit(method, incomplete, task)
    assert np.isfinite(predict(predictor, incomplete)).all()
    # A column that was missing in training, and a table without a single value.
    assert np.isfinite(predict(predictor, data)).all()
    assert np.isfinite(predict(predictor, data.keep_where(np.zeros_like(keep)))).all()


@MOSTLY_REGRESSION
def test_values_may_be_missing_after_training_on_complete_data(method, kind):
    incomplete, task = draw(kind)
    complete, _ = draw(kind, observed=1.1)
    assert np.isfinite(predict(fit(method, complete, task), incomplete)).all()


@MOSTLY_REGRESSION
def test_constant_and_duplicated_columns_are_accepted(method, kind):
    data, task = draw(kind)
    values = np.column_stack([data.values, data.values[:, 0], np.ones(len(data))])
    mask = np.column_stack([data.mask, data.mask[:, 0], np.ones(len(data))])
    data = MaskedData.of(values, mask, data.target)
    assert np.isfinite(predict(fit(method, data, task), data)).all()


NETWORKS = ["neumiss", "partial_vae", "miwae", "p_bigan", "gain", "misgan"]
NETWORKS += ["stablenet", "stablemiss", "stablemiss_plus", "mirrams", "mask_dro"]


@pytest.mark.parametrize("name", in_one_process(NETWORKS))
@pytest.mark.parametrize("patience", [2, None])
def test_validation_rows_only_decide_when_a_network_stops(name, patience):
    """Without early stopping they have no influence, and all epochs are run."""
    data, task = draw("regression")
    is_valid = np.arange(len(data)) % 5 == 2
    other = np.where(is_valid[:, None], 100.0 - data.target, data.target)
    method = METHODS[name](**METHODS[name].brief | {"max_epochs": 4, "patience": patience})
    predictors = [
        fit(method, MaskedData.of(data.values, data.mask, target), task) for target in (data.target, other)
    ]
    histories = [predictor.history for predictor in predictors]
    n_epochs = min(len(history[0].losses) for history in histories)
    # Until one of them stops or continues from an earlier epoch, both are trained alike.
    reductions = [epoch for history in histories for epoch in history[0].lr_reductions]
    n_equal = min([n_epochs, *reductions])
    assert histories[0][0].losses[:n_equal] == histories[1][0].losses[:n_equal]
    assert histories[0][0].scores != histories[1][0].scores
    if patience is None:
        assert [(history[0].best_epoch, len(history[0].losses)) for history in histories] == [(4, 4)] * 2
        np.testing.assert_array_equal(*(predict(predictor, data) for predictor in predictors))


@MOSTLY_REGRESSION
def test_doubling_all_weights_gives_the_same_fit(method, kind):
    data, task = draw(kind)
    weight = to_rng(1).uniform(0.5, 2.0, size=len(data))
    once = MaskedData.of(data.values, data.mask, data.target, weight)
    twice = MaskedData.of(data.values, data.mask, data.target, 2 * weight)
    np.testing.assert_allclose(
        predict(fit(method, once, task), data), predict(fit(method, twice, task), data), rtol=1e-5, atol=1e-6
    )


def test_sample_weights_are_used(method):
    """Half of the targets are 0 and half are 1, unrelated to X: the mean moves to the heavier rows."""
    data, _ = draw("regression", n=300)
    y = np.arange(300) % 2
    task = Regression.of(y.astype(float))
    weighted = MaskedData.of(data.values, data.mask, task.encode(y), np.where(y == 1, 20.0, 1.0))
    assert task.decode(predict(fit(method, weighted, task), data)).mean() > 0.75


def losses_on_new_rows(method, kind, n):
    """The losses of the method and of the constant baseline."""
    data, task = draw(kind, n=n)
    new, _ = draw(kind, seed=100, n=n)
    return [
        task.loss(predict(fit(candidate, data, task), new), new.target, new.weight)
        for candidate in (method, Constant())
    ]


@MOSTLY_REGRESSION
@pytest.mark.parametrize("name", in_one_process(name for name in METHODS if name != "constant"))
def test_an_easy_target_is_predicted_better_than_by_the_constant(name, kind):
    loss, constant_loss = losses_on_new_rows(brief(name), kind, n=600)
    assert loss < 0.75 * constant_loss


@pytest.mark.slow
@pytest.mark.parametrize("name", in_one_process(name for name in METHODS if METHODS[name].brief))
def test_an_easy_target_is_predicted_better_than_by_the_constant_with_default_parameters(name):
    loss, constant_loss = losses_on_new_rows(METHODS[name](), "regression", n=200)
    assert loss < 0.5 * constant_loss


@BOTH_TASKS
def test_a_predictor_rebuilt_from_its_state_predicts_bit_identically(method, kind):
    data, task = draw(kind)
    predictor = fitted(method.name, kind)
    assert isinstance(predictor, method.predictor_class)
    rebuilt = type(predictor).from_state(predictor.state(), data.n_columns, task)
    np.testing.assert_array_equal(predict(rebuilt, data), predict(predictor, data))
    outputs = predict(predictor, data)
    np.testing.assert_array_equal(task_from_state(task.state()).decode(outputs), task.decode(outputs))


@pytest.mark.parametrize(("n", "d"), [(40, 1), (5, 4), (8, 12)])
@MOSTLY_REGRESSION
def test_one_column_few_rows_and_more_columns_than_rows_are_accepted(method, kind, n, d):
    data, task = draw(kind, n=n, d=d)
    outputs = predict(fit(method, data, task), data)
    assert outputs.shape == (n, task.d_output)
    assert np.isfinite(outputs).all()


def test_a_constant_target_is_predicted(method):
    data, _ = draw("regression")
    task = Regression.of(np.full(len(data), 3.0))
    data = MaskedData.of(data.values, data.mask, task.encode(np.full(len(data), 3.0)))
    np.testing.assert_allclose(task.decode(predict(fit(method, data, task), data)), 3.0, atol=0.05)
