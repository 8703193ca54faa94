"""What every method promises, asked of each in the same words."""

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


def small(name):
    """Smaller than by default: the promises do not depend on size, and there are hundreds of fits."""
    return METHODS[name](**METHODS[name].brief)


@pytest.fixture(params=METHODS)
def method(request):
    return small(request.param)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def draw(kind, seed=0, n=120, d=4, observed=0.75):
    """Correlated columns with holes, a target that is nearly linear in them, and its task."""
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
    """Fit with every fifth row for validation."""
    is_valid = np.arange(len(data)) % 5 == 2
    train, valid = data.rows(np.flatnonzero(~is_valid)), data.rows(np.flatnonzero(is_valid))
    return method.fit(train, valid, task, to_rng(seed), NullProgress())


def predict(predictor, data):
    return predictor.predict(data.values, data.mask)


@cache
def fitted(name, kind):
    """A predictor that several tests ask, none of which changes it."""
    data, task = draw(kind)
    return fit(small(name), data, task)


def test_outputs_have_one_row_per_row_and_are_finite(method, kind):
    data, task = draw(kind)
    outputs = predict(fitted(method.name, kind), data)
    assert outputs.shape == (len(data), task.d_output)
    assert outputs.dtype == np.float64
    assert np.isfinite(outputs).all()


def test_same_seed_same_result_and_the_random_state_of_the_process_is_untouched(method, kind):
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


def test_a_hidden_cells_value_has_no_influence(method, kind):
    data, task = draw(kind)
    garbage = np.where(data.mask, data.values, [np.nan, np.inf, -1e9, 5.0])
    predictor = fitted(method.name, kind)
    other = fit(method, MaskedData.of(garbage, data.mask, data.target), task)
    np.testing.assert_array_equal(predictor.predict(garbage, data.mask), predict(predictor, data))
    np.testing.assert_array_equal(predict(other, data), predict(predictor, data))


def test_a_row_has_the_same_answer_alone_in_company_and_in_any_order(method, kind):
    data, _ = draw(kind)
    predictor = fitted(method.name, kind)
    together = predict(predictor, data)
    order = to_rng(0).permutation(len(data))
    np.testing.assert_allclose(predict(predictor, data.rows(order)), together[order], rtol=1e-5, atol=1e-6)
    for row in range(0, len(data), 17):
        alone = predict(predictor, data.rows(np.array([row])))
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-5, atol=1e-6)


def test_all_missing_rows_and_columns_work(method, kind):
    data, task = draw(kind)
    keep = np.ones_like(data.mask)
    keep[::10] = False
    keep[:, 1] = False
    holed = data.hidden_where(keep)
    predictor = fit(method, holed, task)
    assert np.isfinite(predict(predictor, holed)).all()
    # A column of which nothing was learnt, and a table without a single cell.
    assert np.isfinite(predict(predictor, data)).all()
    assert np.isfinite(predict(predictor, data.hidden_where(np.zeros_like(keep)))).all()


def test_complete_data_work_and_so_do_holes_that_appear_later(method, kind):
    holed, task = draw(kind)
    complete, _ = draw(kind, observed=1.1)
    assert np.isfinite(predict(fit(method, complete, task), holed)).all()


def test_a_constant_column_and_a_column_twice_work(method, kind):
    data, task = draw(kind)
    values = np.column_stack([data.values, data.values[:, 0], np.ones(len(data))])
    mask = np.column_stack([data.mask, data.mask[:, 0], np.ones(len(data))])
    data = MaskedData.of(values, mask, data.target)
    assert np.isfinite(predict(fit(method, data, task), data)).all()


def test_doubled_weights_give_the_same_fit(method, kind):
    data, task = draw(kind)
    weight = to_rng(1).uniform(0.5, 2.0, size=len(data))
    once = MaskedData.of(data.values, data.mask, data.target, weight)
    twice = MaskedData.of(data.values, data.mask, data.target, 2 * weight)
    np.testing.assert_allclose(
        predict(fit(method, once, task), data), predict(fit(method, twice, task), data), rtol=1e-5, atol=1e-6
    )


def test_weights_count(method):
    """Rows of two opposite opinions: the heavier opinion wins."""
    data, _ = draw("regression", n=300)
    opinion = np.arange(300) % 2
    task = Regression.of(opinion.astype(float))
    target = task.encode(opinion)
    weight = np.where(opinion == 1, 20.0, 1.0)
    heavy = MaskedData.of(data.values, data.mask, target, weight)
    assert task.decode(predict(fit(method, heavy, task), data)).mean() > 0.75


@pytest.mark.parametrize("learner", [name for name in METHODS if name != "constant"])
@pytest.mark.parametrize("seed", range(2))
def test_learns_an_easy_target_better_than_the_constant(learner, kind, seed):
    data, task = draw(kind, seed, n=600)
    new, _ = draw(kind, seed + 100, n=600)
    losses = [
        task.loss(predict(fit(one, data, task, seed), new), new.target, new.weight)
        for one in (small(learner), Constant())
    ]
    assert losses[0] < 0.75 * losses[1]


@pytest.mark.parametrize("learner", [name for name in METHODS if METHODS[name].brief])
def test_with_its_defaults_too(learner):
    data, task = draw("regression", n=300)
    new, _ = draw("regression", seed=100, n=300)
    losses = [
        task.loss(predict(fit(one, data, task), new), new.target, new.weight)
        for one in (METHODS[learner](), Constant())
    ]
    assert losses[0] < 0.5 * losses[1]


def test_a_predictor_rebuilt_from_its_state_answers_bit_by_bit_the_same(method, kind):
    data, task = draw(kind)
    predictor = fitted(method.name, kind)
    assert isinstance(predictor, method.predictor)
    rebuilt = type(predictor).from_state(predictor.state())
    np.testing.assert_array_equal(predict(rebuilt, data), predict(predictor, data))
    outputs = predict(predictor, data)
    np.testing.assert_array_equal(task_from_state(task.state()).decode(outputs), task.decode(outputs))


@pytest.mark.parametrize(("n", "d"), [(120, 1), (5, 4), (8, 12)])
def test_one_column_few_rows_and_more_columns_than_rows_work(method, kind, n, d):
    data, task = draw(kind, n=n, d=d)
    outputs = predict(fit(method, data, task), data)
    assert outputs.shape == (n, task.d_output)
    assert np.isfinite(outputs).all()


def test_a_constant_target_is_predicted(method):
    data, _ = draw("regression")
    task = Regression.of(np.full(len(data), 3.0))
    data = MaskedData.of(data.values, data.mask, task.encode(np.full(len(data), 3.0)))
    np.testing.assert_allclose(task.decode(predict(fit(method, data, task), data)), 3.0, atol=0.05)
